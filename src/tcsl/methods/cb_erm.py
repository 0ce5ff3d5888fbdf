"""CB ERM: plain training on everything, the baseline of every table."""

from __future__ import annotations

from tcsl.methods.base import Method, Outcome
from tcsl.pipeline import Job, final_stage, train_final


def _run(job: Job) -> Outcome:
    return Outcome(train_final(job, "cb_erm"))


METHOD = Method("CB ERM", "plain training on everything, classes weighted by 1 / n_y", _run, final_stage("cb_erm"))
