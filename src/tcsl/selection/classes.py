"""Classes: which samples each has, and which of them a coreset has lost."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tcsl.errors import TcslWarning
from tcsl.types import AnyArray, IntArray


def samples_by_class(labels: IntArray) -> dict[int, IntArray]:
    """Return the samples of each class that occurs, ascending.

    >>> {label: part.tolist() for label, part in samples_by_class(np.array([7, 0, 7])).items()}
    {0: [1], 7: [0, 2]}
    """
    # One sort in place of one pass for each class: a thousand classes cost no more than two.
    order = np.argsort(labels, kind="stable")
    classes, first = np.unique(labels[order], return_index=True)
    return dict(zip(classes.tolist(), np.split(order, first[1:]), strict=True))


def class_codes(labels: AnyArray) -> IntArray:
    """Return each sample's class as a number from 0, in the order of the classes: the labels where they are such.

    >>> class_codes(np.array([2, 0, 2])).tolist(), class_codes(np.array(["dog", "cat", "dog"])).tolist()
    ([2, 0, 2], [1, 0, 1])
    """
    if labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < len(labels):
        return labels
    return np.unique(labels, return_inverse=True)[1]


def lost_classes(labels: AnyArray, chosen: IntArray) -> list[Any]:
    """Return the classes without a sample among the chosen.

    >>> lost_classes(np.array([7, 0, 7, 3]), np.array([0, 1]))
    [3]
    """
    lost: list[Any] = np.setdiff1d(labels, labels[chosen]).tolist()
    return lost


def names_of(labels: AnyArray, class_names: Sequence[str]) -> list[str]:
    """Return the classes' names; a coreset of a table has the table's own labels, which stay.

    >>> names_of(np.array([1, 0]), ["cat", "dog"]), names_of(np.array(["bird"]), ["cat", "dog"])
    (['dog', 'cat'], ['bird'])
    """
    names = dict(enumerate(class_names))
    return [names.get(label, str(label)) for label in labels.tolist()]


def warn_of_lost_classes(
    labels: AnyArray,
    chosen: IntArray,
    *,
    advice: str,
    names: Sequence[str] = (),
    of: str = "the coreset",
    stacklevel: int = 3,
) -> None:
    """Warn by name of classes without a sample among the chosen.

    Parameters
    ----------
    advice : what to do about it
    names : of the classes, where the labels are their numbers
    of : what lacks them
    stacklevel : the line to blame, as in `warnings.warn`: 3 is the caller of the function that calls this one
    """
    if lost := lost_classes(labels, chosen):
        called = ", ".join(names_of(np.array(lost), names))
        warnings.warn(
            f"{of} has no sample of class {called}: a model trained on it cannot predict them; {advice}",
            TcslWarning,
            stacklevel=stacklevel,
        )
