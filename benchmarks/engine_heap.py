"""What keeping freed memory brings on a CPU, for benchmarks/engine.py: each row is a process of its own."""

import json
import resource
import subprocess
import sys
from contextlib import nullcontext

import torch
from engine_cpu import generated

from tcsl.config import DeviceSettings, TrainSettings
from tcsl.training import feed as feeding
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.heap import kept_heap
from tcsl.training.loop import fit, steps_of
from tcsl.training.nets import build_net
from tcsl.training.views import predicted
from tcsl.training.weights import class_balanced

MOBILENET, RESNET18, RESNET50 = (f"torchvision:{name}" for name in ("mobilenet_v2", "resnet18", "resnet50"))
CASES = (  # work, net, images, side, batch
    ("evaluation", MOBILENET, 512, 224, 256),
    ("evaluation", MOBILENET, 512, 224, 16),
    ("training, two epochs", RESNET50, 96, 224, 32),
    ("training, two epochs", RESNET18, 2000, 28, 32),
)


def heap_rows(options):
    """Return processor seconds, of one thread, and peak memory, with freed memory handed back and kept."""
    rows = []
    for work, net, n, side, batch in CASES:
        row = {"work": work, "net": net.partition(":")[2], "n": n, "side": side, "batch": batch}
        for how in ("handed back", "kept"):
            words = [sys.executable, __file__, how, work, net, *map(str, (n, side, batch))]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            row |= {f"{what}, {how}": value for what, value in json.loads(done.stdout).items()}
        rows.append(row)
        print(row, flush=True)
    return rows


def measure(how, work, net, n, side, batch):
    """Do one work in this process, and return what it took beyond the data and the net."""
    torch.set_num_threads(1)
    feeding._EVALUATION_BATCH, feeding._EVALUATION_VALUES = batch, sys.maxsize
    data = generated(n, side)
    feed = Feed.of(data, choose(DeviceSettings(device="cpu")))
    made = build_net(net, data, seed=0)
    before = resource.getrusage(resource.RUSAGE_SELF)
    with kept_heap() if how == "kept" else nullcontext():
        if work == "evaluation":
            predicted(made, feed)
        else:
            settings = TrainSettings(epochs=2, batch_size=batch, lr=0.01)
            weights = class_balanced(feed.labels, data.num_classes)
            fit(made, feed, settings, stage="x", steps=steps_of(n, settings), seed=0, log_weights=weights)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "own s": after.ru_utime - before.ru_utime,
        "the system's s": after.ru_stime - before.ru_stime,
        "peak, MB": (after.ru_maxrss - before.ru_maxrss) / 1024,
    }


if __name__ == "__main__":
    how, work, net, *sizes = sys.argv[1:]
    print(json.dumps(measure(how, work, net, *map(int, sizes))))
