"""From a table of scores to a coreset with its provenance; needs neither the data nor torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from tcsl.config import SelectSettings, Settings, resolve
from tcsl.data.labels import read_labels
from tcsl.errors import InputError
from tcsl.scores import Coreset, Scores, digest
from tcsl.seeds import generator
from tcsl.selection.by_rule import (
    TAKES,
    Rule,
    advice_on_classes,
    check_given,
    checked_minority,
    rule_options,
    select_by_rule,
)
from tcsl.selection.classes import warn_of_lost_classes
from tcsl.selection.neighbours import Metric
from tcsl.selection.quota import Ratio, number
from tcsl.selection.rules import checked_scores, usual_drop
from tcsl.selection.tcsl_cs import select_tcsl_cs, tcsl_s_of
from tcsl.types import AnyArray, BoolArray


def select(
    scores: Scores | Path | str | ArrayLike,
    labels: ArrayLike | None = None,
    *,
    ratio: Ratio | None = None,
    rule: str | None = None,
    by_class: bool | None = None,
    bins: int | None = None,
    beta: float | None = None,
    k: int | None = None,
    gamma: float | None = None,
    metric: Metric | None = None,
    embedding: ArrayLike | None = None,
    curves: ArrayLike | None = None,
    minority: ArrayLike | None = None,
    profile: str | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Coreset:
    """Choose a coreset by scores alone: any rule on any score of yours, or Algorithm 2 on what `score` made.

    Parameters
    ----------
    scores : (n,) one a sample, higher is harder; or Scores, or the path of a scores.parquet
    labels : (n,) the class of each sample, numbers or text; Scores have them
    ratio : r in (0, 1], the part that is kept, 0.1 by default; of tcsl_cs also "auto", three times G_high
    rule : bot, top, hist, ccs, d2, random, rgbal or tcsl_cs, which is Algorithm 2 and what Scores are selected by
    by_class : of bot, top, hist and d2: fill each class by its share in the data; of rgbal: so that classes end equal
    bins : of hist, ccs and tcsl_cs: B; 50 by default
    beta : of ccs and d2: the hardest part, which is dropped first; by default 0.4, or (1 - r) / 2 where that is less
    k, gamma, metric : of d2: neighbours a sample (5), the reverse messages' gamma (0.1), and euclidean or cosine
    embedding : (n, d) a row a sample, which d2 needs
    curves : (n, T_s) loss curves, which tcsl_cs needs beside a score
    minority : (n,) whether a sample contradicts the shortcut, where that is known: rgbal needs it, tcsl_cs takes it in
        place of its own G_high
    profile, settings : of tcsl_cs, as in `debias`
    seed : 0 by default; of Scores, like the profile and `select.*` but the ratio, what they were made with

    Returns
    -------
    Coreset; `coreset.indices` are the positions that are kept, ascending

    >>> el2n, labels = [0.1, 0.9, 0.2, 0.8], ["cat", "cat", "dog", "dog"]
    >>> select(el2n, labels, rule="top", ratio=0.5).indices.tolist()
    [1, 3]
    >>> losses = np.repeat(np.float32([[0.1], [0.1], [3.0], [0.2]]), 3, axis=1)
    >>> select(losses.mean(1), [0, 1, 0, 1], rule="tcsl_cs", curves=losses, ratio=0.5).indices.tolist()
    [1, 2]
    """
    options = {"by_class": by_class, "bins": bins, "beta": beta, "k": k, "gamma": gamma, "metric": metric}
    options = {name: value for name, value in options.items() if value is not None}
    others = {
        "embedding": embedding,
        "curves": curves,
        "minority": minority,
        "profile": profile,
        "settings": settings,
    }
    given = [*options, *(name for name, value in others.items() if value is not None)]
    told = None if minority is None else np.asarray(minority)
    if isinstance(scores, Scores | Path | str):
        check_given(rule or "tcsl_cs", given)
        if rule not in (None, "tcsl_cs"):
            raise InputError(
                f"the rule {rule} goes by one score: give that and the labels as arrays, such as scores.tcsl_c and "
                "scores.labels"
            )
        if labels is not None or curves is not None:
            raise InputError("these scores have their own labels and curves: give none, and name the ratio, ratio=0.1")
        table = scores if isinstance(scores, Scores) else Scores.load(scores)
    else:
        if rule is None:
            raise InputError("name a rule for these scores, such as rule='hist'")
        check_given(rule, given)
        classes = _checked_labels(labels)
        if rule != "tcsl_cs":
            return coreset_by_rule(
                cast("Rule", rule),
                np.asarray(scores),
                classes,
                ratio=ratio,
                seed=seed or 0,
                options=options,
                embedding=None if embedding is None else np.asarray(embedding),
                minority=told,
            )
        if curves is None:
            raise InputError("the rule tcsl_cs needs curves, (n, T_s) the losses of each sample, beside the score")
        table = scores_of(np.asarray(curves), np.asarray(scores), classes)
    overrides = {**(settings or {}), **{f"select.{name}": value for name, value in options.items()}}
    overrides |= {} if ratio is None else {"select.ratio": ratio}
    chosen = settings_like(table, profile=profile, seed=seed, overrides=overrides)
    return coreset_from_scores(table, chosen, minority=told)


def scores_of(
    curves: AnyArray,
    scores: AnyArray,
    labels: AnyArray,
    *,
    ids: AnyArray | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Scores:
    """Return Scores from arrays, with any score in the place of TCSL_c and G_high still to be found."""
    n = len(labels)
    if curves.ndim != 2 or len(curves) != n or 0 in curves.shape:
        raise InputError(f"there must be one loss curve a sample: {n} labels, curves of shape {curves.shape}")
    rows = np.asarray(curves, np.float32)
    places = np.arange(n) if ids is None else ids
    tcsl_c = checked_scores(scores, labels)
    return Scores(places, labels, tcsl_s_of(rows), tcsl_c, np.zeros(n, np.bool_), rows, facts or {})


def _checked_labels(labels: ArrayLike | None) -> AnyArray:
    """Return labels as an array of numbers or text."""
    if labels is None:
        raise InputError("labels are needed, (n,) the class of each sample")
    array = read_labels(labels, "select")
    if array.dtype.kind == "f" and (array % 1).any():
        odd = int((array % 1 != 0).argmax())
        raise InputError(f"labels must be whole numbers or text, got {array[odd]} at index {odd}")
    return array.astype(str if array.dtype == object else np.int64)


def coreset_by_rule(
    rule: Rule,
    scores: AnyArray | None,
    labels: AnyArray,
    *,
    ratio: Ratio | None = None,
    seed: int = 0,
    options: Mapping[str, Any],
    embedding: AnyArray | None = None,
    minority: AnyArray | None = None,
    ids: AnyArray | None = None,
    class_names: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
) -> Coreset:
    """Run a rule other than Algorithm 2 on arrays.

    Parameters
    ----------
    options : those of RuleOptions that are not to have their own values
    ids : (n,) by default 0 .. n - 1
    class_names : where the labels are the classes' numbers
    facts : more provenance
    """
    if seed < 0:
        raise InputError(f"seed must be 0 or more, got {seed}")
    part = number(SelectSettings().ratio if ratio is None else ratio)
    chosen = rule_options(options)
    indices = select_by_rule(
        rule,
        scores,
        labels,
        ratio=part,
        rng=generator(seed, rule),
        options=chosen,
        embedding=embedding,
        minority=minority,
    )
    warn_of_lost_classes(labels, indices, advice=advice_on_classes(rule, chosen), names=class_names, stacklevel=4)
    read = {name: value for name, value in chosen.model_dump(mode="json").items() if name in TAKES[rule]}
    if "beta" in read and read["beta"] is None:
        read["beta"] = usual_drop(len(labels), len(indices)) / len(labels)
    made = {"rule": rule, "ratio": part, "seed": seed, "options": read, **(facts or {})}
    if scores is not None:
        made["scores"] = digest(labels, scores)
    if minority is not None:
        made["minority"] = digest(np.asarray(minority, np.bool_))
    return Coreset(
        indices,
        indices if ids is None else ids[indices],
        labels[indices],
        np.zeros(len(indices), np.bool_),
        made,
        None if scores is None else scores[indices],
    )


def settings_like(
    scores: Scores,
    *,
    profile: str | None = None,
    seed: int | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Return settings to select by: but for the ratio those of the run that made the scores, unless given."""
    made_with = {name: scores.facts[name] for name in ("profile", "seed") if scores.facts.get(name) is not None}
    made_with |= {f"select.{name}": value for name, value in scores.facts.get("select", {}).items()}
    named = {} if seed is None else {"seed": seed}
    return resolve(profile=profile, base=made_with, file=file, overrides={**(overrides or {}), **named})


