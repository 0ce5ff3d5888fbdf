"""TCSL-CS by another biased model: the ablation of stage 1, with a generalised cross entropy (Zhang & Sabuncu 2018)."""

from __future__ import annotations

from pydantic import Field

from tcsl.config import Section, Settings
from tcsl.methods.base import About, Method, Outcome
from tcsl.methods.options import options_of
from tcsl.pipeline import Job, final_stage, score_stages, scoring_steps, train_final
from tcsl.selection.coreset import coreset_from_scores

NAME = "tcsl_cs_gce"


class GceOptions(Section):
    """Options of the ablation."""

    q: float = Field(0.7, gt=0, le=1, description="of the biased model's generalised cross entropy")


def _q(settings: Settings) -> float:
    return options_of(settings, NAME, GceOptions).q


def _run(job: Job) -> Outcome:
    scores = score_stages(job, gce=_q(job.settings))
    coreset = coreset_from_scores(scores, job.settings, g_high=scores.g_high, of="the coreset of tcsl_cs_gce")
    return Outcome(train_final(job, NAME, coreset), coreset, scores)


def _stages(settings: Settings, n: int) -> dict[str, int]:
    return {**scoring_steps(settings, n, gce=_q(settings)), **final_stage(NAME)(settings, n)}


METHOD = Method(
    "TCSL-CS, GCE",
    "TCSL-CS with a biased model that is trained with a generalised cross entropy",
    _run,
    _stages,
    options=GceOptions,
    about=About(
        idea=(
            "The ablation of stage 1: the biased model's loss favours what is easy, and samples' weights stay. It is "
            "trained for T_s epochs and leaves TCSL_s like ours; the rest is TCSL-CS."
        ),
        formula="f_s minimises (1 - p^q) / q; what is recorded, and TCSL_s, is its cross entropy",
        reference="Zhang & Sabuncu 2018; the paper that this package implements, appendix H: q of 0.7, 0.8 and 0.9",
        differs=(
            "the paper compares TCSL_s only; here the coreset and the final model follow. Samples weigh 1 / n_y in "
            "every epoch, as ours do in the first"
        ),
    ),
)
