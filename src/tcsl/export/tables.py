"""A coreset as a list of ids or as rows of the input table, and scores as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tcsl.config import Settings
from tcsl.data.images import Images
from tcsl.errors import InputError
from tcsl.export.marked import find
from tcsl.export.place import TABLES, check_place
from tcsl.files import write_atomic
from tcsl.scores import Coreset, Scores
from tcsl.selection.classes import names_of

if TYPE_CHECKING:
    import polars as pl


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
    manifest, kept = find(coreset.ids.tolist(), names_of(coreset.labels, class_names), settings, whose="coreset")
    frame = read_frame(source, "skip")[0]
    _write_new(frame.filter(frame[ROW].is_in(manifest.rows[kept].tolist())).drop(ROW), path)
    root = Path(settings.data.root or source.parent)
    relative = isinstance(manifest.inputs, Images) and manifest.inputs.path is not None
    return root if relative and root.resolve() != path.parent.resolve() else None


def save_coreset(coreset: Coreset, path: Path) -> None:
    """Write a coreset as CSV, TSV or JSON lines where the path says so, else as Parquet, with its provenance."""
    if path.suffix.lower() in TABLES and path.suffix.lower() != ".parquet":
        _write_frame(coreset.frame(), path)
    else:
        coreset.save(path)


def _write_new(frame: pl.DataFrame, path: Path) -> None:
    check_place(path, TABLES)
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
