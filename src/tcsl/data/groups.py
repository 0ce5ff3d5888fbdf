"""Group labels: known for evaluation only, and hidden from every method that did not declare them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcsl.errors import InputError
from tcsl.types import AnyArray, BoolArray, IntArray

_MOST_GROUPS = 100_000  # classes x attribute values


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each sample.

    Attributes
    ----------
    group : (n,) the group that worst-group accuracy is the worst over
    names : one name a group
    minority : (n,) whether the sample contradicts the shortcut (a != y)
    cell : (n,) class x attribute, where that is finer than `group`
    cell_names : one name a cell; empty where `cell` is None
    attribute_names : one name an attribute value
    majority : (classes,) the attribute value that agrees with each class
    """

    group: IntArray
    names: tuple[str, ...]
    minority: BoolArray
    cell: IntArray | None
    cell_names: tuple[str, ...]
    attribute_names: tuple[str, ...]
    majority: IntArray

    @property
    def digest(self) -> str:
        """SHA-256 over the group and the minority mark of every sample."""
        return hashlib.sha256(self.group.astype("<i8").tobytes() + self.minority.tobytes()).hexdigest()

    @property
    def attribute(self) -> IntArray:
        """Which of `attribute_names` each sample has, (n,)."""
        return np.asarray((self.group if self.cell is None else self.cell) % len(self.attribute_names), np.int64)

    def counts(self) -> IntArray:
        """Return how many samples each group has."""
        return np.bincount(self.group, minlength=len(self.names)).astype(np.int64)


def majority_attribute(labels: IntArray, attribute: IntArray, num_classes: int) -> IntArray:
    """Return, for each class, the attribute value that most of its samples have (the lower value on a tie).

    >>> majority_attribute(np.array([0, 0, 0, 1]), np.array([2, 2, 0, 1]), 2).tolist()
    [2, 1]
    """
    table = np.zeros((num_classes, int(attribute.max()) + 1), np.int64)
    np.add.at(table, (labels, attribute), 1)
    return np.asarray(table.argmax(1), np.int64)


def check_group_count(class_names: Sequence[str], attribute_names: Sequence[str], where: str) -> None:
    """Refuse an attribute that is an id, or a measurement: every class x value would be a group."""
    if len(class_names) * len(attribute_names) > _MOST_GROUPS:
        raise InputError(
            f"{where}: the group has {len(attribute_names):,} different values; it must be an attribute of few, such "
            "as a place; name it with --columns group=NAME"
        )


def make_groups(
    labels: IntArray,
    attribute: IntArray,
    *,
    class_names: Sequence[str],
    attribute_names: Sequence[str],
    majority: IntArray | None = None,
    agreement: bool = False,
) -> Groups:
    """Build groups from labels and a spurious attribute.

    Parameters
    ----------
    labels, attribute : (n,) integers
    majority : (classes,) the attribute value that agrees with each class; by default the most frequent one here
        (a test set takes the training set's)
    agreement : group by class x (attribute agrees or not) and keep class x attribute as the finer cells; else
        class x attribute are the groups themselves

    >>> labels, place = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    >>> groups = make_groups(labels, place, class_names=("land", "water"), attribute_names=("dry", "wet"))
    >>> groups.names[groups.group[2]], groups.minority.tolist()
    ('land, wet', [False, False, True, False])
    """
    check_group_count(class_names, attribute_names, "groups")
    if majority is None:
        majority = majority_attribute(labels, attribute, len(class_names))
    minority = attribute != majority[labels]
    cell = labels * len(attribute_names) + attribute
    cell_names = tuple(f"{c}, {a}" for c in class_names for a in attribute_names)
    attributes = tuple(attribute_names)
    if not agreement:
        return Groups(cell, cell_names, minority, None, (), attributes, majority)
    names = tuple(f"{c}, {word}" for c in class_names for word in ("agrees", "conflicts"))
    return Groups(2 * labels + minority, names, minority, cell, cell_names, attributes, majority)


def encode_attribute(values: AnyArray, where: str, names: Sequence[str]) -> IntArray:
    """Turn one attribute value a sample (numbers or text) into indices into `names`."""
    text = np.asarray(values).astype(str)
    if text.ndim != 1:
        raise InputError(f"{where}: groups must have one value a sample, got shape {text.shape}")
    known = np.array(names)
    missing = ~np.isin(text, known)
    if missing.any():
        raise InputError(
            f"{where}: group value {str(text[missing][0])!r} does not occur in the training set, "
            f"which has {', '.join(map(repr, known.tolist()))}"
        )
    order = np.argsort(known)
    return order[np.searchsorted(known, text, sorter=order)].astype(np.int64)


def attribute_vocabulary(values: AnyArray) -> tuple[str, ...]:
    """Return the attribute's values as names, sorted as the values are (2 before 10)."""
    return tuple(str(value) for value in np.unique(np.asarray(values)))
