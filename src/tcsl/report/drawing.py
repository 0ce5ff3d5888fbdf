"""The figures of a run: `tcsl.figures` for Python, and their files for `tcsl figures`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
from matplotlib.figure import Figure

from tcsl.errors import InputError
from tcsl.files import write_atomic
from tcsl.report.comparisons import Composition, accuracy_figure, composition_figure
from tcsl.report.contents import Contents, read_contents
from tcsl.report.figures import curves_figure, densities_figure, group_densities_figure, map_figure
from tcsl.report.strip import strip_figure, strip_rows
from tcsl.report.style import CLUSTERS, TITLES, Form, encoded
from tcsl.types import AnyArray, Progress

if TYPE_CHECKING:
    from tcsl.running import Run

_BINS = 10
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

    >>> import tempfile, tcsl
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


def _map(run: Contents) -> Figure:
    return map_figure(run.scores.tcsl_s, run.scores.tcsl_c, run.scores.g_high, run.chosen)


def _curves(run: Contents) -> Figure:
    return curves_figure(run.scores.curves, run.scores.g_high)


def _scores(run: Contents) -> dict[str, AnyArray]:
    known = {"tcsl_s": run.scores.tcsl_s, "tcsl_c": run.scores.tcsl_c}
    return known if run.el2n is None else {**known, "el2n": run.el2n}


def _densities(run: Contents) -> Figure:
    return densities_figure(_scores(run), run.scores.g_high)


def _densities_by_group(run: Contents) -> Figure | str:
    if run.groups is None:
        return run.no_groups
    return group_densities_figure(_scores(run), run.scores.g_high, run.groups.group, run.groups.names)


def _composition(run: Contents) -> Figure | str:
    """Compare the coreset with the full set by class, cluster, tenth of TCSL_c and, where known, group."""
    scores, chosen = run.scores, run.chosen
    if chosen is None:
        return "the run has no coreset of tcsl_cs"
    rank = np.argsort(np.argsort(scores.tcsl_c, kind="stable"), kind="stable")
    tenths = ("1, easiest", *map(str, range(2, _BINS)), f"{_BINS}, hardest")
    kinds = {
        "class": (run.class_names, scores.labels),
        "cluster": (tuple(CLUSTERS), scores.g_high.astype(np.int64)),
        f"tenth by {TITLES['tcsl_c']}": (tenths, rank * _BINS // len(scores)),
    }
    if run.groups is not None:
        kinds["group"] = (run.groups.names, run.groups.group)
    return composition_figure(
        {
            title: Composition(names, *(np.bincount(part, minlength=len(names)) for part in (kind, kind[chosen])))
            for title, (names, kind) in kinds.items()
        }
    )


def _accuracy(run: Contents) -> Figure | str:
    """Compare plain training on everything with TCSL-CS by group, or class; where one is missing, all methods."""
    evaluation = run.result.get("evaluation")
    if not evaluation:
        return "the run has no test set"
    both = [name for name in ("cb_erm", "tcsl_cs") if name in evaluation]
    methods = both if len(both) == 2 else list(evaluation)[:_MOST_METHODS]
    kind = "groups" if evaluation[methods[0]]["groups"] else "classes"
    parts = evaluation[methods[0]][kind]
    return accuracy_figure(
        [part["name"] for part in parts],
        [part["n"] for part in parts],
        {run.result["titles"][name]: [part["accuracy"] for part in evaluation[name][kind]] for name in methods},
        kind={"groups": "group", "classes": "class"}[kind],
    )


def _contradicting(run: Contents) -> Figure | str:
    scores, pictures = run.scores, run.pictures
    if pictures is None:
        return run.no_pictures
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
