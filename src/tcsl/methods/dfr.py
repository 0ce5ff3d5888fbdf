"""DFR (Kirichenko et al. 2023): plain training, then the last layer again, on validation data with equal groups."""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from tcsl.config import Settings
from tcsl.data.groups import Groups
from tcsl.errors import InputError
from tcsl.evaluation import accuracy_by, worst
from tcsl.methods.base import About, Method, Outcome
from tcsl.methods.options import Options, Preset, options_of
from tcsl.pipeline import Job, train_model
from tcsl.seeds import derive, generator
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.features import features_of, last_linear
from tcsl.training.feed import Feed
from tcsl.training.loop import steps_of
from tcsl.training.weights import class_balanced
from tcsl.types import BoolArray, DoubleArray, IntArray

STRENGTHS = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)  # C, the inverse of the penalty's weight, among which one is chosen
_LEAST = 2  # samples of a group: one to fit and one to choose C by


class DFROptions(Options):
    """Options of DFR; those of every method are for the plain training."""

    draws: int = Field(20, ge=1, description="group-balanced draws from the validation set, over which it averages")


def balanced_draw(groups: IntArray, rng: np.random.Generator) -> IntArray:
    """Return indices of as many samples of every group as the smallest has; which ones is random.

    >>> groups = np.array([0, 0, 0, 1, 2, 2])
    >>> groups[balanced_draw(groups, np.random.default_rng(0))].tolist()
    [0, 1, 2]
    """
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    least = min(map(len, members))
    return np.concatenate([rng.permutation(member)[:least] for member in members])


def logistic_regression(
    features: DoubleArray, labels: IntArray, *, C: float, seed: int
) -> tuple[DoubleArray, DoubleArray]:
    """Return weight (classes, d) and bias (classes,) of L1 logistic regression: the logits are X weight^T + bias.

    Two classes have one decision function, which is the second's logit; the first's is 0. More have one each, against
    all others: liblinear, the solver of DFR's own code, knows no other way.

    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    >>> weight, bias = logistic_regression(X, y, C=1.0, seed=0)
    >>> weight[0].tolist(), bool(weight[1, 0] > 0)
    ([0.0], True)
    """
    from sklearn.linear_model import LogisticRegression

    # penalty= was replaced in scikit-learn 1.8, and both are silent where the other is meant.
    old = getattr(LogisticRegression(), "penalty", None) == "l2"
    l1 = {"penalty": "l1"} if old else {"l1_ratio": 1.0}
    classes = int(labels.max()) + 1
    weight, bias = np.zeros((classes, features.shape[1])), np.zeros(classes)
    for label in range(1 if classes == 2 else 0, classes):
        model = LogisticRegression(C=C, solver="liblinear", random_state=seed, **l1).fit(features, labels == label)
        weight[label], bias[label] = model.coef_[0], model.intercept_[0]
    return weight, bias


def last_layer(
    features: DoubleArray, labels: IntArray, groups: IntArray, *, C: float, seed: int, draws: int
) -> tuple[DoubleArray, DoubleArray]:
    """Return the mean of the layers that fit group-balanced draws.

    Parameters
    ----------
    features : (n, d) standardised
    labels, groups : (n,); every class has samples
    C : the inverse of the penalty's weight

    Returns
    -------
    weight : (classes, d)
    bias : (classes,)

    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    >>> [part.shape for part in last_layer(X, y, groups=y, C=1.0, seed=0, draws=3)]
    [(2, 1), (2,)]
    """
    layers = []
    for draw in range(draws):
        chosen = balanced_draw(groups, generator(seed, "balanced", draw))
        solver = derive(seed, "solver", draw) % 2**31
        layers.append(logistic_regression(features[chosen], labels[chosen], C=C, seed=solver))
    weights, biases = zip(*layers, strict=True)
    return np.mean(weights, axis=0), np.mean(biases, axis=0)


def choose_strength(features: DoubleArray, labels: IntArray, groups: Groups, *, seed: int) -> float:
    """Return the C with the best worst-group accuracy on half of the samples, fitted to a draw from the other half.

    The halves have the same number of every group, but for one. Of equally good values it is the largest.
    """
    fitted = halves(groups.group, generator(seed, "halves"))
    judged = ~fitted

    def worst_group(C: float) -> float:
        weight, bias = last_layer(
            features[fitted], labels[fitted], groups.group[fitted], C=C, seed=derive(seed, "choice"), draws=1
        )
        correct = (features[judged] @ weight.T + bias).argmax(1) == labels[judged]
        return worst(accuracy_by(correct, groups.group[judged], groups.names))

    return max(STRENGTHS, key=worst_group)


