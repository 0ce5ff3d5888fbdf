"""Methods: from a job to a final model. A method that needs the groups says so; the others are handed none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from tcsl.config import Settings
from tcsl.data.dataset import Dataset
from tcsl.errors import InputError
from tcsl.pipeline import Job
from tcsl.scores import Coreset, Scores


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method leaves: the final model, and the coreset and scores where it has them."""

    net: nn.Module
    coreset: Coreset | None = None
    scores: Scores | None = None


@dataclass(frozen=True)
class Method:
    """A way to get a model from a training set.

    Attributes
    ----------
    title : its name in tables
    needs_groups : whether it reads the training set's groups
    summary : what it does, in a sentence
    run : does it
    stages : from the settings and n, the training stages that `run` goes through and their steps, for progress
    """

    title: str
    needs_groups: bool
    summary: str
    run: Callable[[Job], Outcome]
    stages: Callable[[Settings, int], dict[str, int]]


def check_groups(name: str, method: Method, data: Dataset) -> None:
    """Refuse, before any training, a method that needs groups on data that have none."""
    if method.needs_groups and data.groups is None:
        raise InputError(
            f"{name} needs the groups of the training set, and {data.name} has none; "
            "pass groups=, or leave the method out"
        )


def run_method(method: Method, job: Job) -> Outcome:
    """Run a method on a job from which the groups are hidden unless it declared them."""
    return method.run(job if method.needs_groups else job.hiding_groups())
