"""EL2N and SelfSup, the early nets that scores are taken from, and what must hold for every score."""

import math

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from torch import nn

from tcsl.config import DeviceSettings
from tcsl.data.convert import as_dataset
from tcsl.data.digits import load
from tcsl.errors import InputError
from tcsl.methods.sources import Wanted, early_net, score_of
from tcsl.pipeline import Job
from tcsl.scoring.el2n import el2n, el2n_of
from tcsl.scoring.grand import grand_of
from tcsl.scoring.selfsup import selfsup
from tcsl.training.device import choose
from tcsl.training.feed import Feed

CPU = choose(DeviceSettings(device="cpu"))


# By hand, and against others.


def test_el2n_by_hand():
    # Probabilities (3/4, 1/4) with label 0: (-1/4, 1/4). With label 1: (3/4, -3/4). It is not squared.
    logits = torch.tensor([[math.log(3), 0.0], [math.log(3), 0.0], [0.0, 0.0]])
    expected = [math.sqrt(2) / 4, 3 * math.sqrt(2) / 4, math.sqrt(2) / 2]
    assert el2n(logits, torch.tensor([0, 1, 1])).tolist() == pytest.approx(expected)


def test_el2n_against_numpy():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(50, 7)), rng.integers(0, 7, 50)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = np.linalg.norm(p - np.eye(7)[labels], axis=1)
    np.testing.assert_allclose(el2n(torch.tensor(logits), torch.tensor(labels)).numpy(), expected)


def test_selfsup_by_hand():
    # Two pairs, prototypes (0, 1) and (9, 3).
    rows = np.float32([[0, 0], [9, 0], [0, 2], [9, 6]])
    assert selfsup(rows, k=2, rng=np.random.default_rng(0)).tolist() == [1, 3, 1, 3]
    # Two directions, right and up: lengths do not count, and every row is its own prototype.
    rows = np.float32([[5, 0], [0, 2], [1, 0], [0, 7]])
    assert selfsup(rows, k=2, metric="cosine", rng=np.random.default_rng(0)).tolist() == pytest.approx([0] * 4)
    # One prototype: the mean of (1, 0) and (0, 1), whose direction is 45 degrees from both.
    halfway = 1 - math.sqrt(0.5)
    assert selfsup(rows, k=1, metric="cosine", rng=np.random.default_rng(0)).tolist() == pytest.approx([halfway] * 4)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_selfsup_against_scikit_learn(metric):
    rng = np.random.default_rng(0)
    rows = np.asarray(rng.normal(size=(60, 5)) + 9 * np.eye(5)[rng.integers(0, 3, 60)], np.float32)
    if metric == "cosine":
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        centres = KMeans(3, n_init=20, random_state=5).fit(unit).cluster_centers_
        cosine = unit @ (centres / np.linalg.norm(centres, axis=1, keepdims=True)).T
        expected = [1 - max(row) for row in cosine]
    else:
        centres = KMeans(3, n_init=20, random_state=5).fit(rows).cluster_centers_
        expected = [min(np.linalg.norm(row - centre) for centre in centres) for row in rows]
    found = selfsup(rows, k=3, metric=metric, rng=np.random.default_rng(1))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


# Early nets, and the mean over seeds.


def test_an_early_net_is_trained_for_a_tenth_of_the_epochs(rows_feed, settings):
    for epochs, expected in ((8, 1), (10, 1), (39, 3)):
        seen = []
        score_of(Job(rows_feed(), settings(train__epochs=epochs), "mlp", report=seen.append), Wanted("el2n"))
        assert [(e.stage, e.epoch) for e in seen] == [("early-1", k + 1) for k in range(expected)]


def test_el2n_is_that_of_the_net_after_those_epochs_in_evaluation_mode(rows_feed, settings):
    def with_batchnorm(classes):
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes, bias=False))

    feed = rows_feed()
    job = Job(feed, settings(train__epochs=20), with_batchnorm)
    net = early_net(job, "early-1").eval()
    with torch.no_grad():
        p = net(feed.inputs).softmax(1).numpy()
    expected = np.linalg.norm(p - np.eye(3)[feed.labels.numpy()], axis=1)
    np.testing.assert_allclose(score_of(job, Wanted("el2n")), expected, rtol=1e-5)


def test_seeds_are_independent_trainings_and_the_score_is_their_mean(rows_feed, settings):
    job = Job(rows_feed(), settings(), "mlp")
    singles = np.stack([el2n_of(early_net(job, f"early-{k}"), job.feed).numpy() for k in (1, 2, 3)])
    assert not np.allclose(singles[0], singles[1])
    np.testing.assert_allclose(score_of(job, Wanted("el2n", seeds=3)), singles.mean(0), rtol=1e-6)
    np.testing.assert_allclose(score_of(job, Wanted("el2n")), singles[0], rtol=1e-6)


