"""How long a run takes on this machine, and how much memory: measured on a few steps with made-up inputs."""

from __future__ import annotations

import time
from typing import Any

import torch

from tcsl.config import Settings
from tcsl.data.dataset import make_dataset
from tcsl.registry import METHODS
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed
from tcsl.training.loop import fit
from tcsl.training.nets import build_net, settled_name
from tcsl.training.weights import class_balanced

_BATCH = 32  # a batch for measuring; a step's time grows with the batch
_STEPS = 3


def estimate_run(settings: Settings, n: int, shape: tuple[int, ...], classes: int) -> dict[str, Any]:
    """Return seconds and bytes that a run on n training inputs of this shape would take, roughly.

    Parameters
    ----------
    shape : of one input: (3, height, width) for images, which are bytes, or (features,)
    """
    hardware = choose(settings.device)
    batch = min(_BATCH, settings.train.batch_size, n)
    images = len(shape) == 3
    inputs = torch.zeros((batch, *shape), dtype=torch.uint8 if images else torch.float32)
    labels = torch.arange(batch) % min(classes, batch)
    names = [str(k) for k in range(classes)]
    data = make_dataset(inputs, labels, class_names=names, test=True, name="made-up inputs")
    train = settings.train.model_copy(update={"batch_size": batch, "pretrained": False})
    with settled(settings.device):
        net = build_net(train.net, data, seed=0)
        feed = Feed.of(data, hardware)
        weights = class_balanced(feed.labels, classes)
        for steps in (1, _STEPS):  # the first step is slower
            started = time.perf_counter()
            fit(net, feed, train, stage="estimate", steps=steps, seed=0, log_weights=weights)
            seconds = (time.perf_counter() - started) / steps
    plans = [METHODS.get(name).stages(settings, n) for name in settings.methods]
    steps = sum({stage: count for plan in plans for stage, count in plan.items()}.values())
    return {
        "net": settled_name(train.net, shape),
        "device": str(hardware.device),
        "steps": steps,
        "seconds": steps * seconds * settings.train.batch_size / batch,
        "bytes": n * inputs[0].nbytes,
        "epochs": settings.train.epochs,
    }
