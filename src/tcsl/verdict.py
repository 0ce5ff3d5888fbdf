"""Is there a shortcut? A test on held-out samples that needs no groups.

Where the biased model is wrong on a held-out sample, the easy rule contradicts the label. If training on everything
follows that rule, it repeats the mistake, the same wrong class, and training on the coreset sets more of them right;
where the samples are only hard, it does not, since it has seen less data. So the mistakes that plain training repeats
and retraining sets right are counted against the reverse: the exact one-sided McNemar (sign) test. Without a shortcut
that costs anything, each is at most as likely as the other, and the verdict is "shortcut" in at most 5 % of runs; how
often it is in truth, over the strength of a planted shortcut, is measured in docs/verdict.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tcsl.types import IntArray

LEVEL = 0.05


@dataclass(frozen=True)
class Verdict:
    """What a run says of the data.

    Attributes
    ----------
    found : whether there is a shortcut; None where that cannot be told
    sentence : the same in words, with the numbers
    p : of the test; a shortcut is found where it is at most `level`
    held_out : samples that the models were compared on
    wrong : how many of them the biased model gets wrong
    gained, lost : of those, how many mistakes training on everything repeats and training on the coreset sets right,
        and the reverse
    """

    found: bool | None
    sentence: str
    p: float | None = None
    held_out: int = 0
    wrong: int = 0
    gained: int = 0
    lost: int = 0
    level: float = LEVEL

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def judge(labels: IntArray, biased: IntArray, before: IntArray, after: IntArray) -> Verdict:
    """Compare the predictions (n,) of models trained on everything and on the coreset, where the biased one is wrong.

    >>> labels = np.zeros(40, np.int64)
    >>> biased, before, after = (np.r_[np.ones(wrong, int), np.zeros(40 - wrong, int)] for wrong in (12, 8, 1))
    >>> judge(labels, biased, before, after).sentence  # seven to none: 1 / 2^7
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
    p = sign_test(gained, lost)
    found = p <= LEVEL
    text = (
        f"{'There is a shortcut' if found else 'No shortcut found'}: of the {n:,} mistakes of the biased model on "
        f"held-out samples, training on everything repeats {gained:,} that training on the coreset sets right, and the "
        f"reverse holds for {lost:,} ({said_of_p(p)})"
    )
    return Verdict(found, text, p, **counts)


def said_of_p(p: float) -> str:
    """Say a p as it is read: two digits, and none of how small a very small one is.

    >>> said_of_p(0.031), said_of_p(6e-112)
    ('p = 0.031', 'p < 0.0001')
    """
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def sign_test(gained: int, lost: int) -> float:
    """Return the probability of at least this many gains among gained + lost, if each were as likely as a loss.

    >>> sign_test(5, 0), sign_test(0, 0), sign_test(1, 2)
    (0.03125, 1.0, 0.875)
    """
    from scipy.stats import binom

    return float(binom.sf(gained - 1, gained + lost, 0.5))


def verdict_of(predictions: Mapping[str, IntArray], labels: IntArray | None) -> Verdict:
    """Return the verdict from the predictions of a run's models on held-out samples, or why there is none."""
    missing = {
        "biased": "the run has no biased model; add --method tcsl_cs",
        "tcsl_cs": "the run trained nothing on the coreset; add --method tcsl_cs",
        "cb_erm": "the run has no plain training on everything to compare with; add --method cb_erm",
    }
    why = [text for name, text in missing.items() if name not in predictions]
    if labels is None:
        why = ["there are no held-out samples; give a test set or a validation set"]
    if labels is None or why:
        return Verdict(None, f"Cannot tell whether there is a shortcut: {why[0]}")
    return judge(labels, predictions["biased"], predictions["cb_erm"], predictions["tcsl_cs"])
