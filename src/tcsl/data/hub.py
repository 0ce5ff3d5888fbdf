"""A Hugging Face dataset, by name or on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tcsl.data.arrays import as_inputs, lacking, not_finite, stack_rows
from tcsl.data.bad import Bad, OnBad, shown
from tcsl.data.columns import find_columns
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest, encode, join_names, read_splits
from tcsl.errors import InputError
from tcsl.types import AnyArray


def on_disk(folder: Path) -> bool:
    """Tell whether a folder was written by `save_to_disk`."""
    return (folder / "dataset_dict.json").is_file() or (folder / "dataset_info.json").is_file()


def open_hub(source: str) -> dict[str, Any]:
    """Return the splits of the dataset at a path or with a name, `NAME` or `NAME:CONFIGURATION`."""
    try:
        import datasets
    except ImportError:
        raise InputError("Hugging Face datasets need the package `datasets`: pip install 'tcsl[hub]'") from None
    try:
        if source and Path(source).is_dir():
            found = datasets.load_from_disk(source)
        else:
            name, _, configuration = source.partition(":")
            found = datasets.load_dataset(name, configuration or None)
    except Exception as error:  # the library raises a dozen kinds, for networks, names, scripts and damaged files
        line = shown(str(error).strip().split("\n")[0], 300).rstrip(".")
        raise InputError(
            f"the Hugging Face dataset {source!r} cannot be loaded: {line or type(error).__name__}; give its name on "
            "the Hub, which must be within reach, or the folder that save_to_disk wrote"
        ) from None
    return dict(found) if isinstance(found, datasets.DatasetDict) else {"train": found}


def read_hub(source: str, columns: Mapping[str, str], *, on_bad: OnBad) -> Manifest:
    """List the rows of a Hugging Face dataset; label names are its own where it has them."""
    parts = open_hub(source)
    import datasets

    name = f"hf:{source}"
    try:
        whole = datasets.concatenate_datasets(list(parts.values()))
    except Exception as error:  # pyarrow raises several kinds
        raise InputError(f"{name}: its splits do not have the same columns: {shown(str(error), 300)}") from None
    features, n = whole.features, len(whole)
    named = dict(columns)
    for column, feature in features.items():  # what the dataset itself says goes before our guesses
        if isinstance(feature, datasets.Image) and not {"path", "inputs"} & named.keys():
            named["path"] = column
        if isinstance(feature, datasets.ClassLabel) and "label" not in named:
            named["label"] = column
    roles = find_columns(name, features, named)
    if "path" in roles and not isinstance(features[roles["path"][0]], datasets.Image | datasets.Value):
        roles["inputs"] = roles.pop("path")  # lists of numbers in a column called image
    text: dict[str, list[list[str]]] = {
        role: [_names(whole, column, name) for column in roles[role]]
        for role in ("label", "split", "group", "unit", "id")
        if role in roles
    }
    if "split" not in text:
        text["split"] = [[word for word, part in parts.items() for _ in range(len(part))]]
    joined = {role: join_names(several) for role, several in text.items()}
    label = features[roles["label"][0]]
    order = [*label.names, ""] if isinstance(label, datasets.ClassLabel) else None  # "": it has no label
    splits = encode(joined["split"])
    split, unknown = read_splits(splits)
    images = "path" in roles and "inputs" not in named
    inputs, reasons = (_images(whole, roles["path"][0], name), {}) if images else _matrix(whole, roles, name)
    manifest = Manifest(
        name=name,
        inputs=inputs,
        labels=encode(joined["label"], order),
        ids=np.array(joined["id"], object) if "id" in roles else np.arange(n),
        rows=np.arange(n),
        where=lambda row: f"row {row} of {name}",
        split=split,
        group=encode(joined["group"]) if "group" in roles else None,
        unit=encode(joined["unit"]) if "unit" in roles else None,
    )
    bad = {i: Bad(f"{manifest.where(i)}: {where}", why) for i, (where, why) in reasons.items()}
    bad |= manifest.of_values(splits, unknown)
    return manifest.without(not_finite(manifest) | bad | lacking(manifest, text), on_bad)


def _names(whole: Any, column: str, name: str) -> list[str]:
    """Return one name or number a row as text; what is missing, or no label (-1), is ""."""
    import datasets

    feature = whole.features[column]
    if isinstance(feature, datasets.ClassLabel):
        known = dict(enumerate(feature.names))
        return [known.get(value, "") for value in whole[column][:]]
    if not isinstance(feature, datasets.Value):
        raise InputError(f"{name}: column {column!r} must have one name or number a row, got {shown(str(feature))}")
    values = whole[column][:]
    if "float" in feature.dtype and all(v is None or v != v or float(v).is_integer() for v in values):
        values = [None if v is None or v != v else int(v) for v in values]  # 1.0 is class 1, as in other tables
    return ["" if value is None or value != value else str(value) for value in values]


def _images(whole: Any, column: str, name: str) -> Images:
    import datasets

    try:
        raw = whole.cast_column(column, datasets.Image(decode=False)).select_columns(column)
    except Exception as error:  # pyarrow raises several kinds
        raise InputError(f"{name}: column {column!r} holds no images: {shown(str(error), 300)}") from None

    def read(row: int) -> bytes:
        cell = raw[row][column] or {}
        if cell.get("bytes") is None and cell.get("path"):
            return Path(cell["path"]).read_bytes()
        return cell.get("bytes") or b""

    names = np.array([f"row {row} of {name}" for row in range(len(whole))], object)
    return Images(names, read, lambda row: f"{whole._fingerprint} {row}", np.arange(len(whole)))


def _matrix(whole: Any, roles: Mapping[str, list[str]], name: str) -> tuple[AnyArray, dict[int, Bad]]:
    """Return (n, ...) float32 from a column of lists or from columns of numbers, and, by position, what is wrong."""
    if "inputs" not in roles:
        raise InputError(
            f"{name}: which column holds the inputs? It has {shown(', '.join(whole.column_names[:20]))}; name it with "
            "--columns path=NAME (images) or inputs=NAME (lists of numbers)"
        )
    columns = roles["inputs"]
    try:
        arrays = [np.asarray(whole.with_format("numpy")[column][:]) for column in columns]
        return as_inputs(arrays[0] if arrays[0].ndim > 1 else np.stack(arrays, 1), name), {}
    except (TypeError, ValueError):  # which row is it?
        rows = (list(row) if len(row) > 1 else row[0] for row in zip(*(whole[c][:] for c in columns), strict=True))
        values, bad = stack_rows(rows, "+".join(columns), f"{name}: column {columns[0]!r}")
        return as_inputs(values, name), bad
