"""Algorithm 1 against an independent, textbook implementation: the same weights, order and data, plain torch."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tcsl.config import DeviceSettings, TrainSettings, resolve
from tcsl.data.convert import as_dataset
from tcsl.scoring.tcsl import train_biased, train_core
from tcsl.scoring.watched import train_watched
from tcsl.seeds import derive
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.nets import build_net

N, BATCH, SEED = 29, 5, 3


@pytest.fixture
def feed():
    rng = np.random.default_rng(1)
    y = np.arange(N) % 3
    X = rng.normal(size=(N, 4)) + y[:, None]
    return Feed.of(as_dataset((X, y)), choose(DeviceSettings(device="cpu")))


def settings(**overrides):
    named = {name.replace("__", "."): value for name, value in overrides.items()}
    return resolve(overrides={"train.epochs": 30, "train.batch_size": BATCH, "train.lr": 0.05, **named})


def order_of(stage, epoch):
    return torch.randperm(N, generator=torch.Generator().manual_seed(derive(SEED, stage, epoch)))


def textbook(net, feed, stage, epochs, update, log_biased=None):
    """Train with plain weights (no logarithms); return the recorded losses, epochs x n."""
    x, y = feed.inputs, feed.labels
    weights = 1 / torch.bincount(y)[y].double()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    table = []
    for epoch in range(epochs):
        row = torch.zeros(N)
        net.train()
        for index in order_of(stage, epoch).split(BATCH):
            logits = net(x[index])
            own = F.cross_entropy(logits, y[index], reduction="none")
            row[index] = own.detach()
            minimised = own
            if log_biased is not None:
                minimised = F.cross_entropy(logits + log_biased[index], y[index], reduction="none")
            weight = (weights[index] / weights[index].sum()).float()
            optimizer.zero_grad()
            (weight * minimised).sum().backward()
            optimizer.step()
        table.append(row)
        weights = update(row, weights)
    return torch.stack(table)


def literal(losses, _):
    return torch.exp(-losses.double() / np.median(losses.double().numpy()))


def within_class(labels):
    def update(losses, _):
        out = torch.zeros(N, dtype=torch.float64)
        for k in range(3):
            own = losses[labels == k].double()
            weight = torch.exp(-own / np.median(own.numpy()))
            out[labels == k] = weight / weight.sum()
        return out

    return update


def test_a_biased_model_by_gce_minimises_it_and_records_the_usual_loss(feed):
    net = build_net("mlp", feed.data, seed=0)
    reference = copy.deepcopy(net)
    curves = train_biased(net, feed, settings(score__biased_epochs=2), seed=SEED, gce=0.7)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    x, y = feed.inputs, feed.labels
    weights = 1 / torch.bincount(y)[y].float()
    for epoch in range(2):
        row = torch.zeros(N)
        for index in order_of("biased", epoch).split(BATCH):
            p = reference(x[index]).softmax(1).gather(1, y[index, None])[:, 0]
            row[index] = -p.detach().log()
            w = weights[index] / weights[index].sum()
            optimizer.zero_grad()
            (w * (1 - p**0.7) / 0.7).sum().backward()
            optimizer.step()
        torch.testing.assert_close(curves[:, epoch], row, rtol=1e-3, atol=1e-4)


def unchanged(losses, weights):
    return weights


@pytest.mark.parametrize("form", ["literal", "class", "none"])
def test_stage_1(feed, form):
    net = build_net("mlp", feed.data, seed=0)
    reference = copy.deepcopy(net)
    curves = train_biased(net, feed, settings(score__weight_update=form, score__biased_epochs=3), seed=SEED)
    update = {"literal": literal, "class": within_class(feed.labels), "none": unchanged}[form]
    expected = textbook(reference, feed, "biased", 3, update)
    assert curves.shape == (N, 3)
    torch.testing.assert_close(curves.T, expected, rtol=1e-4, atol=1e-5)


def test_csl_is_the_mean_loss_of_plain_training(feed):
    net = build_net("mlp", feed.data, seed=0)
    expected = textbook(copy.deepcopy(net), feed, "csl", 3, unchanged)
    csl = train_watched(net, feed, settings(train__epochs=3), "csl", seed=SEED)
    torch.testing.assert_close(csl, expected.mean(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("strength", [1.0, 0.5, 0.0])
def test_stage_2_minimises_the_corrected_loss_and_records_its_own(feed, strength):
    biased = build_net("mlp", feed.data, seed=1).eval()
    net = build_net("mlp", feed.data, seed=0)
    reference = copy.deepcopy(net)
    seen = {}
    given = settings(score__core_epochs=4, score__correction=strength)
    tcsl_c = train_core(net, biased, feed, given, seed=SEED, watch=lambda epoch, so_far: seen.update({epoch: so_far}))
    with torch.no_grad():
        log_biased = strength * F.softmax(biased(feed.inputs).double(), 1).log().float()
    expected = textbook(reference, feed, "core", 4, unchanged, log_biased)
    assert list(seen) == [1, 2, 3, 4]
    torch.testing.assert_close(seen[2], expected[:2].mean(0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(tcsl_c, expected.mean(0), rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(net.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_cached_and_recomputed_log_probabilities_agree(feed):
    from tcsl.scoring.tcsl import log_biased

    net = build_net("mlp", feed.data, seed=1)
    batch = feed.batch(torch.tensor([3, 1, 7]))
    cached = log_biased(net, feed, TrainSettings(), steps=1)(batch)
    own = log_biased(net, feed, TrainSettings(augment="flip"), steps=1)(batch)
    torch.testing.assert_close(cached, own)
    assert cached.exp().sum(1).tolist() == pytest.approx([1, 1, 1])


def test_the_biased_model_is_frozen(feed):
    biased = build_net("mlp", feed.data, seed=1)
    before = copy.deepcopy(biased.state_dict())
    train_core(build_net("mlp", feed.data, seed=0), biased, feed, settings(score__core_epochs=2), seed=SEED)
    assert all(torch.equal(value, before[name]) for name, value in biased.state_dict().items())
