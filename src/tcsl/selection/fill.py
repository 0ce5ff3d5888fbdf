"""SelectBot, SelectHist (appendix C) and a weighted draw, on any score: indices in the order of their picks."""

from __future__ import annotations

import numpy as np

from tcsl.selection.quota import level
from tcsl.types import AnyArray, IntArray


def select_bottom(scores: AnyArray, count: int) -> IntArray:
    """Return the `count` samples of lowest score, ascending; equal scores in the order of the samples.

    >>> select_bottom(np.array([3.0, 1.0, 2.0, 1.0]), 3).tolist()
    [1, 3, 2]
    """
    return np.argsort(scores, kind="stable")[:count]


def select_histogram(scores: AnyArray, count: int, *, bins: int, rng: np.random.Generator) -> IntArray:
    """Return `count` samples spread over `bins` bins of equal size: one random sample of each bin in turn.

    The bins are the sorted samples cut into equal parts (sizes differ by at most one, the earlier ones larger); they
    are visited in ascending order until `count` is reached, and a bin that has run out is passed over.

    >>> scores = np.arange(8.0)
    >>> picked = select_histogram(scores, 6, bins=4, rng=np.random.default_rng(0))
    >>> (picked // 2).tolist()  # the bin of each pick
    [0, 1, 2, 3, 0, 1]
    """
    order = np.argsort(scores, kind="stable")
    parts = np.array_split(order, min(bins, max(1, len(order))))
    sizes = np.array([len(part) for part in parts])
    taken = level(count, np.zeros_like(sizes), sizes)
    picked = [rng.permutation(part)[:k] for part, k in zip(parts, taken, strict=True)]
    turn = np.concatenate([np.arange(k) for k in taken])
    # Stable: within a turn the bins keep their order.
    return np.concatenate(picked)[np.argsort(turn, kind="stable")]


def select_weighted(weights: AnyArray, count: int, *, rng: np.random.Generator) -> IntArray:
    """Return `count` samples, drawn one by one without repeats, each time in proportion to the weights that are left.

    Samples of weight 0 come last. As in a race of exponential clocks: the largest log w + Gumbel first.

    >>> select_weighted(np.array([0.0, 2.0, 0.0, 1.0]), 2, rng=np.random.default_rng(0)).tolist()
    [3, 1]
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.asarray(weights, np.float64))
    return select_bottom(-(log_weights + rng.gumbel(size=len(weights))), count)
