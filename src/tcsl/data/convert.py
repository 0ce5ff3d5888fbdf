"""From what a caller has, arrays or a torch Dataset, to ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tcsl.data.arrays import as_inputs
from tcsl.data.bad import shown
from tcsl.data.dataset import Dataset, Splits, make_dataset
from tcsl.data.groups import Groups, attribute_vocabulary, encode_attribute, make_groups
from tcsl.data.image import BadImage, to_rgb
from tcsl.data.labels import read_labels
from tcsl.errors import InputError
from tcsl.types import AnyArray, IntArray

Data: TypeAlias = Any  # Dataset | Splits | torch.utils.data.Dataset of (x, y) pairs | (X, y)


def as_dataset(
    data: Data,
    *,
    groups: AnyArray | None = None,
    name: str = "data",
    test: bool = False,
    like: Dataset | None = None,
) -> Dataset:
    """Return `data` as a Dataset.

    Parameters
    ----------
    data : a Dataset of ours, Splits (of which the set for training or testing is taken), a torch Dataset of (x, y)
        pairs, or a pair of arrays (X, y) with X of shape (n, ...). Of four dimensions they are images: the channels may
        come last, and whole numbers from 0 to 255 become bytes. A torch Dataset is read once, so random transforms in
        it are drawn once: use `train.augment` instead
    groups : (n,) one attribute value a sample (numbers or text), for evaluation only
    test : whether classes may be missing
    like : the training set of a test set: its classes and its majority attributes are used

    >>> as_dataset((np.eye(4), [0, 1, 0, 1])).inputs.shape
    torch.Size([4, 4])
    """
    if isinstance(data, Splits):
        found = data.evaluation if test else data.train
        if found is None:
            raise InputError(f"{data.train.name}: there is neither a test nor a validation set")
        data = found
    if isinstance(data, Dataset):
        if groups is not None:
            raise InputError("groups= is for arrays and torch Datasets; this Dataset has its own")
        return data if like is None else matched(data, like)
    given, labels = _pair(data, name) if isinstance(data, tuple) else _collect(data, name)
    inputs = _inputs(given, name, like)
    if like is not None:
        labels = _by_name(read_labels(labels, name), like.class_names)
        if labels.dtype != object and len(labels) and np.isfinite(labels.max()):
            _check_range(name, labels.max(), like)
        _check_scale(name, inputs, like)
    made = make_dataset(inputs, labels, name=name, test=test, class_names=like.class_names if like else None)
    return made if groups is None else replace(made, _groups=_groups(made, np.asarray(groups), like))


def matched(data: Dataset, like: Dataset) -> Dataset:
    """Return a test or validation set in the training set's classes, features and attribute values, by their names.

    >>> train = make_dataset(torch.eye(3), torch.arange(3), class_names=["ant", "bee", "cat"])
    >>> test = make_dataset(torch.eye(3)[:2], torch.arange(2), class_names=["bee", "cat"])
    >>> matched(test, train).labels.tolist()
    [1, 2]
    """
    data = _with_features(data, like)
    _check_scale(data.name, data.inputs, like)
    classes = _codes(data, like)
    same = data.class_names == like.class_names
    groups, known = data.groups, like.groups
    if groups is not None and known is not None:
        same &= groups.attribute_names == known.attribute_names and np.array_equal(groups.majority, known.majority)
    if same:
        return data
    labels = classes[data.numpy_labels]
    if groups is not None:
        names = known.attribute_names if known else groups.attribute_names
        groups = make_groups(
            labels,
            encode_attribute(np.array(groups.attribute_names)[groups.attribute], data.name, names),
            class_names=like.class_names,
            attribute_names=names,
            majority=known.majority if known else None,
            agreement=(known or groups).cell is not None,
        )
    return replace(data, labels=torch.from_numpy(labels), class_names=like.class_names, _groups=groups)


def _codes(data: Dataset, like: Dataset) -> IntArray:
    """Return, for each class of the data, its number in the training set."""
    if not data.named:
        _check_range(data.name, data.num_classes - 1, like)
        return np.arange(data.num_classes)
    place = {name: i for i, name in enumerate(like.class_names)}
    present = [data.class_names[k] for k in np.unique(data.numpy_labels)]
    unknown = [name for name in present if name not in place]
    if unknown:
        raise InputError(
            f"{data.name}: class {unknown[0]!r} does not occur in the training set, which has "
            f"{shown(', '.join(map(repr, like.class_names)), 200)}; a model cannot predict it"
        )
    return np.array([place.get(name, 0) for name in data.class_names], np.int64)


def _check_range(name: str, top: float, like: Dataset) -> None:
    if top >= like.num_classes:
        raise InputError(f"{name}: its labels go up to {top:g}, those of the training set up to {like.num_classes - 1}")


def _check_scale(name: str, inputs: Tensor, like: Dataset) -> None:
    """Refuse images that go to 255 in one set and to 1 in the other: a model of the one is wrong on the other."""
    if inputs.ndim < 4 or like.inputs.ndim < 4 or inputs.dtype == like.inputs.dtype or not len(inputs):
        return
    here, there = (
        ("bytes" if images.dtype == torch.uint8 else "floats", images.max().item()) for images in (inputs, like.inputs)
    )
    if min(here[1], there[1]) <= 1 < max(here[1], there[1]):
        raise InputError(
            f"{name}: its images are {here[0]} up to {here[1]:g}, those of the training set {there[0]} up to "
            f"{there[1]:g}: give both alike"
        )


def _with_features(data: Dataset, like: Dataset) -> Dataset:
    """Return the data with its columns of features in the training set's order."""
    here, wanted = data.facts.get("features"), like.facts.get("features")
    if here is None or wanted is None or here == wanted:
        return data
    odd = sorted(set(wanted) ^ set(here))
    if odd:
        which = "not among those of the training set" if odd[0] in here else "missing: the training set has it"
        raise InputError(
            f"{data.name}: the feature {shown(odd[0])!r} is {which}; name the columns of both with "
            "--columns inputs=A+B+C (settings data.columns)"
        )
    order = [here.index(name) for name in wanted]
    return replace(data, inputs=data.inputs[:, order].contiguous(), facts={**data.facts, "features": wanted})


