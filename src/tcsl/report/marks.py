"""Samples that someone marked while looking at a run: marks.parquet in the run folder, a row a marked sample.

index, id, label    the sample, as in coreset.parquet
note                what was said of it; empty where nothing was
time                when it was marked, or its note last changed: UTC, ISO 8601
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tcsl.errors import InputError
from tcsl.scores import Scores, load_table, save_table

MOST_NOTE = 200  # characters
_COLUMNS = {"index", "id", "label", "note", "time"}
_in_this_process = threading.Lock()


@dataclass(frozen=True)
class Change:
    """What is to be marked and what not any more.

    Attributes
    ----------
    mark : indices of samples by the note that they get, which may be empty
    unmark : indices of samples
    """

    mark: Mapping[str, Sequence[int]] = field(default_factory=dict)
    unmark: Sequence[int] = ()


def marks_path(run: Path) -> Path:
    """Return where the marks of a run lie."""
    return run / "marks.parquet"


def read_marks(run: Path, scores: Scores) -> pl.DataFrame:
    """Return the marks of a run, by index; refuse a table of other samples than those of `scores`."""
    place = marks_path(run)
    if not place.is_file():
        return _table({}, scores)
    frame, _ = load_table(place, _COLUMNS)
    index = frame["index"].to_numpy()
    inside = len(index) == 0 or (index.min() >= 0 and index.max() < len(scores))
    if not inside or scores.ids[index].tolist() != frame["id"].to_list():
        raise InputError(f"{place} has samples that are not those of {run}: move it elsewhere, and marks begin anew")
    return frame


def change_marks(run: Path, scores: Scores, change: Change) -> pl.DataFrame:
    """Mark and unmark samples, and return the new table, which is then on the disk; others may change it meanwhile.

    >>> import tempfile
    >>> from tcsl.selection.coreset import scores_of
    >>> scores = scores_of(np.ones((4, 2)), np.ones(4), np.array([0, 1, 0, 1]))
    >>> with tempfile.TemporaryDirectory() as run:
    ...     _ = change_marks(Path(run), scores, Change({"wrong label": [3], "": [1, 2]}))
    ...     change_marks(Path(run), scores, Change(unmark=[1]))["index", "note"].rows()
    [(2, ''), (3, 'wrong label')]
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with alone(run):
        there = read_marks(run, scores)
        marks = {i: (note, time) for i, note, time in there["index", "note", "time"].iter_rows()}
        for note, indices in change.mark.items():
            marks |= {i: (note, now) for i in indices if i not in marks or marks[i][0] != note}
        for i in change.unmark:
            marks.pop(i, None)
        table = _table(marks, scores)
        known = {name: scores.facts[name] for name in ("fingerprint", "class_names") if name in scores.facts}
        save_table(table, marks_path(run), known)
    return table


def parse_change(content: bytes, n: int) -> Change:
    """Read a change of the marks of n samples from JSON; refuse anything that is not exactly one.

    >>> parse_change(b'{"mark": {"blurred": [0, 2]}, "unmark": [1]}', n=3)
    Change(mark={'blurred': [0, 2]}, unmark=[1])
    """
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError("a change of marks must be JSON") from None
    if not isinstance(told, dict) or not set(told) <= {"mark", "unmark"}:
        raise InputError('a change of marks must be {"mark": {NOTE: [INDEX, ...]}, "unmark": [INDEX, ...]}')
    mark, unmark = told.get("mark", {}), told.get("unmark", [])
    if not isinstance(mark, dict):
        raise InputError("what is marked must be lists of samples by their notes")
    for note in mark:
        if not _is_note(note):
            raise InputError(f"a note has at most {MOST_NOTE} characters, no control characters among them")
    for indices in (*mark.values(), unmark):
        if not isinstance(indices, list) or not all(type(i) is int and 0 <= i < n for i in indices):
            raise InputError(f"samples must be whole numbers from 0 to {n - 1}")
    return Change(mark, unmark)


@contextmanager
def alone(run: Path) -> Iterator[None]:
    """Wait until nobody else changes the marks of a run, and keep others waiting."""
    with _in_this_process:
        try:
            import fcntl
        except ImportError:  # not on this system: two processes on one run are then the user's to avoid
            yield
            return
        place = os.open(run, os.O_RDONLY)
        try:
            fcntl.flock(place, fcntl.LOCK_EX)
            yield
        finally:
            os.close(place)


def _is_note(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character that takes two
        return False
    return len(text) <= MOST_NOTE and not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in text)


def _table(marks: Mapping[int, tuple[str, str]], scores: Scores) -> pl.DataFrame:
    index = np.array(sorted(marks), np.int64)
    ids: list[Any] = scores.ids[index].tolist()
    return pl.DataFrame(
        {
            "index": index,
            "id": pl.Series(ids, dtype=pl.Series(scores.ids[:1].tolist()).dtype),
            "label": scores.labels[index],
            "note": pl.Series([marks[i][0] for i in index.tolist()], dtype=pl.String),
            "time": pl.Series([marks[i][1] for i in index.tolist()], dtype=pl.String),
        }
    )
