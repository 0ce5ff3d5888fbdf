"""A Hugging Face dataset, by name or on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tcsl.data.arrays import not_finite
from tcsl.data.bad import OnBad
from tcsl.data.columns import find_columns
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest, encode, read_splits
from tcsl.errors import InputError


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
        if Path(source).is_dir():
            found = datasets.load_from_disk(source)
        else:
            name, _, configuration = source.partition(":")
            found = datasets.load_dataset(name, configuration or None)
    except Exception as error:  # the library raises a dozen kinds, for networks, names, scripts and damaged files
        line = str(error).strip().split("\n")[0][:300]
        raise InputError(
            f"the Hugging Face dataset {source!r} cannot be loaded: {line or type(error).__name__}"
        ) from None
    return dict(found) if isinstance(found, datasets.DatasetDict) else {"train": found}


def read_hub(source: str, columns: Mapping[str, str], *, on_bad: OnBad) -> Manifest:
    """List the rows of a Hugging Face dataset; label names are its own where it has them."""
    import datasets

    parts = open_hub(source)
    name = f"hf:{source}"
    first = next(iter(parts.values()))
    features = first.features
    named = dict(columns)
    for column, feature in features.items():  # what the dataset itself says goes before our guesses
        if isinstance(feature, datasets.Image) and not {"path", "inputs"} & named.keys():
            named["path"] = column
        if isinstance(feature, datasets.ClassLabel) and "label" not in named:
            named["label"] = column
    roles = find_columns(name, features, named)
    whole = datasets.concatenate_datasets(list(parts.values()))
    n = len(whole)

    def text(role: str) -> list[str]:
        column = roles[role][0]
        feature = features[column]
        values = whole[column]
        return [feature.int2str(v) if isinstance(feature, datasets.ClassLabel) and v >= 0 else str(v) for v in values]

    if "split" in roles:
        split, unknown = read_splits(encode(text("split")))
    else:
        split, unknown = read_splits(encode([word for word, part in parts.items() for _ in range(len(part))]))
    if unknown:
        raise InputError(f"{name}: a row {next(iter(unknown.values()))}")
    label = features[roles["label"][0]]
    order = label.names if isinstance(label, datasets.ClassLabel) else None
    manifest = Manifest(
        name=name,
        inputs=_images(whole, roles["path"][0], name) if "path" in roles else _matrix(whole, roles, name),
        labels=encode(text("label"), order),
        ids=np.array(text("id"), object) if "id" in roles else np.arange(n),
        rows=np.arange(n),
        where=lambda row: f"row {row} of {name}",
        split=split,
        group=encode(text("group")) if "group" in roles else None,
    )
    return manifest.without(not_finite(manifest), on_bad)


def _images(whole: Any, column: str, name: str) -> Images:
    import datasets

    raw = whole.cast_column(column, datasets.Image(decode=False)).select_columns(column)

    def read(row: int) -> bytes:
        cell = raw[row][column]
        if cell is None:
            return b""
        return cell["bytes"] if cell["bytes"] is not None else Path(cell["path"]).read_bytes()

    names = np.array([f"row {row} of {name}" for row in range(len(whole))], object)
    return Images(names, read, lambda row: f"{whole._fingerprint} {row}", np.arange(len(whole)))


def _matrix(whole: Any, roles: Mapping[str, list[str]], name: str) -> torch.Tensor:
    if "inputs" not in roles:
        raise InputError(
            f"{name}: which column holds the inputs? It has {', '.join(whole.column_names[:20])}; name it with "
            "--columns path=NAME (images) or inputs=NAME (lists of numbers)"
        )
    try:
        columns = [np.asarray(whole.with_format("numpy")[column][:], np.float32) for column in roles["inputs"]]
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {roles['inputs'][0]!r} must hold lists of numbers of one length: {error}") from None
    return torch.from_numpy(columns[0] if columns[0].ndim > 1 else np.stack(columns, 1))
