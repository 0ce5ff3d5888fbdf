"""Random: plain training on a uniform sample of the data."""

from __future__ import annotations

from tcsl.methods.base import About, Method, Outcome, check_number, train_on
from tcsl.pipeline import Job, final_stage
from tcsl.seeds import generator
from tcsl.selection.baselines import select_random
from tcsl.selection.quota import number


def _run(job: Job) -> Outcome:
    rng = generator(job.settings.seed, "random")
    return train_on(job, "random", select_random(len(job.data), ratio=number(job.settings.select.ratio), rng=rng))


METHOD = Method(
    "Random",
    "plain training on a uniform sample",
    _run,
    final_stage("random"),
    check=check_number,
    about=About(
        idea="Plain training on a uniform sample. It shows what a smaller training set costs by itself.",
        formula="floor(r n) samples, uniform without repeats",
        reference="the paper that this package implements, table 3",
    ),
)
