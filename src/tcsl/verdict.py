"""Is there a shortcut? Two tests on held-out samples that need no groups, and both must say so.

Where the biased model is wrong on a held-out sample, the easy rule contradicts the label. If training on everything
follows that rule, it repeats the mistake, the same wrong class, and training on the coreset sets more of them right;
where the samples are only hard, it does not, since it has seen less data. So the mistakes that plain training repeats
and retraining sets right are counted against the reverse: the exact one-sided McNemar (sign) test. Samples of one unit,
such as photographs of one patient, have one vote.

A coreset of mislabelled or ambiguous samples does that, too, by turning the rule around: it departs from it where it
fails and where it holds. So the coreset's model must give plain training's class less probability where that is wrong
than where it is right, at the same class and confidence of plain training: van Elteren's rank test. Where these say all
that can be known, it does not. (Confidence alone would not do: of a rare class more is wrong, and a coreset of other
shares departs more from it.) Probabilities are compared by their log-odds, which do not round to 1.

The verdict is "shortcut" where both have p of at most 5 %, and where only the first has, it cannot be told; how often
that is so, over the strength of a planted one and without any, is measured in docs/verdict.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tcsl.selection.classes import samples_by_class
from tcsl.types import AnyArray, BoolArray, FloatArray, IntArray

LEVEL = 0.05
# Columns of a run's predictions: the log-odds of the class that cb_erm predicts, by itself and by tcsl_cs.
SURE, KEPT = "cb_erm_sure", "cb_erm_by_tcsl_cs"


@dataclass(frozen=True)
class Verdict:
    """What a run says of the data.

    Attributes
    ----------
    found : whether there is a shortcut; None where that cannot be told
    sentence : the same in words, with the numbers
    p : the larger one of the two tests'; a shortcut is found where it is at most `level`
    held_out : samples that the models were compared on
    wrong : how many of them the biased model gets wrong
    gained, lost : of those, how many mistakes training on everything repeats and training on the coreset sets right,
        and the reverse
    units : how many units the samples are of; None where each is its own
    units_gained, units_lost : in how many more are gained than lost, and the reverse
    p_gained, p_departed : of the sign test on the units, and of the departures of the coreset's model
    """

    found: bool | None
    sentence: str
    p: float | None = None
    held_out: int = 0
    wrong: int = 0
    gained: int = 0
    lost: int = 0
    units: int | None = None
    units_gained: int = 0
    units_lost: int = 0
    p_gained: float | None = None
    p_departed: float | None = None
    level: float = LEVEL

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def judge(
    labels: IntArray,
    biased: IntArray,
    before: IntArray,
    after: IntArray,
    sure: FloatArray,
    kept: FloatArray,
    units: IntArray | None = None,
) -> Verdict:
    """Compare the predictions (n,) of models trained on everything and on the coreset, where the biased one is wrong.

    Parameters
    ----------
    sure, kept : (n,) the log-odds of the class that training on everything predicts, by that model and by the one
        trained on the coreset
    units : (n,) 0 .. units - 1, what each sample shows; by default each shows something else

    >>> labels, sure = np.repeat([0, 1], 20), np.full(40, 2.0)
    >>> biased, before, after = (np.where(np.arange(40) < wrong, 1, labels) for wrong in (12, 8, 1))
    >>> judge(labels, biased, before, after, sure, np.where(before == after, 2.0, -2.0)).sentence
    'There is a shortcut: of the 12 mistakes of the biased model on held-out samples, training on everything repeats 7
    that training on the coreset sets right, and the reverse holds for 0 (p = 0.0078)'
    """
    wrong = biased != labels
    gained, lost = wrong & (before == biased) & (after == labels), wrong & (before == labels) & (after == biased)
    unit = np.arange(len(labels)) if units is None else units
    balance = np.bincount(unit, gained.astype(int) - lost.astype(int))
    voters = len(np.unique(unit[wrong]))
    counted = Verdict(
        None,
        "",
        held_out=len(labels),
        wrong=int(wrong.sum()),
        gained=int(gained.sum()),
        lost=int(lost.sum()),
        units=None if units is None else len(np.unique(units)),
        units_gained=int((balance > 0).sum()),
        units_lost=int((balance < 0).sum()),
    )
    if 0.5**voters > LEVEL:
        least = int(np.ceil(np.log2(1 / LEVEL)))
        of = "" if units is None else f" ({voters} of {counted.units:,} units)"
        text = (
            f"Cannot tell whether there is a shortcut: the biased model gets {counted.wrong} of the {len(labels):,} "
            f"held-out samples{of} wrong, and with fewer than {least} nothing follows; hold out more, or samples in "
            "which the suspected shortcut fails"
        )
        return replace(counted, sentence=text)
    told = (
        f"of the {counted.wrong:,} mistakes of the biased model on held-out samples, training on everything repeats "
        f"{counted.gained:,} that training on the coreset sets right, and the reverse holds for {counted.lost:,}"
    )
    if units is not None:
        told += (
            f"; of the {counted.units:,} held-out units, {counted.units_gained:,} gain and {counted.units_lost:,} lose"
        )
    p_gained = sign_test(counted.units_gained, counted.units_lost)
    p_departed = departure_test(before != labels, kept, sure, unit, before)
    tested = replace(counted, p_gained=p_gained, p_departed=p_departed)
    if p_gained <= LEVEL and p_departed is None:
        told += (
            "; but there are no samples of the same predicted class and confidence on which training on everything is "
            "right, to compare them with: hold out some in which the suspected shortcut holds, too"
        )
        return replace(tested, sentence=f"Cannot tell whether there is a shortcut: {told}")
    p = max(p_gained, p_departed or 0.0)
    if p_gained <= LEVEL < p:
        told += (
            "; but at the same confidence the coreset's model departs from plain training as much where that is right, "
            "as with wrong labels, classes that overlap, or a shortcut that mostly holds in what is held out: hold out "
            f"samples in which the suspected one fails ({said_of_p(p)})"
        )
        return replace(tested, sentence=f"Cannot tell whether there is a shortcut: {told}", p=p)
    repeated = int((wrong & (before == biased)).sum())
    if p > LEVEL and repeated <= LEVEL * counted.wrong:
        told += f"; training on everything repeats {repeated:,} of all: it does not rely on what misled the biased one"
    title = "There is a shortcut" if p <= LEVEL else "No shortcut found"
    return replace(tested, found=p <= LEVEL, sentence=f"{title}: {told} ({said_of_p(p)})", p=p)


def departure_test(
    wrong: BoolArray, kept: FloatArray, sure: FloatArray, units: IntArray, predicted: IntArray
) -> float | None:
    """Return the one-sided p of van Elteren's test: a model's class has a lower rank with another where it is wrong.

    The variance is that of the units' sums, so that samples of one unit need not be independent; with k units that are
    wrong somewhere it is taken k / (k - 1) times and compared with Student's t, k - 1. None where nothing is compared.

    Parameters
    ----------
    wrong : (n,) whether the class is wrong
    kept : (n,) the other model's log-odds of it, or anything that has their order
    sure : (n,) the model's own; of each class there is a stratum for every two units that are wrong somewhere
    units : (n,) what each sample shows
    predicted : (n,) the class

    >>> wrong, kept = np.repeat([True, False], 4), np.array([0.1, 0.2, 0.3, 0.6, 0.5, 0.7, 0.8, 0.9])
    >>> same = np.zeros(8, np.int64)
    >>> round(departure_test(wrong, kept, np.full(8, 0.9), np.arange(8), same), 4)  # t = 14 / 2 / sqrt(42 / 4 x 4 / 3)
    0.0791
    """
    from scipy.stats import rankdata, t

    stratum = _strata(wrong, sure, units, predicted)
    among = np.flatnonzero(stratum >= 0)
    wrong_units = len(np.unique(units[among][wrong[among]]))
    if wrong_units < 2:
        return None
    stratum = np.unique(stratum[among], return_inverse=True)[1]
    size = np.bincount(stratum)
    share = np.bincount(stratum, wrong[among]) / size
    # Ranks over all, stratum after stratum, less those of the strata before: ranks within each, in one sort.
    rank = rankdata(2.0 * len(wrong) * stratum + rankdata(kept[among])) - (np.cumsum(size) - size)[stratum]
    n = size[stratum]
    below = np.zeros(len(wrong))
    below[among] = (wrong[among] - share[stratum]) * ((n + 1) / 2 - rank) / (n + 1)
    variance = float((np.bincount(units, below) ** 2).sum()) * wrong_units / (wrong_units - 1)
    if variance <= 1e-20 * float((below**2).sum()):  # rounding
        return None
    return float(t.sf(below.sum() / np.sqrt(variance), wrong_units - 1))


def _strata(wrong: BoolArray, sure: FloatArray, units: IntArray, predicted: IntArray) -> IntArray:
    """Return each sample's stratum (n,), of one predicted class each; -1 for what has nothing to be compared with."""
    out = np.full(len(wrong), -1)
    begun = 0
    for members in samples_by_class(predicted).values():
        odd = members[wrong[members]]
        strata = len(np.unique(units[odd])) // 2
        if strata == 0:
            continue
        cuts = np.quantile(sure[odd], np.linspace(0, 1, strata + 1))
        # What is surer than all of the wrong ones, or less sure, is left out.
        among = members[(sure[members] >= cuts[0]) & (sure[members] <= cuts[-1])]
        out[among] = begun + np.searchsorted(np.unique(cuts[1:-1]), sure[among])
        begun += strata
    return out


