"""What a single training run shows of each sample: CSL (appendix B), and the margins of forgetting and AUM."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from tcsl.config import Settings
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.feed import Feed
from tcsl.training.loop import Report, fit, steps_of
from tcsl.training.objective import margin
from tcsl.training.recording import LossCurves, LossSum
from tcsl.training.weights import class_balanced


def train_watched(
    net: nn.Module,
    feed: Feed,
    settings: Settings,
    what: Literal["csl", "margins"],
    *,
    seed: int,
    checkpoint: Checkpoint | None = None,
    report: Report | None = None,
) -> Tensor:
    """Train `net` in place by CB ERM for T epochs and return what was recorded of each sample.

    With `score.record="training"` it is that of the training step itself.

    Parameters
    ----------
    what : csl, the mean over epochs of the loss; or margins, the logit of the label minus the largest other one

    Returns
    -------
    (n,) for csl, (n, T) for margins
    """
    epochs, device = settings.train.epochs, feed.hardware.device
    recorder = LossSum(len(feed), device) if what == "csl" else LossCurves(len(feed), epochs, device)
    fit(
        net,
        feed,
        settings.train,
        stage=what,
        steps=steps_of(len(feed), settings.train),
        seed=seed,
        log_weights=class_balanced(feed.labels, feed.data.num_classes),
        recorder=recorder,
        measure=margin if what == "margins" else None,
        record=settings.score.record,
        checkpoint=checkpoint,
        report=report,
    )
    return recorder.mean(epochs) if isinstance(recorder, LossSum) else recorder.curves()
