"""The first model of several methods: a plain training of its own, often a short one, whose logits they look at."""

from __future__ import annotations

from torch import Tensor, nn

from tcsl.config import TrainSettings
from tcsl.errors import InputError
from tcsl.pipeline import Job, train_model
from tcsl.training.views import logits_of


def few(train: TrainSettings, epochs: int | None = None) -> TrainSettings:
    """Return the settings with `epochs`, by default T // 10, at least 1, in which only what is easy is learned.

    >>> [few(TrainSettings(epochs=epochs)).epochs for epochs in (300, 49, 5)]
    [30, 4, 1]
    """
    return train.model_copy(update={"epochs": epochs or max(1, train.epochs // 10)})


def train_first(job: Job, stage: str, train: TrainSettings) -> tuple[nn.Module, Tensor]:
    """Train a net with equal sample weights, initialised by the stage's name; return it and its (n, classes) logits."""
    net = train_model(job, stage, job.feed, train=train, weights=stage)
    return net, logits_of(net, job.feed)


def mistakes(job: Job, name: str, train: TrainSettings, *, lacking: str) -> tuple[Tensor, Tensor]:
    """Return what a first model predicts of each sample, (n,), and where that is wrong, (n,); stage NAME-early.

    Parameters
    ----------
    lacking : ends the sentence "so there ..." of the error for a model that is wrong nowhere
    """
    predicted = train_first(job, f"{name}-early", train)[1].argmax(1)
    wrong = predicted != job.feed.labels
    if not wrong.any():
        raise InputError(
            f"{name.upper()}: after {train.epochs} epochs the first model is right on all {len(wrong)} training "
            f"samples, so there {lacking}; use fewer (method.{name}.early), a lower learning rate (method.{name}.lr) "
            f"or more weight decay (method.{name}.weight_decay)"
        )
    return predicted, wrong
