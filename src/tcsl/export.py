"""A coreset and scores as others read them: ids, a filtered table, a folder of links, a Hugging Face dataset, CSV."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcsl.config import Settings
from tcsl.data.columns import parse_columns
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest
from tcsl.errors import InputError
from tcsl.files import write_atomic
from tcsl.scores import Coreset, Scores
from tcsl.types import IntArray

if TYPE_CHECKING:
    import polars as pl


def export_ids(coreset: Coreset, path: Path) -> None:
    """Write one id a line."""
    write_atomic(path, "".join(f"{name}\n" for name in coreset.ids.tolist()))


def export_scores(scores: Scores, path: Path) -> None:
    """Write the scores as CSV (one column for each epoch of the curve), TSV, Parquet or JSON lines."""
    import polars as pl

    frame = scores.frame()
    if path.suffix in (".csv", ".tsv"):
        epochs = scores.curves.shape[1]
        columns = [pl.col("curve").arr.get(epoch).alias(f"loss_{epoch + 1}") for epoch in range(epochs)]
        frame = frame.with_columns(columns).drop("curve")
    _write_frame(frame, path)


def export_table(coreset: Coreset, settings: Settings, path: Path, *, class_names: Sequence[str]) -> None:
    """Write the rows of the input table that are kept, all their columns as they were.

    Where the input was not a table, the table has id, label and g_high.
    """
    from tcsl.data.table import ROW, SUFFIXES, read_frame

    source = Path(settings.data.name)
    if source.suffix not in SUFFIXES or not source.is_file():
        frame = coreset.frame().drop("index")
        names = frame["label"].replace_strict(list(range(len(class_names))), list(class_names))
        _write_frame(frame.with_columns(names.alias("label")), path)
        return
    manifest, kept = _matched(coreset, settings)
    frame = read_frame(source, settings.data.on_bad)[0]
    _write_frame(frame.filter(frame[ROW].is_in(manifest.rows[kept].tolist())).drop(ROW), path)


def export_links(coreset: Coreset, settings: Settings, folder: Path) -> None:
    """Make FOLDER/CLASS/FILE, links to the images that are kept."""
    manifest, kept = _matched(coreset, settings)
    images = _files(manifest, settings)
    _new_folder(folder)
    width = len(str(len(kept)))
    for number, i in enumerate(kept.tolist()):
        target = os.path.abspath(images(int(i)))
        label = manifest.labels.names[manifest.labels.codes[i]]
        place = folder / label.replace("/", "_")
        place.mkdir(parents=True, exist_ok=True)
        link = place / os.path.basename(target)
        if link.is_symlink():  # two images of one name, from different folders
            link = link.with_name(f"{number:0{width}d}-{link.name}")
        link.symlink_to(os.path.relpath(target, place.resolve()))


def export_hub(coreset: Coreset, settings: Settings, folder: Path) -> None:
    """Save what is kept as a Hugging Face dataset, for `datasets.load_from_disk`."""
    try:
        import datasets
    except ImportError:
        raise InputError("Hugging Face datasets need the package `datasets`: pip install 'tcsl[hub]'") from None
    manifest, kept = _matched(coreset, settings)
    _new_folder(folder)
    if manifest.name.startswith("hf:"):
        from tcsl.data.hub import open_hub

        whole = datasets.concatenate_datasets(list(open_hub(manifest.name.removeprefix("hf:")).values()))
        whole.select(manifest.rows[kept].tolist()).save_to_disk(folder)
        return
    part = manifest.take(kept)
    columns: dict[str, Any] = {"id": part.ids.tolist(), "label": part.labels.codes.tolist()}
    features: dict[str, Any] = {"label": datasets.ClassLabel(names=list(part.labels.names))}
    if isinstance(part.inputs, Images):
        images = part.inputs
        columns["image"] = [{"path": None, "bytes": images.content(i)} for i in range(len(part))]
        features["image"] = datasets.Image()
    else:
        columns["inputs"] = part.inputs.numpy().tolist()
    made = datasets.Dataset.from_dict(columns)
    for column, feature in features.items():
        made = made.cast_column(column, feature)
    made.save_to_disk(folder)


def _matched(coreset: Coreset, settings: Settings) -> tuple[Manifest, IntArray]:
    """Return the input's manifest and the positions of the samples that are kept, in the input's order."""
    from tcsl.data.load import read

    if not settings.data.name:
        raise InputError("the run was made from Python on data that only the caller has; use run.coreset there")
    data = settings.data
    manifest = read(data.name, root=data.root, columns=parse_columns(data.columns), on_bad="skip", options=data.options)
    wanted = set(coreset.ids.tolist())
    kept = np.array([i for i, name in enumerate(manifest.ids.tolist()) if name in wanted], np.int64)
    if len(kept) != len(coreset):
        raise InputError(
            f"{len(coreset) - len(kept)} of the coreset's {len(coreset)} ids are not in {manifest.name}: "
            "it has changed since the run"
        )
    return manifest, kept


def _files(manifest: Manifest, settings: Settings) -> Callable[[int], Path]:
    images = manifest.inputs
    if not isinstance(images, Images) or images.path is None:
        raise InputError(f"links are made to image files, but the inputs of {settings.data.name} are not files")
    path = images.path
    return lambda i: path(int(images.rows[i]))


def _new_folder(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty; choose another place")
    folder.mkdir(parents=True, exist_ok=True)


def _write_frame(frame: pl.DataFrame, path: Path) -> None:
    writers: dict[str, Callable[[Path], Any]] = {
        ".csv": lambda place: frame.write_csv(place),
        ".tsv": lambda place: frame.write_csv(place, separator="\t"),
        ".parquet": lambda place: frame.write_parquet(place),
        ".jsonl": lambda place: frame.write_ndjson(place),
        ".ndjson": lambda place: frame.write_ndjson(place),
    }
    if path.suffix not in writers:
        raise InputError(f"{path} must end in {', '.join(writers)}")
    import polars as pl

    try:
        write_atomic(path, writers[path.suffix])
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: this table cannot be written as {path.suffix}: {error}; use .parquet") from None
