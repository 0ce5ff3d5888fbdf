"""The scores of the coreset baselines: by hand, against plain loops, and what must hold for all of them."""

import copy
import math

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from torch import nn
from torch.nn import functional as F

from tcsl.config import DeviceSettings, resolve
from tcsl.data.convert import as_dataset
from tcsl.data.digits import load
from tcsl.errors import InputError
from tcsl.methods.sources import Wanted, score_of
from tcsl.pipeline import Job
from tcsl.scoring.aum import aum
from tcsl.scoring.early import early_epochs, train_early
from tcsl.scoring.el2n import el2n, el2n_of
from tcsl.scoring.forgetting import forgetting
from tcsl.scoring.grand import gradient_norms, grand_of, last_layer_norms
from tcsl.scoring.selfsup import selfsup
from tcsl.scoring.watched import train_watched
from tcsl.seeds import derive
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.loop import fit, steps_of
from tcsl.training.nets import build_net
from tcsl.training.objective import Batch, margin
from tcsl.training.recording import LossCurves, LossSum
from tcsl.training.weights import class_balanced

CPU = choose(DeviceSettings(device="cpu"))
N, BATCH, SEED = 23, 5, 3


def rows_feed(n=N, spread=1.0):
    y = np.arange(n) % 3
    X = np.random.default_rng(1).normal(size=(n, 4)) * spread + y[:, None]
    return Feed.of(as_dataset((X, y)), CPU)


def settings(**overrides):
    named = {name.replace("__", "."): value for name, value in overrides.items()}
    return resolve(overrides={"seed": SEED, "train.epochs": 8, "train.batch_size": BATCH, "train.lr": 0.05, **named})


def margins_of(net, feed, given=None, **more):
    return train_watched(net, feed, given or settings(), "margins", seed=SEED, **more)


def early(job, stage):
    return train_early(job.fresh_net(stage), job.feed, job.settings, stage=stage, seed=SEED)


def batch_of(labels):
    return Batch(torch.zeros(len(labels), 1), torch.tensor(labels), torch.arange(len(labels)))


# By hand.


def test_margin_is_the_labels_logit_minus_the_largest_other():
    logits = torch.tensor([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [4.0, 4.0, -9.0]])
    assert margin(logits, batch_of([0, 1, 2, 1])).tolist() == [1.0, -2.0, -1.0, 0.0]


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


def test_forgetting_by_hand():
    margins = [
        [1, -1, 1, -1, 1],  # learned three times, forgotten twice
        [-1, -1, 1, 1, 1],  # learned late, never forgotten
        [1, 1, 1, 1, -1],  # forgotten at the end
        [-1, -2, -1, -3, -1],  # never learned: T
        [-1, 0, 0, -1, 0],  # a tie is not right
        [1, -1, -1, -1, -1],  # one event, however long it stays forgotten
    ]
    assert forgetting(torch.tensor(margins, dtype=torch.float32)).tolist() == [2, 0, 1, 5, 5, 1]


@pytest.mark.parametrize("epochs", [1, 2, 3, 10])
def test_a_sample_that_was_never_right_is_harder_than_the_most_forgotten(epochs):
    most = [1.0 - 2 * (t % 2) for t in range(epochs)]
    forgotten, never = forgetting(torch.tensor([most, [-1.0] * epochs])).tolist()
    assert forgotten == epochs // 2 < never == epochs


def test_aum_by_hand_has_its_sign_turned():
    assert aum(torch.tensor([[1.0, 2.0, 6.0], [-1.0, 0.0, -2.0]])).tolist() == [-3.0, 1.0]


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


def test_the_gradient_of_a_linear_layer_by_hand():
    # Zero weights: p = (1/2, 1/2), so p - y = (-1/2, 1/2). The gradient is its outer product with (3, 4, 1).
    net = nn.Linear(2, 2)
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    x, y = torch.tensor([[3.0, 4.0]]), torch.tensor([0])
    expected = math.sqrt(1 / 2) * math.sqrt(26)
    assert gradient_norms(net, x, y).item() == pytest.approx(expected)
    assert last_layer_norms(net(x), y, x).item() == pytest.approx(expected)
    assert last_layer_norms(net(x), y, x, bias=False).item() == pytest.approx(math.sqrt(1 / 2) * 5)


# Against plain loops.


