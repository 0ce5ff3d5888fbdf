"""A table of scores from anywhere: one row a sample, with a column that is the score and one that is the label."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tcsl.data.bad import Bad, describe, shown
from tcsl.data.columns import find_columns, tell_guesses
from tcsl.data.frame import ROW, SUFFIXES, read_frame
from tcsl.data.manifest import Column, repeated_ids
from tcsl.data.table import column_of, ids_of, without_empty
from tcsl.errors import InputError
from tcsl.registry import unknown
from tcsl.scores import curve_columns, curves_of, read_facts
from tcsl.types import AnyArray, BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Scored:
    """What a rule reads of a table.

    Attributes
    ----------
    ids : (n,) text or integers
    labels : (n,) integers where all labels are whole numbers, else text
    scores : (n,) float64; None where random or rgbal goes by none
    curves : (n, T_s) the biased model's loss in each epoch, for tcsl_cs
    minority : (n,) whether a sample contradicts the shortcut, where a column says it
    facts : where they come from, if they are the scores of a run
    """

    ids: AnyArray
    labels: AnyArray
    scores: AnyArray | None
    curves: FloatArray | None
    minority: BoolArray | None
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_scored(
    path: Path, rule: str, *, score: str | None, label: str | None, id_: str | None, minority: str | None = None
) -> Scored:
    """Read what a rule needs of a table: Parquet, CSV, TSV or JSON lines.

    Parameters
    ----------
    rule : one of `by_rule.TAKES`; random and rgbal need no score, and tcsl_cs goes by tcsl_c where no score is named
    score : any column of numbers
    minority : a column of true and false, or of 1 and 0
    label, id_ : columns; by default those with a usual name, and without an id the row numbers, from 0
    """
    frame = _frame(path)
    columns = [name for name in frame.columns if name != ROW]
    if rule == "tcsl_cs":
        if not curve_columns(columns):
            raise InputError(
                f"{path} has no loss curves (a column curve of lists, or loss_1, loss_2, ...), which tcsl_cs goes by. "
                f"Other rules go by any score, such as --rule hist --score COLUMN; {_number_columns(frame)}"
            )
        score = "tcsl_c" if score is None and "tcsl_c" in columns else score
    if score is None and rule not in ("random", "rgbal"):
        raise InputError(f"{path}: which column is the score? Name it with --score; {_number_columns(frame)}")
    for role, name in (("score", score), ("label", label), ("id", id_), ("minority", minority)):
        if name is not None and name not in columns:
            raise unknown(f"column of {path.name} for {role!r}", name, columns)
    named = {role: name for role, name in (("label", label), ("id", id_)) if name is not None}
    free = [name for name in columns if name not in (score, minority) or name in named.values()]
    found = find_columns(path.name, free, named, how="--label NAME")
    roles = {role: names for role, names in found.items() if role in ("label", "id")}
    tell_guesses(path.name, roles, named)
    frame, empty = without_empty(frame, path, roles)
    _refuse(path, empty)
    if len(frame) == 0:
        raise InputError(f"{path}: there is no sample")
    rows, ids = frame[ROW].to_list(), ids_of(frame, path, roles)
    repeated = repeated_ids(ids, lambda i: f"row {rows[i] + 1} of {path.name}")
    _refuse(path, list(repeated.values()), "Name another column with --id, or mend the table")
    return Scored(
        ids,
        _values(column_of(frame[roles["label"][0]], path)),
        None if score is None else _numbers(frame, score, path),
        curves_of(frame, path) if rule == "tcsl_cs" else None,
        None if minority is None else _truths(frame, minority, path),
        _facts(path),
    )


def _facts(path: Path) -> Mapping[str, Any]:
    """Return where the scores of a run come from; nothing for other tables."""
    facts = read_facts(path) if path.suffix.lower() == ".parquet" else {}
    # The rows of a coreset are not those of the data that it was chosen from.
    return {} if "rule" in facts else facts


def _number_columns(frame: pl.DataFrame) -> str:
    """Say which columns could be a score."""
    numbers = {name: _as_numbers(frame[name]) for name in frame.columns if name != ROW}
    known = [name for name, column in numbers.items() if column.fill_null(np.nan).is_finite().all()]
    return f"columns of numbers: {shown(', '.join(known)) or 'none'}"


def _frame(path: Path) -> pl.DataFrame:
    """Return the table with its row numbers; a line that cannot be read is an error."""
    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path} is no table that can be read; give one that ends in {', '.join(SUFFIXES)}")
    frame, bad = read_frame(path, "skip")
    _refuse(path, bad)
    return frame


def _refuse(path: Path, bad: Sequence[Bad], advice: str = "Mend the table, or take those rows out of it") -> None:
    if bad:
        raise InputError(f"{path}: {describe(bad)}. {advice}")


def _values(labels: Column) -> AnyArray:
    """Return the labels as whole numbers where all are, so that CSV and Parquet give the same."""
    whole = all(re.fullmatch(r"0|-?[1-9]\d{0,17}", name, re.ASCII) for name in labels.names)
    names = np.array([int(name) for name in labels.names]) if whole else np.array(labels.names)
    return names[labels.codes]


def _as_numbers(series: pl.Series) -> pl.Series:
    """Return the column as float64, null where it is not a number."""
    series = series.alias("number")  # polars takes a name such as ^a$ for a pattern
    if series.dtype == pl.String:
        return series.str.strip_chars().cast(pl.Float64, strict=False)
    if series.dtype.is_numeric():
        return series.cast(pl.Float64)
    return pl.Series([None] * len(series), dtype=pl.Float64)


def _truths(frame: pl.DataFrame, column: str, path: Path) -> BoolArray:
    """Return a column of truths, (n,) bool, or say which rows have none."""
    if frame[column].dtype.is_nested():
        raise InputError(f"{path}: column {column!r} holds lists; it must be true or false, or 1 or 0, in every row")
    words = frame[column].alias("cell").cast(pl.String, strict=False).str.strip_chars().str.to_lowercase()
    yes, no = words.is_in(["true", "1", "1.0"]), words.is_in(["false", "0", "0.0"])
    odd = np.flatnonzero(~(yes | no).fill_null(value=False).to_numpy())
    bad = [
        Bad(f"row {row + 1} of {path.name}", f"has {shown(repr(cell), 40)} in {column!r}")
        for row, cell in zip(frame[ROW].gather(odd), frame[column].alias("cell").gather(odd), strict=True)
    ]
    _refuse(path, bad, f"Column {column!r} must be true or false, or 1 or 0, in every row")
    return yes.to_numpy()


def _numbers(frame: pl.DataFrame, column: str, path: Path) -> AnyArray:
    """Return a column of numbers, (n,) float64, or say which rows have none."""
    numbers = _as_numbers(frame[column])
    if numbers.null_count() == len(numbers):
        raise InputError(
            f"{path}: column {column!r} does not hold numbers, row {frame[ROW][0] + 1} has "
            f"{shown(repr(frame[column][0]), 80)}; {_number_columns(frame)}"
        )
    values = numbers.fill_null(np.nan).to_numpy()
    odd = np.flatnonzero(~np.isfinite(values))
    bad = [
        Bad(f"row {row + 1} of {path.name}", "has no score" if cell is None else f"has the score {str(cell)[:40]!r}")
        for row, cell in zip(frame[ROW].gather(odd), frame[column].alias("cell").gather(odd), strict=True)
    ]
    _refuse(path, bad, f"Column {column!r} must hold a finite number in every row: mend it, or take those rows out")
    return values
