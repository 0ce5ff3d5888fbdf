"""The two random rules that every table compares with: Random, and RGbal, which is told the groups."""

from __future__ import annotations

import numpy as np

from tcsl.selection.quota import quota
from tcsl.types import BoolArray, IntArray


def select_random(n: int, *, ratio: float, rng: np.random.Generator) -> IntArray:
    """Return floor(r n) samples, uniform without repeats, ascending.

    >>> len(select_random(100, ratio=0.29, rng=np.random.default_rng(0)))
    29
    """
    return np.sort(rng.choice(n, quota(ratio, n), replace=False))


def select_rgbal(minority: BoolArray, *, ratio: float, rng: np.random.Generator) -> IntArray:
    """Return every minority sample first, then random majority ones: exactly floor(r n), ascending.

    Where the minority alone exceeds the quota, it is sampled uniformly.

    Parameters
    ----------
    minority : (n,) whether a sample contradicts the shortcut: group labels

    >>> picked = select_rgbal(np.array([0, 0, 1, 0, 1], bool), ratio=0.6, rng=np.random.default_rng(0))
    >>> len(picked), {2, 4} <= set(picked.tolist())
    (3, True)
    """
    total = quota(ratio, len(minority))
    rare, common = np.flatnonzero(minority), np.flatnonzero(~minority)
    if len(rare) >= total:
        return np.sort(rng.choice(rare, total, replace=False))
    return np.sort(np.concatenate([rare, rng.choice(common, total - len(rare), replace=False)]))