def textbook_margins(net, feed, epochs):
    """Train by CB ERM in plain torch; return the margins at each visit, as Python lists of sample and epoch."""
    x, y = feed.inputs, feed.labels
    weights = 1 / torch.bincount(y)[y].float()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    margins = [[0.0] * epochs for _ in range(len(y))]
    for epoch in range(epochs):
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(derive(SEED, "margins", epoch)))
        net.train()
        for index in order.split(BATCH):
            logits = net(x[index])
            for i, row in zip(index.tolist(), logits.tolist(), strict=True):
                label = int(y[i])
                margins[i][epoch] = row[label] - max(z for k, z in enumerate(row) if k != label)
            loss = F.cross_entropy(logits, y[index], reduction="none")
            optimizer.zero_grad()
            (weights[index] / weights[index].sum() * loss).sum().backward()
            optimizer.step()
    return margins


def textbook_forgetting(margins):
    counts = []
    for row in margins:
        events, before = 0, False
        for value in row:
            events += before and not value > 0
            before = value > 0
        counts.append(events if any(value > 0 for value in row) else len(row))
    return counts


def test_forgetting_and_aum_against_a_plain_loop():
    feed = rows_feed(spread=2.0)  # classes overlap: some samples are forgotten, some never learned
    net = build_net("mlp", feed.data, seed=0)
    margins = textbook_margins(copy.deepcopy(net), feed, 8)
    counts = textbook_forgetting(margins)
    assert len(set(counts)) > 3
    assert 8 in counts
    found = forgetting(margins_of(copy.deepcopy(net), feed))
    assert found.tolist() == counts
    found = aum(margins_of(copy.deepcopy(net), feed))
    assert found.tolist() == pytest.approx([-sum(row) / 8 for row in margins], rel=1e-3, abs=1e-4)


def test_the_sum_of_margins_is_that_of_their_curves():
    """Any recorder takes any measure."""
    feed = rows_feed()
    net = build_net("mlp", feed.data, seed=0)
    total = LossSum(N, CPU.device)
    train = settings().train
    fit(
        copy.deepcopy(net),
        feed,
        train,
        stage="margins",
        steps=steps_of(N, train),
        seed=SEED,
        log_weights=class_balanced(feed.labels, 3),
        recorder=total,
        measure=margin,
    )
    torch.testing.assert_close(total.mean(8), -aum(margins_of(net, feed)))


def test_measuring_does_not_change_the_training():
    feed = rows_feed()
    nets, train = [], settings().train
    for measure in (None, margin):
        net = build_net("mlp", feed.data, seed=0)
        curves = LossCurves(N, 8, CPU.device)
        fit(
            net,
            feed,
            train,
            stage="same",
            steps=steps_of(N, train),
            seed=SEED,
            log_weights=class_balanced(feed.labels, 3),
            recorder=curves,
            measure=measure,
        )
        nets.append(net)
    assert all(torch.equal(a, b) for a, b in zip(*(net.parameters() for net in nets), strict=True))


def test_margins_recorded_in_evaluation_are_those_after_the_epoch():
    feed = rows_feed()
    net = build_net("mlp", feed.data, seed=0)
    margins = margins_of(net, feed, settings(score__record="evaluation"))
    with torch.no_grad():
        torch.testing.assert_close(margins[:, -1], margin(net(feed.inputs), batch_of(feed.labels.tolist())))


def test_resumed_margins_are_the_same_bytes(tmp_path):
    feed = rows_feed()
    whole = margins_of(build_net("mlp", feed.data, seed=0), feed)
    checkpoint = Checkpoint(tmp_path / "part.safetensors", share=1e9)

    def stop(epoch):
        if epoch.epoch == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        margins_of(build_net("mlp", feed.data, seed=0), feed, checkpoint=checkpoint, report=stop)
    again = margins_of(build_net("mlp", feed.data, seed=9), feed, checkpoint=checkpoint)
    assert torch.equal(whole, again)


def with_batchnorm(classes):
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes, bias=False))


def autograd_norms(net, feed, parameters):
    """Return the norm of each sample's gradient, one backward pass a sample."""
    net.eval()
    norms = []
    for i in range(len(feed)):
        net.zero_grad()
        batch = feed.batch(torch.tensor([i]))
        F.cross_entropy(net(batch.inputs), batch.labels).backward()
        norms.append(torch.cat([p.grad.flatten() for p in parameters]).norm().item())
    return norms


