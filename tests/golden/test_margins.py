"""Margins over a training, and the two scores that are made of them: forgetting events, area under the margin."""

import copy

import pytest
import torch
from torch.nn import functional as F

from tcsl.scoring.aum import aum
from tcsl.scoring.forgetting import forgetting
from tcsl.scoring.watched import train_watched
from tcsl.seeds import derive
from tcsl.training.nets import build_net
from tcsl.training.objective import Batch, margin
from tcsl.training.recording import LossCurves, LossSum

CPU = torch.device("cpu")


def batch_of(labels):
    return Batch(torch.zeros(len(labels), 1), torch.tensor(labels), torch.arange(len(labels)))


@pytest.fixture
def margins_of(settings):
    """Return a function from a net and a feed to the margins of its training."""

    def watched(net, feed, given=None, **more):
        given = given or settings()
        return train_watched(net, feed, given, "margins", seed=given.seed, **more)

    return watched


def test_margin_is_the_labels_logit_minus_the_largest_other():
    logits = torch.tensor([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [4.0, 4.0, -9.0]])
    assert margin(logits, batch_of([0, 1, 2, 1])).tolist() == [1.0, -2.0, -1.0, 0.0]


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


# Against plain loops.


def textbook_margins(net, feed, *, epochs, batch, seed):
    """Train by CB ERM in plain torch; return the margins at each visit, as Python lists of sample and epoch."""
    x, y = feed.inputs, feed.labels
    weights = 1 / torch.bincount(y)[y].float()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    margins = [[0.0] * epochs for _ in range(len(y))]
    for epoch in range(epochs):
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(derive(seed, "margins", epoch)))
        net.train()
        for index in order.split(batch):
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


def test_forgetting_and_aum_against_a_plain_loop(rows_feed, margins_of):
    feed = rows_feed(24, spread=2.0)  # classes overlap: some samples are forgotten, some never learned
    net = build_net("mlp", feed.data, seed=0)
    margins = textbook_margins(copy.deepcopy(net), feed, epochs=8, batch=5, seed=3)
    counts = textbook_forgetting(margins)
    assert len(set(counts)) > 3
    assert 8 in counts
    found = forgetting(margins_of(copy.deepcopy(net), feed))
    assert found.tolist() == counts
    found = aum(margins_of(copy.deepcopy(net), feed))
    assert found.tolist() == pytest.approx([-sum(row) / 8 for row in margins], rel=1e-3, abs=1e-4)


def test_the_sum_of_margins_is_that_of_their_curves(rows_feed, settings, margins_of, fit_plainly):
    """Any recorder takes any measure."""
    feed = rows_feed()
    net = build_net("mlp", feed.data, seed=0)
    total = LossSum(len(feed), CPU)
    how = {"stage": "margins", "seed": 3, "recorder": total, "measure": margin}
    fit_plainly(copy.deepcopy(net), feed, settings().train, **how)
    torch.testing.assert_close(total.mean(8), -aum(margins_of(net, feed)))


def test_measuring_does_not_change_the_training(rows_feed, settings, fit_plainly):
    feed = rows_feed()
    nets = []
    for measure in (None, margin):
        curves = LossCurves(len(feed), 8, CPU)
        net = build_net("mlp", feed.data, seed=0)
        nets.append(fit_plainly(net, feed, settings().train, recorder=curves, measure=measure))
    assert all(torch.equal(a, b) for a, b in zip(*(net.parameters() for net in nets), strict=True))


def test_margins_recorded_in_evaluation_are_those_after_the_epoch(rows_feed, settings, margins_of):
    feed = rows_feed()
    net = build_net("mlp", feed.data, seed=0)
    margins = margins_of(net, feed, settings(score__record="evaluation"))
    with torch.no_grad():
        torch.testing.assert_close(margins[:, -1], margin(net(feed.inputs), batch_of(feed.labels.tolist())))


def test_resumed_margins_are_the_same_bytes(rows_feed, margins_of, stopped_and_resumed):
    feed = rows_feed()

    def train(seed, **how):
        return margins_of(build_net("mlp", feed.data, seed=seed), feed, **how)

    assert torch.equal(train(0), stopped_and_resumed(train, stop_in=5))
