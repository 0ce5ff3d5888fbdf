"""Whole rules on any score of which higher means harder: Bot, Top, Hist, and CCS (coverage-centric selection)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tcsl.errors import InputError
from tcsl.selection.classes import samples_by_class
from tcsl.selection.fill import select_bottom, select_histogram
from tcsl.selection.quota import quota, shares
from tcsl.types import AnyArray, IntArray

_Pick = Callable[[AnyArray, int], IntArray]  # scores of some samples, how many -> which of them


def select_bot(scores: AnyArray, labels: IntArray, *, ratio: float, by_class: bool = False) -> IntArray:
    """Return the easiest floor(r n) samples, ascending; among equal scores the earlier samples.

    Parameters
    ----------
    scores : (n,) one a sample; higher is harder
    labels : (n,) the class of each sample
    by_class : fill each class by its share in the data, not all classes at once

    >>> scores, labels = np.array([4.0, 3.0, 2.0, 1.0]), np.array([0, 0, 1, 1])
    >>> select_bot(scores, labels, ratio=0.5, by_class=True).tolist()
    [1, 3]
    """
    return _select(scores, labels, ratio, by_class, select_bottom)


def select_top(scores: AnyArray, labels: IntArray, *, ratio: float, by_class: bool = False) -> IntArray:
    """Return the hardest floor(r n) samples, ascending; among equal scores the earlier samples.

    Parameters are those of `select_bot`.

    >>> select_top(np.array([4.0, 3.0, 3.0, 1.0]), np.array([0, 0, 1, 1]), ratio=0.75).tolist()
    [0, 1, 2]
    """
    return _select(scores, labels, ratio, by_class, lambda part, count: select_bottom(-part, count))


def select_hist(
    scores: AnyArray,
    labels: IntArray,
    *,
    ratio: float,
    rng: np.random.Generator,
    bins: int = 50,
    by_class: bool = False,
) -> IntArray:
    """Return floor(r n) samples, ascending: one random sample of each of `bins` bins of equal size in turn.

    Parameters are those of `select_bot`. As in `select_histogram`, bins are visited from the easy end: below one
    sample a bin, the hardest bins are not reached.

    >>> picked = select_hist(np.arange(8.0), np.arange(8) % 2, ratio=0.5, bins=4, rng=np.random.default_rng(0))
    >>> (picked // 2).tolist()  # the bin of each pick
    [0, 1, 2, 3]
    """
    _check_bins(bins)
    return _select(scores, labels, ratio, by_class, lambda part, k: select_histogram(part, k, bins=bins, rng=rng))


def select_ccs(
    scores: AnyArray,
    labels: IntArray,
    *,
    ratio: float,
    rng: np.random.Generator,
    beta: float | None = None,
    bins: int = 50,
) -> IntArray:
    """Return floor(r n) samples, ascending, by coverage-centric coreset selection (Zheng et al., ICLR 2023).

    The hardest beta of the samples are dropped. The scores of the others are cut into `bins` ranges of equal width; the
    quota is divided among these by `divide_among_strata`, and each gives its part by chance.

    Parameters
    ----------
    scores : (n,) one a sample; higher is harder
    labels : (n,) the class of each sample, which this rule does not look at
    beta : share of the samples to drop, in [0, 1), by default as in `drop_hardest`; the paper tunes it for each ratio
        (0.3 for CIFAR-10 at r = 0.1)

    >>> scores = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 9.0, 10.0, 99.0])
    >>> select_ccs(scores, np.zeros(8, int), ratio=0.5, beta=0.125, bins=2, rng=np.random.default_rng(0))[2:].tolist()
    [5, 6]
    """
    _check_bins(bins)
    scores = checked_scores(scores, labels)
    total = quota(ratio, len(scores))
    # Sorted, every stratum is a slice.
    left = drop_hardest(scores, beta, total)
    low, high = scores[left[0]], scores[left[-1]]
    span = high - low or 1.0
    stratum = np.minimum((scores[left] - low) / span * bins, bins - 1).astype(np.int64)
    sizes = np.bincount(stratum, minlength=bins)
    wanted = divide_among_strata(total, sizes)
    parts = np.split(left, np.cumsum(sizes)[:-1])
    chosen = np.concatenate([rng.permutation(part)[:k] for part, k in zip(parts, wanted, strict=True)])
    return np.sort(chosen)


def divide_among_strata(total: int, sizes: IntArray) -> IntArray:
    """Divide `total` among strata, the smallest first: each gets an equal part of what is left, or all that it holds.

    What the small ones cannot give goes to the larger ones, and so does the remainder; of equal ones the later.

    >>> divide_among_strata(11, np.array([9, 0, 2, 9])).tolist()
    [4, 0, 2, 5]
    """
    if total > sizes.sum():
        raise InputError(f"cannot take {total} from strata that hold {int(sizes.sum())}")
    out = np.zeros_like(sizes)
    left = total
    for done, i in enumerate(np.argsort(sizes, kind="stable")):
        out[i] = min(int(sizes[i]), left // (len(sizes) - done))
        left -= int(out[i])
    return out


def drop_hardest(scores: AnyArray, beta: float | None, total: int) -> IntArray:
    """Return all samples but the hardest floor(beta n), from easy to hard; `total` of them must be left.

    Of equal scores the later sample counts as the harder. Without a beta, `usual_drop` says how many.

    >>> drop_hardest(np.array([3.0, 1.0, 2.0, 2.0]), 0.5, total=2).tolist()
    [1, 2]
    """
    n = len(scores)
    if beta is None:
        return select_bottom(scores, n - usual_drop(n, total))
    if not 0 <= beta < 1:
        raise InputError(f"beta, the share of the hardest samples to drop, must be in [0, 1), got {beta:g}")
    # As in `quota`: 0.29 of 100 is 29.
    left = n - math.floor(Fraction(repr(float(beta))) * n)
    if left < total:
        most = math.floor(10_000 * Fraction(n - total, n)) / 10_000
        raise InputError(
            f"beta {beta:g} leaves {left} of {n} samples, but {total} are to be selected: use a beta of {most:g} or "
            "less, or a smaller ratio"
        )
    return select_bottom(scores, left)


def usual_drop(n: int, total: int) -> int:
    """Return how many of the hardest are dropped where no beta is given: 0.4 n, at most half of what `total` leaves.

    >>> usual_drop(10, 2), usual_drop(10, 8), usual_drop(10, 10)
    (4, 1, 0)
    """
    return min(2 * n // 5, (n - total) // 2)


def checked_scores(scores: AnyArray, labels: IntArray) -> AnyArray:
    """Return the scores as float64, or say what is wrong with them: one finite number for each label.

    >>> checked_scores(np.array([1, 2]), np.array([0, 1])).tolist()
    [1.0, 2.0]
    """
    if labels.ndim != 1 or len(labels) == 0:
        raise InputError(f"labels must have shape (samples,) with one sample or more, got shape {labels.shape}")
    if scores.shape != labels.shape:
        raise InputError(f"there must be one score a sample: {len(labels)} labels, scores of shape {scores.shape}")
    if scores.dtype.kind not in "biuf":
        raise InputError(f"scores must be numbers, got {scores.dtype}")
    scores = np.asarray(scores, np.float64)
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise InputError(
            f"scores must be finite: {len(bad)} of {len(scores)} are NaN or infinite, the first that of sample {bad[0]}"
        )
    return scores


def _select(scores: AnyArray, labels: IntArray, ratio: float, by_class: bool, pick: _Pick) -> IntArray:
    """Pick the quota, over all samples or class by class."""
    scores = checked_scores(scores, labels)
    total = quota(ratio, len(scores))
    if by_class:
        parts = list(samples_by_class(labels).values())
        sizes = np.array([len(part) for part in parts])
        wanted = shares(total, sizes, sizes)
        chosen = np.concatenate([part[pick(scores[part], int(k))] for part, k in zip(parts, wanted, strict=True) if k])
    else:
        chosen = pick(scores, total)
    return np.sort(chosen)


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise InputError(f"bins must be 1 or more, got {bins}")
