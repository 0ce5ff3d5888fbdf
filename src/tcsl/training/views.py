"""Passes over data without training: logits, what the last layer sees, and mean logits of the data's views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tcsl.errors import InputError
from tcsl.training.feed import Feed
from tcsl.training.objective import Batch
from tcsl.training.weights import class_counts, sum_by_class
from tcsl.types import FloatArray, IntArray


@torch.inference_mode()
def evaluate_batches(net: nn.Module, feed: Feed) -> Iterator[tuple[Batch, Tensor]]:
    """Yield each batch of the feed, in order, with its float32 logits in evaluation mode."""
    net.eval()
    for batch in feed.in_order():
        yield batch, feed.hardware.logits(net, batch.inputs)


def logits_of(net: nn.Module, feed: Feed) -> Tensor:
    """Return the logits of all samples, (n, classes), on the device."""
    return torch.cat([logits for _, logits in evaluate_batches(net, feed)])


def predicted(net: nn.Module, feed: Feed) -> IntArray:
    """Return the class that the net gives each sample, (n,), on the host."""
    return _classes(logits_of(net, feed))


def predicted_and_logits(net: nn.Module, feed: Feed) -> tuple[IntArray, FloatArray]:
    """Return the class that the net gives each sample, (n,), and the logits, (n, classes), on the host."""
    logits = logits_of(net, feed)
    return _classes(logits), np.asarray(logits.cpu().numpy(), np.float32)


def _classes(logits: Tensor) -> IntArray:
    return np.asarray(logits.argmax(1).cpu().numpy(), np.int64)


class LastLayer(NamedTuple):
    """The last linear layer that a net ran, what went in, (batch, features), and what came out, (batch, ...)."""

    layer: nn.Linear
    inputs: Tensor
    outputs: Tensor


def last_layer_batches(net: nn.Module, feed: Feed) -> Iterator[tuple[Batch, Tensor, LastLayer]]:
    """Yield each batch of the feed, in order, with its logits and its last linear layer, in evaluation mode."""
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise InputError(
            f"a net's features are the input of its last Linear layer, but {type(net).__name__} has no Linear layer: "
            "end the net with one; a method's embedding may also come from a file"
        )
    ran: list[LastLayer] = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        ran[:] = [LastLayer(layer, inputs[0].float(), outputs.float())]

    # Of all that ran, the last: nets do not always define their layers in the order in which they run.
    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        for batch, logits in evaluate_batches(net, feed):
            if not ran or ran[0].inputs.shape[:-1] != batch.labels.shape:
                came = f"one that got shape {tuple(ran[0].inputs.shape)}" if ran else "none that ran"
                raise InputError(
                    f"a net's features are the input of its last Linear layer, (batch, features), got {came} for a "
                    f"batch of {len(batch.labels)}: end the net with one; a method's embedding may also come from a "
                    "file"
                )
            yield batch, logits, ran.pop()
    finally:
        for hook in hooks:
            hook.remove()


def view_logits(net: nn.Module, feed: Feed) -> dict[str, Any]:
    """Return, for the inputs ("x") and each view ("core": x^c, "spurious": x^s), accuracy and mean logits.

    `mean_logits[k]` is the mean logit vector of the samples of class k.
    """
    out: dict[str, Any] = {}
    labels = feed.labels
    classes = feed.data.num_classes
    counts = class_counts(labels, classes).clamp_min(1)
    for name in ("x", *feed.data.views):
        logits = logits_of(net, feed if name == "x" else feed.view(name))
        sums = sum_by_class(logits, labels, classes)
        out[name] = {
            "accuracy": float((logits.argmax(1) == labels).float().mean()),
            "mean_logits": (sums / counts[:, None]).cpu().tolist(),
        }
    return out
