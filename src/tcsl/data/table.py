"""A table, CSV, TSV, Parquet or JSON lines: one row a sample, with a path or the input itself, and named columns."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tcsl.data.arrays import as_float32, as_inputs, not_finite, stack_rows
from tcsl.data.bad import Bad, OnBad, settle, shown
from tcsl.data.columns import find_columns, tell_guesses
from tcsl.data.frame import ROW, read_frame
from tcsl.data.images import Images, files, missing_or_outside
from tcsl.data.manifest import Column, Manifest, encode, join_names, read_splits, sorted_names
from tcsl.errors import InputError
from tcsl.types import AnyArray

_log = logging.getLogger("tcsl")


def read_table(
    path: Path, columns: Mapping[str, str], *, root: Path | None = None, on_bad: OnBad = "error", look: bool = True
) -> Manifest:
    """List the rows of a table.

    Parameters
    ----------
    columns : roles (path, inputs, label, split, group, unit, id) and their columns; unnamed ones are found by their
        usual names
    root : what paths are relative to, and may not leave; by default the table's folder
    look : whether to look for the files that the paths name
    """
    frame, skipped = read_frame(path, on_bad)
    roles = find_columns(path.name, [name for name in frame.columns if name != ROW], columns)
    if "inputs" in roles and "inputs" not in columns:
        # A column that is called x, say: it is the input only where it holds lists.
        lists = _holds_lists(frame[roles["inputs"][0]])
        roles = {role: names for role, names in roles.items() if role != "inputs" or (lists and "path" not in columns)}
    tell_guesses(path.name, roles, columns)
    frame, empty = without_empty(frame, path, roles)
    settle(path.name, empty, on_bad)
    if len(frame) == 0:
        raise InputError(f"{path}: there is no sample")
    rows = frame[ROW].to_numpy()
    inputs, reasons, features = _inputs(frame, path, roles, root, look)
    splits = column_of(frame[roles["split"][0]], path) if "split" in roles else None
    split, unknown = read_splits(splits) if splits is not None else (None, {})
    manifest = Manifest(
        name=path.name,
        inputs=inputs,
        labels=column_of(frame[roles["label"][0]], path),
        ids=ids_of(frame, path, roles),
        rows=np.asarray(rows, np.int64),
        where=lambda row: f"row {row + 1} of {path.name}",
        split=split,
        group=encode(join_names([_names(frame[name], path) for name in roles["group"]])) if "group" in roles else None,
        unit=column_of(frame[roles["unit"][0]], path) if "unit" in roles else None,
        skipped=(*skipped, *empty),
        features=features,
    )
    bad = {i: Bad(f"{manifest.where(int(rows[i]))}: {where}", why) for i, (where, why) in reasons.items()}
    if splits is not None:
        bad |= manifest.of_values(splits, unknown)
    return manifest.without(not_finite(manifest) | bad, on_bad)


def without_empty(
    frame: pl.DataFrame, path: Path, roles: Mapping[str, Sequence[str]]
) -> tuple[pl.DataFrame, list[Bad]]:
    """Drop blank lines, and take out the rows that lack something that was named."""
    cells = [name for name in frame.columns if name != ROW]
    if path.suffix.lower() in (".csv", ".tsv"):
        frame = frame.filter(~pl.all_horizontal(pl.col(cells).is_null()))
    # A sample without a group is a sample all the same: groups are for evaluation only.
    wanted = [(role, name) for role, names in roles.items() for name in names if role != "group"]

    def blank(name: str) -> pl.Expr:
        column, dtype = pl.col(name), frame.schema[name]
        if dtype == pl.String:
            return column.is_null() | (column.str.strip_chars() == "") | column.str.contains("\0", literal=True)
        return column.is_null() | column.is_nan() if dtype.is_float() else column.is_null()

    bad: list[Bad] = []
    lacking = frame.filter(pl.any_horizontal(*(blank(name) for _, name in wanted)))
    for record in lacking.select(ROW, *dict.fromkeys(name for _, name in wanted)).iter_rows(named=True):
        odd = [role for role, name in wanted if isinstance(record[name], str) and "\0" in record[name]]
        absent = dict.fromkeys(_called(role, frame.schema[name]) for role, name in wanted if _is_blank(record[name]))
        why = f"has a zero byte in its {odd[0]}" if odd else f"has no {' and no '.join(absent)}"
        bad.append(Bad(f"row {record[ROW] + 1} of {path.name}", why))
    if bad:
        frame = frame.filter(~pl.any_horizontal(*(blank(name) for _, name in wanted)))
    return frame, bad


def _called(role: str, dtype: pl.DataType) -> str:
    return "image" if role == "path" and dtype != pl.String else role


def _is_blank(value: object) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _text(series: pl.Series, path: Path) -> pl.Series:
    """Return a column as text; whole numbers that are stored as 1.0 are 1."""
    try:
        if series.dtype.is_nested():
            raise pl.exceptions.InvalidOperationError
        if series.dtype.is_float() and bool(((series == series.round()) & (series.abs() < 2**53)).all()):
            series = series.cast(pl.Int64)
        return series.cast(pl.String)
    except pl.exceptions.PolarsError:
        raise InputError(
            f"{path}: column {series.name!r} must have one name or number a row, got {series.dtype}"
        ) from None


def column_of(series: pl.Series, path: Path) -> Column:
    """Return a column of names or numbers, each value once and in order."""
    text = _text(series, path)
    names = sorted_names(text.unique().to_list())
    codes = text.replace_strict(list(names), list(range(len(names))), return_dtype=pl.Int64)
    return Column(np.asarray(codes.to_numpy(), np.int64), names)


def _names(series: pl.Series, path: Path) -> list[str]:
    """Return a column as text, "" where it is empty or not a number."""
    known = series.fill_nan(None) if series.dtype.is_float() else series
    return _text(known, path).fill_null("").to_list()


def ids_of(frame: pl.DataFrame, path: Path, roles: Mapping[str, Sequence[str]]) -> AnyArray:
    """Return the id column, else the paths, else the row numbers."""
    role = next((role for role in ("id", "path") if role in roles), None)
    series = frame[roles[role][0]] if role is not None else None
    if series is None or (role == "path" and (series.dtype != pl.String or _holds_lists(series))):
        return np.asarray(frame[ROW].to_numpy(), np.int64)
    whole = series.cast(pl.Int64, strict=False) if series.dtype.is_integer() else None
    if whole is not None and not whole.null_count():
        return np.asarray(whole.to_numpy(), np.int64)
    return np.asarray(_text(series, path).to_numpy(), object)


def _inputs(
    frame: pl.DataFrame, path: Path, roles: Mapping[str, Sequence[str]], root: Path | None, look: bool
) -> tuple[Images | AnyArray, dict[int, Bad], tuple[str, ...]]:
    """Return the images or the arrays of the rows; by position, what is wrong with them; the columns of features."""
    named = roles.get("inputs") or roles.get("path") or ()
    series = frame[named[0]] if len(named) == 1 else None
    if series is not None and _holds_lists(series):
        return *_lists(series, path), ()
    if "inputs" in roles or series is None:
        return _features(frame, path, roles)
    if isinstance(series.dtype, pl.Struct):
        series = _image_field(series)
    bad = {int(i): Bad(repr(named[0]), "has no image") for i in np.flatnonzero(series.is_null().to_numpy())}
    if series.dtype == pl.Binary:
        return _embedded(series, frame, path), bad, ()
    place = root or path.parent
    paths = _text(series, path).fill_null("").to_list()
    absent = missing_or_outside(place, paths) if look else {}
    if len(absent) == len(paths) and all(one.why == "is missing" for one in absent.values()):
        raise InputError(
            f"{path.name}: none of its {len(paths):,} files is in {place}, such as {shown(paths[0])}; name the folder "
            "that holds them with --root"
        )
    return files(place, paths), absent | bad, ()


def _image_field(series: pl.Series) -> pl.Series:
    """Return the bytes of images as Hugging Face stores them or, where there are none, their paths."""
    fields = {field.name: series.struct.field(field.name) for field in series.dtype.fields}  # type: ignore[attr-defined]
    for name in ("bytes", "path"):
        if name in fields and fields[name].null_count() < len(series):
            return fields[name]
    return series


def _embedded(series: pl.Series, frame: pl.DataFrame, path: Path) -> Images:
    rows = frame[ROW].to_list()
    names = np.array([f"row {row + 1} of {path.name}" for row in rows], object)
    changed = path.stat()
    return Images(
        names,
        lambda row: bytes(series[row]),
        lambda row: f"{path.absolute()} {changed.st_size} {changed.st_mtime_ns} {row}",
        np.arange(len(rows)),
    )


def _holds_lists(series: pl.Series) -> bool:
    """Tell whether a column holds lists, or, most of it, lists written as JSON."""
    if series.dtype == pl.String:
        return 2 * int(series.str.strip_chars_start().str.starts_with("[").sum()) > len(series)
    return isinstance(series.dtype, pl.List | pl.Array)


def _lists(series: pl.Series, path: Path) -> tuple[AnyArray, dict[int, Bad]]:
    """Return (n, ...) float32 from a column of lists; rows that are not lists of numbers of one shape are bad."""
    name, where = series.name, f"{path}: column {series.name!r}"
    if series.dtype == pl.String:
        decoded = _decoded(series)
        if decoded is None:
            return _stacked((_from_json(text) for text in series), name, where)
        series = decoded
    if isinstance(series.dtype, pl.List) and series.dtype.inner.is_numeric():
        lengths = series.list.len()
        if lengths.min() == lengths.max() != 0:
            series = series.list.to_array(int(lengths[0]))
    if isinstance(series.dtype, pl.Array) and _leaf(series.dtype).is_numeric():
        return as_inputs(series.to_numpy(), where), {}
    return _stacked((one.to_list() for one in series), name, where)


def _stacked(rows: Iterable[Any], name: str, where: str) -> tuple[AnyArray, dict[int, Bad]]:
    values, bad = stack_rows(rows, name, where)
    return as_inputs(values, where), bad


def _decoded(series: pl.Series) -> pl.Series | None:
    """Return lists from JSON all at once, where all are lists of numbers."""
    try:
        nested = series.str.contains(r"\[\s*\[").any()
        lists = None if nested else series.str.json_decode(pl.List(pl.Float64))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return None if lists is None or lists.null_count() else lists


def _leaf(dtype: Any) -> Any:
    while isinstance(dtype, pl.Array | pl.List):
        dtype = dtype.inner
    return dtype


def _from_json(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None


def _features(
    frame: pl.DataFrame, path: Path, roles: Mapping[str, Sequence[str]]
) -> tuple[AnyArray, dict[int, Bad], tuple[str, ...]]:
    """Return (n, features) float32 from columns of numbers: those that were named, else all that have no other role."""
    taken = {ROW, *(name for role, names in roles.items() if role != "inputs" for name in names)}
    named = list(roles.get("inputs", ()))
    candidates = named or [name for name in frame.columns if name not in taken and not _is_index(name)]
    numbers = {name: frame[name].cast(pl.Float64, strict=False) for name in candidates if _castable(frame[name])}
    chosen = [name for name, series in numbers.items() if series.null_count() * 2 < len(series)]
    text = [name for name in candidates if name not in chosen]
    if named and text:
        raise InputError(f"{path}: column {text[0]!r} does not hold numbers")
    if not chosen:
        raise InputError(
            f"{path}: which column holds the inputs? It has {shown(', '.join(candidates[:20])) or 'no others'}; name "
            "a column of file names with --columns path=NAME, one of lists of numbers with inputs=NAME, or columns of "
            "numbers with inputs=A+B+C"
        )
    if not named:
        left_out = f"; left out as they are not numbers: {', '.join(text[:10])}" if text else ""
        _log.info(f"{path}: the inputs are the {len(chosen)} columns {', '.join(chosen[:10])}{left_out}")
    bad: dict[int, Bad] = {}
    for name in chosen:
        for i in np.flatnonzero(numbers[name].is_null().to_numpy()):
            value = frame[name][int(i)]
            why = "is empty" if value is None else f"is {str(value)[:40]!r}, not a number"
            bad.setdefault(int(i), Bad(repr(name), why))
    matrix = as_float32(np.stack([numbers[name].fill_null(0.0).to_numpy() for name in chosen], 1))
    return matrix, bad, tuple(chosen)


def _is_index(name: str) -> bool:
    """Tell whether a column is the row numbers that pandas writes beside a table."""
    return name == "" or re.fullmatch(r"column 1|Unnamed: \d+", name) is not None


def _castable(series: pl.Series) -> bool:
    return series.dtype.is_numeric() or series.dtype in (pl.String, pl.Boolean)