def test_augmentation_is_for_training_only(settings):
    """The score itself is of the images as they are."""
    feed = Feed.of(load(0, per_class=4).train, CPU)
    job = Job(feed, settings(train__augment="crop+flip", train__batch_size=20), "small_cnn")
    net = early_net(job, "early-1")
    with torch.no_grad():
        expected = el2n(net(feed.inputs), feed.labels).numpy()
    np.testing.assert_allclose(score_of(job, Wanted("el2n")), expected, rtol=1e-5, atol=1e-6)


# What must hold for all of them.

TRAINED = {
    name: lambda feed, given, name=name: torch.from_numpy(score_of(Job(feed, given, "mlp"), Wanted(name)))
    for name in ("el2n", "selfsup", "csl", "forgetting", "aum", "grand")
}
TRAINED["grand, last layer"] = lambda feed, given: grand_of(
    early_net(Job(feed, given, "mlp"), "early-1"), feed, last_layer=True
)
every_score = pytest.mark.parametrize("name", TRAINED)


@every_score
def test_permuting_samples_permutes_scores(name, rows_feed, settings):
    """With one batch an epoch there is no order to depend on."""
    feed = rows_feed(24, spread=0.3)
    order = np.random.default_rng(1).permutation(24)
    given = settings(train__batch_size=24)
    here = TRAINED[name](feed, given)
    there = TRAINED[name](feed.subset(order), given)
    torch.testing.assert_close(here[order], there, rtol=1e-3, atol=1e-4)


@every_score
def test_batch_size_does_not_change_a_score_taken_in_evaluation(name, monkeypatch, rows_feed, settings):
    feed = rows_feed()
    given = settings(score__record="evaluation")
    whole = TRAINED[name](feed, given)
    monkeypatch.setattr("tcsl.training.feed._EVALUATION_BATCH", 7)
    torch.testing.assert_close(TRAINED[name](feed, given), whole, rtol=1e-4, atol=1e-5)


@every_score
def test_the_same_seed_gives_the_same_bytes(name, rows_feed, settings):
    feed = rows_feed()
    first, second = (TRAINED[name](feed, settings()) for _ in range(2))
    assert torch.equal(first, second)
    assert first.shape == (len(feed),)
    assert first.dtype == torch.float32


@every_score
def test_higher_is_harder(name, settings):
    """Three tight classes, and five samples that are hard: they have the label of another class."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = 0.3 * rng.normal(size=(90, 4)) + 3 * np.eye(4)[y]
    hard = np.array([3, 17, 40, 61, 80])
    if name == "selfsup":  # it does not know the labels: hard is what lies between the classes
        X[hard] = rng.normal(size=(5, 4)) + 1
    else:
        y[hard] = (y[hard] + 1) % 3
    feed = Feed.of(as_dataset((X, y)), CPU)
    given = settings(train__epochs=40, train__batch_size=16, train__lr=0.02)
    scores = TRAINED[name](feed, given).numpy()
    easy = np.delete(scores, hard)
    assert scores[hard].min() > np.median(easy)
    assert scores[hard].mean() > np.quantile(easy, 0.95)


# Bad input.


@pytest.mark.parametrize("score", ["el2n", "grand"])
def test_no_seeds_are_refused(score, rows_feed, settings):
    with pytest.raises(InputError, match=r"seeds must be 1 or more, got 0"):
        score_of(Job(rows_feed(), settings(), "mlp"), Wanted(score, seeds=0))


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (np.zeros(5), {}, r"shape \(samples, dimensions\), got \(5,\)"),
        (np.zeros((5, 0)), {}, r"got \(5, 0\)"),
        (np.zeros((5, 2)), {"k": 6}, r"k must be 1 .. 5, as there are 5 samples, got 6"),
        (np.zeros((5, 2)), {"k": 0}, r"got 0"),
        (np.ones((5, 2)), {"metric": "cosin"}, r"metric must be 'euclidean' or 'cosine', got 'cosin'"),
        (np.eye(5)[:, :4], {"metric": "cosine"}, r"rows of zeros: 1 of 5, the first row 4; use the Eucl"),
        (np.float32([[1, 2], [np.nan, 0], [np.inf, 1]]), {}, r"2 of 3 rows have NaN.* the first row 1"),
    ],
)
def test_embeddings_that_selfsup_refuses(rows, more, message):
    with pytest.raises(InputError, match=message):
        selfsup(np.asarray(rows, np.float32), **{"k": 2, **more}, rng=np.random.default_rng(0))
