"""The coreset baselines of table 3: a score, a rule, and plain training on what the rule keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

from pydantic import Field, create_model
from torch import nn

from tcsl.config import Section, Settings, validated
from tcsl.errors import InputError
from tcsl.methods.base import About, Method, Outcome, check_number, train_on
from tcsl.methods.options import options_of
from tcsl.methods.sources import SCORE_TAKES, ScoreName, Wanted, check_embedding, embedding_of, score_of, stages_of
from tcsl.pipeline import Job, final_stage
from tcsl.seeds import generator
from tcsl.selection.by_rule import TAKES, RuleOptions, advice_on_classes, check_sizes, select_by_rule
from tcsl.selection.quota import number
from tcsl.types import IntArray

ScoreRule = Literal["bot", "top", "hist", "ccs", "d2"]


class CoresetOptions(RuleOptions):
    """Options of a coreset by any score and rule, each of which reads some of them.

    There are none of the final training: all coresets of a table are trained as `[train]` says.
    """

    seeds: int = Field(1, ge=1, description="early nets that EL2N and GraNd are averaged over")
    embedding: str = Field(
        "erm",
        description="of SelfSup and D2: erm, net, torchvision:NAME, timm:NAME, clip:MODEL:WEIGHTS, run:FOLDER:MODEL, "
        "or a file",
    )
    score: ScoreName = Field("el2n", description=", ".join(get_args(ScoreName)))
    rule: ScoreRule = Field("hist", description=", ".join(get_args(ScoreRule)))


def options_read(score: ScoreName, rule: ScoreRule, **defaults: Any) -> type[Section]:
    """Return the options that a score and a rule read, and no others; `defaults` have other values of their own.

    >>> list(options_read("el2n", "ccs").model_fields)
    ['bins', 'beta', 'seeds']
    """
    read = {*SCORE_TAKES[score], *TAKES[rule]}
    fields: dict[str, Any] = {
        name: (field.annotation, Field(defaults[name], description=field.description) if name in defaults else field)
        for name, field in CoresetOptions.model_fields.items()
        if name in read
    }
    return create_model(f"Options of {score} {rule}", __base__=Section, **fields)


def check_read(score: ScoreName, rule: ScoreRule, given: Iterable[str], where: str) -> None:
    """Refuse an option that neither the score nor the rule reads.

    >>> check_read("csl", "top", ["by_class", "seeds"], "method.coreset.")
    Traceback (most recent call last):
    tcsl.errors.InputError: score csl and rule top read no method.coreset.seeds, which is for el2n, grand; leave it out
    """
    parts: dict[str, tuple[str, ...]] = {**SCORE_TAKES, **{name: TAKES[name] for name in get_args(ScoreRule)}}
    for name in given:
        if name not in (*parts[score], *parts[rule], "score", "rule"):
            others = ", ".join(part for part, takes in parts.items() if name in takes)
            raise InputError(
                f"score {score} and rule {rule} read no {where}{name}, which is for {others}; leave it out"
            )


def coreset_baseline(
    name: str,
    title: str,
    about: About,
    fixed: tuple[ScoreName, ScoreRule] | None = None,
    **defaults: Any,
) -> Method:
    """Return the method that trains on what a rule keeps by a score, both `fixed` or the options' to name."""
    kind = CoresetOptions if fixed is None else options_read(*fixed, **defaults)

    def choices(settings: Settings) -> tuple[CoresetOptions, Wanted]:
        given = options_of(settings, name, kind).model_dump()
        if fixed is not None:
            given |= {"score": fixed[0], "rule": fixed[1]}
        options = validated(CoresetOptions, given, f"method.{name}.")
        return options, Wanted(options.score, options.seeds, options.embedding, options.metric)

    def run(job: Job) -> Outcome:
        options, wanted = choices(job.settings)
        chosen = job.chosen(name)
        indices = _select(job, options, wanted) if chosen is None else chosen
        return train_on(job, name, indices, advice=advice_on_classes(options.rule, options))

    def check(job: Job, net: nn.Module) -> None:
        check_number(job, net)
        settings = job.settings
        options, wanted = choices(settings)
        check_read(options.score, options.rule, settings.method.get(name, {}), f"method.{name}.")
        check_sizes(options.rule, job.data.numpy_labels, ratio=number(settings.select.ratio), options=options)
        if options.rule == "d2" or options.score == "selfsup":
            check_embedding(job, net, wanted)

    def stages(settings: Settings, n: int) -> dict[str, int]:
        options, wanted = choices(settings)
        return stages_of(settings, n, wanted, embedded=options.rule == "d2") | final_stage(name)(settings, n)

    summary = f"plain training on what {title} keeps"
    return Method(title, summary, run, stages, options=kind, check=check, about=about)


