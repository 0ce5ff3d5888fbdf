"""Arrays in a file: npz or safetensors, with inputs and labels, optionally groups, split and ids."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tcsl.data.bad import Bad, OnBad
from tcsl.data.columns import find_columns
from tcsl.data.manifest import Manifest, encode, read_splits
from tcsl.errors import InputError
from tcsl.types import AnyArray

_SPLIT_KEY = re.compile(r"(.+)_(train|val|valid|test)", re.IGNORECASE)


def read_arrays(path: Path, columns: Mapping[str, str], *, on_bad: OnBad) -> Manifest:
    """Read X and y, or x_train, y_train, x_test, y_test.

    Images are (n, channels, height, width) or (n, height, width, channels) or, in bytes, (n, height, width); rows of
    features or embeddings are (n, features).
    """
    arrays = _joined(_load(path), path)
    found = find_columns(path.name, arrays, columns)
    if "inputs" not in found:
        names = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InputError(f"{path}: which array holds the inputs? It has {names}; name it with --columns inputs=NAME")
    part = {role: arrays[names[0]] for role, names in found.items()}
    inputs = as_inputs(part["inputs"], str(path))
    n = len(inputs)
    for role, array in part.items():
        if role != "inputs" and array.shape != (n,):
            raise InputError(
                f"{path}: {found[role][0]} must have shape ({n},) as there are {n} inputs, got {array.shape}"
            )
    where = f"of {path.name}"
    split, unknown = read_splits(encode(_text(part["split"]))) if "split" in part else (None, {})
    manifest = Manifest(
        name=path.name,
        inputs=inputs,
        labels=encode(_text(part["label"])),
        ids=np.array(_text(part["id"]), object) if "id" in part else np.arange(n),
        rows=np.arange(n),
        where=lambda row: f"sample {row} {where}",
        split=split,
        group=encode(_text(part["group"])) if "group" in part else None,
    )
    bad: dict[int, Bad] = {}
    if unknown:
        codes = encode(_text(part["split"])).codes
        bad = {int(i): manifest.bad(int(i), unknown[codes[i]]) for i in np.flatnonzero(np.isin(codes, list(unknown)))}
    return manifest.without(bad | not_finite(manifest), on_bad)


def as_inputs(array: AnyArray, where: str) -> Tensor:
    """Return (n, ...) uint8 images with the channels first, or float32."""
    if array.dtype.kind not in "iufb":
        raise InputError(f"{where}: inputs must be numbers, got dtype {array.dtype}")
    if array.ndim < 2:
        raise InputError(
            f"{where}: inputs must have shape (n, features) or (n, channels, height, width), got {array.shape}"
        )
    if array.dtype == np.uint8 and array.ndim == 3:
        array = array[:, None]
    if array.ndim == 4 and array.shape[1] not in (1, 3) and array.shape[3] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    wanted = array if array.dtype == np.uint8 else array.astype(np.float32)
    return torch.from_numpy(wanted)


def not_finite(manifest: Manifest) -> dict[int, Bad]:
    """Return, by position, the samples with values that are NaN or infinite."""
    if not isinstance(manifest.inputs, Tensor) or manifest.inputs.dtype == torch.uint8 or len(manifest) == 0:
        return {}
    odd = ~torch.isfinite(manifest.inputs).flatten(1).all(1)
    return {int(i): manifest.bad(int(i), "has values that are NaN or infinite") for i in odd.nonzero().flatten()}


def _load(path: Path) -> dict[str, AnyArray]:
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return dict(load_file(path))
        except (SafetensorError, OSError, KeyError, TypeError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
    try:
        stored: Any = np.load(path, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            raise InputError(f"{path} holds one array and no labels; save both with numpy.savez(..., X=X, y=y)")
        with stored:
            return {name: stored[name] for name in stored.files}
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        hint = " (arrays of Python objects are not read; save numbers or text)" if "pickle" in str(error) else ""
        raise InputError(f"{path} cannot be read: {error or type(error).__name__}{hint}") from None


def _joined(arrays: dict[str, AnyArray], path: Path) -> dict[str, AnyArray]:
    """Turn x_train, y_train, x_test, ... into x, y and split."""
    forms = {name: _SPLIT_KEY.fullmatch(name) for name in arrays}
    if not arrays or any(form is None for form in forms.values()):
        return arrays
    pieces: dict[str, dict[str, AnyArray]] = {}
    for name, form in forms.items():
        assert form is not None
        pieces.setdefault(form[1], {})[form[2].lower()] = arrays[name]
    splits = list(next(iter(pieces.values())))
    for name, parts in pieces.items():
        if list(parts) != splits or any(part.ndim == 0 for part in parts.values()):
            raise InputError(f"{path}: {name} must be there for {', '.join(splits)}, as the other arrays are")
    try:
        joined = {name: np.concatenate([parts[split] for split in splits]) for name, parts in pieces.items()}
    except ValueError as error:
        raise InputError(f"{path}: the splits' arrays do not fit together: {error}") from None
    first = next(iter(pieces.values()))
    return joined | {"split": np.repeat(splits, [len(first[split]) for split in splits])}


def _text(array: AnyArray) -> list[str]:
    if array.dtype.kind == "S":
        return [value.decode("utf-8", "replace") for value in array.tolist()]
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.round(array)).all():
        array = array.astype(np.int64)
    return [str(value) for value in array.tolist()]
