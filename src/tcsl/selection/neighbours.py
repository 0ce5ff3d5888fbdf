"""The k nearest neighbours of every row of an embedding: exact, without the n x n matrix of distances.

Blocks of rows are multiplied with all rows in float32, which gives squared distances up to a rounding error that is
known. Every pair that could be among the k nearest within that error is then measured again from the difference of its
two rows, in float64: so rounding decides nothing, d(i, j) = d(j, i) to the last bit, and equal rows are at distance 0.
At 54,000 x 512 and k = 5, that is 5.1 pairs a row.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Literal, NamedTuple

import numpy as np

from tcsl.errors import InputError
from tcsl.types import AnyArray, BoolArray, FloatArray, IntArray

Metric = Literal["euclidean", "cosine"]

_BLOCK_VALUES = 1 << 24  # of a block of distances: 64 MB in float32
_TILE_ROWS = 1 << 13  # converted to float64 at a time, where that is needed
_PAIR_VALUES = 1 << 20  # of the differences of pairs: 8 MB
_GROUP = 64  # distances at most, of which the smallest is found first
_TINY = float(np.finfo(np.float32).tiny)
_CROWD = 64  # pairs a row beyond k, above which float32 tells too little apart


class Neighbours(NamedTuple):
    """Indices (n, k) int64 and distances (n, k) float64 of the neighbours of each row, the nearest first."""

    indices: IntArray
    distances: AnyArray


def nearest_neighbours(embedding: AnyArray, k: int, *, metric: Metric = "euclidean") -> Neighbours:
    """Return the k nearest other rows of each row, ascending in distance; at equal distances the earlier row first.

    Only the row itself is left out: another row that is equal to it is a neighbour at distance 0.

    Parameters
    ----------
    embedding : (n, d) a row a sample; read as float32
    k : neighbours a row, below n
    metric : Euclidean distance, or 1 - the cosine of the angle between two rows

    Notes
    -----
    Time grows with n^2 d, memory with n d: beside a float32 copy of the embedding or two, blocks of a fixed size.

    >>> found = nearest_neighbours(np.array([[0.0], [1.0], [3.0], [3.0]]), 2)
    >>> found.indices.tolist()
    [[1, 2], [0, 2], [3, 1], [2, 1]]
    >>> found.distances.tolist()
    [[1.0, 3.0], [1.0, 2.0], [0.0, 2.0], [0.0, 2.0]]
    """
    rows = embedding_rows(embedding, metric)
    n = len(rows)
    if not 1 <= k < n:
        raise InputError(f"k must be at least 1 and below the number of samples, {n}; got {k}: use another k")
    first, group = _equal_rows(rows)
    if len(first) == n:
        indices, squared = _search(rows, k)
    else:
        # Else 5,000 blank images, each as near as the others, would be measured against every row.
        indices, squared = _of_every_row(*_search(rows[first], min(k, len(first) - 1)), group, k)
    # Of rows of length 1, half the squared distance is 1 - the cosine.
    return Neighbours(indices, squared / 2 if metric == "cosine" else np.sqrt(squared))


def embedding_rows(embedding: AnyArray, metric: Metric) -> FloatArray:
    """Return the rows as float32, of length 1 for the cosine, or say what is wrong with them.

    >>> embedding_rows(np.array([[3, 4]]), "cosine").tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    if metric not in ("euclidean", "cosine"):
        raise InputError(f"metric must be 'euclidean' or 'cosine', got {metric!r}")
    if embedding.ndim != 2 or 0 in embedding.shape:
        raise InputError(f"an embedding must have shape (samples, dimensions), got {embedding.shape}")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(embedding, np.float32)
    bad = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(bad):
        raise InputError(
            f"the embedding must be finite in float32: {len(bad)} of {len(rows)} rows have NaN, infinite or too large "
            f"values, the first row {bad[0]}"
        )
    if metric == "euclidean":
        return rows
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    zero = np.flatnonzero(length == 0)
    if len(zero):
        raise InputError(
            f"the cosine is not defined for rows of zeros: {len(zero)} of {len(rows)}, the first row {zero[0]}; use "
            "the Euclidean metric, or leave them out"
        )
    unit = np.empty_like(rows)
    np.divide(rows, length[:, None], dtype=np.float64, casting="unsafe", out=unit)
    return unit


