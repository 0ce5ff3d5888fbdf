"""RGbal: the oracle that is told the groups and keeps every minority sample."""

from __future__ import annotations

from pydantic import Field
from torch import nn

from tcsl.config import Section
from tcsl.methods.base import About, Method, Outcome, check_minority, check_number, train_on
from tcsl.methods.options import options_of
from tcsl.pipeline import Job, final_stage
from tcsl.seeds import generator
from tcsl.selection.baselines import select_rgbal
from tcsl.selection.quota import number


class RGbalOptions(Section):
    """Options of RGbal."""

    by_class: bool = Field(
        False, description="what is drawn makes the classes as equal as can be, not the same as in the data"
    )


def _check(job: Job, net: nn.Module) -> None:
    check_number(job, net)
    check_minority(job, "rgbal", instead="random")


def _run(job: Job) -> Outcome:
    groups = job.data.groups
    assert groups is not None  # check_needs saw to it
    rng = generator(job.settings.seed, "rgbal")
    by_class = options_of(job.settings, "rgbal", RGbalOptions).by_class
    balance = job.data.numpy_labels if by_class else None
    indices = select_rgbal(groups.minority, ratio=number(job.settings.select.ratio), rng=rng, balance=balance)
    return train_on(job, "rgbal", indices)


METHOD = Method(
    "RGbal",
    "plain training on all minority samples and random others; told the groups",
    _run,
    final_stage("rgbal"),
    needs=("train groups",),
    options=RGbalOptions,
    check=_check,
    about=About(
        idea=(
            "Every sample of the minority groups is kept, and random others fill the quota. It is the oracle of the "
            "coreset tables."
        ),
        formula="all minority samples, then uniform majority samples up to floor(r n)",
        reference="the paper that this package implements, table 3",
    ),
)
