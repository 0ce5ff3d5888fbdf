"""DFR against scikit-learn on fixed features."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from torch import nn

from tcsl.config import DeviceSettings, Settings
from tcsl.data.convert import as_dataset
from tcsl.data.dataset import make_dataset
from tcsl.data.groups import make_groups
from tcsl.errors import InputError
from tcsl.methods.dfr import (
    METHOD,
    STRENGTHS,
    balanced_draw,
    choose_strength,
    folded,
    halves,
    last_layer,
    logistic_regression,
    replace_layer,
)
from tcsl.pipeline import Job
from tcsl.seeds import derive, generator
from tcsl.training.device import choose
from tcsl.training.features import features_of, last_linear
from tcsl.training.feed import Feed
from tcsl.training.nets import build_net

CPU = choose(DeviceSettings(device="cpu"))


def l1_regression(C):
    """L1 logistic regression as this version of scikit-learn spells it."""
    old = getattr(LogisticRegression(), "penalty", None) == "l2"
    return LogisticRegression(
        C=C, solver="liblinear", random_state=0, **{"penalty": "l1"} if old else {"l1_ratio": 1.0}
    )


def samples(classes, n=240, d=6):
    """Rows in which the first feature is a shortcut, the second the class, and the rest noise."""
    rng = np.random.default_rng(classes)
    labels = np.arange(n) % classes
    attribute = np.where(rng.random(n) < 0.8, labels, rng.integers(0, classes, n))
    features = rng.normal(size=(n, d))
    features[:, 0] += 3 * attribute
    features[:, 1] += 1.5 * labels
    return (features - features.mean(0)) / features.std(0), labels, attribute


@pytest.mark.parametrize("C", [1.0, 0.03])
def test_two_classes_are_the_regression_of_scikit_learn(C):
    X, y, _ = samples(2)
    weight, bias = logistic_regression(X, y, C=C, seed=0)
    theirs = l1_regression(C).fit(X, y)
    logits = X @ weight.T + bias
    assert logits[:, 1] - logits[:, 0] == pytest.approx(theirs.decision_function(X), abs=1e-10)
    assert (logits.argmax(1) == theirs.predict(X)).all()
    if C == 0.03:
        assert (weight[1] == 0).any()  # L1, not L2


@pytest.mark.parametrize("C", [1.0, 0.1])
def test_three_classes_are_one_against_the_rest_of_scikit_learn(C):
    X, y, _ = samples(3)
    weight, bias = logistic_regression(X, y, C=C, seed=0)
    theirs = OneVsRestClassifier(l1_regression(C)).fit(X, y)
    assert X @ weight.T + bias == pytest.approx(theirs.decision_function(X), abs=1e-10)


def test_the_last_layer_is_the_mean_over_balanced_draws():
    X, y, attribute = samples(3)
    groups = 3 * y + attribute
    several = last_layer(X, y, groups, C=0.5, seed=4, draws=3)
    again = last_layer(X, y, groups, C=0.5, seed=4, draws=3)
    assert all(np.array_equal(a, b) for a, b in zip(several, again, strict=True))
    one, two = (last_layer(X, y, groups, C=0.5, seed=4, draws=n) for n in (1, 2))
    second = [2 * b - a for a, b in zip(one, two, strict=True)]  # the second draw's own
    assert not np.allclose(second[0], one[0])  # another draw
    # Equal groups have one draw only: all samples.
    equal = balanced_draw(groups, np.random.default_rng(0))
    order = np.sort(equal)
    weight, bias = last_layer(X[order], y[order], groups[order], C=0.5, seed=4, draws=2)
    theirs = OneVsRestClassifier(l1_regression(0.5)).fit(X[order], y[order])
    assert X @ weight.T + bias == pytest.approx(theirs.decision_function(X), abs=0.02)  # the solver's tolerance


def test_draws_are_balanced_and_without_repeats():
    groups = np.array([0] * 40 + [1] * 7 + [2] * 3 + [5] * 11)
    for seed in range(5):
        drawn = balanced_draw(groups, np.random.default_rng(seed))
        assert np.bincount(groups[drawn]).tolist() == [3, 3, 3, 0, 0, 3]
        assert len(np.unique(drawn)) == len(drawn)


def test_halves_share_every_group():
    groups = np.array([0] * 10 + [1] * 2 + [2] * 5)
    first = halves(groups, np.random.default_rng(0))
    assert np.bincount(groups[first]).tolist() == [5, 1, 2]
    assert np.bincount(groups[~first]).tolist() == [5, 1, 3]


def test_the_strength_is_the_best_on_the_half_that_was_not_fitted():
    X, y, attribute = samples(2, n=400)
    names = ("0", "1")
    groups = make_groups(y, attribute, class_names=names, attribute_names=names)
    fitted = halves(groups.group, generator(3, "halves"))
    found = {}
    for C in STRENGTHS:
        drawn = balanced_draw(groups.group[fitted], generator(derive(3, "choice"), "balanced", 0))
        model = l1_regression(C).fit(X[fitted][drawn], y[fitted][drawn])
        right = model.predict(X[~fitted]) == y[~fitted]
        found[C] = min(right[groups.group[~fitted] == group].mean() for group in range(4))
    assert len(set(found.values())) > 1
    assert choose_strength(X, y, groups, seed=3) == max(STRENGTHS, key=lambda C: (found[C], C))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_new_nets_logits_are_the_regressions_decision_function(classes):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, 5)).astype(np.float32) * 3 + 1
    y = np.arange(90) % classes
    feed = Feed.of(as_dataset((rows, y)), CPU)
    net = build_net("mlp", feed.data, seed=0)
    features = features_of(net, feed)
    assert features.shape == (90, 64)
    x = features.double().numpy()
    mean, scale = x.mean(0), x.std(0)
    scale[scale < 1e-8] = 1
    standardised = (x - mean) / scale
    weight, bias = logistic_regression(standardised, y, C=1.0, seed=0)
    replace_layer(last_linear(net, feed), *folded(weight, bias, mean, scale))
    found = net(torch.from_numpy(rows)).detach().double().numpy()
    assert found == pytest.approx(standardised @ weight.T + bias, abs=1e-4)
    model = l1_regression(1.0)
    theirs = (OneVsRestClassifier(model) if classes > 2 else model).fit(standardised, y)
    ours = found if classes > 2 else found[:, 1] - found[:, 0]
    assert ours == pytest.approx(theirs.decision_function(standardised), abs=1e-4)


def test_features_are_what_goes_into_the_last_layer():
    feed = Feed.of(
        as_dataset((np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32), np.arange(300) % 2)), CPU
    )
    net = build_net("mlp", feed.data, seed=0)
    head = last_linear(net, feed)
    logits = net(feed.inputs)  # 300: more than a batch
    assert torch.allclose(features_of(net, feed) @ head.weight.T + head.bias, logits, atol=1e-5)
    assert not head._forward_hooks


class Scaled(nn.Module):
    """A net that changes what its last linear layer says."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def forward(self, x):
        return 2 * self.layer(x)


