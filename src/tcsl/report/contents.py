"""What the figures need beyond a run's tables: groups and pictures, from its data if need be, or why there are none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tcsl.errors import TcslError
from tcsl.report.material import Material, TrueGroups, read_material
from tcsl.report.pictures import Pictures, pictures_of, thumbnails_of
from tcsl.runs import RunFolder
from tcsl.types import Progress

if TYPE_CHECKING:
    from tcsl.data.dataset import Dataset

_NO_GROUPS = "the training set has no groups"
_NO_PICTURES = "the samples are no pictures"


class Contents(NamedTuple):
    """A run to draw; in place of groups and pictures, why there are none."""

    run: Material
    groups: TrueGroups | str
    pictures: Pictures | str


def read_contents(path: Path, progress: Progress | None = None) -> Contents:
    """Read a run to draw; one without samples.parquet has its data loaded again, where that works."""
    run = read_material(path, for_page=False)
    if run.samples is not None:
        return Contents(run, run.groups or _NO_GROUPS, thumbnails_of(run.samples) or _NO_PICTURES)
    data = _loaded(run, progress)
    if isinstance(data, str):
        return Contents(run, run.groups or data, data)
    groups = data.groups and TrueGroups(data.groups.group, data.groups.minority, data.groups.names)
    return Contents(run, groups or _NO_GROUPS, pictures_of(data.inputs) or _NO_PICTURES)


def _loaded(run: Material, progress: Progress | None) -> Dataset | str:
    """Return the training set of a run, or why it cannot be had."""
    from tcsl.running import load_training_set

    if not run.settings.data.name:
        return "the data came from Python, and the run has no samples.parquet"
    try:
        return load_training_set(RunFolder.find(run.path), run.settings, progress)
    except TcslError as error:
        return f"the run has no samples.parquet, and its data cannot be loaded again: {error}"
