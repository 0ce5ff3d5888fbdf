"""Means, deviations and paired differences over seeds; intervals of a share; log-odds; AUC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from tcsl.errors import InputError
from tcsl.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation (n - 1) and the 95 % Student interval of the mean; None where one value says nothing."""

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None


def summarise(values: Sequence[float]) -> Summary:
    """Summarise values over seeds.

    >>> s = summarise([1.0, 2.0, 3.0])
    >>> round(s.mean, 3), round(s.sd, 3), round(s.low, 3), round(s.high, 3)
    (2.0, 1.0, -0.484, 4.484)
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Summary(1, mean, None, None, None)
    from scipy.stats import t

    sd = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    half = float(t.ppf(0.975, n - 1)) * sd / math.sqrt(n)
    return Summary(n, mean, sd, mean - half, mean + half)


def paired(first: Sequence[float], second: Sequence[float]) -> Summary:
    """Summarise the differences first - second, seed by seed.

    >>> paired([3.0, 5.0], [1.0, 2.0]).mean
    2.5
    """
    return summarise([a - b for a, b in zip(first, second, strict=True)])


def wilson(k: float, n: float) -> tuple[float, float]:
    """Return the 95 % interval of a share of which k of n were seen, by Wilson's score test.

    It covers the true share in 95 % of cases on average over shares, and stays in [0, 1]. Where the samples are not
    independent, n is their `worth` and k that part of it.

    >>> low, high = wilson(8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4902, 0.9433)
    """
    _check_count(k, n)
    z2 = NormalDist().inv_cdf(0.975) ** 2
    middle = (k + z2 / 2) / (n + z2)
    half = math.sqrt(z2 * (k * (n - k) / n + z2 / 4)) / (n + z2)
    return (0.0 if k == 0 else middle - half), (1.0 if k == n else middle + half)


def wilson_of_mean(parts: Sequence[tuple[float, float]], weights: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a weighted mean of shares, each of which k of n were seen.

    The squared distances of the shares from the ends of their Wilson intervals add up with the weights' squares (the
    method of variance estimates recovery, Zou & Donner 2008), so that the interval stays in [0, 1].

    Parameters
    ----------
    weights : one a part; their sum is 1

    >>> wilson_of_mean([(8, 10)], [1.0]) == wilson(8, 10)
    True
    >>> [round(end, 4) for end in wilson_of_mean([(8, 10), (20, 20)], [0.5, 0.5])]
    [0.7254, 0.9717]
    """
    mean = sum(weight * k / n for (k, n), weight in zip(parts, weights, strict=True))
    below = above = 0.0
    for (k, n), weight in zip(parts, weights, strict=True):
        low, high = wilson(k, n)
        below += (weight * (k / n - low)) ** 2
        above += (weight * (high - k / n)) ** 2
    return mean - math.sqrt(below), mean + math.sqrt(above)


def seen(share: float, n: int, worth: float | None) -> tuple[float, float]:
    """Return k of n for an interval of a share: of the samples, or of what they are `worth` where that is told.

    >>> seen(0.5, 8, None), seen(0.5, 8, 3.0)
    ((4.0, 8), (1.5, 3.0))
    """
    of = worth or n
    return share * of, of


def worth(right: BoolArray, units: IntArray) -> float:
    """Return how many independent samples would tell a share of right ones as well as these samples of units do.

    The variance of the share is that of the units' sums (a ratio estimate), and n independent samples would have
    share (1 - share) / n: Kish's effective size. Never more than there are samples; where all are right, or none, there
    is no variance to go by, and units that are alike inside count once each.

    Parameters
    ----------
    right : (n,) which samples are right
    units : (n,) what each sample shows

    >>> right = np.array([1, 1, 1, 1, 0, 0, 1, 1], bool)
    >>> worth(right, np.arange(8) // 2), worth(right, np.arange(8))
    (3.0, 8.0)
    """
    n, share = len(right), float(right.mean())
    sums = np.bincount(np.unique(units, return_inverse=True)[1], right - share)
    k, squares = len(sums), float((sums**2).sum())
    if k == n:
        return float(n)
    if share in (0.0, 1.0) or squares == 0:
        return float(k)
    # The variance is the sums' squares / n^2, k / (k - 1) times.
    return min(float(n), max(1.0, share * (1 - share) * n**2 * (k - 1) / (k * squares)))


def clopper_pearson(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact binomial interval of a share of which k of n were seen: each end by a test of half the level.

    It covers the true share in at least `level` of cases, whatever the share is.

    >>> low, high = clopper_pearson(8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4439, 0.9748)
    """
    _check_count(k, n)
    if not 0 < level < 1:
        raise InputError(f"the level of an interval must be between 0 and 1, got {level:g}")
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = float(beta.ppf(tail, k, n - k + 1)) if k else 0.0
    high = float(beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
    return low, high


def _check_count(k: float, n: float) -> None:
    if not 0 <= k <= n or n < 1:
        raise InputError(f"a share is k of n with 0 <= k <= n and n of 1 or more, got {k} of {n}")


def log_odds(logits: FloatArray, classes: IntArray) -> FloatArray:
    """Return log(p / (1 - p)) of one class a sample, (n,), from logits (n, classes): exact where p rounds to 0 or 1.

    >>> log_odds(np.array([[1.0, 3.0]], np.float32), np.array([0]))
    array([-2.], dtype=float32)
    """
    own = np.take_along_axis(logits, classes[:, None], 1)
    others = np.array(logits)
    np.put_along_axis(others, classes[:, None], -np.inf, 1)
    high = others.max(1, keepdims=True)
    odds: FloatArray = own - high - np.log(np.exp(others - high).sum(1, keepdims=True))
    return odds[:, 0]


def auc(scores: FloatArray, positive: BoolArray) -> float:
    """Return the chance that a positive sample has the higher score of a pair with a negative one; ties count half.

    Parameters
    ----------
    scores : (n,)
    positive : (n,) neither all nor none

    >>> auc(np.array([3.0, 1.0, 2.0, 2.0]), np.array([True, False, True, False]))
    0.875
    """
    if np.isnan(scores).any():
        raise InputError(f"scores must be numbers to be ranked; that at index {np.isnan(scores).argmax()} is nan")
    others = np.sort(scores[~positive])
    lower, not_higher = (np.searchsorted(others, scores[positive], side).sum() for side in ("left", "right"))
    return float(lower + not_higher) / (2 * int(positive.sum()) * len(others))
