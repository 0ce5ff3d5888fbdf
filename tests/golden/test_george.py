"""GEORGE: clusters where they are known, the choice of their number, and which parts are split off."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import silhouette_samples
from torch.nn import functional as F

import tcsl
from tcsl.errors import InputError, TcslWarning
from tcsl.methods import clusters
from tcsl.methods.clusters import george_clusters, pca, umap
from tcsl.statistics import log_odds

CENTRES = np.array([[0, 0], [10, 0], [0, 10], [10, 10], [20, 5]])


def blobs(sizes, seed=0, spread=0.5):
    """Return points and which blob each is of."""
    which = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(seed)
    rng.shuffle(which)
    points = CENTRES[which] + spread * rng.normal(size=(len(which), 2))
    return points.astype(np.float32), which


def same_split(one, other):
    return (
        len(set(zip(one.tolist(), other.tolist(), strict=True))) == len(set(one.tolist())) == len(set(other.tolist()))
    )


@pytest.mark.parametrize("sizes", [(40, 30), (60, 8, 20), (50, 40, 30, 20, 10)])
def test_blobs_are_found_exactly(sizes):
    points, which = blobs(sizes)
    found = george_clusters(points, np.zeros(len(points), int), max_clusters=8)
    assert same_split(found, which)
    assert sorted(set(found.tolist())) == list(range(len(sizes)))


def test_classes_are_clustered_apart_and_numbered_one_after_the_other():
    points, which = blobs((30, 30, 30, 30))
    labels = which // 2  # two blobs in each class
    found = george_clusters(points, labels, max_clusters=5)
    assert same_split(found, which)
    assert set(found[labels == 0]) == {0, 1}
    assert set(found[labels == 1]) == {2, 3}
    # The same place in another class is another cluster.
    twice = george_clusters(np.tile(points, (2, 1)), np.repeat([3, 7], len(points)), max_clusters=5)
    assert (twice.max() + 1, np.unique(twice[:120]).tolist()) == (8, [0, 1, 2, 3])


def test_the_number_of_clusters_has_the_highest_silhouette_each_cluster_counting_once():
    points, _ = blobs((60, 25, 15), spread=2.5, seed=3)
    labels = np.zeros(len(points), int)
    found = george_clusters(points, labels, max_clusters=7)

    def score(own):
        silhouettes = silhouette_samples(points, own)
        return np.mean([silhouettes[own == cluster].mean() for cluster in np.unique(own)])

    stream = clusters.derive(0, "george", 0)
    scaled = clusters._scaled(points)
    scores = {k: score(clusters._mixture(scaled, k, clusters.derive(stream, k))) for k in range(2, 8)}
    assert score(found) == pytest.approx(max(scores.values()), rel=1e-6)
    assert found.max() + 1 == max(scores, key=scores.get)


@pytest.mark.parametrize("width", [1, 2, 40])
def test_silhouettes_are_scikit_learns(width, monkeypatch):
    """Several clusterings at once, some not defined; a cluster of one; equal points."""
    monkeypatch.setattr(clusters, "_DISTANCES", 200)  # several blocks
    rng = np.random.default_rng(0)
    points, sample = rng.normal(size=(70, width)), np.sort(rng.permutation(70)[:50])
    points[sample[:4]] = points[sample[0]]
    some = [rng.integers(0, k, 70) for k in (2, 5, 9)]
    some[2][sample[0]] = 9
    whole = np.zeros(70, int)
    found = clusters._silhouettes(points, [some[0], whole, some[1], np.arange(70), some[2]], sample)
    assert found[1] is None
    assert found[3] is None
    for own, silhouettes in zip(some, (found[0], found[2], found[4]), strict=True):
        assert silhouettes == pytest.approx(silhouette_samples(points[sample], own[sample]), abs=1e-7)
    assert found[4][0] == 0
    assert clusters._silhouettes(points, [whole], sample) == [None]


def test_the_same_seed_gives_the_same_clusters_and_scale_and_place_do_not_matter():
    points, _ = blobs((30, 20, 25), spread=4)
    labels = np.arange(len(points)) % 2
    found = george_clusters(points, labels, max_clusters=4, seed=5)
    assert np.array_equal(george_clusters(points, labels, max_clusters=4, seed=5), found)
    assert same_split(george_clusters(1024 * points + 64, labels, max_clusters=4, seed=5), found)


def test_silhouettes_of_a_part_of_the_points_choose_the_same_number():
    points, which = blobs((300, 200, 100))
    assert same_split(george_clusters(points, np.zeros(600, int), max_clusters=5, scored=60), which)


def test_one_blob_stays_in_clusters_that_have_samples():
    """Two is the least that the paper tries: a class of one blob is cut, and GroupDRO then sees equal losses."""
    points, _ = blobs((80,))
    found = george_clusters(points, np.zeros(80, int), max_clusters=6)
    counts = np.bincount(found)
    assert 2 <= len(counts) <= 6
    assert counts.min() > 0


def test_a_hard_part_of_a_cluster_is_split_off_and_easy_ones_stay_together():
    """Three blobs side by side and one far away: two clusters. Only the parts of the first are more compact."""
    which = np.repeat([0, 1, 2, 3], [40, 60, 60, 100])
    rng = np.random.default_rng(0)
    x = (np.array([0.0, 2.0, 4.0, 20.0])[which] + 0.1 * rng.normal(size=260))[:, None].astype(np.float32)
    losses = np.array([1.0, 0.2, 0.1, 0.1], np.float32)[which]
    labels, two = np.zeros(260, int), which // 3
    assert same_split(george_clusters(x, labels, max_clusters=2), two)
    given = {"max_clusters": 2, "losses": losses}
    assert same_split(george_clusters(x, labels, factor=3, **given), np.array([0, 1, 1, 2])[which])
    # Not where the part is too small, or where clusters are not to be split.
    assert same_split(george_clusters(x, labels, factor=3, smallest=41, **given), two)
    assert same_split(george_clusters(x, labels, factor=1, **given), two)


def test_a_part_that_is_no_more_compact_is_not_split_off():
    x = np.concatenate([np.linspace(0, 1, 200), np.linspace(9, 10, 200)])[:, None].astype(np.float32)
    losses = np.concatenate([np.linspace(0, 1, 200)] * 2).astype(np.float32)
    found = george_clusters(x, np.zeros(400, int), max_clusters=2, losses=losses, factor=5)
    assert np.bincount(found).tolist() == [200, 200]


def test_small_classes_stay_whole_and_are_told():
    points, which = blobs((10, 10))
    labels = np.array([0] * 20 + [1, 2, 2, 3, 3, 3, 3])
    features = np.concatenate([points, [[0, 0], [0, 0], [5, 5]], np.ones((4, 2))]).astype(np.float32)
    with pytest.warns(TcslWarning, match="GEORGE: too few different samples to cluster in class 1, 2, 3"):
        found = george_clusters(features, labels, max_clusters=4)
    assert same_split(found[:20], which)
    assert found[20:].tolist() == [2, 3, 3, 4, 4, 4, 4]


def test_fewer_samples_than_clusters():
    found = george_clusters(np.array([[0.0], [1.0], [50.0], [51.0]], np.float32), np.zeros(4, int), max_clusters=10)
    assert found.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.zeros((3, 0), np.float32)}, r"got \(3, 0\) and \(3,\)"),
        ({"labels": np.zeros(2, int)}, r"got \(3, 1\) and \(2,\)"),
        ({"losses": np.zeros(2, np.float32)}, "one loss a sample: 3 labels"),
        ({"features": np.full((3, 1), np.nan, np.float32)}, "must be finite"),
        ({"max_clusters": 1}, "max_clusters must be 2 or more"),
    ],
)
def test_input_that_does_not_fit(changes, message):
    given = {"features": np.zeros((3, 1), np.float32), "labels": np.zeros(3, int)} | changes
    with pytest.raises(InputError, match=message):
        george_clusters(**given)


def test_hardness_is_the_papers_component_with_two_classes():
    """Its place along w_1 - w_0: the same but for sign, scale and shift, which no clustering sees."""
    rng = np.random.default_rng(0)
    features, w, b = rng.normal(size=(50, 4)), rng.normal(size=(2, 4)), rng.normal(size=2)
    direction = (w[1] - w[0]) / np.linalg.norm(w[1] - w[0])
    hardness = log_odds(features @ w.T + b, np.ones(50, int))
    assert np.corrcoef(features @ direction, hardness)[0, 1] == pytest.approx(1, abs=1e-12)


def test_hardness_is_the_log_odds_of_the_label():
    logits = torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(20) % 5
    p = (-F.cross_entropy(logits, labels, reduction="none")).exp()
    assert log_odds(logits.numpy(), labels.numpy()) == pytest.approx((p / (1 - p)).log().numpy(), rel=1e-10)
    sure = log_odds(np.array([[500.0, 0.0], [500.0, 0.0]]), np.array([0, 1]))
    assert sure.tolist() == [500, -500]


def test_principal_components_are_each_classs_own():
    rng = np.random.default_rng(0)
    wide = np.zeros((40, 3), np.float32)
    labels = np.repeat([0, 1], 20)
    wide[:20, 0], wide[20:, 2] = rng.normal(size=20), rng.normal(size=20)
    found = pca(wide, labels, 2, seed=0)
    assert found.shape == (40, 2)
    for label, axis in ((0, 0), (1, 2)):
        own = wide[labels == label, axis]
        assert np.abs(found[labels == label, 0]) == pytest.approx(np.abs(own - own.mean()), abs=1e-6)


QUICK = {"train.epochs": 2, "train.batch_size": 16, "device.threads": 1}


def rows():
    y = np.arange(60) % 2
    return np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32) + 3 * y[:, None].astype(np.float32), y


@pytest.mark.parametrize("reduce", ["none", "pca"])
def test_features_can_be_clustered_in_place_of_hardness(reduce, tmp_path):
    settings = {
        **QUICK,
        "method.george.reduce": reduce,
        "method.george.max_clusters": 3,
        "method.george.adjustment": 2.0,
    }
    with pytest.warns(TcslWarning, match=r"clusters have fewer than 25 samples.*method\.george\.adjustment=0"):
        run = tcsl.debias(rows(), methods=["george"], settings=settings, out=tmp_path / "run")
    assert run.models["george"](torch.zeros(1, 3)).shape == (1, 2)


def test_umap_that_is_missing_is_told_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "find_spec", lambda name: None)
    settings = {**QUICK, "method.george.reduce": "umap"}
    with pytest.raises(InputError, match=r"method\.george\.reduce = 'umap': .*pip install 'tcsl\[umap\]'"):
        tcsl.debias(rows(), methods=["george"], settings=settings, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_umap_is_asked_for_each_class_with_the_papers_settings(monkeypatch):
    asked = []

    class UMAP:
        def __init__(self, **settings):
            asked.append(settings)

        def fit_transform(self, features):
            return features[:, :2] + 100

    monkeypatch.setattr(clusters, "find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=UMAP))
    features = np.random.default_rng(0).normal(size=(33, 5)).astype(np.float32)
    labels = np.array([0] * 25 + [1] * 5 + [2] * 3)
    found = umap(features, labels, 2, seed=0)
    assert [(own["n_neighbors"], own["n_components"], own["min_dist"]) for own in asked] == [(10, 2, 0), (4, 2, 0)]
    assert np.array_equal(found[:30], features[:30, :2] + 100)
    assert np.array_equal(found[30:], pca(features, labels, 2, seed=0)[30:])  # too few for UMAP
