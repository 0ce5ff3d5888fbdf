"""The margins of a single training run: what forgetting events and AUM are made of."""

from __future__ import annotations

from torch import Tensor, nn

from tcsl.config import Settings
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.feed import Feed
from tcsl.training.loop import Report, fit, steps_of
from tcsl.training.objective import margin
from tcsl.training.recording import LossCurves
from tcsl.training.weights import class_balanced


def train_margins(
    net: nn.Module,
    feed: Feed,
    settings: Settings,
    *,
    seed: int,
    checkpoint: Checkpoint | None = None,
    report: Report | None = None,
) -> Tensor:
    """Train `net` in place by CB ERM for T epochs and return each sample's margin in each epoch, (n, T).

    A margin is the logit of the label minus the largest other one. With `score.record="training"` it is that of the
    training step itself, as in both papers.
    """
    curves = LossCurves(len(feed), settings.train.epochs, feed.hardware.device)
    fit(
        net,
        feed,
        settings.train,
        stage="margins",
        steps=steps_of(len(feed), settings.train),
        seed=seed,
        log_weights=class_balanced(feed.labels, feed.data.num_classes),
        recorder=curves,
        measure=margin,
        record=settings.score.record,
        checkpoint=checkpoint,
        report=report,
    )
    return curves.curves()
