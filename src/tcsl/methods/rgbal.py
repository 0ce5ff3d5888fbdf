"""RGbal: the oracle that is told the groups and keeps every minority sample."""

from __future__ import annotations

from tcsl.methods.base import About, Method, Outcome, check_number
from tcsl.pipeline import Job, coreset_from_indices, final_stage, train_final
from tcsl.seeds import generator
from tcsl.selection.baselines import select_rgbal
from tcsl.selection.quota import number


def _run(job: Job) -> Outcome:
    groups = job.data.groups
    assert groups is not None  # check_needs saw to it
    rng = generator(job.settings.seed, "rgbal")
    indices = select_rgbal(groups.minority, ratio=number(job.settings.select.ratio), rng=rng)
    coreset = coreset_from_indices(job, "rgbal", indices)
    return Outcome(train_final(job, "rgbal", coreset), coreset)


METHOD = Method(
    "RGbal",
    "plain training on all minority samples and random others; told the groups",
    _run,
    final_stage("rgbal"),
    check=check_number,
    needs=("train groups",),
    about=About(
        idea=(
            "Every sample of the minority groups is kept, and random others fill the quota. It is the oracle of the "
            "coreset tables."
        ),
        formula="all minority samples, then uniform majority samples up to floor(r n)",
        reference="the paper that this package implements, table 3",
    ),
)
