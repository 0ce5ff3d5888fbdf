"""A table as a file, CSV, TSV, Parquet or JSON lines: read at once, or line by line where some lines are bad."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from tcsl.data.bad import Bad, OnBad, settle, shown
from tcsl.errors import InputError

SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
ROW = "__row__"  # the column of row numbers
_Lines: TypeAlias = tuple[dict[str, list[Any]], list[tuple[int, str]]]  # columns, and the bad rows
_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, TypeError, ValueError, OverflowError)
_QUOTED = re.compile(rb'"[^"]*"')
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}\n"))
_STEPS = np.array([(chr(i) in "[{") - (chr(i) in "]}") for i in range(256)], np.int8)


def read_frame(path: Path, on_bad: OnBad) -> tuple[pl.DataFrame, tuple[Bad, ...]]:
    """Return the table with its row numbers, and the lines that could not be read."""
    try:
        if not path.is_file():
            raise InputError(f"{path} is {'not a file' if path.exists() else 'missing'}")
        with open(path, "rb") as stream:
            start = stream.read(2)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise InputError(f"{path} is UTF-16 text, or damaged; save it as UTF-8")
    try:
        frame = _read_fast(path)
    except _ERRORS as error:
        if _kind(path) == ".parquet":
            raise InputError(f"{path} is not a Parquet file, or it is damaged: {_line(error)}") from None
        frame = None
    if frame is None:
        frame, bad = _read_lines(path, on_bad)
        return _with_points(frame, path), bad
    _check_names(frame.columns, path)
    return _with_points(frame, path).with_row_index(ROW), ()


def _kind(path: Path) -> str:
    return path.suffix.lower()


def _read_fast(path: Path) -> pl.DataFrame | None:
    """Return the table, or None where a closer look is due."""
    if _kind(path) == ".parquet":
        return pl.read_parquet(path, use_pyarrow=False, glob=False)
    if _kind(path) in (".jsonl", ".ndjson"):
        return None if _deep(path) else pl.read_ndjson(path, infer_schema_length=None)
    frame = pl.read_csv(path, separator=_separator(path), infer_schema=False, raise_if_empty=True, glob=False)
    # Two columns of one name are renamed by polars, and rows that are too short are filled.
    renamed = any("_duplicated_" in name for name in frame.columns)
    return None if renamed or frame[:, -1].null_count() else frame


def _deep(path: Path) -> bool:
    """Tell whether a line has more than 100 brackets in each other: polars 2.1 overflows its stack on a few hundred."""
    with open(path, "rb") as stream:
        while lines := stream.readlines(1 << 26):
            marks = np.frombuffer(b"".join(lines).translate(None, _NOT_BRACKETS), np.uint8)
            depth = np.cumsum(_STEPS[marks], dtype=np.int64)
            line = np.maximum.accumulate(np.where(marks == ord("\n"), np.arange(len(marks)), 0))  # where it begins
            if len(marks) and (depth - depth[line]).max() > 100:
                return True
    return False


def _separator(path: Path) -> str:
    """Return what parts the cells: a tab in TSV; in CSV a comma, or a semicolon where the header has no comma."""
    if _kind(path) == ".tsv":
        return "\t"
    with open(path, "rb") as stream:
        header = _QUOTED.sub(b"", next(filter(bytes.strip, stream), b""))
    return ";" if b";" in header and b"," not in header else ","


def _with_points(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Return numbers such as 3,5 as 3.5, where semicolons part the cells."""
    if _kind(path) != ".csv" or _separator(path) != ";":
        return frame
    return frame.with_columns(pl.col(pl.String).str.replace(r"^\s*([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)\s*$", "${1}.${2}"))


def _check_names(names: Sequence[str], path: Path) -> None:
    """Refuse columns that cannot be told apart."""
    named = [name for name in names if name]
    if (names and not named) or len(set(named)) < len(named):
        got = shown(",".join(names), 200)
        raise InputError(f"{path}: every column needs a name of its own, got {got!r}")
    if ROW in named:
        raise InputError(f"{path}: no column may be called {ROW}; rename it")
    pattern = next((name for name in named if name[0] == "^" and name[-1] == "$"), None)
    if pattern is not None:  # polars looks for columns that match it
        raise InputError(f"{path}: no column may begin with ^ and end with $; rename {shown(pattern)!r}")


