"""Accuracy: average, by group, worst group; and how well G_high recovers the true minority."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tcsl.data.dataset import Dataset
from tcsl.data.groups import Groups
from tcsl.statistics import auc, worth
from tcsl.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Part:
    """Accuracy on one class, group or cell; None where it has no test sample.

    Attributes
    ----------
    worth : how many independent samples would tell as much; None where these are independent
    """

    name: str
    n: int
    accuracy: float | None
    worth: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """Accuracies in 0 .. 1; None where they cannot be known, and `unknown` says why.

    Attributes
    ----------
    average : plain test accuracy
    weighted_average : accuracy of the groups weighted by their share of the training set
    wga : worst-group accuracy
    wga_cells : the same over the `cells` finer cells, where there are any
    worst_class : lowest accuracy of a class, which needs no groups
    worth : how many independent samples would tell the average as well; None where these are independent
    """

    n: int
    average: float
    weighted_average: float | None
    wga: float | None
    wga_cells: float | None
    worst_class: float
    cells: int
    groups: tuple[Part, ...]
    classes: tuple[Part, ...]
    unknown: tuple[str, ...]
    worth: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def evaluate_predictions(predicted: IntArray, data: Dataset, *, train_groups: Groups | None = None) -> Evaluation:
    """Compare predictions (n,) with the labels of `data`, by group where its groups are known.

    Parameters
    ----------
    train_groups : the training set's groups, whose shares weight the weighted average

    >>> from tcsl.data.digits import load
    >>> test = load(0).test
    >>> evaluate_predictions(test.numpy_labels, test).wga
    1.0
    """
    correct = predicted == data.numpy_labels
    groups = data.groups
    by_class = accuracy_by(correct, data.numpy_labels, data.class_names, data.units)
    unknown: list[str] = []
    parts: tuple[Part, ...] = ()
    wga = wga_cells = weighted = None
    if groups is None:
        unknown.append(f"worst-group accuracy: {data.name} has no group labels (the worst class is shown instead)")
    else:
        parts = accuracy_by(correct, groups.group, groups.names, data.units)
        wga = worst(parts)
        empty = [part.name for part in parts if part.accuracy is None]
        if empty:
            unknown.append(f"accuracy of {', '.join(empty)}: no test sample")
        if groups.cell is not None:
            wga_cells = worst(accuracy_by(correct, groups.cell, groups.cell_names))
        if train_groups is None:
            unknown.append("average weighted by training groups: the training set has no group labels")
        else:
            weighted = weighted_average(parts, train_groups.counts())
            if weighted is None:
                unknown.append(f"average weighted by training groups: {data.name} lacks one of them")
    return Evaluation(
        n=len(correct),
        average=float(correct.mean()),
        weighted_average=weighted,
        wga=wga,
        wga_cells=wga_cells,
        worst_class=worst(by_class),
        cells=0 if groups is None else len(groups.cell_names),
        groups=parts,
        classes=by_class,
        unknown=tuple(unknown),
        worth=None if data.units is None else worth(correct, data.units),
    )


def accuracy_by(
    correct: BoolArray, part: IntArray, names: tuple[str, ...], units: IntArray | None = None
) -> tuple[Part, ...]:
    """Return the accuracy on each part, with its size and, where samples are of `units` (n,), what they are worth.

    >>> [p.accuracy for p in accuracy_by(np.array([True, False, True]), np.array([0, 0, 1]), ("a", "b", "c"))]
    [0.5, 1.0, None]
    """
    size = np.bincount(part, minlength=len(names))
    right = np.bincount(part, weights=correct, minlength=len(names))

    def one(k: int, name: str) -> Part:
        if not size[k]:
            return Part(name, 0, None)
        mine = part == k
        told = None if units is None else worth(correct[mine], units[mine])
        return Part(name, int(size[k]), float(right[k] / size[k]), told)

    return tuple(one(k, name) for k, name in enumerate(names))


def worst(parts: tuple[Part, ...]) -> float:
    """Return the lowest accuracy among parts that have samples: WGA, where the parts are groups.

    >>> worst((Part("a", 4, 0.75), Part("b", 0, None), Part("c", 2, 0.5)))
    0.5
    """
    return min(part.accuracy for part in parts if part.accuracy is not None)


def weighted_average(parts: tuple[Part, ...], train_counts: IntArray) -> float | None:
    """Return the groups' accuracies weighted by training counts; None where a counted group has no test sample.

    >>> weighted_average((Part("a", 4, 0.75), Part("b", 2, 0.25)), np.array([3, 1]))
    0.625
    """
    pairs = [(part.accuracy, int(count)) for part, count in zip(parts, train_counts, strict=True) if count]
    if any(accuracy is None for accuracy, _ in pairs):
        return None
    return sum((accuracy or 0.0) * count for accuracy, count in pairs) / sum(count for _, count in pairs)


def balanced_by_bias(predicted: IntArray, biased: IntArray, labels: IntArray) -> float:
    """Return an accuracy that needs no groups: the mean over the cells of label x (is the biased model right).

    Where the biased model is wrong, the shortcut contradicts the label; those few samples have half of the say. With
    two classes these are the cells of ULA's criterion, label x biased prediction; with more, a label's cells where the
    biased model is wrong are one, since most of the C^2 would hold one sample or none.

    >>> balanced_by_bias(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]))
    1.0
    >>> balanced_by_bias(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]))  # 1, 0 and 1
    0.6666666666666666
    """
    cell = cells_by_bias(biased, labels)
    size = np.bincount(cell)
    right = np.bincount(cell[predicted == labels], minlength=len(size))
    return float((right[size > 0] / size[size > 0]).mean())


def cells_by_bias(biased: IntArray, labels: IntArray) -> IntArray:
    """Return the cell of each sample, (n,), of label x (is the biased model right).

    >>> cells_by_bias(np.array([0, 1, 1]), np.array([0, 0, 1])).tolist()
    [1, 0, 3]
    """
    cells: IntArray = 2 * labels + (biased == labels)
    return cells


def identification(tcsl_s: FloatArray, g_high: BoolArray, minority: BoolArray) -> dict[str, float | int | None]:
    """Return how well G_high and TCSL_s recover the true minority: recall, precision, AUC.

    >>> s, high = np.array([3.0, 1.0, 2.0, 0.5], np.float32), np.array([1, 0, 1, 0], bool)
    >>> identification(s, high, np.array([1, 0, 0, 0], bool))
    {'g_high': 2, 'minority': 1, 'recall': 1.0, 'precision': 0.5, 'auc': 1.0}
    """
    both = int((g_high & minority).sum())
    rare, high = int(minority.sum()), int(g_high.sum())
    return {
        "g_high": high,
        "minority": rare,
        "recall": both / rare if rare else None,
        "precision": both / high if high else None,
        "auc": auc(tcsl_s, minority) if 0 < rare < len(minority) else None,
    }