@pytest.mark.parametrize(
    ("name", "chunk"),
    [
        *[(name, chunk) for name in ("mlp", with_batchnorm, "small_cnn") for chunk in (None, 1, 7)],
        ("torchvision:resnet18", 7),
    ],
)
def test_grand_against_a_backward_pass_a_sample(name, chunk):
    images = name in ("small_cnn", "torchvision:resnet18")
    feed = Feed.of(load(0, per_class=2).train, CPU) if images else rows_feed()
    net = CPU.place(build_net(name, feed.data, seed=0))
    for module in net.modules():  # statistics that are not those of the batch
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean += 0.1
    before = copy.deepcopy(net.state_dict())
    found = grand_of(net, feed, chunk=chunk)
    assert found.tolist() == pytest.approx(autograd_norms(net, feed, list(net.parameters())), rel=1e-3)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


@pytest.mark.parametrize("name", ["mlp", with_batchnorm, "small_cnn"])
def test_the_last_layers_grand_against_a_backward_pass_a_sample(name):
    feed = Feed.of(load(0, per_class=2).train, CPU) if name == "small_cnn" else rows_feed()
    net = CPU.place(build_net(name, feed.data, seed=0))
    last = [module for module in net.modules() if isinstance(module, nn.Linear)][-1]
    expected = autograd_norms(net, feed, list(last.parameters()))
    assert grand_of(net, feed, last_layer=True).tolist() == pytest.approx(expected, rel=1e-3)


def test_frozen_parameters_have_no_part_in_grand():
    feed = rows_feed()
    net = build_net("mlp", feed.data, seed=0)
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    for layer in layers[:-1]:
        layer.requires_grad_(False)
    torch.testing.assert_close(grand_of(net, feed), grand_of(net, feed, last_layer=True))


