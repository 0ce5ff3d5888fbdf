"""SelfSup: the distance to the nearest k-means prototype in an embedding; needs no label (Sorscher et al. 2022)."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from tcsl.errors import InputError
from tcsl.selection.neighbours import Metric, embedding_rows
from tcsl.types import FloatArray

_RESTARTS = 10  # of k-means, from k-means++ each time; the tightest clustering is kept


def selfsup(
    embedding: FloatArray,
    *,
    k: int,
    metric: Metric = "euclidean",
    rng: np.random.Generator,
) -> FloatArray:
    """Return each sample's distance to the nearest of k prototypes; higher is harder.

    Parameters
    ----------
    embedding : (n, d)
    k : prototypes; the number of classes in the tables
    metric : euclidean, or cosine as in the original: rows are scaled to length 1, clustered, and the distance is
        1 - cosine to the prototype

    Returns
    -------
    (n,) float32

    >>> rows = np.float32([[0, 0], [0, 2], [9, 0], [9, 6]])
    >>> selfsup(rows, k=2, rng=np.random.default_rng(0)).tolist()
    [1.0, 1.0, 3.0, 3.0]
    """
    from sklearn.cluster import KMeans

    rows = embedding_rows(embedding, metric)
    if not 1 <= k <= len(rows):
        raise InputError(f"k must be 1 .. {len(rows)}, as there are {len(rows)} samples, got {k}")
    means = KMeans(k, n_init=_RESTARTS, random_state=int(rng.integers(2**32)))
    # One thread: several add up in the order in which they finish, and the same seed must give the same bytes.
    with threadpool_limits(1):
        means.fit(rows)
        if metric == "euclidean":
            return np.asarray(means.transform(rows).min(1), np.float32)
        centres = means.cluster_centers_
        lengths = np.linalg.norm(centres, axis=1, keepdims=True)
        # Rows that point every way have a mean of 0, which points nowhere: its cosine is 0.
        prototypes = centres / np.where(lengths > 0, lengths, 1)
        return np.asarray(np.maximum(1 - (rows @ prototypes.T).max(1), 0), np.float32)
