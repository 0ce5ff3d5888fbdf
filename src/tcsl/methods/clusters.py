"""The clusters of GEORGE (Sohoni et al. 2020): hidden subclasses, found in each class's features."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np

from tcsl.errors import InputError, TcslWarning
from tcsl.seeds import derive
from tcsl.types import AnyArray, FloatArray, IntArray

_SCORED = 5_000  # points of a class that silhouettes are taken of: their time is quadratic
_DISTANCES = 1 << 20  # held at once, for silhouettes: 8 MB
_STARTS = 3  # of a mixture
SMALLEST = 25  # samples of a cluster that is split off, and
_SMALLEST_SHARE = 0.005  # this part of its class


def george_clusters(
    features: FloatArray,
    labels: IntArray,
    *,
    max_clusters: int = 10,
    losses: FloatArray | None = None,
    factor: int = 5,
    smallest: int = SMALLEST,
    scored: int = _SCORED,
    seed: int = 0,
) -> IntArray:
    """Cluster the samples of each class by a Gaussian mixture; the number of clusters by their silhouettes.

    In each class, mixtures of 2 .. max_clusters are fitted; that with the highest silhouette is kept, its mean taken
    within each cluster and then over clusters, so that small clusters count. Then every cluster is split by a mixture
    of `factor`, and a part is split off where its points' silhouette rises, above 0, its mean loss is not below the
    cluster's, and it has at least `smallest` samples and 0.5 % of the class. The other parts stay together.

    Parameters
    ----------
    features : (n, d); in another space for each class where that is wanted
    labels : (n,)
    losses : (n,) of the model that the features are from; None: clusters are not split
    factor : F, into how many parts a cluster is split; 1: clusters are not split
    scored : silhouettes are means over at most so many random samples of a class

    Returns
    -------
    (n,) clusters, numbered over all classes from 0 without gaps: those of the first class come first

    Notes
    -----
    A mixture may leave a component without samples; it is then no cluster. A class of fewer than three samples or of
    equal features stays whole, which a warning says.

    >>> features = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [5.0], [5.1], [1.0]], np.float32)
    >>> george_clusters(features, np.array([0, 0, 0, 0, 0, 1, 1, 1]), max_clusters=3)
    array([0, 0, 0, 1, 1, 2, 2, 3])
    """
    _check(features, labels, losses, max_clusters, factor)
    out = np.empty(len(labels), np.int64)
    found, whole = 0, []
    for label in np.unique(labels):
        at = np.flatnonzero(labels == label)
        points = _scaled(features[at])
        stream = derive(seed, "george", int(label))
        sample = np.sort(np.random.default_rng(stream).permutation(len(at))[:scored])
        own = _best_mixture(points, max_clusters, sample, stream)
        if own.max() == 0:
            whole.append(str(label))
        elif losses is not None and factor > 1:
            own = _split(points, losses[at], own, factor, smallest, sample, stream)
        # Numbered by first appearance: the mixture's own numbers mean nothing.
        out[at] = found + _renumbered(own)
        found = int(out[at].max()) + 1
    if whole:
        warnings.warn(
            f"GEORGE: too few different samples to cluster in class {', '.join(whole)}; it is one group",
            TcslWarning,
            stacklevel=2,
        )
    return out


def pca(features: FloatArray, labels: IntArray, components: int, *, seed: int) -> FloatArray:
    """Return the first principal components of each class's features: (n, components), 0 where a class has fewer."""
    from sklearn.decomposition import PCA

    out = np.zeros((len(labels), components), np.float32)
    for label in np.unique(labels):
        at = np.flatnonzero(labels == label)
        some = min(components, len(at), features.shape[1])
        random = derive(seed, "george-pca", int(label)) % 2**32
        out[at, :some] = PCA(some, random_state=random).fit_transform(features[at])
    return out


def umap(features: FloatArray, labels: IntArray, components: int, *, seed: int) -> FloatArray:
    """Return UMAP's embedding of each class's features, (n, components), with the paper's settings.

    10 neighbours, least distance 0. A class of so few samples that UMAP has no embedding for it is taken by `pca`.
    """
    check_umap()
    from umap import UMAP

    out = pca(features, labels, components, seed=seed)
    for label in np.unique(labels):
        at = np.flatnonzero(labels == label)
        if len(at) > components + 2:
            random = derive(seed, "george-umap", int(label)) % 2**32
            neighbours = min(10, len(at) - 1)
            reducer = UMAP(n_neighbors=neighbours, n_components=components, min_dist=0.0, random_state=random)
            out[at] = reducer.fit_transform(features[at])
    return out


def check_umap() -> None:
    """Say how to get UMAP where it is missing."""
    if find_spec("umap") is None:
        raise InputError("UMAP needs the package `umap-learn`: pip install 'tcsl[umap]'; or use hardness, pca or none")


def _best_mixture(points: AnyArray, max_clusters: int, sample: IntArray, seed: int) -> IntArray:
    """Return the clusters of the mixture with the highest silhouette; the smaller one on a tie."""
    most = min(max_clusters, len(points) - 1, len(np.unique(points, axis=0)))
    mixtures = [_mixture(points, k, derive(seed, k)) for k in range(2, most + 1)]
    best, best_score = np.zeros(len(points), np.int64), -np.inf
    for own, silhouettes in zip(mixtures, _silhouettes(points, mixtures, sample), strict=True):
        if silhouettes is None:
            continue
        there = own[sample]
        score = np.mean([silhouettes[there == cluster].mean() for cluster in np.unique(there)])
        if score > best_score:
            best, best_score = own, score
    return best