def _read_lines(path: Path, on_bad: OnBad) -> tuple[pl.DataFrame, tuple[Bad, ...]]:
    """Read line by line what could not be read at once, to say which lines are bad."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    is_json = _kind(path) in (".jsonl", ".ndjson")
    columns, odd = _json_lines(content, path) if is_json else _csv_lines(content, path)
    bad = [Bad(f"row {row + 1} of {path.name}", why) for row, why in odd]
    settle(path.name, bad, on_bad)
    if not columns[ROW]:
        such = f": no row can be read, such as {bad[0].where}, which {bad[0].why}" if bad else " has no rows"
        raise InputError(f"{path}{such}")
    return pl.DataFrame([_series(name, values) for name, values in columns.items()]), tuple(bad)


def _series(name: str, values: list[Any]) -> pl.Series:
    """Return a column; values of kinds that do not go together become text, which is JSON where it was not text."""
    try:
        for kind, dtype in ((str, pl.String), (int, pl.Int64)):
            if all(value is None or type(value) is kind for value in values):
                return pl.Series(name, values, dtype)
        return pl.DataFrame([{name: value} for value in values], infer_schema_length=None)[name]
    except (*_ERRORS, RecursionError):
        text = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        return pl.Series(name, text, pl.String)


def _json_lines(content: bytes, path: Path) -> _Lines:
    """Return the columns of JSON lines, with the numbers of the rows, and the rows that are bad."""
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    bad: list[tuple[int, str]] = []
    lines = (line for line in content.removeprefix(codecs.BOM_UTF8).split(b"\n") if line.strip())
    for number, line in enumerate(lines):
        try:
            value = json.loads(line)
            if b"\\u" in line:
                json.dumps(value, ensure_ascii=False).encode()  # half of a pair of surrogates is no text
            if line.count(b"[") + line.count(b"{") > 60 and _deepest(value) > 60:  # numpy has 64 dimensions
                raise ValueError("lists are too deep in each other")
        except (ValueError, RecursionError) as error:
            bad.append((number, f"is not valid JSON ({error})"[:120]))
            continue
        if isinstance(value, dict):
            rows.append(value)
            numbers.append(number)
        else:
            bad.append((number, "is not a JSON object"))
    names = dict.fromkeys(name for row in rows for name in row)
    _check_names(list(names), path)
    return {ROW: numbers, **{name: [row.get(name) for row in rows] for name in names}}, bad


def _deepest(value: Any) -> int:
    """Return how deep lists and objects lie in each other."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def _csv_lines(content: bytes, path: Path) -> _Lines:
    """Return the columns of CSV or TSV, with the numbers of the rows, and the rows that are bad."""
    try:
        text, damaged = content.decode("utf-8-sig"), False
    except UnicodeDecodeError:
        text, damaged = content.decode("utf-8-sig", "surrogateescape"), True
    header: list[str] | None = None
    columns: list[list[str | None]] = []
    numbers: list[int] = []
    bad: list[tuple[int, str]] = []
    number = 0
    for cells in _csv_rows(text, _separator(path)):
        if header is None:
            if cells == []:
                continue
            header = _header(cells, path)
            columns = [[] for _ in header]
            continue
        if isinstance(cells, str):
            if cells == "unexpected end of data":  # what follows the quote is in it
                raise InputError(f"{path}: row {number + 1} has a quote that is never closed; close it")
            bad.append((number, f"is not valid CSV ({cells})"))
        elif cells and len(cells) != len(header):
            bad.append((number, f"has {len(cells)} cell{'' if len(cells) == 1 else 's'}, the header has {len(header)}"))
        elif damaged and not all(map(_is_text, cells)):
            bad.append((number, "is not UTF-8 text"))
        elif cells:
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell or None)
            numbers.append(number)
        number += 1
    if header is None:
        raise InputError(f"{path} is empty: its first line must name the columns")
    return {ROW: numbers, **dict(zip(header, columns, strict=True))}, bad


def _csv_rows(text: str, separator: str) -> Iterator[list[str] | str]:
    """Yield the cells of each row, or what is wrong with it."""
    usual = csv.field_size_limit(2**31 - 1)  # a cell may hold a whole image
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        while True:
            try:
                yield next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield str(error)
    finally:
        csv.field_size_limit(usual)


def _header(cells: list[str] | str, path: Path) -> list[str]:
    if isinstance(cells, str) or not all(map(_is_text, cells)):
        why = cells if isinstance(cells, str) else "it is not UTF-8 text"
        raise InputError(f"{path}: its first line must name the columns: {why}")
    _check_names(cells, path)
    return [name or f"column {i + 1}" for i, name in enumerate(cells)]


def _is_text(cell: str) -> bool:
    """Tell whether there are no bytes in it that are not UTF-8."""
    return cell.isascii() or not any("\ud800" <= character <= "\udfff" for character in cell)


def _line(error: BaseException) -> str:
    return shown(str(error).strip().split("\n")[0], 200) or type(error).__name__
