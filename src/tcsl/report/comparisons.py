"""Figures of before and after: what the coreset is made of, and accuracy by group. Plain values in, a Figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tcsl.report.composition import Composition
from tcsl.report.style import (
    BLUE,
    CLUSTERS,
    GREEN,
    MUTED,
    ORANGE,
    PURPLE,
    RULE,
    SKY,
    TITLES,
    VERMILLION,
    named,
    new_figure,
    styled,
)
from tcsl.statistics import seen, wilson

_MOST = 24  # rows of a panel
_ROW, _BETWEEN = 0.185, 3.5  # inches; the rows that title and axis of a panel take
_LOOKS = tuple(zip((MUTED, GREEN, PURPLE, ORANGE, SKY, BLUE, VERMILLION), "oDs^vPX", strict=True))


@styled
def composition_figure(parts: Mapping[str, Composition]) -> Figure:
    """Draw the share of each class, cluster, ... in the full set and in the coreset.

    Parameters
    ----------
    parts : by title; of a part with many kinds, those are drawn whose share changes most, and none without a sample

    >>> kinds = Composition(("a", "b"), np.array([90, 10]), np.array([10, 10]))
    >>> composition_figure({"class": kinds}).axes[0].get_title("left")
    'class'
    """
    columns: tuple[list[str], list[str]] = ([], [])
    heights = [0.0, 0.0]
    rows = {title: min(int(np.count_nonzero(part.full)), _MOST) for title, part in parts.items()}
    for title in sorted(parts, key=lambda title: -rows[title]):  # stable: of equal ones in the order given
        shorter = int(heights[1] < heights[0])
        columns[shorter].append(title)
        heights[shorter] += rows[title] + _BETWEEN
    used = [column for column in columns if column]
    figure = new_figure(3.4 * len(used), _ROW * max(heights) + 0.4)
    sides = figure.subfigures(1, len(used), squeeze=False)
    for beside, column in zip(sides[0], used, strict=True):
        ratios = [rows[title] + 1.0 for title in column]
        spare = max(heights) - sum(rows[title] + _BETWEEN for title in column)
        panels = beside.subplots(len(ratios) + 1, squeeze=False, height_ratios=[*ratios, max(spare, 0.01)])[:, 0]
        panels[-1].set_axis_off()
        for axes, title in zip(panels, column, strict=False):
            _shares(axes, title, parts[title])
    handles = [_handle("full set", 0), _handle("coreset", 1)]
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    return figure


def _shares(axes: Axes, title: str, part: Composition) -> None:
    full, kept = (100 * counts / max(counts.sum(), 1) for counts in (part.full, part.kept))
    there = np.flatnonzero(part.full)
    order = np.sort(there[np.argsort(-np.abs(kept - full)[there], kind="stable")[:_MOST]])
    if len(there) > _MOST:
        title = f"{title} ({_MOST} of {len(there):,}, whose share changes most)"
    for row, i in enumerate(order):
        axes.plot([full[i], kept[i]], [row, row], color=RULE, linewidth=2, solid_capstyle="butt", zorder=1)
    for values, look in ((full, 0), (kept, 1)):
        axes.plot(values[order], np.arange(len(order)), **_dots(look), zorder=2 + look, clip_on=False)
    _rows(axes, [part.names[i] for i in order.tolist()])
    axes.set_title(title)
    axes.set_xlim(left=0)
    axes.set_xlabel("share, %")


@styled
def accuracy_figure(
    names: Sequence[str],
    sizes: Sequence[int],
    accuracies: Mapping[str, Sequence[float | None]],
    *,
    worths: Mapping[str, Sequence[float | None]] | None = None,
    kind: str = "group",
) -> Figure:
    """Draw the accuracy of each method on each group, with Wilson's 95 % intervals and the worst of each as a line.

    Parameters
    ----------
    names, sizes : of the groups, and how many test samples each has; of many, those are drawn that some method fails,
        and none without a test sample
    accuracies : by method's title, in 0 .. 1, None where a group has no test sample; seven methods at most
    worths : by method's title, how many independent samples would tell as much, where a group's are not
    kind : what the rows are

    >>> figure = accuracy_figure(["a", "b"], [10, 20], {"CB ERM": [0.9, 0.2], "TCSL-CS": [0.8, 0.7]})
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['a', 'b']
    """
    known = {title: np.array([np.nan if v is None else v for v in values]) for title, values in accuracies.items()}
    there = np.flatnonzero(sizes)
    lowest = np.stack([values[there] for values in known.values()]).min(0)
    shown = np.sort(there[np.argsort(lowest, kind="stable")[:_MOST]])
    figure = new_figure(4.8, max(_ROW, 0.06 + 0.09 * len(known)) * len(shown) + 1.0)
    axes = figure.add_subplot()
    offsets = 0.4 * (np.arange(len(known)) / max(len(known) - 1, 1) - 0.5 * (len(known) > 1))
    handles = []
    for look, (title, values) in enumerate(known.items()):
        colour, rows = _LOOKS[look][0], np.arange(len(shown)) + offsets[look]
        for row, i in zip(rows, shown, strict=True):
            worth = worths[title][i] if worths else None
            ends = [100 * end for end in wilson(*seen(values[i], sizes[i], worth))]
            axes.plot(ends, [row, row], color=colour, linewidth=1, alpha=0.7, zorder=2)
        axes.plot(100 * values[shown], rows, **_dots(look), zorder=3, clip_on=False)
        worst = 100 * values[there].min()
        average = 100 * np.average(values[there], weights=np.asarray(sizes)[there])
        axes.axvline(worst, color=colour, linewidth=0.8, linestyle=":", zorder=1)
        handles.append(_handle(f"{named(title)}: worst {worst:.1f}, average {average:.1f}", look))
    _rows(axes, [names[i] for i in shown])
    axes.set_xlim(-1, 101)
    of = f" ({_MOST} of {len(there):,}, the lowest)" if len(there) > _MOST else ""
    axes.set_xlabel(f"accuracy by {kind}{of}, %\nwith 95 % intervals; dotted: the worst")
    figure.legend(handles=handles, loc="outside upper left", ncols=2 if len(handles) == 2 else 1)
    return figure


def _rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows, the first at the top."""
    clusters = tuple(names) == tuple(CLUSTERS)
    axes.set_yticks(range(len(names)), [TITLES[name] if clusters else named(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, pad=6)
    axes.spines["left"].set_visible(False)
    axes.xaxis.grid(True)


def _dots(look: int) -> dict[str, Any]:
    """Return how a method is drawn; the first, which others are compared with, is hollow."""
    colour, shape = _LOOKS[look]
    face = "white" if look == 0 else colour
    size = 7 if look == 0 else 3.7
    return {"linestyle": "none", "marker": shape, "markersize": size, "color": colour, "markerfacecolor": face}


def _handle(label: str, look: int) -> Line2D:
    return Line2D([], [], label=label, **_dots(look))