def _groups(made: Dataset, values: AnyArray, like: Dataset | None) -> Groups:
    if len(values) != len(made):
        raise InputError(f"{made.name}: {len(made)} samples but {len(values)} group labels")
    known = like.groups if like else None
    names = known.attribute_names if known else attribute_vocabulary(values)
    return make_groups(
        made.numpy_labels,
        encode_attribute(values, made.name, names),
        class_names=made.class_names,
        attribute_names=names,
        majority=known.majority if known else None,
    )


def _by_name(labels: AnyArray, class_names: tuple[str, ...]) -> AnyArray:
    """Return numbers as the names that they are, where classes are named by other numbers than 0, 1, 2, ...

    >>> _by_name(np.array([3, 1]), ("1", "3")), _by_name(np.array([1, 0]), ("ant", "bee"))
    (array(['3', '1'], dtype=object), array([1, 0]))
    """
    numbered = all(name.removeprefix("-").isdecimal() for name in class_names)
    if labels.dtype == object or not numbered or class_names == tuple(map(str, range(len(class_names)))):
        return labels
    return np.array([f"{label:g}" if label % 1 else str(int(label)) for label in labels.tolist()], object)


def _inputs(given: AnyArray, name: str, like: Dataset | None) -> Tensor:
    """Return what was given as inputs; what has three dimensions and is no bytes may be sequences, and stays."""
    whole = None if like is None else like.inputs.dtype == torch.uint8
    if given.ndim == 3 and given.dtype != np.uint8:
        whole = False
    return torch.from_numpy(np.ascontiguousarray(as_inputs(given, name, what="X", whole=whole)))


def _pair(data: tuple[Any, ...], name: str) -> tuple[AnyArray, Any]:
    if len(data) != 2:
        raise InputError(f"{name}: arrays come as a pair (X, y), got a tuple of {len(data)}")
    X, y = (_numpy(part) if isinstance(part, Tensor) else part for part in data)
    X = np.asarray(X)
    if X.dtype.kind in "OUS":  # such as a frame with columns that may lack values
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{name}: X must be numbers, got dtype {X.dtype}") from None
    return X, y


def _numpy(part: Tensor) -> AnyArray:
    part = part.detach().cpu()
    return np.asarray((part.float() if part.dtype == torch.bfloat16 else part).numpy())


def _collect(data: Any, name: str) -> tuple[AnyArray, list[Any]]:
    """Read a torch Dataset once, from first to last."""
    table = isinstance(data, Mapping) or hasattr(data, "dtypes")  # of pandas or polars
    if table or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise InputError(
            f"{name}: expected a tcsl Dataset, a torch Dataset with a length, or a pair of arrays (X, y); "
            f"got {type(data).__name__}"
        )
    n = len(data)
    if n == 0:
        raise InputError(f"{name}: there is no sample")
    inputs: Tensor | None = None
    labels: list[Any] = []
    for i in range(n):
        item = data[i]
        if not (isinstance(item, tuple | list) and len(item) == 2):
            raise InputError(f"{name}: item {i} must be a pair (x, y), got {type(item).__name__}")
        x = item[0] if isinstance(item[0], Tensor) else _image(item[0], name, i)
        if inputs is None:
            inputs = torch.empty((n, *x.shape), dtype=x.dtype)  # filled in place: a list would take the memory twice
        if x.shape != inputs.shape[1:] or x.dtype != inputs.dtype:
            size = x.ndim == 3 and x.shape[1:] != inputs.shape[2:]
            cure = "a Resize" if size else "one that makes all alike, such as image.convert('RGB'),"
            raise InputError(
                f"{name}: item {i} has shape {tuple(x.shape)} and type {x.dtype}, item 0 has "
                f"{tuple(inputs.shape[1:])} and {inputs.dtype}; add {cure} to the dataset's transform"
            )
        inputs[i] = x.detach()
        single = math.prod(getattr(item[1], "shape", (2,))) == 1  # an array or tensor of one number
        labels.append(item[1].item() if single else item[1])
    assert inputs is not None
    return _numpy(inputs), labels


def _image(x: Any, name: str, i: int) -> Tensor:
    """Turn a PIL image into channels first, one of a palette or the like into RGB; arrays stay."""
    if isinstance(x, Image.Image) and x.mode not in ("L", "RGB", "RGBA", "F"):
        try:
            x, _ = to_rgb(x)
        except BadImage as error:
            raise InputError(f"{name}: item {i}'s image {error}") from None
    array = np.array(x)
    if array.dtype.kind not in "iufb":
        raise InputError(f"{name}: item {i}'s x must be an image, an array or a tensor, got {type(x).__name__}")
    tensor = torch.from_numpy(array)
    if isinstance(x, np.ndarray):
        return tensor
    return tensor[None] if tensor.ndim == 2 else tensor.permute(2, 0, 1).contiguous()
