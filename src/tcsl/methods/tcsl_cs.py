"""TCSL-CS, the paper's method: score, select, train on what was selected."""

from __future__ import annotations

from tcsl.config import Settings
from tcsl.methods.base import Method, Outcome
from tcsl.pipeline import Job, final_stage, score_stages, scoring_steps, train_final
from tcsl.selection.coreset import coreset_from_scores


def _run(job: Job) -> Outcome:
    scores = score_stages(job)
    coreset = coreset_from_scores(scores, job.settings, g_high=scores.g_high)
    return Outcome(train_final(job, "tcsl_cs", coreset), coreset, scores)


def _stages(settings: Settings, n: int) -> dict[str, int]:
    return {**scoring_steps(settings, n), **final_stage("tcsl_cs")(settings, n)}


METHOD = Method("TCSL-CS", "two-stage scores, guided coreset, plain training on it", _run, _stages)