def _split(
    points: AnyArray, losses: AnyArray, whole: IntArray, factor: int, smallest: int, sample: IntArray, seed: int
) -> IntArray:
    """Return the clusters after parts were split off that are more compact, and harder, than the whole."""
    parts = np.empty_like(whole)
    for cluster in range(int(whole.max()) + 1):
        at = np.flatnonzero(whole == cluster)
        k = min(factor, len(np.unique(points[at], axis=0)))
        parts[at] = cluster * factor + (_mixture(points[at], k, derive(seed, "split", cluster)) if k > 1 else 0)
    before, after = _silhouettes(points, [whole, parts], sample)
    out = whole.copy()
    if before is None or after is None:
        return out
    least = max(smallest, _SMALLEST_SHARE * len(points))
    for part in np.unique(parts):
        at = parts == part
        there = at[sample]
        if (
            at.sum() >= least
            and there.any()
            and after[there].mean() > max(before[there].mean(), 0)
            and losses[at].mean() >= losses[whole == part // factor].mean()
        ):
            out[at] = int(whole.max()) + 1 + part
    return _renumbered(out)


def _mixture(points: AnyArray, k: int, seed: int) -> IntArray:
    """Return the clusters of a mixture of k Gaussians, numbered without gaps."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        # A mixture that still moves after 100 rounds is a clustering as good as another; its silhouette tells.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # In one dimension both are the same, and without a loop over the components.
        covariance = "diag" if points.shape[1] == 1 else "full"
        mixture = GaussianMixture(k, covariance_type=covariance, n_init=_STARTS, random_state=seed % 2**32)
        own = mixture.fit_predict(points)
    return _renumbered(own)


def _silhouettes(points: AnyArray, clusterings: list[IntArray], sample: IntArray) -> list[AnyArray | None]:
    """Return, for each clustering, the silhouettes of the sampled points among themselves; None if not defined.

    All clusterings share the distances, and their sums by cluster are one product: 0.25 s for nine clusterings of 5,000
    points, where scikit-learn's silhouettes, one clustering after the other, take 2.6 s.
    """
    from sklearn.metrics.pairwise import euclidean_distances

    some, n = points[sample], len(sample)
    members = [np.unique(clusters[sample], return_inverse=True, return_counts=True)[1:] for clusters in clusterings]
    defined = [2 <= len(sizes) < n for _, sizes in members]
    out = [np.empty(n) if there else None for there in defined]
    if not any(defined):
        return out
    one_hot = np.concatenate([np.eye(len(sizes))[own] for own, sizes in members], axis=1)
    ends = np.cumsum([len(sizes) for _, sizes in members])
    step = max(1, _DISTANCES // n)
    for start in range(0, n, step):
        at = np.arange(start, min(start + step, n))
        distances = euclidean_distances(some[at], some)
        distances[np.arange(len(at)), at] = 0
        sums = distances @ one_hot
        for silhouettes, (own, sizes), end in zip(out, members, ends, strict=True):
            if silhouettes is not None:
                silhouettes[at] = _silhouettes_of(sums[:, end - len(sizes) : end], own[at], sizes)
    return out


def _silhouettes_of(sums: AnyArray, own: IntArray, sizes: IntArray) -> AnyArray:
    """Return (b - a) / max(a, b) from the sums of the distances to each cluster; 0 for a cluster of one.

    a is the mean distance to the others of the own cluster, b that to the nearest other cluster.

    >>> _silhouettes_of(np.array([[1.0, 6.0], [9.0, 0.0]]), np.array([0, 1]), np.array([2, 1])).tolist()
    [0.8333333333333334, 0.0]
    """
    row = np.arange(len(own))
    inside = sums[row, own] / np.maximum(sizes[own] - 1, 1)
    means = sums / sizes
    means[row, own] = np.inf
    outside = means.min(1)
    larger = np.maximum(inside, outside)
    apart = (sizes[own] > 1) & (larger > 0)
    silhouettes: AnyArray = np.where(apart, outside - inside, 0) / np.where(apart, larger, 1)
    return silhouettes


def _scaled(features: AnyArray) -> AnyArray:
    """Return features around 0 and of size 1: the mixtures' least variance is then the same part of any."""
    points: AnyArray = np.asarray(features, np.float64)
    points = points - points.mean(0)
    size = np.sqrt(np.square(points).sum(1).mean())
    scaled: AnyArray = points / size if size > 0 else points
    return scaled


def _renumbered(clusters: IntArray) -> IntArray:
    """Number clusters by first appearance, from 0 without gaps."""
    _, first, inverse = np.unique(clusters, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _check(features: AnyArray, labels: AnyArray, losses: AnyArray | None, max_clusters: int, factor: int) -> None:
    if features.ndim != 2 or features.shape[1] == 0 or labels.shape != (len(features),) or len(labels) == 0:
        raise InputError(
            f"features must have shape (samples, d) and labels (samples,), got {features.shape} and {labels.shape}"
        )
    if losses is not None and losses.shape != labels.shape:
        raise InputError(f"there must be one loss a sample: {len(labels)} labels, losses of shape {losses.shape}")
    if not np.isfinite(features).all() or (losses is not None and not np.isfinite(losses).all()):
        raise InputError("features and losses must be finite; the model that they are from has diverged")
    if max_clusters < 2 or factor < 1:
        raise InputError(f"max_clusters must be 2 or more and factor 1 or more, got {max_clusters} and {factor}")