def _select(job: Job, options: CoresetOptions, wanted: Wanted) -> IntArray:
    return select_by_rule(
        options.rule,
        score_of(job, wanted),
        job.data.numpy_labels,
        ratio=number(job.settings.select.ratio),
        rng=generator(job.settings.seed, f"{options.score} {options.rule}"),
        options=options,
        embedding=embedding_of(job, wanted.embedding) if options.rule == "d2" else None,
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
        differs=(
            "one early net where theirs is the mean of ten (`seeds`)"
            if score == "el2n"
            else "clusters of the features of CB ERM, which saw the labels, where theirs are of a self-supervised net "
            "(`embedding` takes any)"
        ),
    )
    return coreset_baseline(f"{score}_{rule}", title, about, (score, rule))


EL2N_BOT, EL2N_TOP, EL2N_HIST = (_simple("el2n", rule) for rule in ("bot", "top", "hist"))
SELFSUP_BOT, SELFSUP_TOP, SELFSUP_HIST = (_simple("selfsup", rule) for rule in ("bot", "top", "hist"))


def _d2(score: ScoreName, *, clip: bool) -> Method:
    differs = (
        "a sparse graph of exact neighbours, not a dense matrix; one graph over all classes, where the authors' recipe "
        "for CIFAR has one for each class and takes equally many of each (`by_class` has each class's share, which is "
        "the same where classes are equally large); beta drops what is hardest by the score itself, where their recipe "
        "drops by the area under the margin"
    )
    if score == "selfsup":
        differs += "; one embedding and one metric feed both SelfSup's score and the graph"
    about = About(
        idea=(
            "Difficulty and diversity together: scores travel along a graph of neighbours in an embedding. Each sample "
            "that is taken lowers its neighbours."
        ),
        formula="s_i += sum_j exp(-d_ij) s_j; then the largest is taken, and its neighbours lose exp(-gamma d) s",
        reference="Maharana et al. 2024, D2 Pruning",
        differs=differs,
    )
    name = f"d2_{score}{'_clip' if clip else ''}"
    title = f"D2 ({'EL2N' if score == 'el2n' else 'SelfSup'}, {'CLIP' if clip else 'ERM'})"
    defaults = {"embedding": "clip:ViT-B-32:openai"} if clip else {}
    return coreset_baseline(name, title, about, (score, "d2"), **defaults)


D2_EL2N, D2_SELFSUP = (_d2(score, clip=False) for score in ("el2n", "selfsup"))
D2_EL2N_CLIP, D2_SELFSUP_CLIP = (_d2(score, clip=True) for score in ("el2n", "selfsup"))
CCS = coreset_baseline(
    "ccs",
    "CCS (EL2N)",
    About(
        idea="The hardest part is dropped. The rest is covered: every range of the score gives as many samples.",
        formula="drop the hardest beta; B ranges of equal width share floor(r n), the smallest first",
        reference="Zheng et al. 2023, Coverage-centric Coreset Selection",
        differs="beta is 0.4, or (1 - r) / 2 where that is less, unless it is set; theirs is tuned for each ratio",
    ),
    ("el2n", "ccs"),
)
ANY = coreset_baseline(
    "coreset",
    "Coreset by any score and rule",
    About(
        idea=(
            "Any score with any rule: method.coreset.score and method.coreset.rule. CSL, forgetting, AUM, GraNd are "
            "here."
        ),
        formula="rule(score)",
        reference=(
            "Toneva et al. 2019 (forgetting), Pleiss et al. 2020 (AUM), Paul et al. 2021 (GraNd), Ravikumar et al. "
            "2025 (CSL)"
        ),
    ),
)