def _equal_rows(rows: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first row of each group of equal rows, ascending, and (n,) the group of each row."""
    # Sorting digests of 16 bytes takes little memory, and 0.3 s; sorting the rows 1.1 s (54,000 x 512).
    digests = b"".join(blake2b(row, digest_size=16).digest() for row in rows)
    _, first, group = np.unique(np.frombuffer(digests, "V16"), return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.sort(first), rank[group]


def _of_every_row(indices: IntArray, squared: AnyArray, group: IntArray, k: int) -> tuple[IntArray, AnyArray]:
    """Return the k neighbours of every row from the neighbours of each group of equal rows.

    The k nearest rows are among the first k + 1 rows of its own group and of the k nearest groups: groups are numbered
    by their first row, so groups at equal distances are in order, too.
    """
    n, groups = len(group), len(indices)
    members = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    start = np.cumsum(sizes) - sizes
    indices = np.column_stack([np.arange(groups), indices])
    squared = np.column_stack([np.zeros(groups), squared])
    out, distances = np.empty((n, k), np.int64), np.empty((n, k))
    step = np.arange(k + 1)
    size = max(1, _PAIR_VALUES // (indices.shape[1] * len(step)))
    for begin in range(0, n, size):
        at = np.arange(begin, min(begin + size, n))
        near = indices[group[at]][:, :, None]
        row = members[np.minimum(start[near] + step, n - 1)]
        there = (step < sizes[near]) & (row != at[:, None, None])
        distance = np.where(there, squared[group[at]][:, :, None], np.inf).reshape(len(at), -1)
        row = row.reshape(len(at), -1)
        order = np.lexsort((row, distance))[:, :k]
        out[at] = np.take_along_axis(row, order, 1)
        distances[at] = np.take_along_axis(distance, order, 1)
    return out, distances


def _search(rows: FloatArray, k: int) -> tuple[IntArray, AnyArray]:
    """Return indices (n, k) and squared distances (n, k) of the neighbours of rows that all differ."""
    n = len(rows)
    indices, squared = np.empty((n, k), np.int64), np.empty((n, k))
    if k == 0:
        return indices, squared
    centred = _centred(rows)
    squares = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
    # Groups of `deep` distances each, of which the smallest is found first.
    deep = max(1, min(_GROUP, n // (8 * k)))
    groups = -(-n // deep)
    size = max(1, min(n, _BLOCK_VALUES // n))
    # One for all blocks: with new memory for each, 45 s of processor time in place of 43 (54,000 x 512).
    memory = np.empty((size, deep, groups), np.float32)
    for start in range(0, n, size):
        at = np.arange(start, min(start + size, n))
        close = _close(centred, squares, at, k, memory[: len(at)])
        crowded = np.count_nonzero(close, axis=1) > k + _CROWD
        if crowded.any():
            # Clusters that are narrow against the distance between them, as a net's features are late in training.
            precise = np.empty((int(crowded.sum()), deep, groups))
            close[crowded] = _close(centred, squares, at[crowded], k, precise)
        # NumPy is fast at this for flat arrays only.
        row, column = np.divmod(np.flatnonzero(close), n)
        distance = _squared_distances(rows, at[row], column)
        # Stable: at equal distances the columns stay ascending.
        order = np.lexsort((distance, row))
        first = np.searchsorted(row, np.arange(len(at)))
        order = order[first[:, None] + np.arange(k)]
        indices[at], squared[at] = column[order], distance[order]
    return indices, squared


def _centred(rows: FloatArray) -> FloatArray:
    """Return the rows around their mean, scaled by a power of two: products lose least there, and none overflows."""
    exponent = math.frexp(max(float(rows.max()), -float(rows.min())))[1]
    centred: FloatArray = np.ldexp(rows, -exponent)
    centred -= centred.mean(0, dtype=np.float64).astype(np.float32)
    return centred


def _close(rows: FloatArray, squares: AnyArray, at: IntArray, k: int, grouped: AnyArray) -> BoolArray:
    """Return (len(at), n): which rows can be among the k nearest of the rows `at`.

    `grouped` (len(at), deep, groups) is overwritten; its type, float32 or float64, is that of the products.
    """
    n, width = rows.shape
    dtype, own = grouped.dtype, squares[at]
    # |y|^2 - 2 x y is the squared distance less |x|^2. Beyond n: infinity, to fill the groups.
    partial = grouped.reshape(len(at), -1)
    partial[:, n:] = np.inf
    block = -2 * rows[at].astype(dtype)
    step = n if dtype == np.float32 else _TILE_ROWS
    for start in range(0, n, step):
        tile = slice(start, min(start + step, n))
        np.matmul(block, rows[tile].T.astype(dtype, copy=False), out=partial[:, tile])
        partial[:, tile] += squares[tile].astype(dtype)
    partial[np.arange(len(at)), at] = np.inf
    # The k-th smallest of the groups' minima is no less than the k-th smallest of all: 1.5 s in place of 40 s by
    # np.partition of all (54,000 rows, two cores).
    bound = np.partition(grouped.min(1), k - 1, axis=1)[:, k - 1].astype(np.float64)
    # No neighbour is further from the mean than `radius`. A product of two such rows is off by at most width / 2 times
    # eps radius^2, their squares by less; their coordinates, rounded when centred, by a part eps32 / 2. Twice all that:
    # for the k-th neighbour, and for the one that should take its place.
    far = np.sqrt(np.maximum(bound + own, 0))
    radius = np.sqrt(own) + far
    eps, eps32 = float(np.finfo(dtype).eps), float(np.finfo(np.float32).eps)
    margin = (2 * width + 8) * eps * radius**2 + 4 * eps32 * radius * (far + eps32 * radius) + _TINY
    close: BoolArray = partial[:, :n] <= (bound + margin).astype(dtype)[:, None]
    return close


def _squared_distances(rows: FloatArray, left: IntArray, right: IntArray) -> AnyArray:
    """Return |x - y|^2 of pairs of rows in float64, a few pairs at a time."""
    out = np.empty(len(left))
    size = max(1, _PAIR_VALUES // rows.shape[1])
    for start in range(0, len(left), size):
        part = slice(start, start + size)
        difference = np.subtract(rows[left[part]], rows[right[part]], dtype=np.float64)
        np.einsum("ij,ij->i", difference, difference, out=out[part])
    return out
