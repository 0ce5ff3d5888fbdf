"""A table, CSV, TSV, Parquet or JSON lines: one row a sample, with a path or the input itself, and named columns."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tcsl.data.arrays import not_finite
from tcsl.data.bad import Bad, OnBad, settle
from tcsl.data.columns import find_columns
from tcsl.data.images import Images, files, missing_or_outside
from tcsl.data.manifest import Column, Manifest, read_splits, sorted_names
from tcsl.errors import InputError
from tcsl.types import AnyArray

SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
ROW = "__row__"
_log = logging.getLogger("tcsl")


def read_table(
    path: Path, columns: Mapping[str, str], *, root: Path | None = None, on_bad: OnBad = "error", look: bool = True
) -> Manifest:
    """List the rows of a table.

    Parameters
    ----------
    columns : roles (path, inputs, label, split, group, id) and columns; unnamed roles are found by their usual names
    root : what paths are relative to, and may not leave; by default the table's folder
    look : whether to look for the files that the paths name
    """
    frame, skipped = read_frame(path, on_bad)
    roles = find_columns(path.name, [name for name in frame.columns if name != ROW], columns)
    frame, empty = _without_empty(frame, path, roles)
    settle(path.name, empty, on_bad)
    if len(frame) == 0:
        raise InputError(f"{path}: there is no sample")
    rows = frame[ROW].to_numpy()
    inputs, reasons = _inputs(frame, path, roles, root, look)
    split, unknown = read_splits(_column(frame[roles["split"][0]])) if "split" in roles else (None, {})
    manifest = Manifest(
        name=path.name,
        inputs=inputs,
        labels=_column(frame[roles["label"][0]]),
        ids=_ids(frame, roles),
        rows=np.asarray(rows, np.int64),
        where=lambda row: f"row {row + 1} of {path.name}",
        split=split,
        group=_column(_joined(frame, roles["group"])) if "group" in roles else None,
        skipped=(*skipped, *empty),
    )
    bad = {i: Bad(f"{manifest.where(int(rows[i]))}: {where}", why) for i, (where, why) in reasons.items()}
    if unknown:
        codes = _column(frame[roles["split"][0]]).codes
        bad |= {int(i): manifest.bad(int(i), unknown[codes[i]]) for i in np.flatnonzero(np.isin(codes, list(unknown)))}
    return manifest.without(bad | not_finite(manifest), on_bad)


def read_frame(path: Path, on_bad: OnBad) -> tuple[pl.DataFrame, tuple[Bad, ...]]:
    """Return the table with its row numbers, and the lines that could not be read."""
    if not path.is_file():
        raise InputError(f"{path} is {'not a file' if path.exists() else 'missing'}")
    try:
        frame = _read_fast(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError, ValueError) as error:
        if path.suffix == ".parquet":
            raise InputError(f"{path} is not a Parquet file, or it is damaged: {_line(error)}") from None
        return _read_lines(path, on_bad, _line(error))
    return frame.with_row_index(ROW), ()


def _read_fast(path: Path) -> pl.DataFrame:
    if path.suffix == ".parquet":
        return pl.read_parquet(path, use_pyarrow=False)
    if path.suffix in (".jsonl", ".ndjson"):
        return pl.read_ndjson(path, infer_schema_length=None)
    return pl.read_csv(path, separator=_separator(path), infer_schema=False, raise_if_empty=True)


def _separator(path: Path) -> str:
    return "\t" if path.suffix == ".tsv" else ","


def _read_lines(path: Path, on_bad: OnBad, why: str) -> tuple[pl.DataFrame, tuple[Bad, ...]]:
    """Read line by line what could not be read at once, to say which lines are bad."""
    bad: list[Bad] = []
    good: list[dict[str, Any]] = []
    lines = _json_rows(path) if path.suffix in (".jsonl", ".ndjson") else _csv_rows(path)
    for row, value in enumerate(lines):
        if isinstance(value, str):
            bad.append(Bad(f"row {row + 1} of {path.name}", value))
        elif value:
            good.append({ROW: row, **value})
    if not good and not bad:
        raise InputError(f"{path} has no rows: {why}")
    settle(path.name, bad, on_bad)
    if not good:
        raise InputError(f"{path}: no row can be read, such as {bad[0].where}, which {bad[0].why}")
    try:
        return pl.DataFrame(good, infer_schema_length=None), tuple(bad)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: a column has values of different types: {_line(error)}") from None


def _json_rows(path: Path) -> list[dict[str, Any] | str]:
    out: list[dict[str, Any] | str] = []
    for line in path.read_bytes().split(b"\n"):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            out.append(value if isinstance(value, dict) else "is not a JSON object")
        except (ValueError, RecursionError) as error:
            out.append(f"is not valid JSON ({error})"[:120])
    return out


def _csv_rows(path: Path) -> list[dict[str, Any] | str]:
    content = path.read_bytes()
    out: list[dict[str, Any] | str] = []
    header: list[str] | None = None
    decoded = io.StringIO(content.decode("utf-8-sig", "surrogateescape").replace("\0", "\ufffd"), newline="")
    reader = csv.reader(decoded, delimiter=_separator(path), strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return out
        except csv.Error as error:
            out.append(f"is not valid CSV ({error})")
            continue
        if header is None:
            header = cells
            if len(set(header)) != len(header) or not any(header):
                raise InputError(
                    f"{path}: its first line must name the columns, each once, got {','.join(header)[:200]!r}"
                )
        elif not cells:
            out.append({})
        elif any(0xDC80 <= ord(character) <= 0xDCFF for cell in cells for character in cell):
            out.append("is not UTF-8 text")
        elif len(cells) != len(header):
            out.append(f"has {len(cells)} cells, the header has {len(header)}")
        else:
            out.append(dict(zip(header, cells, strict=True)))


def _without_empty(
    frame: pl.DataFrame, path: Path, roles: Mapping[str, Sequence[str]]
) -> tuple[pl.DataFrame, list[Bad]]:
    """Drop blank lines, and take out the rows that lack something that was named."""
    cells = [name for name in frame.columns if name != ROW]
    frame = frame.filter(~pl.all_horizontal(pl.col(cells).is_null()))
    wanted = {role: name for role, names in roles.items() for name in names}

    def blank(name: str) -> pl.Expr:
        empty = pl.col(name).is_null()
        return empty | (pl.col(name).str.strip_chars() == "") if frame.schema[name] == pl.String else empty

    lacking = frame.filter(pl.any_horizontal(*(blank(name) for name in wanted.values())))
    bad = []
    for record in lacking.select(ROW, *dict.fromkeys(wanted.values())).iter_rows(named=True):
        absent = [role for role, name in wanted.items() if record[name] is None or record[name] == ""]
        bad.append(Bad(f"row {record[ROW] + 1} of {path.name}", f"has no {' and no '.join(absent) or 'value'}"))
    if bad:
        frame = frame.filter(~pl.any_horizontal(*(blank(name) for name in wanted.values())))
    return frame, bad


def _text(series: pl.Series) -> pl.Series:
    try:
        return series.cast(pl.String)
    except pl.exceptions.PolarsError:
        raise InputError(f"column {series.name!r} must have one name or number a row, got {series.dtype}") from None


def _column(series: pl.Series) -> Column:
    text = _text(series)
    names = sorted_names(text.unique().to_list())
    codes = text.replace_strict(list(names), list(range(len(names))), return_dtype=pl.Int64)
    return Column(np.asarray(codes.to_numpy(), np.int64), names)


def _joined(frame: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """Return one column of names; several become pairs, triples, ..."""
    if len(names) == 1:
        return frame[names[0]]
    return frame.select(pl.concat_str([_text(frame[name]) for name in names], separator=", ")).to_series()


def _ids(frame: pl.DataFrame, roles: Mapping[str, Sequence[str]]) -> AnyArray:
    """Return the id column, else the paths, else the row numbers."""
    role = next((role for role in ("id", "path") if role in roles), None)
    if role is None or (role == "path" and frame.schema[roles["path"][0]] != pl.String):
        return np.asarray(frame[ROW].to_numpy(), np.int64)
    series = frame[roles[role][0]]
    if series.dtype.is_integer():
        return np.asarray(series.cast(pl.Int64).to_numpy(), np.int64)
    return np.asarray(_text(series).to_numpy(), object)


def _inputs(
    frame: pl.DataFrame, path: Path, roles: Mapping[str, Sequence[str]], root: Path | None, look: bool
) -> tuple[Images | Tensor, dict[int, Bad]]:
    """Return the images or the arrays of the rows, and, by position, what is wrong with them."""
    if "path" in roles and "inputs" not in roles:
        series = frame[roles["path"][0]]
        if isinstance(series.dtype, pl.Struct):  # as Hugging Face stores images
            fields = [field.name for field in series.dtype.fields]
            series = series.struct.field("bytes") if "bytes" in fields else series
        if series.dtype == pl.Binary:
            return _embedded(series, frame, path), {}
        paths = _text(series).to_list()
        place = root or path.parent
        return files(place, paths), missing_or_outside(place, paths) if look else {}
    if "inputs" in roles and len(roles["inputs"]) == 1:
        series = frame[roles["inputs"][0]]
        if series.dtype == pl.String and series[0].lstrip().startswith("["):
            try:
                series = series.str.json_decode(pl.List(pl.Float64))
            except pl.exceptions.PolarsError as error:
                raise InputError(f"{path}: column {series.name!r} must hold lists of numbers: {_line(error)}") from None
        if isinstance(series.dtype, pl.List | pl.Array):
            return _matrix(series, path)
    return _features(frame, path, roles)


def _embedded(series: pl.Series, frame: pl.DataFrame, path: Path) -> Images:
    rows = frame[ROW].to_list()
    names = np.array([f"row {row + 1} of {path.name}" for row in rows], object)
    changed = path.stat()
    return Images(
        names,
        lambda row: bytes(series[row]),
        lambda row: f"{changed.st_size} {changed.st_mtime_ns} {row}",
        np.arange(len(rows)),
    )


def _matrix(series: pl.Series, path: Path) -> tuple[Tensor, dict[int, Bad]]:
    """Return (n, ...) float32 from a column of lists; rows of another length are bad."""
    lists = series.arr.to_list() if isinstance(series.dtype, pl.Array) and len(series.dtype.shape) == 1 else series
    bad: dict[int, Bad] = {}
    if isinstance(lists.dtype, pl.List):
        lengths = lists.list.len().to_numpy()
        usual = int(np.bincount(lengths).argmax())
        odd = np.flatnonzero(lengths != usual)
        bad = {int(i): Bad(repr(series.name), f"has {lengths[i]} values, the others {usual}") for i in odd}
        if usual == 0:
            raise InputError(f"{path}: column {series.name!r} holds empty lists")
        keep = pl.Series(np.isin(np.arange(len(lists)), odd, invert=True))
        lists = pl.select(pl.when(keep).then(lists).otherwise(pl.lit([0.0] * usual))).to_series().list.to_array(usual)
    try:
        values = np.asarray(lists.to_numpy(), np.float32)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: column {series.name!r} must hold lists of numbers: {_line(error)}") from None
    return torch.from_numpy(np.ascontiguousarray(values)), bad


def _features(frame: pl.DataFrame, path: Path, roles: Mapping[str, Sequence[str]]) -> tuple[Tensor, dict[int, Bad]]:
    """Return (n, features) float32 from columns of numbers: those that were named, else all that have no other role."""
    taken = {name for role, names in roles.items() if role != "inputs" for name in names}
    named = list(roles.get("inputs", ()))
    candidates = named or [name for name in frame.columns if name != ROW and name not in taken]
    numbers = {name: frame[name].cast(pl.Float64, strict=False) for name in candidates if _castable(frame[name])}
    chosen = [name for name, series in numbers.items() if series.null_count() * 2 < len(series)]
    text = [name for name in candidates if name not in chosen]
    if named and text:
        raise InputError(f"{path}: column {text[0]!r} does not hold numbers")
    if not chosen:
        raise InputError(
            f"{path}: which column holds the inputs? It has {', '.join(candidates[:20]) or 'no others'}; name a "
            "column of file names with --columns path=NAME, one of lists of numbers with inputs=NAME, or "
            "columns of numbers with inputs=A+B+C"
        )
    if not named:
        left_out = f"; left out as they are not numbers: {', '.join(text[:10])}" if text else ""
        _log.info(f"{path}: the inputs are the {len(chosen)} columns {', '.join(chosen[:10])}{left_out}")
    bad: dict[int, Bad] = {}
    for name in chosen:
        for i in np.flatnonzero(numbers[name].is_null().to_numpy()):
            bad.setdefault(int(i), Bad(repr(name), f"is {frame[name][int(i)]!r}, not a number"))
    matrix = np.stack([numbers[name].fill_null(0.0).to_numpy() for name in chosen], 1).astype(np.float32)
    return torch.from_numpy(matrix), bad


def _castable(series: pl.Series) -> bool:
    return series.dtype.is_numeric() or series.dtype in (pl.String, pl.Boolean)


def _line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200] or type(error).__name__
