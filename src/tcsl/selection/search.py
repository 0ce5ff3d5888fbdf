"""The k nearest of rows that all differ: exact, without the n x n matrix of distances.

Products of rows in float32 give squared distances up to a rounding error that is known, a tile at a time; a tile
serves its rows and its columns, so each pair is multiplied once. Every pair that could be among the k nearest within
that error is then measured again from the difference of its two rows, in float64: so rounding decides nothing, and
d(i, j) = d(j, i) to the last bit. At 54,000 x 512 and k = 5, that is 5.1 pairs a row.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from tcsl.types import AnyArray, FloatArray, IntArray

_TILE = 1 << 11  # rows and columns of a tile of distances: 16 MB in float32
_GROUP = 32  # distances at most, of which the smallest is found first
_BLOCK_VALUES = 1 << 23  # of a block of distances in float64, where that is needed: 64 MB
_BLOCK_ROWS = 1 << 13  # converted to float64 at a time
_PAIR_VALUES = 1 << 20  # of the differences of pairs: 8 MB
_EPS = float(np.finfo(np.float32).eps)
_TINY = float(np.finfo(np.float32).tiny)
_CROWD = 64  # pairs a row beyond k, above which float32 tells too little apart


def search(rows: FloatArray, k: int) -> tuple[IntArray, AnyArray]:
    """Return indices (n, k) and squared distances (n, k) of the nearest other rows, at equal distances in order.

    Parameters
    ----------
    rows : (n, d) float32, finite and all different
    k : below n; 0 is none

    >>> indices, squared = search(np.array([[0], [1], [3]], np.float32), 1)
    >>> indices.ravel().tolist(), squared.ravel().tolist()
    ([1, 0, 1], [1.0, 1.0, 4.0])
    """
    n = len(rows)
    indices, squared = np.empty((n, k), np.int64), np.empty((n, k))
    if k == 0:
        return indices, squared
    points = _centred(rows)
    squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    candidates = _Candidates(points, squares, k, _parts(n, max(_TILE, 2 * (k + 1))))
    last = len(candidates.parts) - 1
    # First the rows of each part among themselves: where the data are sorted, those are the nearest.
    for i in range(last + 1):
        candidates.look(i, i)
    for i, part in enumerate(candidates.parts):
        for j in range(i + 1, last + 1):
            candidates.look(i, j)
        found = [candidates.pairs(i)]
        # Clusters that are narrow against the distance between them, as a net's features are late in training.
        crowded = part.start + np.flatnonzero(candidates.crowded[part])
        size = max(1, _BLOCK_VALUES // n)
        for start in range(0, len(crowded), size):
            found.append(_close(points, squares, crowded[start : start + size], k))
        for row, column in found:
            at, count = np.unique(row, return_counts=True)
            distance = _squared_distances(rows, row, column)
            order = np.lexsort((column, distance, row))[(np.cumsum(count) - count)[:, None] + np.arange(k)]
            indices[at], squared[at] = column[order], distance[order]
    return indices, squared


def _centred(rows: FloatArray) -> FloatArray:
    """Return the rows around their mean, scaled by a power of two: products lose least there, and none overflows."""
    exponent = math.frexp(max(float(rows.max()), -float(rows.min())))[1]
    centred: FloatArray = np.ldexp(rows, -exponent)
    centred -= centred.mean(0, dtype=np.float64).astype(np.float32)
    return centred


def _parts(n: int, size: int) -> list[slice]:
    """Cut n rows into parts of nearly equal sizes, at most `size`."""
    edges = np.linspace(0, n, -(-n // size) + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _depth(n: int, k: int) -> int:
    """Return how many of n distances are in a group.

    The k-th smallest of the groups' minima is no less than the k-th smallest of all, and quickly found.
    """
    return max(1, min(_GROUP, n // (2 * k)))


class _Candidates:
    """The rows that can be among the k nearest of each row, by what was looked at so far.

    Attributes
    ----------
    parts : slices of rows
    smallest : (n, k) of the smallest distances of groups, the k smallest; the last is the largest of them
    bound : (n,) no row at a larger squared distance, as computed, is among the k nearest
    crowded : (n,) whether a row has more candidates than are kept; then it has none
    """

    def __init__(self, points: FloatArray, squares: AnyArray, k: int, parts: list[slice]) -> None:
        n = len(points)
        self.points, self.squares, self.k, self.parts = points, squares, k, parts
        self.smallest = np.full((n, k), np.inf, np.float32)
        self.bound = np.full(n, np.inf, np.float32)
        self.crowded = np.zeros(n, np.bool_)
        self._found: list[list[tuple[IntArray, IntArray, FloatArray]]] = [[] for _ in parts]
        sizes: list[int] = [part.stop - part.start for part in parts]
        self._deep = _depth(min(sizes), k)
        wide = max(self._groups(size) * self._deep for size in sizes)
        self._memory = np.empty(wide * wide, np.float32)

    def look(self, i: int, j: int) -> None:
        """Measure the rows of part i against those of part j, from both ends."""
        one, other = (self.points[self.parts[part]] for part in (i, j))
        height, width = (self._groups(len(part)) * self._deep for part in (one, other))
        tile = self._memory[: height * width].reshape(height, width)
        # Infinity fills the last groups.
        tile[len(one) :], tile[:, len(other) :] = np.inf, np.inf
        inner = tile[: len(one), : len(other)]
        np.matmul(-2 * one, other.T, out=inner)
        inner += self.squares[self.parts[j]].astype(np.float32)
        inner += self.squares[self.parts[i]].astype(np.float32)[:, None]
        if i == j:
            np.fill_diagonal(tile, np.inf)
        self._note(i, j, tile[: len(one)], tile[: len(one)].reshape(len(one), self._deep, -1).min(1))
        if i != j:
            columns = tile.reshape(self._deep, -1, width).min(0)[:, : len(other)]
            self._note(j, i, tile[:, : len(other)].T, np.ascontiguousarray(columns.T))

    def pairs(self, i: int) -> tuple[IntArray, IntArray]:
        """Return row and column of the candidates of part i, but for rows that are crowded."""
        row, column, distance = (np.concatenate(values) for values in zip(*self._found[i], strict=True))
        part = self.parts[i]
        count = np.bincount(row[distance <= self.bound[row]] - part.start, minlength=part.stop - part.start)
        full = part.start + np.flatnonzero(count > self.k + _CROWD)
        self.crowded[full], self.bound[full], self.smallest[full] = True, -np.inf, -np.inf
        left = distance <= self.bound[row]
        row, column, distance = row[left], column[left], distance[left]
        self._found[i] = [(row, column, distance)]
        return row, column

    def _groups(self, size: int) -> int:
        return -(-size // self._deep)

    def _note(self, i: int, j: int, tile: FloatArray, minima: FloatArray) -> None:
        """Take the distances of part i's rows to part j's; group g of a row has the columns g, g + groups, ..."""
        start, groups = self.parts[i].start, minima.shape[1]
        nearer = np.flatnonzero((minima < self.smallest[self.parts[i], -1:]).any(1))
        if len(nearer):
            at = start + nearer
            both = np.concatenate([self.smallest[at], minima[nearer]], 1)
            both.partition(self.k - 1, axis=1)
            self.smallest[at] = both[:, : self.k]
            self.bound[at] = _bound(self.smallest[at, -1], self.squares[at], self.points.shape[1])
        # Only groups whose smallest is near are looked into.
        row, group = np.divmod(np.flatnonzero(minima <= self.bound[self.parts[i], None]), groups)
        column = group[:, None] + groups * np.arange(self._deep)
        distance = tile[row[:, None], column]
        near = np.flatnonzero(distance <= self.bound[start + row, None])
        row, column = start + row[near // self._deep], self.parts[j].start + column.ravel()[near]
        self._found[i].append((row, column, distance.ravel()[near]))
        if sum(len(found[0]) for found in self._found[i]) > (self.k + max(0, _CROWD)) * len(minima):
            self.pairs(i)


def _bound(smallest: AnyArray, square: AnyArray, width: int, eps: float = _EPS) -> AnyArray:
    """Return the largest squared distance, as computed, that one of the k nearest can have.

    Parameters
    ----------
    smallest : (rows,) no less than the k-th smallest squared distance, as computed
    square : (rows,) |x|^2
    width : of the rows, whose products have the precision `eps`
    """
    smallest, own = np.maximum(smallest.astype(np.float64), 0), np.sqrt(square)

    # A neighbour y, at most `far` from x, is no longer than |x| + far. Then 2 x y is off by at most width eps |x| |y|,
    # squares and sums by less than 4 eps (|x| + |y|)^2; coordinates, rounded when centred, by a part eps32 / 2. Twice
    # all that: for the k-th neighbour, and for the one that should take its place.
    def margin(far: AnyArray) -> AnyArray:
        reach = 2 * own + far
        products = 2 * eps * (width * own * (own + far) + 4 * reach**2)
        out: AnyArray = products + 2 * _EPS * reach * (far + _EPS * reach) + _TINY
        return out

    return smallest + margin(np.sqrt(smallest + margin(np.sqrt(smallest))))


def _close(points: FloatArray, squares: AnyArray, at: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Return row and column of the pairs that can be among the k nearest of the rows `at`, by products in float64."""
    n, width = points.shape
    deep = _depth(n, k)
    distance = np.full((len(at), -(-n // deep) * deep), np.inf)
    block = -2 * points[at].astype(np.float64)
    for start in range(0, n, _BLOCK_ROWS):
        part = slice(start, min(start + _BLOCK_ROWS, n))
        np.matmul(block, points[part].T.astype(np.float64), out=distance[:, part])
        distance[:, part] += squares[part]
    distance += squares[at, None]
    distance[np.arange(len(at)), at] = np.inf
    smallest = np.partition(distance.reshape(len(at), deep, -1).min(1), k - 1, axis=1)[:, k - 1]
    bound = _bound(smallest, squares[at], width, float(np.finfo(np.float64).eps))
    # NumPy is fast at this for flat arrays only.
    row, column = np.divmod(np.flatnonzero(distance <= bound[:, None]), distance.shape[1])
    return at[row], column


def _squared_distances(rows: FloatArray, left: IntArray, right: IntArray) -> AnyArray:
    """Return |x - y|^2 of pairs of rows in float64, a few pairs at a time."""
    out = np.empty(len(left))
    size = max(1, _PAIR_VALUES // rows.shape[1])
    for start in range(0, len(left), size):
        part = slice(start, start + size)
        difference = np.subtract(rows[left[part]], rows[right[part]], dtype=np.float64)
        np.einsum("ij,ij->i", difference, difference, out=out[part])
    return out
