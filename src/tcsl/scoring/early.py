"""Nets after a tenth of plain training: what EL2N and GraNd look at."""

from __future__ import annotations

from torch import nn

from tcsl.config import Settings
from tcsl.errors import InputError
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.feed import Feed
from tcsl.training.loop import Report, fit, steps_of
from tcsl.training.weights import class_balanced


def early_epochs(settings: Settings) -> int:
    """Return the epochs of an early net: T // 10, at least 1.

    >>> from tcsl.config import resolve
    >>> [early_epochs(resolve(overrides={"train.epochs": epochs})) for epochs in (300, 49, 5)]
    [30, 4, 1]
    """
    return a_tenth(settings.train.epochs)


def a_tenth(epochs: int) -> int:
    """Return T // 10, at least 1: how long a first model is trained that is to know only what is learned early.

    >>> a_tenth(300), a_tenth(9)
    (30, 1)
    """
    return max(1, epochs // 10)


def train_early(
    net: nn.Module,
    feed: Feed,
    settings: Settings,
    *,
    stage: str,
    seed: int,
    checkpoint: Checkpoint | None = None,
    report: Report | None = None,
) -> nn.Module:
    """Train `net` in place by CB ERM for T // 10 epochs and return it, in evaluation mode."""
    return fit(
        net,
        feed,
        settings.train,
        stage=stage,
        steps=steps_of(len(feed), settings.train, early_epochs(settings)),
        seed=seed,
        log_weights=class_balanced(feed.labels, feed.data.num_classes),
        checkpoint=checkpoint,
        report=report,
    )


def early_stages(seeds: int) -> list[str]:
    """Return the stages' names: of their weights, their order and their reports. More seeds keep the first ones.

    >>> early_stages(2)
    ['early-1', 'early-2']
    """
    if seeds < 1:
        raise InputError(f"seeds must be 1 or more, got {seeds}: it is the number of trainings that are averaged")
    return [f"early-{k}" for k in range(1, seeds + 1)]
