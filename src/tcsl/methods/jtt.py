"""JTT (Liu et al. 2021): what an early model gets wrong is repeated many times in a fresh training."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from tcsl.config import Settings
from tcsl.methods.base import About, Method, Outcome
from tcsl.methods.first import few, mistakes
from tcsl.methods.options import URBANCARS, Options, Preset, options_of
from tcsl.pipeline import Job, train_model
from tcsl.training.loop import steps_of
from tcsl.types import BoolArray, IntArray


class JTTOptions(Options):
    """Options of JTT."""

    early: int | None = Field(None, ge=1, description="epochs of the first model; by default T // 10, at least 1")
    times: int = Field(20, ge=2, description="lambda, how often a sample is seen that the first model gets wrong")


def up_sampled(wrong: BoolArray, times: int) -> IntArray:
    """Return the indices of all samples, those that are wrong `times` times.

    >>> up_sampled(np.array([False, True, False]), 3).tolist()
    [0, 1, 1, 1, 2]
    """
    return np.repeat(np.arange(len(wrong)), np.where(wrong, times, 1))


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "jtt", JTTOptions)
    train = options.training(job.settings.train)
    _, wrong = mistakes(job, "jtt", few(train, options.early), lacking="is nothing to repeat")
    feed = job.feed.subset(up_sampled(wrong.cpu().numpy(), options.times))
    # As many epochs, as in JTT's own paper: they are longer by what is repeated.
    return Outcome(train_model(job, "jtt", feed, train=train, final=True))


def _stages(settings: Settings, n: int) -> dict[str, int]:
    options = options_of(settings, "jtt", JTTOptions)
    train = options.training(settings.train)
    # How many are wrong is not known before; as if none were.
    return {"jtt-early": steps_of(n, few(train, options.early)), "jtt": steps_of(n, train)}


METHOD = Method(
    "JTT",
    "what an early model gets wrong is repeated in a fresh training",
    _run,
    _stages,
    options=JTTOptions,
    presets={
        "waterbirds": Preset(
            {"epochs": 300, "batch_size": 64, "lr": 1e-5, "weight_decay": 1.0, "early": 60, "times": 100},
            "own paper; at a learning rate of 1e-3 the first model gets nothing wrong",
        ),
        "urbancars": Preset(
            {"epochs": 300, "batch_size": 128, "lr": 1e-3, "weight_decay": 1e-4, "early": 1, "times": 100},
            URBANCARS,
        ),
    },
    about=About(
        idea=(
            "What a model gets wrong early is taken for what contradicts the shortcut. A fresh model sees those "
            "samples many times."
        ),
        formula="E = wrong after T_1 epochs; then plain training on the data with E repeated lambda times",
        reference="Liu et al. 2021, Just Train Twice",
        differs=(
            "T_1 is a tenth of T by default, and lambda 20; its paper tunes both on validation groups; its published "
            "code adds lambda copies to the one that is there"
        ),
    ),
)
