"""CB ERM: plain training on everything, the baseline of every table."""

from __future__ import annotations

from tcsl.methods.base import About, Method, Outcome
from tcsl.pipeline import Job, final_stage, train_final


def _run(job: Job) -> Outcome:
    return Outcome(train_final(job, "cb_erm"))


METHOD = Method(
    "CB ERM",
    "plain training on everything, classes weighted by 1 / n_y",
    _run,
    final_stage("cb_erm"),
    about=About(
        idea=(
            "Plain training on everything, where every class has the same total weight. It is what every table "
            "compares with."
        ),
        formula="sum_i w_i loss_i over a batch, w_i = 1 / n_y normalised to sum to 1",
        reference="the paper that this package implements, appendix E",
    ),
)
