"""The figures of a run: `tcsl.figures` for Python, and their files for `tcsl figures`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from matplotlib.figure import Figure

from tcsl.errors import InputError
from tcsl.files import write_atomic
from tcsl.report.comparisons import accuracy_figure, composition_figure
from tcsl.report.composition import compositions
from tcsl.report.contents import Contents, read_contents
from tcsl.report.figures import curves_figure, densities_figure, group_densities_figure, map_figure
from tcsl.report.outcome import AFTER, BEFORE
from tcsl.report.strip import strip_figure, strip_rows
from tcsl.report.style import TITLES, Form, encoded
from tcsl.types import Progress

if TYPE_CHECKING:
    from tcsl.running import Run

_MOST_METHODS = 7


def figures(run: Run | Path | str, *, progress: Progress | None = None) -> dict[str, Figure]:
    """Draw a finished run with matplotlib, outside pyplot: `figures(run)["map"].savefig("map.pdf")`.

    Parameters
    ----------
    run : a run or its folder
    progress : told how far the reading of the data is, where an older run needs them

    Returns
    -------
    by name: map, loss-curves, densities, densities-by-group, composition, accuracy, contradicting; without those for
    which the run has nothing, such as groups or pictures

    >>> import numpy as np, tempfile, tcsl
    >>> X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = tcsl.debias((X, y), 0.5, settings={"train.epochs": 10}, out=f"{folder}/run")
    ...     list(figures(run))
    ['map', 'loss-curves', 'densities', 'composition']
    """
    return draw(run, progress=progress)[0]


def draw(run: Run | Path | str, *, progress: Progress | None = None) -> tuple[dict[str, Figure], dict[str, str]]:
    """Return the figures of a run by name, as `figures` does, and why others are not drawn."""
    contents = read_contents(_path(run), progress)
    made = {name: function(contents) for name, function in _FIGURES.items()}
    drawn = {name: figure for name, figure in made.items() if isinstance(figure, Figure)}
    return drawn, {name: why for name, why in made.items() if isinstance(why, str)}


def save_figures(
    run: Run | Path | str, out: Path | None = None, *, progress: Progress | None = None
) -> tuple[list[Path], dict[str, str]]:
    """Write the figures of a run as SVG and PNG; return the files, and why others are not drawn.

    Parameters
    ----------
    out : a folder; by default `figures` in the run's
    """
    place = _path(run) / "figures" if out is None else out
    if place.exists() and not place.is_dir():
        raise InputError(f"{place} is a file; name a folder for the figures")
    drawn, missing = draw(run, progress=progress)
    files = {
        place / f"{name}.{form}": encoded(figure, form) for name, figure in drawn.items() for form in get_args(Form)
    }
    for file, content in files.items():
        write_atomic(file, content)
    return list(files), missing


def _path(run: Run | Path | str) -> Path:
    return Path(run) if isinstance(run, str | Path) else run.path


def _map(contents: Contents) -> Figure:
    run, scores = contents.run, contents.run.scores
    return map_figure(scores.tcsl_s, scores.tcsl_c, scores.g_high, None if run.coreset is None else run.chosen)


def _curves(contents: Contents) -> Figure:
    scores = contents.run.scores
    return curves_figure(scores.curves, scores.g_high)


def _densities(contents: Contents) -> Figure:
    return densities_figure(contents.run.measures, contents.run.scores.g_high)


def _densities_by_group(contents: Contents) -> Figure | str:
    run, groups = contents.run, contents.groups
    if isinstance(groups, str):
        return groups
    return group_densities_figure(run.measures, run.scores.g_high, groups.group, groups.names)


def _composition(contents: Contents) -> Figure | str:
    run, groups = contents.run, contents.groups
    if run.coreset is None:
        return "the run has no coreset of tcsl_cs"
    known = None if isinstance(groups, str) else groups
    parts = compositions(run.scores, run.chosen, run.class_names, known)
    titles = {"tenth": f"tenth of {TITLES['tcsl_c']}"}
    return composition_figure({titles.get(by, by): part for by, part in parts.items()})


def _accuracy(contents: Contents) -> Figure | str:
    """Compare plain training on everything with TCSL-CS by group, or class; where one is missing, all methods."""
    result = contents.run.result
    evaluation = result.get("evaluation")
    if not evaluation:
        return "the run has no test set"
    both = [name for name in (BEFORE, AFTER) if name in evaluation]
    methods = both if len(both) == 2 else list(evaluation)[:_MOST_METHODS]
    kind = "groups" if evaluation[methods[0]]["groups"] else "classes"
    parts = evaluation[methods[0]][kind]
    return accuracy_figure(
        [part["name"] for part in parts],
        [part["n"] for part in parts],
        {result["titles"][name]: [part["accuracy"] for part in evaluation[name][kind]] for name in methods},
        worths={result["titles"][name]: [part.get("worth") for part in evaluation[name][kind]] for name in methods},
        kind={"groups": "group", "classes": "class"}[kind],
    )


def _contradicting(contents: Contents) -> Figure | str:
    run, scores, pictures = contents.run, contents.run.scores, contents.pictures
    if isinstance(pictures, str):
        return pictures
    rows = strip_rows(scores.tcsl_s, scores.labels, scores.g_high, pictures.there)
    return strip_figure(
        [run.class_names[row.label] for row in rows],
        [[pictures.of(i) for i in row.follow.tolist()] for row in rows],
        [[pictures.of(i) for i in row.contradict.tolist()] for row in rows],
        [scores.g_high[row.contradict].tolist() for row in rows],
    )


_FIGURES: dict[str, Callable[[Contents], Figure | str]] = {
    "map": _map,
    "loss-curves": _curves,
    "densities": _densities,
    "densities-by-group": _densities_by_group,
    "composition": _composition,
    "accuracy": _accuracy,
    "contradicting": _contradicting,
}
