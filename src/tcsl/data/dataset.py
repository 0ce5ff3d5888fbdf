"""What a dataset is: inputs, labels, ids, and, only if the user has them, groups."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tcsl.data.bad import shown
from tcsl.data.groups import Groups
from tcsl.data.labels import encode_labels, read_labels
from tcsl.errors import GroupsHidden, InputError
from tcsl.types import AnyArray, IntArray

HASH_BLOCK = 64  # samples that are hashed together, so that readers can hash in parallel what they decode


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """`n` labelled samples.

    Attributes
    ----------
    inputs : (n, ...) uint8 images, or float32 images or rows, on the CPU; decoded files lie in a mapped file
    labels : (n,) int64, 0 .. classes - 1
    class_names : one name a class
    ids : (n,) an id for each sample, integers or text
    name : what messages call the dataset
    views : other inputs of the same samples, such as "core" (x^c) and "spurious" (x^s)
    facts : how it was read, for the run's record: source, transform, what was skipped
    units : (n,) int64, what each sample shows, where several show the same: a patient, an object. The verdict counts
        each unit of the held-out samples once
    """

    inputs: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    ids: AnyArray
    name: str = "data"
    views: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    units: IntArray | None = None
    _groups: Groups | None = None
    _hidden: bool = False

    def __len__(self) -> int:
        """Return n."""
        return len(self.labels)

    def __repr__(self) -> str:
        """Return what it is in one line, not what is in it."""
        shape = " x ".join(map(str, self.inputs.shape[1:]))
        names = ", ".join(self.class_names[:5]) + ", ..." * (self.num_classes > 5)
        return f"<{self.name}: {len(self):,} samples of {shape}, {self.num_classes} classes ({shown(names, 120)})>"

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def named(self) -> bool:
        """Whether classes have names, as in a file; else a label is the number of its class, as in arrays."""
        return "source" in self.facts or self.class_names != tuple(map(str, range(self.num_classes)))

    @property
    def groups(self) -> Groups | None:
        """The groups, or None where they are not known; raises where they are hidden."""
        if self._hidden:
            raise GroupsHidden(
                f"the groups of {self.name} were read by a method that did not declare them: "
                'name "train groups" or "val groups" in the method\'s needs'
            )
        return self._groups

    def without_groups(self) -> Dataset:
        """Return the same data with the groups hidden: reading them raises."""
        view = replace(self, _hidden=True)
        for known in ("inputs_digest", "fingerprint"):
            if known in self.__dict__:  # the same data, hashed once
                view.__dict__[known] = self.__dict__[known]
        return view

    @property
    def numpy_labels(self) -> IntArray:
        """The labels as a NumPy array, sharing memory."""
        return np.asarray(self.labels.numpy(), np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over inputs, labels, ids and class names; groups do not enter it."""
        digest = hashlib.sha256(self.inputs_digest.encode())
        for array in (self.labels.numpy(), np.asarray(self.ids)):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        digest.update("\0".join(self.class_names).encode())
        return digest.hexdigest()

    @cached_property
    def inputs_digest(self) -> str:
        """SHA-256 over the digests of the inputs' blocks; images are hashed with the channels last."""
        return join_digests(self.inputs, digest_blocks(self.inputs))


def digest_blocks(inputs: Tensor) -> list[str]:
    """Return the SHA-256 of every `HASH_BLOCK` samples, in parallel."""
    rows = inputs.permute(0, 2, 3, 1) if inputs.ndim == 4 else inputs

    def one(block: Tensor) -> str:
        return hashlib.sha256(np.ascontiguousarray(block.numpy()).view(np.uint8).data).hexdigest()

    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, rows.split(HASH_BLOCK)))


def join_digests(inputs: Tensor, blocks: Sequence[str]) -> str:
    """Return the digest of inputs whose blocks have these digests."""
    return hashlib.sha256(f"{inputs.dtype}{tuple(inputs.shape)}{''.join(blocks)}".encode()).hexdigest()


class Splits(NamedTuple):
    """A training set and, where there are any, sets to test and to validate on.

    Attributes
    ----------
    train, test, val : as they are published, or as the source gives them
    val_iid : a validation set that is distributed like the training set, where `val` is not: choices may be made on
        this one only, since the other tells about the groups
    """

    train: Dataset
    test: Dataset | None = None
    val: Dataset | None = None
    val_iid: Dataset | None = None

    @property
    def evaluation(self) -> Dataset | None:
        """What a model is evaluated on: the test set, else the validation set."""
        return self.val if self.test is None else self.test

    @property
    def validation(self) -> Dataset | None:
        """What methods may look at that need a validation set; not what models are evaluated on."""
        found = self.val_iid if self.val is None else self.val
        return None if found is self.evaluation else found


