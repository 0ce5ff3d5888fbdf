"""What a page is made of: the files of one run folder, read; what an older run does not have is None."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tcsl.config import Settings
from tcsl.errors import InputError
from tcsl.runs import RunFolder
from tcsl.scores import Coreset, Scores, load_table
from tcsl.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class TrueGroups:
    """The groups of the training set, where they are known: for the page alone."""

    group: IntArray
    minority: BoolArray
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Material:
    """A finished run with TCSL-CS among its methods.

    Attributes
    ----------
    chosen : (n,) whether the sample is in TCSL-CS's coreset
    samples : thumbnails or texts, and the nearest chosen neighbours, by index
    near_by : what is near, in words
    predictions : of the evaluation set: id, label and one column a model
    """

    path: Path
    settings: Settings
    data: dict[str, Any]
    environment: dict[str, Any]
    result: dict[str, Any]
    metrics: list[dict[str, Any]]
    scores: Scores
    coreset: Coreset
    chosen: BoolArray
    samples: pl.DataFrame | None
    near_by: str
    groups: TrueGroups | None
    predictions: pl.DataFrame | None

    @property
    def class_names(self) -> list[str]:
        """The classes' names."""
        return list(map(str, self.data["class_names"]))


def read_material(path: Path) -> Material:
    """Read what a page shows of a run; refuse one that has nothing to show yet."""
    folder = RunFolder.find(path)
    if not folder.done:
        raise InputError(f"{path} is not finished, so there is no page of it yet: go on with --resume")
    for name in ("scores.parquet", "coreset.parquet"):
        if not (path / name).is_file():
            raise InputError(
                f"{path} has no {name}, which a page shows: only a run with the method tcsl_cs has one (tcsl run)"
            )
    scores, coreset = Scores.load(path / "scores.parquet"), Coreset.load(path / "coreset.parquet")
    samples, facts = _optional(path / "samples.parquet", {"index", "id", "webp", "text", "near"}, len(scores))
    predictions, _ = _optional(path / "predictions.parquet", {"id", "label"}, None)
    return Material(
        path,
        folder.settings(),
        folder.data(),
        folder.environment(),
        folder.result(),
        folder.metrics(),
        scores,
        coreset,
        coreset.mask(len(scores)),
        samples,
        facts.get("near_by", ""),
        _groups(path / "groups.parquet", len(scores)),
        predictions,
    )


def _groups(path: Path, n: int) -> TrueGroups | None:
    frame, facts = _optional(path, {"index", "group", "minority"}, n)
    if frame is None:
        return None
    return TrueGroups(frame["group"].to_numpy(), frame["minority"].to_numpy(), tuple(map(str, facts["names"])))


def _optional(path: Path, columns: set[str], n: int | None) -> tuple[pl.DataFrame | None, dict[str, Any]]:
    """Return a table and its facts, or None where there is no such file; refuse one of another number of rows."""
    if not path.is_file():
        return None, {}
    frame, facts = load_table(path, columns)
    if n is not None and len(frame) != n:
        raise InputError(f"{path} has {len(frame)} rows, and scores.parquet {n}; delete it, and it is left out")
    return frame, facts
