"""Which samples a page shows first: the extremes of each class, what was left out, and a seeded rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcsl.seeds import generator
from tcsl.types import AnyArray, BoolArray, FloatArray, IntArray

_GALLERY = 1200  # samples of a gallery, over all classes and kinds
_PAIRS = 240  # samples that were left out and are shown beside their nearest chosen neighbours


@dataclass(frozen=True, eq=False)
class Shown:
    """What the gallery begins with.

    Attributes
    ----------
    extremes : (m,) of each class the highest TCSL_s, the highest TCSL_c and the lowest of both
    left_out : (p,) of each class some that are not in the coreset, from easy to hard cores
    """

    extremes: IntArray
    left_out: IntArray


def ranks(values: AnyArray) -> IntArray:
    """Return the place of each value from the smallest on, (n,) 0 .. n - 1; equal ones are in their order.

    >>> ranks(np.array([0.5, 0.1, 0.5])).tolist()
    [1, 0, 2]
    """
    out = np.empty(len(values), np.int64)
    out[np.argsort(values, kind="stable")] = np.arange(len(values))
    return out


def ease(tcsl_s: FloatArray, tcsl_c: FloatArray) -> FloatArray:
    """Return how late a sample comes by both scores, 0 .. 1: the mean of its two ranks; low is easy by both.

    >>> ease(np.array([0.1, 0.2, 9.0], np.float32), np.array([0.3, 0.2, 7.0], np.float32)).tolist()
    [0.25, 0.25, 1.0]
    """
    last = max(len(tcsl_s) - 1, 1)
    return ((ranks(tcsl_s) + ranks(tcsl_c)) / (2 * last)).astype(np.float32)


def choose_shown(tcsl_s: FloatArray, tcsl_c: FloatArray, labels: IntArray, chosen: BoolArray) -> Shown:
    """Choose what the gallery begins with; fewer of each class where there are many classes.

    >>> s, c = np.arange(6, dtype=np.float32), np.arange(6, dtype=np.float32)[::-1].copy()
    >>> shown = choose_shown(s, c, np.array([0, 0, 0, 1, 1, 1]), np.array([1, 0, 0, 0, 0, 1], bool))
    >>> shown.extremes.tolist(), shown.left_out.tolist()
    ([0, 1, 2, 3, 4, 5], [2, 1, 4, 3])
    """
    classes = int(labels.max()) + 1
    each = max(2, min(24, _GALLERY // (3 * classes)))
    pairs = max(2, min(12, _PAIRS // classes))
    easy = ease(tcsl_s, tcsl_c)
    extremes: set[int] = set()
    left_out: list[int] = []
    for label in range(classes):
        members = np.flatnonzero(labels == label)
        for key in (-tcsl_s, -tcsl_c, easy):
            extremes.update(members[np.argsort(key[members], kind="stable")[:each]].tolist())
        out = members[~chosen[members]]
        out = out[np.argsort(tcsl_c[out], kind="stable")]
        if len(out):
            left_out += out[np.unique(np.linspace(0, len(out) - 1, pairs).round().astype(np.int64))].tolist()
    return Shown(np.array(sorted(extremes), np.int64), np.array(left_out, np.int64))


def by_importance(
    first: IntArray, tcsl_s: FloatArray, tcsl_c: FloatArray, g_high: BoolArray, *, room: int, seed: int
) -> IntArray:
    """Return all samples (n,) in the order in which they are given room.

    Those of `first`; G_high, as far as it takes half of the room, the highest TCSL_s surely; the highest TCSL_c, a
    twentieth of it; then the rest in a seeded order.

    Parameters
    ----------
    room : how many samples of the order are going to be used

    >>> s, c, high = np.array([1.0, 9.0, 2.0, 8.0], np.float32), np.zeros(4, np.float32), np.array([0, 1, 0, 1], bool)
    >>> by_importance(np.array([2]), s, c, high, room=4, seed=0).tolist()
    [2, 1, 3, 0]
    """
    rng = generator(seed, "page")
    high = np.flatnonzero(g_high)
    high = high[np.argsort(-tcsl_s[high], kind="stable")]
    if len(high) > room // 2:
        high = np.concatenate([high[: room // 20], rng.permutation(high[room // 20 :])])[: room // 2]
    hard = np.argsort(-tcsl_c, kind="stable")[: room // 20]
    order = np.concatenate([first, high, hard, rng.permutation(len(tcsl_s))])
    _, where = np.unique(order, return_index=True)
    return np.asarray(order[np.sort(where)], np.int64)
