"""What callers give as labels: numbers, or the classes' names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcsl.data.bad import shown
from tcsl.data.manifest import Column, encode
from tcsl.errors import InputError
from tcsl.types import AnyArray


def read_labels(labels: Any, name: str) -> AnyArray:
    """Return (n,) numbers, or text as objects; refuse what is missing, blank, mixed or nested.

    Parameters
    ----------
    labels : (n,) a list, an array, a pandas or polars column
    name : what messages call the data

    >>> read_labels([1, 0, 1], "data"), read_labels(["bee", "ant"], "data")
    (array([1, 0, 1]), array(['bee', 'ant'], dtype=object))
    """
    try:
        array = np.asarray(labels)
    except ValueError:
        raise InputError(f"{name}: labels must have shape (n,), one a sample; some of these are lists") from None
    if array.ndim != 1:
        raise InputError(f"{name}: labels must have shape (n,), got {array.shape}")
    if array.dtype.kind in "biuf":
        return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    # A list's own values: as an array, a missing one among text would be the class "nan".
    given = labels if isinstance(labels, list | tuple) else array
    values = [value.item() if isinstance(value, np.generic) else value for value in given]
    known = (v for v in values if isinstance(v, str) or _is_number(v))
    fits = _is_text if isinstance(next(known, 0), str) else _is_number
    for i, value in enumerate(values):
        if not fits(value):
            raise InputError(
                f"{name}: labels must be whole numbers, or text, in every sample; got {shown(repr(value))} at index {i}"
            )
    return np.array(values, object if fits is _is_text else None)


def encode_labels(text: AnyArray, class_names: Sequence[str] | None, name: str) -> Column:
    """Return the classes of labels that are text; their names are sorted as those of tables are, unless given.

    >>> encode_labels(np.array(["10", "2", "10"], object), None, "data")
    Column(codes=array([1, 0, 1]), names=('2', '10'))
    """
    if class_names is not None:
        known = set(class_names)
        odd = next((i for i, label in enumerate(text) if label not in known), None)
        if odd is not None:
            raise InputError(
                f"{name}: {shown(text[odd])!r} at index {odd} is none of the classes, "
                f"{shown(', '.join(map(repr, class_names)), 200)}"
            )
    return encode(text.tolist(), class_names)


def _is_number(value: object) -> bool:
    """Tell whether a value may be a class's number; NaN is missing."""
    return (isinstance(value, int) and abs(value) < 2**63) or (isinstance(value, float) and value == value)


def _is_text(value: object) -> bool:
    """Tell whether a value may be a class's name: not blank, and text that can be written to a file."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in value)
