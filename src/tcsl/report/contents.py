"""What a run folder has to draw; what it lacks is None, and why is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tcsl.errors import InputError, TcslError
from tcsl.report.pictures import Pictures, pixels_of, thumbnails_of
from tcsl.runs import RunFolder
from tcsl.scores import Coreset, Scores, load_table
from tcsl.types import BoolArray, FloatArray, IntArray, Progress

if TYPE_CHECKING:
    import polars as pl

    from tcsl.data.dataset import Dataset


class TrueGroups(NamedTuple):
    """The group of each training sample, (n,), and the groups' names."""

    group: IntArray
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Contents:
    """A finished run with scores.

    Attributes
    ----------
    chosen : (n,) whether the sample is in TCSL-CS's coreset
    el2n : (n,) where the run has it
    result : as in result.json; where only scores were made, it has no evaluation
    no_groups, no_pictures : why there are none, where there are none
    """

    scores: Scores
    class_names: tuple[str, ...]
    result: Mapping[str, Any]
    chosen: BoolArray | None
    el2n: FloatArray | None = None
    groups: TrueGroups | None = None
    pictures: Pictures | None = None
    no_groups: str = "the training set has no groups"
    no_pictures: str = "the samples are no pictures"


def scored_folder(path: Path) -> RunFolder:
    """Return the folder of a finished run that has scores, or say what it is instead."""
    folder = RunFolder.find(path)
    if not folder.done:
        raise InputError(f"{path} is not finished: go on with the same command and --resume")
    if not (path / "scores.parquet").is_file():
        raise InputError(
            f"{path} has no scores, and they are what figures show: run with the method tcsl_cs, or make scores with "
            "tcsl score"
        )
    return folder


def chosen_of(path: Path, n: int) -> BoolArray | None:
    """Return which of n samples are in the coreset of TCSL-CS; None where the run has none."""
    place = RunFolder(path).coreset_path("tcsl_cs")
    return Coreset.load(place).mask(n) if place.is_file() else None


def read_contents(path: Path, progress: Progress | None = None) -> Contents:
    """Read what a run folder has to draw; a run without samples.parquet has its data loaded again, where that works."""
    folder = scored_folder(path)
    scores = Scores.load(path / "scores.parquet")
    class_names = tuple(map(str, folder.data()["class_names"]))
    known = Contents(scores, class_names, folder.result(), chosen_of(path, len(scores)))
    if (path / "samples.parquet").is_file():
        samples, _ = _of_every_sample(path / "samples.parquet", {"webp"}, len(scores))
        el2n = samples["el2n"].to_numpy() if "el2n" in samples.columns else None
        groups = _groups(path / "groups.parquet", len(scores))
        return replace(known, el2n=el2n, groups=groups, pictures=thumbnails_of(samples))
    data = _loaded(folder, progress)
    if isinstance(data, str):
        return replace(known, no_groups=data, no_pictures=data)
    true = None if data.groups is None else TrueGroups(data.groups.group, data.groups.names)
    return replace(known, groups=true, pictures=pixels_of(data.inputs))


def _of_every_sample(path: Path, columns: set[str], n: int) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return a table and its facts; refuse one of other samples."""
    table, facts = load_table(path, columns)
    if len(table) != n:
        raise InputError(f"{path} has {len(table)} rows, and scores.parquet {n}: they are of two runs; delete it")
    return table, facts


def _groups(path: Path, n: int) -> TrueGroups | None:
    if not path.is_file():
        return None
    table, facts = _of_every_sample(path, {"group"}, n)
    return TrueGroups(table["group"].to_numpy(), tuple(map(str, facts["names"])))


def _loaded(folder: RunFolder, progress: Progress | None) -> Dataset | str:
    """Return the training set of a run, or why it cannot be had."""
    from tcsl.running import load_dataset

    settings = folder.settings()
    if not settings.data.name:
        return "the data came from Python, and the run has no samples.parquet"
    try:
        data = load_dataset(settings, progress, only_train=True).train
    except TcslError as error:
        return f"the run has no samples.parquet, and its data cannot be loaded again: {error}"
    if data.fingerprint != folder.data()["fingerprint"]:
        return "the run has no samples.parquet, and its data have changed since"
    return data
