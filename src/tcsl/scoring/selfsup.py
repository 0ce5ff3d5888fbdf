"""SelfSup: the distance to the nearest k-means prototype in an embedding; needs no label (Sorscher et al. 2022)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from tcsl.errors import InputError
from tcsl.registry import unknown
from tcsl.types import FloatArray

_RESTARTS = 10  # of k-means, from k-means++ each time; the tightest clustering is kept


def selfsup(
    embedding: FloatArray,
    *,
    k: int,
    metric: Literal["euclidean", "cosine"] = "euclidean",
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

    _check(embedding, k)
    if metric not in ("euclidean", "cosine"):
        raise unknown("metric", str(metric), ("euclidean", "cosine"))
    rows = _unit(embedding) if metric == "cosine" else np.asarray(embedding, np.float32)
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


def _unit(embedding: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(embedding, axis=1, keepdims=True)
    if (zero := np.flatnonzero(lengths == 0)).size:
        raise InputError(
            f"a row of zeros has no cosine: {len(zero)} of {len(embedding)} rows of the embedding are zero, first row "
            f"{zero[0]}; use metric='euclidean'"
        )
    return np.asarray(embedding / lengths, np.float32)


def _check(embedding: FloatArray, k: int) -> None:
    if embedding.ndim != 2 or 0 in embedding.shape:
        raise InputError(f"an embedding must have shape (samples, features), got {embedding.shape}")
    if not 1 <= k <= len(embedding):
        raise InputError(f"k must be 1 .. {len(embedding)}, as there are {len(embedding)} samples, got {k}")
    if not np.isfinite(embedding.sum(dtype=np.float64)):
        bad = np.flatnonzero(~np.isfinite(embedding).all(1))
        raise InputError(f"{len(bad)} rows of the embedding have NaN or infinite values, first row {bad[0]}")