def said_of_p(p: float) -> str:
    """Say a p as it is read: two digits, more where the level is near, and none of a very small one.

    >>> said_of_p(0.031), said_of_p(6e-112), said_of_p(0.05009)
    ('p = 0.031', 'p < 0.0001', 'p = 0.05009')
    """
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}" if abs(p - LEVEL) > 0.001 else f"p = {p:.5f}"


def sign_test(gained: int, lost: int) -> float:
    """Return the probability of at least this many gains among gained + lost, if each were as likely as a loss.

    >>> sign_test(5, 0), sign_test(0, 0), sign_test(1, 2)
    (0.03125, 1.0, 0.875)
    """
    from scipy.stats import binom

    return float(binom.sf(gained - 1, gained + lost, 0.5))


def verdict_of(columns: Mapping[str, AnyArray], labels: IntArray | None) -> Verdict:
    """Return the verdict from a run's models on held-out samples, or why there is none.

    Parameters
    ----------
    columns : (n,) of each: the classes that the models "biased", "cb_erm" and "tcsl_cs" predict; SURE and KEPT, the
        log-odds of cb_erm's class; and "unit", where several samples show the same
    """
    missing = {
        "biased": "the run has no biased model; add --method tcsl_cs",
        "tcsl_cs": "the run trained nothing on the coreset; add --method tcsl_cs",
        "cb_erm": "the run has no plain training on everything to compare with; add --method cb_erm",
        SURE: "the confidence of cb_erm was not kept; run it again",
        KEPT: "the confidence of tcsl_cs was not kept; run it again",
    }
    why = [text for name, text in missing.items() if name not in columns]
    if not why and not (finite := np.isfinite(columns[SURE]) & np.isfinite(columns[KEPT])).all():
        why = [
            f"for {int((~finite).sum()):,} of the {len(finite):,} held-out samples a model gives no finite number, "
            f"first at index {int(finite.argmin())}; are their values of another size than in training?"
        ]
    if labels is None:
        why = ["there are no held-out samples; give a test set or a validation set"]
    if labels is None or why:
        return Verdict(None, f"Cannot tell whether there is a shortcut: {why[0]}")
    biased, before, after, sure, kept = (columns[name] for name in ("biased", "cb_erm", "tcsl_cs", SURE, KEPT))
    return judge(labels, biased, before, after, sure, kept, columns.get("unit"))
