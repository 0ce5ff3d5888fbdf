"""The coreset baselines of table 3: a score, a rule, and plain training on what the rule keeps."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tcsl.config import Settings
from tcsl.data.dataset import Dataset
from tcsl.methods.base import About, Method, Outcome, check_number
from tcsl.methods.options import Options, options_of
from tcsl.methods.sources import ScoreName, Wanted, check_embedding, embedding_of, score_of, stages_of
from tcsl.pipeline import Job, coreset_from_indices, final_stage, train_final
from tcsl.seeds import generator
from tcsl.selection.by_rule import RuleOptions, select_by_rule
from tcsl.selection.quota import number
from tcsl.types import IntArray

ScoreRule = Literal["bot", "top", "hist", "ccs", "d2"]


class CoresetOptions(RuleOptions, Options):
    """Options of every coreset baseline."""

    seeds: int = Field(1, ge=1, description="early nets that EL2N and GraNd are averaged over")
    embedding: str = Field("erm", description="of SelfSup and D2: erm, net, clip:MODEL:WEIGHTS, or a file")


class ClipOptions(CoresetOptions):
    """Options of a baseline whose embedding is CLIP's."""

    embedding: str = Field("clip:ViT-B-32:openai", description="clip:MODEL:WEIGHTS, or a file")


class AnyOptions(CoresetOptions):
    """Options of a coreset by any score and rule."""

    score: ScoreName = "el2n"
    rule: ScoreRule = "hist"


def coreset_baseline(
    name: str, title: str, score: ScoreName, rule: ScoreRule, about: About, kind: type[CoresetOptions] = CoresetOptions
) -> Method:
    """Return the method that trains on what a rule keeps by a score; CoresetOptions that name them have their way."""

    def choices(settings: Settings) -> tuple[CoresetOptions, Wanted, ScoreRule]:
        options = options_of(settings, name, kind)
        named, by = (options.score, options.rule) if isinstance(options, AnyOptions) else (score, rule)
        return options, Wanted(named, options.seeds, options.embedding, options.metric), by

    def run(job: Job) -> Outcome:
        options, wanted, by = choices(job.settings)
        coreset = coreset_from_indices(job, name, _select(job, options, wanted, by))
        return Outcome(train_final(job, name, coreset), coreset)

    def check(settings: Settings, train: Dataset, val: Dataset | None) -> None:
        check_number(settings, train, val)
        _, wanted, by = choices(settings)
        if by == "d2" or wanted.score == "selfsup":
            check_embedding(wanted.embedding)

    def stages(settings: Settings, n: int) -> dict[str, int]:
        _, wanted, by = choices(settings)
        return stages_of(settings, n, wanted, embedded=by == "d2") | final_stage(name)(settings, n)

    summary = f"plain training on what {title} keeps"
    return Method(title, summary, run, stages, options=kind, check=check, about=about)


def _select(job: Job, options: CoresetOptions, wanted: Wanted, rule: ScoreRule) -> IntArray:
    return select_by_rule(
        rule,
        score_of(job, wanted),
        job.data.numpy_labels,
        ratio=number(job.settings.select.ratio),
        rng=generator(job.settings.seed, f"{wanted.score} {rule}"),
        options=options,
        embedding=embedding_of(job, wanted.embedding) if rule == "d2" else None,
    )


_EL2N = "EL2N: the length of softmax minus one-hot after a tenth of the training, Paul et al. 2021"
_SELFSUP = "SelfSup: the distance to the nearest of C k-means prototypes in an embedding, Sorscher et al. 2022"
_RULES = {
    "bot": "the lowest floor(r n)",
    "top": "the highest floor(r n)",
    "hist": "one of each of B equal bins in turn",
}


def _simple(score: ScoreName, rule: ScoreRule) -> Method:
    scored = _EL2N if score == "el2n" else _SELFSUP
    title = f"{'EL2N' if score == 'el2n' else 'SelfSup'} ({rule.capitalize()})"
    about = About(
        idea=(
            "A score of difficulty that knows no shortcut, and the simplest rules on it. Hard samples are often "
            "minority ones."
        ),
        formula=f"{_RULES[rule]} of {scored.split(':')[1].split(',')[0].strip()}",
        reference=f"{scored.split(', ')[-1]}; the paper that this package implements, table 3",
    )
    return coreset_baseline(f"{score}_{rule}", title, score, rule, about)


EL2N_BOT, EL2N_TOP, EL2N_HIST = (_simple("el2n", rule) for rule in ("bot", "top", "hist"))
SELFSUP_BOT, SELFSUP_TOP, SELFSUP_HIST = (_simple("selfsup", rule) for rule in ("bot", "top", "hist"))


def _d2(score: ScoreName, *, clip: bool) -> Method:
    about = About(
        idea=(
            "Difficulty and diversity together: scores travel along a graph of neighbours in an embedding. Each sample "
            "that is taken lowers its neighbours."
        ),
        formula="s_i += sum_j exp(-d_ij) s_j; then the largest is taken, and its neighbours lose exp(-gamma d) s",
        reference="Maharana et al. 2024, D2 Pruning",
        differs="a sparse graph of exact neighbours, not a dense matrix",
    )
    name = f"d2_{score}{'_clip' if clip else ''}"
    title = f"D2 ({'EL2N' if score == 'el2n' else 'SelfSup'}, {'CLIP' if clip else 'ERM'})"
    return coreset_baseline(name, title, score, "d2", about, ClipOptions if clip else CoresetOptions)


D2_EL2N, D2_SELFSUP = (_d2(score, clip=False) for score in ("el2n", "selfsup"))
D2_EL2N_CLIP, D2_SELFSUP_CLIP = (_d2(score, clip=True) for score in ("el2n", "selfsup"))
CCS = coreset_baseline(
    "ccs",
    "CCS (EL2N)",
    "el2n",
    "ccs",
    About(
        idea="The hardest part is dropped, and the rest is covered: every range of the score gives as many samples.",
        formula="drop the hardest beta; B ranges of equal width share floor(r n), the smallest first",
        reference="Zheng et al. 2023, Coverage-centric Coreset Selection",
    ),
)
ANY = coreset_baseline(
    "coreset",
    "Coreset by any score and rule",
    "el2n",
    "hist",
    About(
        idea=(
            "Any score with any rule: method.coreset.score and method.coreset.rule. CSL, forgetting, AUM, GraNd are "
            "here."
        ),
        formula="rule(score)",
        reference=(
            "Toneva et al. 2019 (forgetting), Pleiss et al. 2020 (AUM), Paul et al. 2021 (GraNd), the paper (CSL)"
        ),
    ),
    AnyOptions,
)
