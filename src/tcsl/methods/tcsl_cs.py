"""TCSL-CS, the paper's method: score, select, train on what was selected."""

from __future__ import annotations

from torch import nn

from tcsl.config import Settings
from tcsl.methods.base import About, Method, Outcome, check_minority
from tcsl.pipeline import Job, final_stage, score_stages, scoring_steps, train_final
from tcsl.selection.coreset import coreset_from_scores


def _run(job: Job) -> Outcome:
    scores = score_stages(job)
    coreset = coreset_from_scores(scores, job.settings, g_high=scores.g_high, of="the coreset of tcsl_cs")
    return Outcome(train_final(job, "tcsl_cs", coreset), coreset, scores)


def _run_with_groups(job: Job) -> Outcome:
    groups = job.data.groups
    assert groups is not None  # check_needs saw to it
    scores = score_stages(job.hiding())
    coreset = coreset_from_scores(scores, job.settings, minority=groups.minority, of="the coreset of tcsl_cs_groups")
    return Outcome(train_final(job, "tcsl_cs_groups", coreset), coreset)


def _check_with_groups(job: Job, net: nn.Module) -> None:
    check_minority(job, "tcsl_cs_groups", instead="tcsl_cs")


def _stages_with_groups(settings: Settings, n: int) -> dict[str, int]:
    return {**scoring_steps(settings, n), **final_stage("tcsl_cs_groups")(settings, n)}


def _stages(settings: Settings, n: int) -> dict[str, int]:
    return {**scoring_steps(settings, n), **final_stage("tcsl_cs")(settings, n)}


METHOD = Method(
    "TCSL-CS",
    "two-stage scores, guided coreset, plain training on it",
    _run,
    _stages,
    about=About(
        idea=(
            "A biased model's loss curves tell which samples contradict the shortcut; those are kept. A core model, "
            "trained with the biased model's log-probabilities added to its logits, tells which others to add."
        ),
        formula="G_high by weighted 2-means on 1 - exp(-loss curves), weights TCSL_s; the rest of floor(r n) by TCSL_c",
        reference="the paper that this package implements",
        differs=(
            "the profile paper is as printed; the profile default keeps classes' weights in stage 1, clusters bounded"
            " losses and fills classes equally (docs/choices.md)"
        ),
    ),
)

WITH_GROUPS = Method(
    "TCSL-CS, true minority",
    "TCSL-CS with the true minority in place of G_high; told the groups",
    _run_with_groups,
    _stages_with_groups,
    needs=("train groups",),
    check=_check_with_groups,
    about=About(
        idea=(
            "The ablation of TCSL_c: the first stage is replaced by the truth. What is left is how the quota is filled."
        ),
        formula="all minority samples, then TCSL_c as in TCSL-CS",
        reference="the paper that this package implements, appendix H",
    ),
)
