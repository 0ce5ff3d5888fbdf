"""Arrays in a file: npz or safetensors, with inputs and labels, optionally groups, units, split and ids."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tcsl.data.bad import Bad, OnBad, shown
from tcsl.data.columns import ALIASES, find_columns
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest, encode, join_names, read_splits
from tcsl.errors import InputError
from tcsl.types import AnyArray

_LOOKED_AT = 1024  # images at a time
_SPLIT_KEY = re.compile(r"(.+)_(train|val|valid|test)", re.IGNORECASE)


def read_arrays(path: Path, columns: Mapping[str, str], *, on_bad: OnBad) -> Manifest:
    """Read X and y, or x_train, y_train, x_test, y_test.

    Images are (n, channels, height, width) or (n, height, width, channels) or, in bytes, (n, height, width); rows of
    features or embeddings are (n, features).
    """
    arrays = _joined(_load(path), columns, path)
    found = find_columns(path.name, arrays, columns)
    if "inputs" not in found:
        names = shown(", ".join(f"{name} {array.shape}" for name, array in arrays.items()))
        raise InputError(f"{path}: which array holds the inputs? It has {names}; name it with --columns inputs=NAME")
    if len(found["inputs"]) > 1:
        raise InputError(f"{path}: inputs is one array, got {columns['inputs']!r}; join them with numpy.concatenate")
    inputs = as_inputs(arrays[found["inputs"][0]], str(path))
    n = len(inputs)
    parts: dict[str, list[list[str]]] = {
        role: [_text(arrays[name], f"{path}: {name}", n) for name in found[role]]
        for role in ("label", "split", "group", "unit", "id")
        if role in found
    }
    text = {role: join_names(several) for role, several in parts.items()}
    splits = encode(text["split"]) if "split" in text else None
    split, unknown = read_splits(splits) if splits is not None else (None, {})
    ids = arrays[found["id"][0]] if "id" in found else np.arange(n)
    manifest = Manifest(
        name=path.name,
        inputs=inputs,
        labels=encode(text["label"]),
        ids=ids if ids.dtype.kind in "iu" else np.array(text["id"], object),
        rows=np.arange(n),
        where=lambda row: f"sample {row} of {path.name}",
        split=split,
        group=encode(text["group"]) if "group" in text else None,
        unit=encode(text["unit"]) if "unit" in text else None,
    )
    bad = not_finite(manifest)
    if splits is not None:
        bad |= manifest.of_values(splits, unknown)
    return manifest.without(bad | lacking(manifest, parts), on_bad)


def as_inputs(array: AnyArray, where: str, *, what: str = "inputs", whole: bool | None = None) -> AnyArray:
    """Return (n, ...) uint8 images with the channels first, or float32.

    Parameters
    ----------
    what : the array's name in messages
    whole : whether images of whole numbers are bytes, as the training set's are; by default their values tell
    """
    if array.dtype.kind not in "iufb":
        raise InputError(f"{where}: {what} must be numbers, got dtype {array.dtype}")
    if array.ndim < 2:
        raise InputError(
            f"{where}: {what} must have shape (n, features) or (n, channels, height, width), got {array.shape}"
        )
    if 0 in array.shape[1:]:
        raise InputError(f"{where}: the inputs are empty: they have shape {array.shape}")
    if whole is not False:
        array = as_bytes(array, least=0 if whole else 2)
    if array.dtype == np.uint8 and array.ndim == 3:
        array = array[:, None]
    if array.ndim == 4 and array.shape[1] not in (1, 3, 4) and array.shape[3] in (1, 3, 4):
        small = min(array.shape[1:3]) <= array.shape[3]  # a map of many features
        array = array if small else array.transpose(0, 3, 1, 2)
    return array if array.dtype == np.uint8 else as_float32(array)


def as_bytes(array: AnyArray, *, least: int = 2) -> AnyArray:
    """Return images (three dimensions or more) of whole numbers from 0 to 255 as bytes; others stay as they are.

    Floats must reach `least`: of 0 and 1 alone, 1 may be white.

    >>> as_bytes(np.full((1, 2, 2), 200)).dtype, as_bytes(np.full((1, 2, 2), 0.5)).dtype
    (dtype('uint8'), dtype('float64'))
    """
    if array.ndim < 3 or array.dtype == np.uint8 or array.size == 0:
        return array
    low, high = array.min(), array.max()
    if not (low >= 0 and high <= 255):
        return array
    parts = (array[at : at + _LOOKED_AT] for at in range(0, len(array), _LOOKED_AT))  # until one is not whole
    whole = array.dtype.kind in "iu" or (high >= least and all((part == np.round(part)).all() for part in parts))
    return array.astype(np.uint8) if whole else array


def as_float32(array: AnyArray) -> AnyArray:
    """Return the array as float32; what is too large for it becomes infinite, which `not_finite` then says."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(array, np.float32)


