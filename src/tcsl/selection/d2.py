"""D2 pruning (Maharana, Yadav, Bansal, ICLR 2024): messages on a graph of neighbours balance difficulty and diversity.

Forward messages raise the score of a sample whose neighbours are hard; reverse messages lower the neighbours of a
sample that was taken. The graph is sparse, about 2 k edges a sample: 54,000 samples need megabytes, not the 23 GB of an
n x n matrix.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np

from tcsl.errors import InputError
from tcsl.selection.classes import samples_by_class
from tcsl.selection.neighbours import Metric, Neighbours, embedding_rows, nearest_neighbours
from tcsl.selection.quota import quota, shares
from tcsl.selection.rules import checked_scores, drop_hardest
from tcsl.types import AnyArray, IntArray


class Graph(NamedTuple):
    """An undirected graph: the edges of sample i are those from start[i] to start[i + 1].

    Attributes
    ----------
    start : (n + 1,) int64
    target : (edges,) int64, the other end of each edge, ascending for each sample
    distance : (edges,) float64
    """

    start: IntArray
    target: IntArray
    distance: AnyArray


def select_d2(
    scores: AnyArray,
    embedding: AnyArray,
    labels: IntArray,
    *,
    ratio: float,
    k: int = 5,
    gamma: float = 0.1,
    forward_gamma: float = 1.0,
    beta: float | None = None,
    metric: Metric = "euclidean",
    by_class: bool = False,
) -> IntArray:
    """Return floor(r n) samples, ascending: the hardest beta is dropped, and D2 pruning chooses among the others.

    Parameters
    ----------
    scores : (n,) one a sample; higher is harder, and zero is meant as the least
    embedding : (n, d) a row a sample
    labels : (n,) the class of each sample
    k : neighbours a sample
    gamma : reverse messages are exp(-gamma distance) of the score of what was taken: the smaller, the more diverse
    forward_gamma : forward messages are exp(-forward_gamma distance) of the neighbour's score
    beta : share of the samples to drop, in [0, 1), by default as in `drop_hardest`; with k = 5 and gamma = 0.1, the
        authors drop 0.4 at r = 0.1, theirs by the area under the margin
    by_class : a graph for each class, filled by the class's share in the data; the authors' recipe for CIFAR, whose
        classes are equally large

    Notes
    -----
    Distances are not scaled, as in the authors' code: exp(-distance) is nearly 0 in an embedding whose neighbours are
    far apart, and the forward messages are lost there; scale the embedding, or lower `forward_gamma`.

    >>> scores, embedding = np.array([3.0, 2.9, 1.0, 2.0]), np.array([[0.0], [0.1], [5.0], [5.5]])
    >>> select_d2(scores, embedding, np.zeros(4, int), ratio=0.5, k=1, beta=0).tolist()  # 0 is as good as 1
    [0, 3]
    """
    scores = checked_scores(scores, labels)
    n = len(scores)
    if embedding.ndim != 2 or len(embedding) != n:
        raise InputError(f"there must be one row a sample: {n} labels, an embedding of shape {embedding.shape}")
    for name, value in (("gamma", gamma), ("forward_gamma", forward_gamma)):
        if not 0 <= value < math.inf:
            raise InputError(f"{name} must be finite and not negative, got {value:g}")
    rows = embedding_rows(embedding, metric)
    total = quota(ratio, n)
    left = np.sort(drop_hardest(scores, beta, total))
    if k >= len(left) and len(left) < n:
        raise InputError(
            f"k must be below the number of samples that beta leaves, {len(left)} of {n}; got {k}: use a smaller k or "
            "beta"
        )

    def pick(part: IntArray, count: int) -> IntArray:
        graph = neighbour_graph(nearest_neighbours(rows[part] if len(part) < n else rows, k, metric=metric))
        raised = forward_messages(scores[part], graph, gamma=forward_gamma)
        return part[take_greedily(raised, graph, count, gamma=gamma)]

    if by_class:
        parts = {label: left[i] for label, i in samples_by_class(labels[left]).items()}
        all_of = samples_by_class(labels)
        sizes = np.array([len(all_of[label]) for label in parts])
        wanted = shares(total, sizes, np.array([len(part) for part in parts.values()]))
        for (label, part), count in zip(parts.items(), wanted, strict=True):
            if count and len(part) <= k:
                raise InputError(
                    f"class {label} has {len(part)} samples to choose from, and by_class needs more than k = {k} of "
                    "each class: use a smaller k or beta, or by_class=False"
                )
        chosen = np.concatenate([pick(part, int(c)) for part, c in zip(parts.values(), wanted, strict=True) if c])
    else:
        chosen = pick(left, total)
    return np.sort(chosen)


def neighbour_graph(neighbours: Neighbours) -> Graph:
    """Return the undirected graph that has an edge where one of two samples is a neighbour of the other.

    >>> graph = neighbour_graph(nearest_neighbours(np.array([[0.0], [1.0], [3.0]]), 1))
    >>> graph.start.tolist(), graph.target.tolist(), graph.distance.tolist()
    ([0, 1, 3, 4], [1, 0, 2, 1], [1.0, 1.0, 2.0, 2.0])
    """
    n, k = neighbours.indices.shape
    source, target = np.repeat(np.arange(n), k), neighbours.indices.ravel()
    # An edge found from both ends occurs twice in each direction; its distance is the same to the last bit.
    edge, first = np.unique(np.concatenate([source * n + target, target * n + source]), return_index=True)
    distance = neighbours.distances.ravel()[first % len(source)]
    return Graph(np.searchsorted(edge, n * np.arange(n + 1)), edge % n, distance)


def forward_messages(scores: AnyArray, graph: Graph, *, gamma: float) -> AnyArray:
    """Return s_i + sum over the neighbours j of exp(-gamma d_ij) s_j, (n,) float64.

    >>> graph = neighbour_graph(nearest_neighbours(np.array([[0.0], [1.0], [3.0]]), 1))
    >>> forward_messages(np.array([1.0, 2.0, 4.0]), graph, gamma=np.log(2)).tolist()  # halved at distance 1
    [2.0, 3.5, 4.5]
    """
    n = len(scores)
    source = np.repeat(np.arange(n), np.diff(graph.start))
    received = np.bincount(source, np.exp(-gamma * graph.distance) * scores[graph.target], minlength=n)
    return scores + received


def take_greedily(scores: AnyArray, graph: Graph, count: int, *, gamma: float) -> IntArray:
    """Return `count` samples in the order in which they are taken.

    Each time the sample i of largest score is taken, of equal ones the earliest, and exp(-gamma d_ij) s_i is subtracted
    from the score of each neighbour j. That raises it where s_i is negative, as the formula says.

    >>> graph = neighbour_graph(nearest_neighbours(np.array([[0.0], [0.0], [9.0], [9.0]]), 1))
    >>> take_greedily(np.array([4.0, 3.0, 2.0, 1.0]), graph, 3, gamma=1.0).tolist()  # 4 3 2 1, 4 -1 2 1, 4 -1 2 -1
    [0, 2, 1]
    """
    now: list[float] = scores.tolist()
    weight = np.exp(-gamma * graph.distance)
    # For each sample that is left, the heap has an entry with its score or a higher one. So a lowered score needs no
    # entry until its old one comes to the top, and most never do.
    heap = [(-score, i) for i, score in enumerate(now)]
    heapq.heapify(heap)
    taken = bytearray(len(now))
    order: list[int] = []
    while len(order) < count:
        negative, i = heapq.heappop(heap)
        if taken[i]:
            continue
        if -negative > now[i]:
            heapq.heappush(heap, (-now[i], i))
            continue
        taken[i] = 1
        order.append(i)
        edges = slice(graph.start[i], graph.start[i + 1])
        for j, share in zip(graph.target[edges].tolist(), weight[edges].tolist(), strict=True):
            before = now[j]
            now[j] = before - share * now[i]
            if now[j] > before and not taken[j]:
                heapq.heappush(heap, (-now[j], j))
    return np.array(order, np.int64)
