"""A coreset and scores as others read them: ids, a filtered table, a folder of links, a Hugging Face dataset, CSV."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcsl.config import Settings
from tcsl.data.check import manifest_of
from tcsl.data.columns import parse_columns
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest, check_rows
from tcsl.errors import InputError
from tcsl.files import write_atomic
from tcsl.registry import DATASETS
from tcsl.scores import Coreset, Scores
from tcsl.types import IntArray

if TYPE_CHECKING:
    import polars as pl

TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")


def check_place(path: Path, *, table: bool = False) -> None:
    """Refuse to write over what is there, but for an empty folder, and a table of no known kind."""
    if path.is_file() or path.is_symlink() or (path.is_dir() and any(path.iterdir())):
        raise InputError(f"{path} exists already; choose another place, or delete it")
    if table and path.suffix.lower() not in TABLES:
        raise InputError(f"{path} must end in {', '.join(TABLES)}")


def export_ids(coreset: Coreset, path: Path) -> None:
    """Write one id a line."""
    check_place(path)
    write_atomic(path, "".join(f"{name}\n" for name in coreset.ids.tolist()))


def export_scores(scores: Scores, path: Path) -> None:
    """Write the scores as CSV or TSV (one column for each epoch of the curve), Parquet or JSON lines."""
    import polars as pl

    frame = scores.frame()
    if path.suffix.lower() in (".csv", ".tsv"):
        epochs = scores.curves.shape[1]
        columns = [pl.col("curve").arr.get(epoch).alias(f"loss_{epoch + 1}") for epoch in range(epochs)]
        frame = frame.with_columns(columns).drop("curve")
    _write_new(frame, path)


def export_table(coreset: Coreset, settings: Settings, path: Path, *, class_names: Sequence[str]) -> Path | None:
    """Write the rows of the input table that are kept, all their columns as they were.

    Where the input was not a table, the table has id, label and g_high.

    Returns
    -------
    root : what the paths in the table are relative to, where that is not the table's own folder
    """
    from tcsl.data.frame import ROW, SUFFIXES, read_frame

    source = Path(settings.data.name)
    if source.suffix.lower() not in SUFFIXES:
        frame = coreset.frame().drop("index")
        names = frame["label"].replace_strict(list(range(len(class_names))), list(class_names))
        _write_new(frame.with_columns(names.alias("label")), path)
        return None
    manifest, kept = _matched(coreset, settings, class_names)
    frame = read_frame(source, "skip")[0]
    _write_new(frame.filter(frame[ROW].is_in(manifest.rows[kept].tolist())).drop(ROW), path)
    root = Path(settings.data.root or source.parent)
    relative = isinstance(manifest.inputs, Images) and manifest.inputs.path is not None
    return root if relative and root.resolve() != path.parent.resolve() else None


def export_links(coreset: Coreset, settings: Settings, folder: Path, *, class_names: Sequence[str]) -> Path:
    """Make FOLDER/CLASS/FILE, relative links to the images that are kept; return the folder that holds the images."""
    manifest, kept = _matched(coreset, settings, class_names)
    images = manifest.inputs
    if not isinstance(images, Images) or images.path is None:
        raise InputError(f"links are made to image files, but the inputs of {settings.data.name} are not files")
    check_place(folder)
    places = [folder / name for name in _folder_names(manifest.labels.names)]
    width = len(str(len(kept)))
    targets: list[str] = []
    try:
        for number, i in enumerate(kept.tolist()):
            target = os.path.abspath(images.path(int(images.rows[i])))
            targets.append(target)
            place = places[manifest.labels.codes[i]]
            place.mkdir(parents=True, exist_ok=True)
            link = place / os.path.basename(target)
            while link.is_symlink():  # two images of one name, from different folders
                link = link.with_name(f"{number:0{width}d}-{link.name}")
            link.symlink_to(os.path.relpath(target, place.resolve()))
    except OSError as error:
        raise InputError(f"{folder}: a link cannot be made: {error}") from None
    return Path(os.path.commonpath([os.path.dirname(os.path.realpath(target)) for target in targets]))


def _folder_names(classes: Sequence[str]) -> list[str]:
    """Return a name for the folder of each class: inside its place, not hidden, and no two the same.

    >>> _folder_names(["cat", "..", "a/b", "a_b", "A_b", ""])
    ['cat', '_.', 'a_b', 'a_b-2', 'A_b-3', '_']
    """
    names: list[str] = []
    taken: set[str] = set()
    for label in classes:
        printable = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in label)
        base = name = re.sub(r"^(\.|$)", "_", printable[:60])  # at most 240 of the 255 bytes that a name may have
        number = 2
        while name.lower() in taken:  # case alone does not tell folders apart on every disk
            name, number = f"{base}-{number}", number + 1
        taken.add(name.lower())
        names.append(name)
    return names


def export_hub(coreset: Coreset, settings: Settings, folder: Path, *, class_names: Sequence[str]) -> None:
    """Save what is kept as a Hugging Face dataset, for `datasets.load_from_disk`."""
    try:
        import datasets
    except ImportError:
        raise InputError("Hugging Face datasets need the package `datasets`: pip install 'tcsl[hub]'") from None
    manifest, kept = _matched(coreset, settings, class_names)
    check_place(folder)
    if manifest.name.startswith("hf:"):
        from tcsl.data.hub import open_hub

        whole = datasets.concatenate_datasets(list(open_hub(manifest.name.removeprefix("hf:")).values()))
        whole.select(manifest.rows[kept].tolist()).save_to_disk(folder)
        return
    part = manifest.take(kept)
    inputs = part.inputs
    columns: dict[str, Any] = {"id": part.ids.tolist(), "label": part.labels.codes.tolist()}
    features: dict[str, Any] = {"label": datasets.ClassLabel(names=list(part.labels.names))}
    if isinstance(inputs, Images):
        columns["image"] = [{"path": None, "bytes": inputs.content(i)} for i in range(len(part))]
        features["image"] = datasets.Image()
    else:
        columns["inputs"] = list(inputs)
    made = datasets.Dataset.from_dict(columns)
    for column, feature in features.items():
        made = made.cast_column(column, feature)
    made.save_to_disk(folder)


def _matched(coreset: Coreset, settings: Settings, class_names: Sequence[str]) -> tuple[Manifest, IntArray]:
    """Return the input's manifest and the positions of the samples that are kept, in the input's order."""
    from tcsl.data.read import read

    data = settings.data
    if not data.name:
        raise InputError("the run was made from Python on data that only the caller has; use run.coreset there")
    if data.name in DATASETS and DATASETS.get(data.name).read is None:
        from tcsl.running import load_dataset

        manifest = manifest_of({"train": load_dataset(settings, only_train=True).train}, data.name)
    else:
        columns = parse_columns(data.columns)
        manifest = read(data.name, root=data.root, columns=columns, on_bad="skip", options=data.options)
    manifest = check_rows(manifest, "skip")
    label_of = dict(zip(coreset.ids.tolist(), coreset.labels.tolist(), strict=True))
    kept = np.array([i for i, name in enumerate(manifest.ids.tolist()) if name in label_of], np.int64)
    labels, names = manifest.labels, dict(enumerate(class_names))
    same = [
        # A coreset of a table has the table's own labels.
        labels.names[labels.codes[i]] == names.get(label_of[name], str(label_of[name]))
        for i, name in zip(kept.tolist(), manifest.ids[kept].tolist(), strict=True)
    ]
    if sum(same) < len(coreset):
        raise InputError(
            f"{len(coreset) - sum(same):,} of the coreset's {len(coreset):,} ids are not in {manifest.name}, or not "
            "with the label that they had: it has changed since the run"
        )
    return manifest, kept


def save_coreset(coreset: Coreset, path: Path) -> None:
    """Write a coreset as CSV, TSV or JSON lines where the path says so, else as Parquet, with its provenance."""
    if path.suffix.lower() in TABLES and path.suffix.lower() != ".parquet":
        _write_frame(coreset.frame(), path)
    else:
        coreset.save(path)


def _write_new(frame: pl.DataFrame, path: Path) -> None:
    check_place(path, table=True)
    _write_frame(frame, path)


def _write_frame(frame: pl.DataFrame, path: Path) -> None:
    import polars as pl

    kind = path.suffix.lower()

    def write(place: Path) -> None:
        if kind == ".parquet":
            frame.write_parquet(place)
        elif kind in (".csv", ".tsv"):
            frame.write_csv(place, separator="," if kind == ".csv" else "\t")
        else:
            frame.write_ndjson(place)

    try:
        write_atomic(path, write)
    except pl.exceptions.PolarsError as error:
        line = str(error).split("\n")[0]
        raise InputError(f"{path}: this table cannot be written as {kind}: {line}; use .parquet") from None