def stack_rows(values: Iterable[Any], name: str, where: str) -> tuple[AnyArray, dict[int, Bad]]:
    """Return (n, ...) float32 from one list of numbers a row, nested or not, and, by position, the rows that are bad.

    Parameters
    ----------
    name : what messages call a row's list
    where : what they call all of them

    >>> stack_rows([[1, 2], [3], [4, 5]], "x", "a.jsonl")
    (array([[1., 2.], [0., 0.], [4., 5.]], dtype=float32), {1: Bad(where="'x'", why='has shape (1,), the others (2,)')})
    """
    rows: list[AnyArray | None] = []
    for value in values:
        try:
            rows.append(as_float32(np.asarray(value)) if isinstance(value, list) else None)
        except (TypeError, ValueError, OverflowError):
            rows.append(None)
    shapes = Counter(row.shape for row in rows if row is not None and row.size)
    if not shapes:
        raise InputError(f"{where} must hold lists of numbers")
    usual = shapes.most_common(1)[0][0]
    out = np.zeros((len(rows), *usual), np.float32)
    bad: dict[int, Bad] = {}
    for i, row in enumerate(rows):
        if row is None:
            bad[i] = Bad(repr(name), "is not a list of numbers, or the lists in it differ in length")
        elif row.shape != usual:
            bad[i] = Bad(repr(name), f"has shape {row.shape}, the others {usual}")
        else:
            out[i] = row
    return out, bad


def lacking(manifest: Manifest, parts: Mapping[str, Sequence[Sequence[str]]]) -> dict[int, Bad]:
    """Return, by position, the samples for which a column is blank; each role has one column or several.

    A sample without a group is a sample all the same: groups are for evaluation only.
    """
    absent: dict[int, list[str]] = {}
    for role, columns in parts.items():
        for i in {i for column in columns for i, value in enumerate(column) if not value.strip() and role != "group"}:
            absent.setdefault(i, []).append(role)
    return {i: manifest.bad(i, f"has no {' and no '.join(roles)}") for i, roles in absent.items()}


def not_finite(manifest: Manifest) -> dict[int, Bad]:
    """Return, by position, the samples with values that are NaN or infinite."""
    inputs = manifest.inputs
    if isinstance(inputs, Images) or inputs.dtype == np.uint8 or len(manifest) == 0:
        return {}
    odd = np.flatnonzero(~np.isfinite(inputs).reshape(len(inputs), -1).all(1))
    return {int(i): manifest.bad(int(i), "has values that are NaN or infinite") for i in odd}


def _load(path: Path) -> dict[str, AnyArray]:
    if path.suffix.lower() == ".safetensors":
        import torch  # numpy has no bfloat16
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            tensors = load_file(path)
            return {
                name: (one.float() if one.dtype == torch.bfloat16 else one).numpy() for name, one in tensors.items()
            }
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
            raise InputError(f"{path} is not a safetensors file, or it is damaged: {shown(str(error))}") from None
    try:
        with open(path, "rb") as stream:
            if stream.read(6) == b"\x93NUMPY":
                raise InputError(f"{path} holds one array and no labels; save both with numpy.savez(..., X=X, y=y)")
        zipfile.ZipFile(path).close()  # numpy takes what is not a zip file for a pickle
        stored: Any = np.load(path, allow_pickle=False)
        with stored:
            arrays = {name: np.asarray(stored[name]) for name in stored.files}
    except InputError:
        raise
    except Exception as error:  # zipfile and numpy raise a dozen kinds on damaged bytes
        why = f"is not an npz file, or it is damaged: {shown(str(error)) or type(error).__name__}"
        if "pickle" in str(error):
            why = "holds arrays of Python objects, which are not read; save numbers or text"
        raise InputError(f"{path} {why}") from None
    return arrays


def _joined(arrays: dict[str, AnyArray], columns: Mapping[str, str], path: Path) -> dict[str, AnyArray]:
    """Turn x_train, y_train, x_test, ... into x, y and split; other arrays stay beside them."""
    forms = {name: form for name in arrays if (form := _SPLIT_KEY.fullmatch(name))}
    others = {name: array for name, array in arrays.items() if name not in forms}
    if not forms or any(name.lower() in ALIASES["label"] or name == columns.get("label") for name in others):
        return arrays
    pieces: dict[str, dict[str, AnyArray]] = {}
    for name, form in forms.items():
        pieces.setdefault(form[1], {})[form[2].lower()] = arrays[name]
    first = next(iter(pieces))
    splits = list(pieces[first])
    for name, parts in pieces.items():
        if set(parts) != set(splits):
            raise InputError(f"{path}: {name} must be there for {', '.join(splits)}, as {first} is")
        for split, part in parts.items():
            if part.shape[:1] != pieces[first][split].shape[:1] or part.ndim == 0:
                raise InputError(
                    f"{path}: {name}_{split} must have as many rows as {first}_{split}, which has shape "
                    f"{pieces[first][split].shape}, got {part.shape}"
                )
    try:
        joined = {name: np.concatenate([parts[split] for split in splits]) for name, parts in pieces.items()}
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: the splits' arrays do not fit together: {error}") from None
    lengths = [len(pieces[first][split]) for split in splits]
    return others | joined | {"split": np.repeat(splits, lengths)}


def _text(array: AnyArray, what: str, n: int) -> list[str]:
    """Return one name or number a sample as text; what is missing is ""."""
    if array.shape != (n,):
        raise InputError(f"{what} must have shape ({n},) as there are {n} inputs, got {array.shape}")
    if array.dtype.kind not in "biufSU":
        raise InputError(f"{what} must have one name or number a sample, got dtype {array.dtype}")
    if array.dtype.kind == "S":
        return [value.decode("utf-8", "replace") for value in array.tolist()]
    if array.dtype.kind == "f":
        whole = bool((np.isnan(array) | (np.abs(array) < 2**53) & (array == np.round(array))).all())
        return ["" if value != value else str(int(value) if whole else value) for value in array.tolist()]
    return [str(value) for value in array.tolist()]