def coreset_from_scores(
    scores: Scores,
    settings: Settings,
    *,
    g_high: BoolArray | None = None,
    minority: AnyArray | None = None,
    of: str = "the coreset",
) -> Coreset:
    """Run Algorithm 2 on scores alone.

    `g_high` spares the clustering where the same settings have done it; `minority` replaces it by the truth. A warning
    calls the coreset what `of` says.
    """
    if minority is not None:
        g_high = checked_minority(minority, len(scores.labels))
    picked = select_tcsl_cs(
        scores.curves, scores.tcsl_c, scores.labels, settings.select, seed=settings.seed, g_high=g_high
    )
    facts = {
        "rule": "tcsl_cs",
        "fingerprint": scores.facts.get("fingerprint"),
        "scores": scores.digest,
        "select": settings.select.model_dump(mode="json"),
        "seed": settings.seed,
        "g_high": int(picked.g_high.sum()),
    }
    if minority is not None:
        facts["minority"] = digest(np.asarray(minority, np.bool_))
    i = picked.indices
    advice = "use a larger ratio" + ", or select.fill=equal" * (settings.select.fill != "equal")
    names = scores.facts.get("class_names", ())
    warn_of_lost_classes(scores.labels, i, advice=advice, names=names, of=of, stacklevel=4)
    return Coreset(i, scores.ids[i], scores.labels[i], picked.g_high[i], facts)
