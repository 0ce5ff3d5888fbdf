"""The two random rules that every table compares with: Random, and RGbal, which is told the groups."""

from __future__ import annotations

import numpy as np

from tcsl.selection.classes import class_codes
from tcsl.selection.quota import level, quota
from tcsl.types import AnyArray, BoolArray, IntArray


def select_random(n: int, *, ratio: float, rng: np.random.Generator) -> IntArray:
    """Return floor(r n) samples, uniform without repeats, ascending.

    >>> len(select_random(100, ratio=0.29, rng=np.random.default_rng(0)))
    29
    """
    return np.sort(rng.choice(n, quota(ratio, n), replace=False))


def select_rgbal(
    minority: BoolArray, *, ratio: float, rng: np.random.Generator, balance: AnyArray | None = None
) -> IntArray:
    """Return every minority sample first, then random majority ones: exactly floor(r n), ascending.

    Where the minority alone exceeds the quota, it is sampled uniformly.

    Parameters
    ----------
    minority : (n,) whether a sample contradicts the shortcut: group labels
    balance : (n,) the class of each sample, where the classes shall end as equal as what is drawn can make them

    >>> picked = select_rgbal(np.array([0, 0, 1, 0, 1], bool), ratio=0.6, rng=np.random.default_rng(0))
    >>> len(picked), {2, 4} <= set(picked.tolist())
    (3, True)
    """
    total = quota(ratio, len(minority))
    rare, common = np.flatnonzero(minority), np.flatnonzero(~minority)
    kept, drawn = (rare[:0], rare) if len(rare) >= total else (rare, common)
    count = total - len(kept)
    if balance is None:
        return np.sort(np.concatenate([kept, rng.choice(drawn, count, replace=False)]))
    codes = class_codes(balance)
    classes = int(codes.max()) + 1
    held, limits = (np.bincount(codes[part], minlength=classes) for part in (kept, drawn))
    wanted = level(count, held, limits)
    parts = [rng.choice(drawn[codes[drawn] == c], int(k), replace=False) for c, k in enumerate(wanted) if k]
    return np.sort(np.concatenate([kept, *parts]))