def test_a_net_without_a_last_layer_is_refused():
    feed = Feed.of(as_dataset((np.zeros((4, 5), np.float32) + np.arange(4)[:, None], np.arange(4) % 2)), CPU)
    with pytest.raises(InputError, match=r"must end in a torch\.nn\.Linear, and Identity has none"):
        last_linear(nn.Identity(), feed)
    with pytest.raises(InputError, match=r"what Scaled returns is not the output of its last one"):
        features_of(Scaled(), feed)
    with pytest.raises(InputError, match=r"what Scaled returns is not the output of its last one"):
        last_linear(Scaled(), feed)


def test_a_validation_group_that_cannot_be_halved_is_named():
    X, y, attribute = samples(2, n=60)
    attribute[(y == 1) & (attribute == 0)] = 1
    attribute[np.flatnonzero(y == 1)[0]] = 0
    names = ("land", "water")
    groups = make_groups(y, attribute, class_names=names, attribute_names=names)
    val = make_dataset(torch.from_numpy(X).float(), torch.from_numpy(y), class_names=names, groups=groups)
    job = Job(Feed.of(val, CPU), Settings(), "mlp", val=val)
    with pytest.raises(
        InputError, match=r"dfr needs 2 samples or more of every group .* 'water, land' has 1: one half"
    ):
        METHOD.check(job, job.fresh_net("final"))
