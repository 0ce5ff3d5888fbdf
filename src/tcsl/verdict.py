"""Is there a shortcut? Two tests on held-out samples that need no groups, and both must say so.

Where the biased model is wrong on a held-out sample, the easy rule contradicts the label. If training on everything
follows that rule, it repeats the mistake, the same wrong class, and training on the coreset sets more of them right;
where the samples are only hard, it does not, since it has seen less data. So the mistakes that plain training repeats
and retraining sets right are counted against the reverse: the exact one-sided McNemar (sign) test.

A coreset of mislabelled or ambiguous samples does that, too, by turning the rule around: it departs from it where it
fails and where it holds. So, among samples that the biased model and plain training agree on, the coreset's model must
depart from them more often where they are wrong than where they are right, at the same confidence of plain training:
the Cochran-Mantel-Haenszel test over tenths of it. Where that confidence says all that can be known, it does not.

The verdict is "shortcut" where both have p of at most 5 %; how often that is so, over the strength of a planted one and
without any, is measured in docs/verdict.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tcsl.types import BoolArray, FloatArray, IntArray

LEVEL = 0.05


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
    p_gained, p_departed : of the sign test on those, and of the departures of the coreset's model
    """

    found: bool | None
    sentence: str
    p: float | None = None
    held_out: int = 0
    wrong: int = 0
    gained: int = 0
    lost: int = 0
    p_gained: float | None = None
    p_departed: float | None = None
    level: float = LEVEL

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def judge(labels: IntArray, biased: IntArray, before: IntArray, after: IntArray, sure: FloatArray) -> Verdict:
    """Compare the predictions (n,) of models trained on everything and on the coreset, where the biased one is wrong.

    Parameters
    ----------
    sure : (n,) the probability of the class that training on everything predicts

    >>> labels, sure = np.zeros(40, np.int64), np.full(40, 0.9, np.float32)
    >>> biased, before, after = (np.r_[np.ones(wrong, int), np.zeros(40 - wrong, int)] for wrong in (12, 8, 1))
    >>> judge(labels, biased, before, after, sure).sentence  # seven to none: 1 / 2^7
    'There is a shortcut: of the 12 mistakes of the biased model on held-out samples, training on everything repeats 7
    that training on the coreset sets right, and the reverse holds for 0 (p = 0.0078)'
    """
    wrong = biased != labels
    gained = int((wrong & (before == biased) & (after == labels)).sum())
    lost = int((wrong & (before == labels) & (after == biased)).sum())
    n = int(wrong.sum())
    counts = {"held_out": len(labels), "wrong": n, "gained": gained, "lost": lost}
    if 0.5**n > LEVEL:
        least = int(np.ceil(np.log2(1 / LEVEL)))
        return Verdict(
            None,
            f"Cannot tell whether there is a shortcut: the biased model gets {n} of the {len(labels):,} held-out "
            f"samples wrong, and with fewer than {least} nothing follows; hold out more, or samples in which the "
            "suspected shortcut fails",
            **counts,
        )
    agreed = biased == before
    p_gained = sign_test(gained, lost)
    p_departed = departure_test(wrong[agreed], (after != biased)[agreed], sure[agreed])
    p = max(p_gained, p_departed)
    found = p <= LEVEL
    text = (
        f"{'There is a shortcut' if found else 'No shortcut found'}: of the {n:,} mistakes of the biased model on "
        f"held-out samples, training on everything repeats {gained:,} that training on the coreset sets right, and the "
        f"reverse holds for {lost:,}"
    )
    if p_gained <= LEVEL < p:
        text += (
            "; but at the same confidence the coreset's model departs from the others as often where they are right, "
            "as with wrong labels or classes that overlap"
        )
    return Verdict(found, f"{text} ({said_of_p(p)})", p, **counts, p_gained=p_gained, p_departed=p_departed)


def departure_test(wrong: BoolArray, departs: BoolArray, sure: FloatArray) -> float:
    """Return the one-sided p of the Cochran-Mantel-Haenszel test: departures are more frequent where it is wrong.

    Parameters
    ----------
    wrong : (m,) whether the class that two models agree on is wrong
    departs : (m,) whether the third model gives another class
    sure : (m,) confidence in the agreed class; strata are the tenths of it over the wrong ones

    >>> wrong = np.repeat([True, False], 20)
    >>> departs = np.r_[np.ones(15, bool), np.zeros(5, bool), np.ones(4, bool), np.zeros(16, bool)]
    >>> round(departure_test(wrong, departs, np.full(40, 0.9)), 4)  # 15 of 20 where it is wrong, else 4 of 20
    0.0009
    """
    from scipy.stats import norm

    if not wrong.any():
        return 1.0
    stratum = np.searchsorted(np.unique(np.quantile(sure[wrong], np.arange(1, 10) / 10)), sure)
    more = variance = 0.0
    for k in np.unique(stratum):
        a, b = wrong[stratum == k], departs[stratum == k]
        n = len(a)
        if n > 1:
            more += int((a & b).sum()) - int(a.sum()) * int(b.sum()) / n
            variance += int(a.sum()) * int((~a).sum()) * int(b.sum()) * int((~b).sum()) / (n * n * (n - 1))
    # Half a sample for the steps of a count.
    return float(norm.sf((more - 0.5) / np.sqrt(variance))) if variance else 1.0


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


def verdict_of(predictions: Mapping[str, IntArray], labels: IntArray | None, sure: FloatArray | None = None) -> Verdict:
    """Return the verdict from the predictions of a run's models on held-out samples, or why there is none.

    Parameters
    ----------
    sure : the confidence of the model "cb_erm", where it is among them
    """
    missing = {
        "biased": "the run has no biased model; add --method tcsl_cs",
        "tcsl_cs": "the run trained nothing on the coreset; add --method tcsl_cs",
        "cb_erm": "the run has no plain training on everything to compare with; add --method cb_erm",
    }
    why = [text for name, text in missing.items() if name not in predictions]
    if labels is None:
        why = ["there are no held-out samples; give a test set or a validation set"]
    elif sure is None and not why:
        why = ["the confidence of cb_erm was not kept; run it again"]
    if labels is None or sure is None or why:
        return Verdict(None, f"Cannot tell whether there is a shortcut: {why[0]}")
    return judge(labels, predictions["biased"], predictions["cb_erm"], predictions["tcsl_cs"], sure)
