"""What the stages keep on a GPU beyond plain training: a part of benchmarks/engine.py."""

import gc
from functools import partial

import torch
from engine_epochs import epochs_of, feed_of, images

from tcsl.training.nets import build_net


def memory_rows(options):
    """Return what the stages keep on the GPU beyond plain training, beside the analysis, in floats a sample."""
    n, classes, epochs = 4795, 2, 30
    before = torch.cuda.memory_allocated()
    data = images(n, 224, classes)
    feed = feed_of(data, "plain")
    copies = (torch.cuda.memory_allocated() - before) / (n * 3 * 224 * 224)
    del feed
    feed = feed_of(images(n, 16, classes), "plain")
    frozen = sum(tensor.numel() for tensor in build_net("small_cnn", feed.data, seed=0).state_dict().values())
    kept = {}
    for stage in ("core", "erm", "biased", "core"):  # once before it counts: libraries keep memory of their own
        gc.collect()
        before = torch.cuda.memory_allocated()
        allocated = []
        watch = partial(lambda seen, epoch: seen.append(torch.cuda.memory_allocated()), allocated)
        epochs_of(feed, "small_cnn", 128, stage=stage, epochs=epochs, watch=watch)
        kept[stage] = (allocated[-1] - before) / 4
    return [
        {"what": "images, as bytes: copies on the GPU", "measured": copies, "analysis": 1.0},
        {
            "what": f"stage 1, floats a sample: T_s = {epochs}",
            "measured": (kept["biased"] - kept["erm"]) / n,
            "analysis": float(epochs),
        },
        {
            "what": "stage 2, floats a sample: 1 and C = 2; f_s itself not counted",
            "measured": (kept["core"] - kept["erm"] - frozen) / n,
            "analysis": 1.0 + classes,
        },
    ]
