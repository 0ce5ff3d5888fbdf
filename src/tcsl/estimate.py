"""How long a run takes on this machine, and how much memory: measured on a few steps with made-up inputs."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from tcsl.config import Settings
from tcsl.data.dataset import make_dataset
from tcsl.running import planned_stages
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed
from tcsl.training.loop import Epoch, fit
from tcsl.training.nets import build_net, settled_name
from tcsl.training.weights import class_balanced

_LARGE = 3 * 64 * 64  # values of an input
# A batch for measuring; a step's time grows with the batch. Three steps of ResNet-50 on 32 images of 224 x 224 take
# 30 s and 4 GB on two cores, on 8 of them 5 s and 2 GB.
_BATCH, _LARGE_BATCH = 32, 8
_BATCHES = 10  # of small inputs in an epoch, whose steps take no longer than what comes once an epoch


def estimate_run(
    settings: Settings, n: int, shape: tuple[int, ...], classes: int, *, dtype: str = "uint8"
) -> dict[str, Any]:
    """Return seconds and bytes that a run on n training inputs of this shape would take, roughly.

    Parameters
    ----------
    shape : of one input: (3, height, width) for images, or (features,)
    dtype : of the inputs: uint8 or float32
    """
    hardware = choose(settings.device)
    large = math.prod(shape) > _LARGE
    usual = _LARGE_BATCH if large and hardware.device.type == "cpu" else _BATCH
    batch, batches = min(usual, settings.train.batch_size, n), 1 if large else _BATCHES
    inputs = torch.zeros((batch * batches, *shape), dtype=getattr(torch, dtype))
    labels = torch.arange(len(inputs)) % classes
    names = [str(k) for k in range(classes)]
    data = make_dataset(inputs, labels, class_names=names, test=True, name="made-up inputs")
    # Made-up inputs say nothing of the learning rate, and must not fail on it.
    train = settings.train.model_copy(update={"batch_size": batch, "pretrained": False, "lr": 1e-6})
    with settled(settings.device):
        net = build_net(train.net, data, seed=0)
        feed = Feed.of(data, hardware)
        weights = class_balanced(feed.labels, classes)
        for epochs in (1, 3):  # the first is slower and does not count
            measured: list[Epoch] = []
            steps = epochs * batches
            fit(net, feed, train, stage="estimate", steps=steps, seed=0, log_weights=weights, report=measured.append)
        training_bytes = _training_bytes(net, feed, batch, settings.train.batch_size)
    seconds = median(epoch.seconds for epoch in measured) / batches
    steps = sum(planned_stages(settings, (n, *shape)).values())
    return {
        "net": settled_name(train.net, shape),
        "device": str(hardware.device),
        "steps": steps,
        "seconds": steps * seconds * settings.train.batch_size / batch,
        "bytes": n * inputs[0].nbytes,
        "training_bytes": training_bytes,
        "epochs": settings.train.epochs,
    }


def _training_bytes(net: nn.Module, feed: Feed, measured: int, batch: int) -> int:
    """Return the bytes of weights, gradients and momentum, and of what a forward pass keeps for the backward one."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    net.train()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        feed.hardware.logits(net, feed.batch(torch.arange(measured)).inputs)
    parameters = {p.data_ptr(): p.nbytes for p in net.parameters()}
    activations = sum(size for place, size in kept.items() if place not in parameters)
    return 3 * sum(parameters.values()) + activations * batch // measured