def halves(groups: IntArray, rng: np.random.Generator) -> BoolArray:
    """Return which samples are in the first half (n,): half of every group, rounded down.

    >>> first = halves(np.array([0, 0, 0, 0, 1, 1, 1]), np.random.default_rng(0))
    >>> int(first[:4].sum()), int(first[4:].sum())
    (2, 1)
    """
    first = np.zeros(len(groups), np.bool_)
    for group in np.unique(groups):
        member = rng.permutation(np.flatnonzero(groups == group))
        first[member[: len(member) // 2]] = True
    return first


def folded(
    weight: DoubleArray, bias: DoubleArray, mean: DoubleArray, scale: DoubleArray
) -> tuple[DoubleArray, DoubleArray]:
    """Return the layer that does to features what the given one does to (features - mean) / scale.

    >>> weight, bias = folded(np.array([[2.0]]), np.array([1.0]), np.array([3.0]), np.array([4.0]))
    >>> weight.tolist(), bias.tolist()  # 2 (x - 3) / 4 + 1
    ([[0.5]], [-0.5])
    """
    weight = weight / scale
    return weight, bias - weight @ mean


def _check(job: Job, net: nn.Module) -> None:
    """Refuse a validation set with a group that cannot be halved, and a net without a layer to fit again."""
    val = job.val
    assert val is not None  # check_needs saw to it
    assert val.groups is not None
    counts = val.groups.counts()
    few = [f"{name!r} has {n}" for name, n in zip(val.groups.names, counts, strict=True) if n < _LEAST]
    if few:
        raise InputError(
            f"dfr needs {_LEAST} samples or more of every group in the validation set, and of {val.name} "
            f"{', '.join(few)}: one half fits the last layer, the other chooses C; take a larger validation set, or "
            "leave the method out"
        )
    _head(net, job.feed)


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "dfr", DFROptions)
    val = job.val
    assert val is not None  # check_needs saw to it
    assert val.groups is not None
    groups, seed = val.groups, derive(job.settings.seed, "dfr")
    val_feed = Feed.of(val, job.feed.hardware, how=job.settings.device.feed)
    weights = class_balanced(job.feed.labels, job.data.num_classes)
    train = options.training(job.settings.train)
    erm = train_model(job, "dfr-erm", job.feed, log_weights=weights, train=train)

    def refit(net: nn.Module, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
        trained = _numpy(features_of(erm, job.feed))
        mean, scale = trained.mean(0), trained.std(0)
        scale[scale < 1e-8] = 1.0  # a feature that never changes is only shifted
        features = (_numpy(features_of(erm, val_feed)) - mean) / scale
        labels = val.numpy_labels
        C = choose_strength(features, labels, groups, seed=seed)
        layer = last_layer(features, labels, groups.group, C=C, seed=seed, draws=options.draws)
        net.load_state_dict(erm.state_dict())
        replace_layer(_head(net, val_feed), *folded(*layer, mean, scale))
        return {"C": torch.tensor([C], dtype=torch.float64)}

    return Outcome(job.stage("dfr", "final", refit)[0])


def replace_layer(head: nn.Linear, weight: DoubleArray, bias: DoubleArray) -> None:
    """Put weight (classes, d) and bias (classes,) into a net's last layer."""
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(weight))
        head.bias.copy_(torch.from_numpy(bias))


def _head(net: nn.Module, feed: Feed) -> nn.Linear:
    """Return the layer that is fitted again, or say that the net has none."""
    head = last_linear(net, feed)
    if head.bias is None:
        raise InputError("dfr fits the last layer with a bias, and the net's has none; use another net (train.net)")
    return head


def _numpy(features: Tensor) -> DoubleArray:
    return np.asarray(features.cpu().numpy(), np.float64)


def _stages(settings: Settings, n: int) -> dict[str, int]:
    # The second stage, "dfr", has no steps.
    return {"dfr-erm": steps_of(n, options_of(settings, "dfr", DFROptions).training(settings.train))}


METHOD = Method(
    "DFR",
    "plain training, then the last layer again on validation data with equal groups; told the groups of those",
    _run,
    _stages,
    needs=("val groups",),
    options=DFROptions,
    presets={
        "waterbirds": Preset(
            {"epochs": 100, "batch_size": 32, "lr": 1e-3, "weight_decay": 1e-3, "draws": 20},
            "own code, which crops and flips in the first training (train.augment)",
        ),
    },
    check=_check,
    chooses="the last epoch's last layer is fitted to validation data; C is chosen by their worst group",
    about=About(
        idea=(
            "A net that relies on a shortcut has still learned the other features. Its last layer is fitted again, on "
            "validation data in which every group is as frequent."
        ),
        formula=(
            "L1 logistic regression on standardised features; C by the worst group on half of the data; mean of draws"
        ),
        reference=(
            "Kirichenko et al. 2023, Last Layer Re-Training is Sufficient for Robustness to Spurious Correlations"
        ),
        differs=(
            "the first training weights classes equally, its authors' weights nothing; three or more classes one "
            "against the rest; features standardised on the training set in both steps; the halves have equally many "
            "of every group, theirs are drawn at random"
        ),
    ),
)
