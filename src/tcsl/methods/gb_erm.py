"""GB ERM: plain training on everything, groups weighted by 1 / n_g; told the groups."""

from __future__ import annotations

import torch

from tcsl.methods.base import About, Method, Outcome, check_every_group
from tcsl.pipeline import Job, final_stage, train_model
from tcsl.training.weights import class_balanced


def _run(job: Job) -> Outcome:
    groups = job.data.groups
    assert groups is not None  # check_needs saw to it
    group = torch.from_numpy(groups.group).to(job.feed.labels.device)
    weights = class_balanced(group, len(groups.names))
    return Outcome(train_model(job, "gb_erm", job.feed, log_weights=weights, final=True))


METHOD = Method(
    "GB ERM",
    "plain training on everything, groups weighted by 1 / n_g; told the groups",
    _run,
    final_stage("gb_erm"),
    needs=("train groups",),
    check=check_every_group,
    about=About(
        idea=(
            "Plain training on everything, where every group has the same total weight. What weights alone can do "
            "with the groups known."
        ),
        formula="sum_i w_i loss_i over a batch, w_i = 1 / n_g normalised to sum to 1",
        reference="the paper that this package implements, appendix E",
    ),
)