def test_gradients_are_held_for_a_chunk_at_a_time():
    """The widest thing that is made has one gradient a sample of the chunk."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        values = 0

        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            out = op(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                self.values = max(self.values, out.numel())
            return out

    net, x, y = nn.Linear(50, 40), torch.zeros(64, 50), torch.zeros(64, dtype=torch.int64)
    largest = {}
    for chunk in (1, 4, 64):
        with Largest() as seen:
            gradient_norms(net, x, y, chunk=chunk)
        largest[chunk] = seen.values
    assert largest[4] <= max(4 * 50 * 40, x.numel())
    assert largest[64] >= 64 * 50 * 40


# Early nets, and the mean over seeds.


def test_an_early_net_is_trained_for_a_tenth_of_the_epochs():
    for epochs, expected in ((8, 1), (10, 1), (39, 3)):
        seen = []
        given = settings(train__epochs=epochs)
        score_of(Job(rows_feed(), given, "mlp", report=seen.append), Wanted("el2n"))
        assert early_epochs(given) == expected
        assert [(e.stage, e.epoch) for e in seen] == [("early-1", k + 1) for k in range(expected)]


def test_el2n_is_that_of_the_net_after_those_epochs_in_evaluation_mode():
    feed = rows_feed()
    job = Job(feed, settings(train__epochs=20), with_batchnorm)
    net = early(job, "early-1").eval()
    with torch.no_grad():
        p = net(feed.inputs).softmax(1).numpy()
    expected = np.linalg.norm(p - np.eye(3)[feed.labels.numpy()], axis=1)
    np.testing.assert_allclose(score_of(job, Wanted("el2n")), expected, rtol=1e-5)


def test_seeds_are_independent_trainings_and_the_score_is_their_mean():
    job = Job(rows_feed(), settings(), "mlp")
    singles = np.stack([el2n_of(early(job, stage), job.feed).numpy() for stage in ("early-1", "early-2", "early-3")])
    assert not np.allclose(singles[0], singles[1])
    np.testing.assert_allclose(score_of(job, Wanted("el2n", seeds=3)), singles.mean(0), rtol=1e-6)
    np.testing.assert_allclose(score_of(job, Wanted("el2n")), singles[0], rtol=1e-6)


def test_augmentation_is_for_training_only():
    """The score itself is of the images as they are."""
    feed = Feed.of(load(0, per_class=4).train, CPU)
    job = Job(feed, settings(train__augment="crop+flip", train__batch_size=20), "small_cnn")
    net = early(job, "early-1")
    with torch.no_grad():
        expected = el2n(net(feed.inputs), feed.labels).numpy()
    np.testing.assert_allclose(score_of(job, Wanted("el2n")), expected, rtol=1e-5, atol=1e-6)


# What must hold for all of them.

TRAINED = {
    name: lambda feed, given, name=name: torch.from_numpy(score_of(Job(feed, given, "mlp"), Wanted(name)))
    for name in ("el2n", "selfsup", "csl", "forgetting", "aum", "grand")
}
TRAINED["grand, last layer"] = lambda feed, given: grand_of(
    early(Job(feed, given, "mlp"), "early-1"), feed, last_layer=True
)
every_score = pytest.mark.parametrize("name", TRAINED)


@every_score
def test_permuting_samples_permutes_scores(name):
    """With one batch an epoch there is no order to depend on."""
    feed = rows_feed(24, spread=0.3)
    order = np.random.default_rng(1).permutation(24)
    given = settings(train__batch_size=24)
    here = TRAINED[name](feed, given)
    there = TRAINED[name](feed.subset(order), given)
    torch.testing.assert_close(here[order], there, rtol=1e-3, atol=1e-4)


@every_score
def test_batch_size_does_not_change_a_score_taken_in_evaluation(name, monkeypatch):
    feed = rows_feed()
    given = settings(score__record="evaluation")
    whole = TRAINED[name](feed, given)
    monkeypatch.setattr("tcsl.training.feed._EVALUATION_BATCH", 7)
    torch.testing.assert_close(TRAINED[name](feed, given), whole, rtol=1e-4, atol=1e-5)


@every_score
def test_the_same_seed_gives_the_same_bytes(name):
    feed = rows_feed()
    first, second = (TRAINED[name](feed, settings()) for _ in range(2))
    assert torch.equal(first, second)
    assert first.shape == (N,)
    assert first.dtype == torch.float32


@every_score
def test_higher_is_harder(name):
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
def test_no_seeds_are_refused(score):
    with pytest.raises(InputError, match=r"seeds must be 1 or more, got 0"):
        score_of(Job(rows_feed(), settings(), "mlp"), Wanted(score, seeds=0))


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (np.zeros(5), {}, r"shape \(samples, features\), got \(5,\)"),
        (np.zeros((5, 0)), {}, r"got \(5, 0\)"),
        (np.zeros((5, 2)), {"k": 6}, r"k must be 1 .. 5, as there are 5 samples, got 6"),
        (np.zeros((5, 2)), {"k": 0}, r"got 0"),
        (np.ones((5, 2)), {"metric": "cosin"}, r"unknown metric 'cosin'; did you mean 'cosine'"),
        (np.eye(5)[:, :4], {"metric": "cosine"}, r"1 of 5 rows of the embedding are zero, first row 4"),
        (np.float32([[1, 2], [np.nan, 0], [np.inf, 1]]), {}, r"2 rows of the embedding have NaN.* first row 1"),
    ],
)
def test_embeddings_that_selfsup_refuses(rows, more, message):
    with pytest.raises(InputError, match=message):
        selfsup(np.asarray(rows, np.float32), **{"k": 2, **more}, rng=np.random.default_rng(0))


def test_a_net_that_ends_otherwise_has_no_last_layer_gradient():
    feed = rows_feed()
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    with pytest.raises(InputError, match=r"Linear layer that returns the logits; in Sequential something follows it"):
        grand_of(net, feed, last_layer=True)
    with pytest.raises(InputError, match="has no Linear layer"):
        grand_of(nn.Sequential(nn.Unflatten(1, (4, 1)), nn.Conv1d(4, 3, 1), nn.Flatten()), feed, last_layer=True)


def test_a_net_that_vmap_cannot_take_is_said():
    class Asking(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(x) * (2 if float(x.sum()) > 0 else 1)

    with pytest.raises(InputError, match=r"cannot be had from this net by torch.func.vmap.*last_layer=True"):
        grand_of(Asking(), rows_feed())


def test_a_net_without_parameters_and_an_empty_chunk_are_refused():
    with pytest.raises(InputError, match="Identity has none"):
        gradient_norms(nn.Identity(), torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(InputError, match="chunk must be 1 or more, got 0"):
        gradient_norms(nn.Linear(2, 2), torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64), chunk=0)
