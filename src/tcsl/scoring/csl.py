"""CSL: the cumulative sample loss of a single training run (appendix B)."""

from __future__ import annotations

from torch import Tensor, nn

from tcsl.config import Settings
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.feed import Feed
from tcsl.training.loop import Report, fit, steps_of
from tcsl.training.recording import LossSum
from tcsl.training.weights import class_balanced


def train_csl(
    net: nn.Module,
    feed: Feed,
    settings: Settings,
    *,
    seed: int,
    checkpoint: Checkpoint | None = None,
    report: Report | None = None,
) -> Tensor:
    """Train `net` in place by CB ERM for T epochs and return the mean over epochs of each sample's loss, (n,)."""
    total = LossSum(len(feed), feed.hardware.device)
    fit(
        net,
        feed,
        settings.train,
        stage="csl",
        steps=steps_of(len(feed), settings.train),
        seed=seed,
        log_weights=class_balanced(feed.labels, feed.data.num_classes),
        recorder=total,
        record=settings.score.record,
        checkpoint=checkpoint,
        report=report,
    )
    return total.mean(settings.train.epochs)
