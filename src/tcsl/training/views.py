"""Passes over data without training: logits of a feed, and mean logits of the data's views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tcsl.training.feed import Feed
from tcsl.training.objective import Batch


@torch.inference_mode()
def evaluate_batches(net: nn.Module, feed: Feed) -> Iterator[tuple[Batch, Tensor]]:
    """Yield each batch of the feed, in order, with its float32 logits in evaluation mode."""
    net.eval()
    for batch in feed.in_order():
        yield batch, feed.hardware.logits(net, batch.inputs)


def logits_of(net: nn.Module, feed: Feed) -> Tensor:
    """Return the logits of all samples, (n, classes), on the device."""
    return torch.cat([logits for _, logits in evaluate_batches(net, feed)])


def view_logits(net: nn.Module, feed: Feed) -> dict[str, Any]:
    """Return, for the inputs ("x") and each view ("core": x^c, "spurious": x^s), accuracy and mean logits.

    `mean_logits[k]` is the mean logit vector of the samples of class k.
    """
    out: dict[str, Any] = {}
    labels = feed.labels
    classes = feed.data.num_classes
    counts = torch.bincount(labels, minlength=classes).clamp_min(1)
    for name in ("x", *feed.data.views):
        logits = logits_of(net, feed if name == "x" else feed.view(name))
        sums = torch.zeros(classes, classes, device=logits.device).index_add_(0, labels, logits)
        out[name] = {
            "accuracy": float((logits.argmax(1) == labels).float().mean()),
            "mean_logits": (sums / counts[:, None]).cpu().tolist(),
        }
    return out
