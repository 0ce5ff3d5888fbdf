"""What a coreset is made of, beside the full set: by class, cluster, tenth of TCSL_c and, where known, group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tcsl.report.material import TrueGroups
from tcsl.report.shown import ranks
from tcsl.scores import Scores
from tcsl.types import AnyArray, BoolArray, IntArray

_TENTHS = ("1, easiest", *map(str, range(2, 10)), "10, hardest")


class Composition(NamedTuple):
    """How many samples of each kind there are in the full set and in the coreset."""

    names: Sequence[str]
    full: IntArray
    kept: IntArray


def tenths(values: AnyArray) -> IntArray:
    """Return the tenth of each value, 0 .. 9, by rank: tenths of equal size, whatever the values; ties in order.

    >>> tenths(np.array([5.0, 5.0, 5.0, 1.0, 9.0])).tolist()
    [2, 4, 6, 0, 8]
    """
    return ranks(values) * len(_TENTHS) // len(values)


def compositions(
    scores: Scores, chosen: BoolArray, class_names: Sequence[str], groups: TrueGroups | None
) -> dict[str, Composition]:
    """Count both sets by "class", "cluster", "tenth" of TCSL_c and, where groups are known, "group".

    Parameters
    ----------
    chosen : (n,) whether the sample is in the coreset
    """
    kinds: dict[str, tuple[Sequence[str], IntArray]] = {
        "class": (class_names, scores.labels),
        "cluster": (("G_low", "G_high"), scores.g_high.astype(np.int64)),
        "tenth": (_TENTHS, tenths(scores.tcsl_c)),
    }
    if groups is not None:
        kinds["group"] = (groups.names, groups.group)
    return {
        by: Composition(names, *(np.bincount(part, minlength=len(names)) for part in (kind, kind[chosen])))
        for by, (names, kind) in kinds.items()
    }
