"""What the page and the figures are made of: the files of one run folder, read; what an older run lacks is None."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tcsl.config import Settings
from tcsl.errors import InputError
from tcsl.files import cut_short
from tcsl.runs import RunFolder
from tcsl.scores import Coreset, Scores, load_table
from tcsl.types import BoolArray, FloatArray, IntArray

# The scores whose densities are drawn, by their column; of EL2N, the one that the run has.
MEASURES = {"tcsl_s": "TCSL_s", "tcsl_c": "TCSL_c", "el2n": "EL2N", "el2n_biased": "EL2N of the biased model"}


class TrueGroups(NamedTuple):
    """The groups of the training set, where they are known, to be shown: (n,), (n,), and one name a group."""

    group: IntArray
    minority: BoolArray
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Material:
    """A finished run with scores.

    Attributes
    ----------
    coreset : of TCSL-CS; None where only scores were made
    samples : thumbnails or texts, the nearest chosen neighbours, and EL2N, by index
    near_by : what is near, in words
    predictions : of the evaluation set: id, label, one column a model, and what the verdict needs
    """

    path: Path
    settings: Settings
    data: dict[str, Any]
    environment: dict[str, Any]
    result: dict[str, Any]
    metrics: list[dict[str, Any]]
    scores: Scores
    coreset: Coreset | None
    samples: pl.DataFrame | None
    near_by: str
    groups: TrueGroups | None
    predictions: pl.DataFrame | None

    @property
    def class_names(self) -> list[str]:
        """The classes' names."""
        return list(map(str, self.data["class_names"]))

    @property
    def chosen(self) -> BoolArray:
        """Whether each sample is in TCSL-CS's coreset, (n,); none is where there is no coreset."""
        n = len(self.scores)
        return np.zeros(n, np.bool_) if self.coreset is None else self.coreset.mask(n)

    @property
    def measures(self) -> dict[str, FloatArray]:
        """Those of MEASURES that the run has, (n,) each."""
        known = {"tcsl_s": self.scores.tcsl_s, "tcsl_c": self.scores.tcsl_c}
        if self.samples is not None:
            known |= {name: self.samples[name].to_numpy() for name in MEASURES if name in self.samples.columns}
        return known


def read_material(path: Path, *, for_page: bool = True) -> Material:
    """Read a finished run with scores; refuse one that has nothing to show yet.

    Parameters
    ----------
    for_page : refuse a run without a coreset of TCSL-CS, too
    """
    folder = RunFolder.find(path)
    if not folder.done:
        raise InputError(f"{path} is not finished: go on with the same command and --resume")
    wanted, by = (("scores.parquet", "coreset.parquet"), "a page") if for_page else (("scores.parquet",), "figures")
    for name in wanted:
        folder.check_left(path / name)
        if not (path / name).is_file():
            also = "" if for_page else "; tcsl score makes scores alone"
            raise InputError(
                f"{path} has no {name}, which {by} cannot do without: only a run with the method tcsl_cs has one{also}"
            )
    scores = Scores.load(path / "scores.parquet")
    folder.check_left(path / "predictions.parquet")
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
        read_coreset(path),
        samples,
        facts.get("near_by", ""),
        _groups(path / "groups.parquet", len(scores)),
        predictions,
    )


def read_coreset(path: Path) -> Coreset | None:
    """Return TCSL-CS's coreset of a run folder, where it has one."""
    place = RunFolder(path).coreset_path("tcsl_cs")
    return Coreset.load(place) if place.is_file() else None


def _groups(path: Path, n: int) -> TrueGroups | None:
    frame, facts = _optional(path, {"index", "group", "minority"}, n)
    if frame is None:
        return None
    return TrueGroups(frame["group"].to_numpy(), frame["minority"].to_numpy(), tuple(map(str, facts["names"])))


def _optional(path: Path, columns: set[str], n: int | None) -> tuple[pl.DataFrame | None, dict[str, Any]]:
    """Return a table and its facts, or None where there is no such file; refuse one of another number of rows."""
    if not path.is_file():
        return None, {}
    if cut_short(path):
        raise InputError(f"{path} is damaged; delete it, and it is left out")
    frame, facts = load_table(path, columns)
    if n is not None and len(frame) != n:
        raise InputError(f"{path} has {len(frame)} rows, and scores.parquet {n}; delete it, and it is left out")
    return frame, facts
