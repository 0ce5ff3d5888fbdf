"""Means, deviations and paired differences over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


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
