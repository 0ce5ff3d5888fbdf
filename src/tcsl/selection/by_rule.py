"""Any rule on any score: from the name of a rule and arrays to the indices that it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from tcsl.config import Section, validated
from tcsl.errors import InputError
from tcsl.registry import unknown
from tcsl.selection.baselines import select_random, select_rgbal
from tcsl.selection.classes import samples_by_class
from tcsl.selection.d2 import select_d2
from tcsl.selection.neighbours import Metric
from tcsl.selection.quota import quota, shares
from tcsl.selection.rules import checked_scores, drop_hardest, select_bot, select_ccs, select_hist, select_top
from tcsl.types import AnyArray, BoolArray, IntArray

Rule: TypeAlias = Literal["bot", "top", "hist", "ccs", "d2", "random", "rgbal"]


class RuleOptions(Section):
    """What the rules may be told; each reads some of it."""

    by_class: bool = Field(
        False, description="of bot, top, hist and d2: fill each class by its share; of rgbal: so that classes end equal"
    )
    bins: int = Field(50, ge=1, description="B, of hist and ccs")
    beta: float | None = Field(
        None, ge=0, lt=1, description="of ccs and d2: the hardest part, dropped first; by default 0.4, or (1 - r) / 2"
    )
    k: int = Field(5, ge=1, description="neighbours in D2's graph")
    gamma: float = Field(0.1, ge=0, description="of D2's reverse messages")
    metric: Metric = Field("euclidean", description="of the distances in the embedding, or cosine")


# Every rule that can be named, and what it takes beside scores, labels, ratio and seed, from Python or from the command
# line. TCSL-CS goes by more than a score, the loss curves, and is in `coreset.py`.
TAKES: dict[str, tuple[str, ...]] = {
    "bot": ("by_class",),
    "top": ("by_class",),
    "hist": ("by_class", "bins"),
    "ccs": ("bins", "beta"),
    "d2": ("by_class", "beta", "k", "gamma", "metric", "embedding"),
    "random": (),
    "rgbal": ("by_class", "minority"),
    "tcsl_cs": ("bins", "curves", "minority", "profile", "settings", "config", "set"),
}


def check_given(rule: str, given: Iterable[str], *, spelt: Callable[[str], str] = str) -> None:
    """Refuse a rule that does not exist, and what only other rules take; `spelt` is how the caller writes a name.

    >>> check_given("bot", ["gamma"])
    Traceback (most recent call last):
    tcsl.errors.InputError: the rule bot takes no gamma, which is for d2; leave it out
    """
    if rule not in TAKES:
        raise unknown("rule", rule, TAKES)
    for name in given:
        if name not in TAKES[rule]:
            others = ", ".join(other for other, takes in TAKES.items() if name in takes)
            raise InputError(f"the rule {rule} takes no {spelt(name)}, which is for {others}; leave it out")


def rule_options(given: Mapping[str, Any]) -> RuleOptions:
    """Return the options with what is given in place of their own values.

    >>> rule_options({"k": 0})
    Traceback (most recent call last):
    tcsl.errors.InputError: k = 0: input should be greater than or equal to 1
    """
    return validated(RuleOptions, given, "")


def advice_on_classes(rule: str, options: RuleOptions) -> str:
    """Return what to do where a rule has left a class out.

    >>> advice_on_classes("d2", RuleOptions()), advice_on_classes("random", RuleOptions())
    ('use a larger ratio, a smaller beta, or by_class=True (--by-class)', 'use a larger ratio')
    """
    cures = ["use a larger ratio", *["a smaller beta"] * ("beta" in TAKES[rule])]
    cures += ["or by_class=True (--by-class)"] * ("by_class" in TAKES[rule] and not options.by_class)
    return ", ".join(cures)


def check_sizes(rule: Rule, labels: AnyArray, *, ratio: float, options: RuleOptions) -> None:
    """Refuse a beta and a k that fit these labels and this ratio with no scores: what can be told before there are any.

    Parameters
    ----------
    labels : (n,) the class of each sample

    >>> check_sizes("d2", np.zeros(10, int), ratio=0.5, options=RuleOptions(k=8))
    Traceback (most recent call last):
    tcsl.errors.InputError: D2's k must be below the 8 of 10 samples that beta leaves, got 8; use a smaller k
    """
    n = len(labels)
    total = quota(ratio, n)
    if rule not in ("ccs", "d2"):
        return
    left = len(drop_hardest(np.zeros(n), options.beta, total))
    if rule == "ccs":
        return
    if options.k >= left:
        raise InputError(
            f"D2's k must be below the {left} of {n} samples that beta leaves, got {options.k}; use a smaller k"
        )
    if options.by_class:
        sizes = {label: len(part) for label, part in samples_by_class(labels).items()}
        each = np.array(list(sizes.values()))
        for (label, size), count in zip(sizes.items(), shares(total, each, each), strict=True):
            if count and size <= options.k:
                raise InputError(
                    f"class {label} has {size} samples, and D2 by_class needs more than k = {options.k} of each class: "
                    "use a smaller k, or by_class=False"
                )


def checked_minority(minority: AnyArray, n: int) -> BoolArray:
    """Return the mask of the minority as it is, or say what is wrong with it: true or false for each of n samples.

    >>> checked_minority(np.array([0.2, 1.0]), 2)
    Traceback (most recent call last):
    tcsl.errors.InputError: minority must be true or false for each of the 2 samples, got float64 of shape (2,)
    """
    whole = minority.dtype.kind in "iu" and bool(np.isin(minority, (0, 1)).all())
    if minority.shape != (n,) or not (minority.dtype.kind == "b" or whole):
        raise InputError(
            f"minority must be true or false for each of the {n} samples, got {minority.dtype} of shape "
            f"{minority.shape}"
        )
    if not minority.any():
        raise InputError("minority is false for every sample: there is none to keep")
    return minority.astype(np.bool_)


def select_by_rule(
    rule: Rule,
    scores: AnyArray | None,
    labels: AnyArray,
    *,
    ratio: float,
    rng: np.random.Generator,
    options: RuleOptions | None = None,
    embedding: AnyArray | None = None,
    minority: BoolArray | None = None,
) -> IntArray:
    """Return the floor(r n) samples that a rule keeps, ascending.

    Parameters
    ----------
    scores : (n,) one a sample; higher is harder. `random` and `rgbal` need none
    labels : (n,) the class of each sample, numbers or text
    rng : read by hist, ccs, random and rgbal
    options : each rule reads its own of them
    embedding : (n, d) a row a sample, which d2 needs
    minority : (n,) whether a sample contradicts the shortcut, which rgbal needs: it is told the groups

    >>> draw = np.random.default_rng(0)
    >>> select_by_rule("top", np.array([3, 1, 2]), np.array(["a", "a", "a"]), ratio=0.7, rng=draw).tolist()
    [0, 2]
    """
    options = options or RuleOptions()
    if rule in ("random", "rgbal"):
        if scores is not None:
            checked_scores(scores, labels)
        if rule == "random":
            chosen = select_random(len(labels), ratio=ratio, rng=rng)
        elif minority is None:
            raise InputError("the rule rgbal needs the minority, for every sample whether it contradicts the shortcut")
        else:
            told = checked_minority(minority, len(labels))
            chosen = select_rgbal(told, ratio=ratio, rng=rng, balance=labels if options.by_class else None)
        return chosen
    if scores is None:
        raise InputError(f"the rule {rule} needs a score of every sample; random and rgbal need none")
    if rule == "bot":
        return select_bot(scores, labels, ratio=ratio, by_class=options.by_class)
    if rule == "top":
        return select_top(scores, labels, ratio=ratio, by_class=options.by_class)
    if rule == "hist":
        return select_hist(scores, labels, ratio=ratio, by_class=options.by_class, bins=options.bins, rng=rng)
    if rule == "ccs":
        return select_ccs(scores, labels, ratio=ratio, beta=options.beta, bins=options.bins, rng=rng)
    if embedding is None:
        raise InputError("the rule d2 needs an embedding, a row of numbers for every sample; give one")
    return select_d2(
        scores,
        embedding,
        labels,
        ratio=ratio,
        k=options.k,
        gamma=options.gamma,
        beta=options.beta,
        metric=options.metric,
        by_class=options.by_class,
    )