def make_dataset(
    inputs: Tensor | AnyArray,
    labels: Tensor | AnyArray | Sequence[Any],
    *,
    class_names: Sequence[str] | None = None,
    ids: AnyArray | None = None,
    groups: Groups | None = None,
    name: str = "data",
    views: Mapping[str, Tensor] | None = None,
    facts: Mapping[str, Any] | None = None,
    units: AnyArray | None = None,
    test: bool = False,
) -> Dataset:
    """Check the parts and put them together.

    Parameters
    ----------
    inputs : (n, ...) uint8 images, or float images or rows
    labels : (n,) integers, 0 .. classes - 1, or text, the classes' names; in a test set, classes may be missing
    class_names : one a class; by default the names that occur as labels, sorted, or the classes' numbers
    ids : (n,) by default 0 .. n - 1
    views : other inputs (n, ...) of the same samples
    units : (n,) integers or text, equal where samples show the same

    >>> len(make_dataset(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])))
    4
    >>> make_dataset(torch.zeros(4, 2), ["bee", "ant", "bee", "ant"])
    <data: 4 samples of 2, 2 classes (ant, bee)>
    """
    if class_names is not None and len(set(class_names)) < len(class_names):
        raise InputError(f"{name}: class names must differ, got {shown(', '.join(map(repr, class_names)), 200)}")
    if not isinstance(labels, Tensor):
        labels = read_labels(labels, name)
        if labels.dtype == object:
            column = encode_labels(labels, class_names, name)
            labels, class_names = column.codes, column.names
    inputs, labels = torch.as_tensor(inputs), torch.as_tensor(labels)
    n = len(inputs) if inputs.ndim else 0
    for what, length in (
        ("labels", len(labels) if labels.ndim else 0),
        *((v, len(x)) for v, x in (views or {}).items()),
    ):
        if length != n:
            raise InputError(f"{name}: {n} inputs but {length} {what}; there must be one a sample")
    if inputs.ndim < 2 and n:
        raise InputError(f"{name}: a sample must have one dimension or more, got inputs of shape {tuple(inputs.shape)}")
    labels, classes = check_labels(labels, name, gaps=test, class_names=class_names or ())
    if class_names is not None:
        if classes > len(class_names) or (classes < len(class_names) and not test):
            raise InputError(f"{name}: {classes} classes but {len(class_names)} class names")
        classes = len(class_names)
    inputs = inputs.detach().cpu()
    if inputs.dtype != torch.uint8:
        inputs = inputs.float()
        bad = ~torch.isfinite(inputs).flatten(1).all(1)
        if bad.any():
            raise InputError(
                f"{name}: {int(bad.sum())} samples have NaN or infinite values, first at index "
                f"{int(bad.nonzero()[0])}; impute or remove them"
            )
    ids = np.arange(n) if ids is None else np.asarray(ids)
    ids = ids.astype(str) if ids.dtype == object else ids
    if len(ids) != n:
        raise InputError(f"{name}: {n} samples but {len(ids)} ids")
    if len(np.unique(ids)) != n:
        values, counts = np.unique(ids, return_counts=True)
        raise InputError(f"{name}: ids must be unique; {values[counts > 1][0].item()!r} occurs {counts.max()} times")
    if groups is not None and len(groups.group) != n:
        raise InputError(f"{name}: {n} samples but {len(groups.group)} group labels")
    names = tuple(map(str, class_names)) if class_names is not None else tuple(map(str, range(classes)))
    return Dataset(
        inputs, labels, names, ids, name, dict(views or {}), dict(facts or {}), check_units(units, n, name), groups
    )


def check_units(units: AnyArray | None, n: int, name: str) -> IntArray | None:
    """Return 0 .. units - 1 for each sample; refuse what is missing, which would be one unit.

    >>> check_units(np.array(["ann", "bob", "ann"]), 3, "data")
    array([0, 1, 0])
    """
    if units is None:
        return None
    values = np.asarray(units)
    if values.shape != (n,):
        raise InputError(f"{name}: {n} samples but units of shape {values.shape}; there must be one a sample")
    place: dict[str, int] = {}
    codes = np.empty(n, np.int64)
    for i, value in enumerate(values.tolist()):
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not whole and not (isinstance(value, str) and value.strip()):
            raise InputError(f"{name}: units must be whole numbers or text, none missing, got {value!r} at index {i}")
        codes[i] = place.setdefault(str(int(value) if whole else value), len(place))
    return codes


def check_labels(
    labels: Tensor, name: str, *, gaps: bool = False, class_names: Sequence[str] = ()
) -> tuple[Tensor, int]:
    """Return the labels as int64 and the number of classes; refuse what is not 0 .. classes - 1.

    Parameters
    ----------
    gaps : whether a class may have no sample, as in a test set
    class_names : what messages call the classes, where they have names
    """
    encode = "encode classes with numpy.unique(y, return_inverse=True)[1]"
    if labels.ndim != 1:
        raise InputError(f"{name}: labels must have shape (n,), got {tuple(labels.shape)}")
    if len(labels) == 0:
        raise InputError(f"{name}: there is no sample")
    labels = labels.detach().cpu()
    if labels.is_floating_point() or labels.is_complex():
        whole = torch.isfinite(labels) & (labels == labels.round())
        if not bool(whole.all()):
            at = int((~whole).nonzero()[0])
            cure = "leave such samples out" if bool(labels[at].isnan()) else encode
            raise InputError(f"{name}: labels must be integers, got {labels[at].item()} at index {at}; {cure}")
    labels = labels.to(torch.int64)
    present = labels.unique()
    low, high = int(present[0]), int(present[-1])
    if low < 0:
        raise InputError(f"{name}: labels must be 0 .. classes - 1, got {low}")
    if gaps:
        return labels, high + 1
    if len(present) != high + 1:
        gap = int((present != torch.arange(len(present))).nonzero()[0])
        if gap < len(class_names):
            raise InputError(f"{name}: no sample is of class {class_names[gap]!r}; leave its name out")
        raise InputError(f"{name}: labels must be 0 .. {high} without gaps, but no sample has label {gap}; {encode}")
    if high == 0:
        raise InputError(f"{name}: all samples have one class; a shortcut needs two or more to tell apart")
    return labels, high + 1
