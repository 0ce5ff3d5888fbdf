"""Figures of the scores: the map, the biased model's loss curves, and densities. Plain arrays in, a Figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from tcsl.report.curves import bands
from tcsl.report.densities import FEW, density, positive
from tcsl.report.style import CLUSTERS, INK, RULE, TITLES, legend_above, named, new_figure, styled
from tcsl.types import AnyArray, BoolArray, DoubleArray, FloatArray, IntArray

_MOST_POINTS = 2_000  # that an SVG draws one by one; more are a picture in it
_MOST_GROUPS = 24
_SHAPES = {"G_low": "o", "G_high": "^"}
_LINES = {"G_low": "-", "G_high": "--"}
_LABELS = {"tcsl_s": "mean loss of the biased model", "tcsl_c": "mean loss of the core model"}


@styled
def map_figure(tcsl_s: FloatArray, tcsl_c: FloatArray, g_high: BoolArray, chosen: BoolArray | None = None) -> Figure:
    """Draw every sample in the plane TCSL_s x TCSL_c, coloured by cluster, what is chosen with a dark edge.

    Parameters
    ----------
    tcsl_s, tcsl_c, g_high : (n,) as in `Scores`
    chosen : (n,) whether the sample is in the coreset, where there is one

    >>> map_figure(np.array([0.1, 2.0]), np.array([1.0, 0.5]), np.array([False, True])).axes[0].get_xscale()
    'log'
    """
    figure = new_figure(4.8, 3.65)
    axes = figure.add_subplot()
    n = len(tcsl_s)
    x, y = positive(tcsl_s), positive(tcsl_c)
    size = float(np.clip(12 * (1_500 / n) ** 0.5, 1.5, 12))
    faint = float(np.clip(0.4 * (5_000 / n) ** 0.3, 0.1, 0.4))  # so that many points show where they are dense
    kept = np.zeros(n, np.bool_) if chosen is None else chosen
    handles = []
    for cluster, inside in _clusters(g_high):
        shape, colour = _SHAPES[cluster], CLUSTERS[cluster]
        for part, edge, alpha in ((inside & ~kept, "none", faint), (inside & kept, INK, 1.0)):
            axes.scatter(
                x[part],
                y[part],
                s=size * (1.6 if cluster == "G_high" else 1),
                marker=shape,
                c=colour,
                edgecolors=edge,
                linewidths=0.12 * size**0.5,
                alpha=alpha,
                rasterized=n > _MOST_POINTS,
            )
        handles.append(_marker(f"{TITLES[cluster]}, {int(inside.sum()):,}", shape, colour))
    if chosen is not None:
        handles.append(_marker(f"dark edge: kept, {int(kept.sum()):,}", "o", "none", edge=INK))
    axes.set(xscale="log", yscale="log")
    for axis, values, name in ((axes.xaxis, x, "tcsl_s"), (axes.yaxis, y, "tcsl_c")):
        _plain_ticks(axis, values)
        axis.set_label_text(f"{TITLES[name]}: {_LABELS[name]}")
    legend_above(axes, handles, columns=len(handles))
    return figure


@styled
def curves_figure(curves: FloatArray, g_high: BoolArray) -> Figure:
    """Draw the biased model's loss in each epoch: of either cluster the median, the middle half and the middle 80 %.

    Parameters
    ----------
    curves : (n, T_s) as in `Scores`
    g_high : (n,)

    >>> curves_figure(np.array([[2.0, 0.1], [2.1, 4.0]]), np.array([False, True])).axes[0].get_xlabel()
    'epoch of the biased model'
    """
    figure = new_figure(4.8, 3.2)
    axes = figure.add_subplot()
    epochs = np.arange(1, curves.shape[1] + 1)
    # A single epoch would have no width.
    across = epochs if len(epochs) > 1 else np.array([0.8, 1.2])
    handles = []
    found = bands(curves, g_high)
    for cluster, inside in _clusters(g_high):
        if cluster not in found:
            continue
        colour, shape = CLUSTERS[cluster], _SHAPES[cluster]
        low, quarter, median, three, high = found[cluster]
        for bottom, top in ((low, high), (quarter, three)):
            axes.fill_between(across, bottom, top, color=colour, alpha=0.2, linewidth=0)
        marks = shape if len(epochs) <= 30 else None
        axes.plot(epochs, median, color=colour, marker=marks, markersize=4)
        handles.append(_marker(f"{TITLES[cluster]}, {int(inside.sum()):,} samples", shape, colour, line="-"))
    axes.set_xlabel("epoch of the biased model")
    axes.set_ylabel("loss: median, middle 50 % and 80 %")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.grid(True)
    legend_above(axes, handles, columns=2)
    return figure


@styled
def densities_figure(scores: Mapping[str, AnyArray], g_high: BoolArray) -> Figure:
    """Draw the density of each score in either cluster, each as high as the other: where, not how many.

    Parameters
    ----------
    scores : by name, as in `Material.measures`, (n,) each
    g_high : (n,)

    >>> values = np.array([0.1, 0.2, 2.0, 3.0])
    >>> len(densities_figure({"tcsl_s": values, "tcsl_c": values}, values > 1).axes)
    2
    """
    figure = new_figure(2.6 * len(scores) + 0.2, 2.3)
    for place, (name, values) in enumerate(scores.items()):
        axes = figure.add_subplot(1, len(scores), place + 1)
        known = positive(values)
        for cluster, inside in _clusters(g_high):
            colour, part = CLUSTERS[cluster], known[inside]
            if len(part) < FEW:
                axes.plot(part, np.zeros(len(part)), _SHAPES[cluster], color=colour, markersize=4, clip_on=False)
                continue
            at, height = density(part)
            scaled = height / height.max()
            axes.fill_between(at, scaled, color=colour, alpha=0.25, linewidth=0)
            axes.plot(at, scaled, color=colour, linestyle=_LINES[cluster])
        _score_axis(axes, known, name)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_ylim(bottom=0)
        if place == 0:
            axes.set_ylabel("density, each to one height")
    handles = []
    for cluster, inside in _clusters(g_high):
        n = int(inside.sum())
        shape, line = (_SHAPES[cluster], "none") if n < FEW else ("none", _LINES[cluster])
        handles.append(_marker(f"{TITLES[cluster]}, {n:,}", shape, CLUSTERS[cluster], line=line))
    legend_above(figure.axes[0], handles, columns=2)
    return figure


@styled
def group_densities_figure(
    scores: Mapping[str, AnyArray], g_high: BoolArray, group: IntArray, names: Sequence[str]
) -> Figure:
    """Draw the density of each score in each group, one above the other; beside it how much of the group is in G_high.

    Parameters
    ----------
    scores : by name, as in `Material.measures`, (n,) each
    g_high : (n,)
    group : (n,) indices into `names`; of many groups, the largest are drawn

    >>> values = np.array([0.1, 0.2, 2.0, 3.0])
    >>> figure = group_densities_figure({"tcsl_s": values}, values > 1, np.array([0, 0, 1, 1]), ["a", "b"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['b', 'a']
    """
    counts = np.bincount(group, minlength=len(names))
    largest = np.argsort(-counts, kind="stable")[:_MOST_GROUPS]
    shown = sorted(i for i in largest.tolist() if counts[i])
    rows = len(shown)
    share = {i: float(g_high[group == i].mean()) for i in shown}
    colours = {i: CLUSTERS["G_high" if share[i] > 0.5 else "G_low"] for i in shown}
    figure = new_figure(2.4 * len(scores) + 1.8, 0.28 * rows + 0.9)
    for place, (name, values) in enumerate(scores.items()):
        axes = figure.add_subplot(1, len(scores), place + 1)
        known = positive(values)
        for row, i in enumerate(reversed(shown)):
            _ridge(axes, known[group == i], row, colours[i])
        _score_axis(axes, known, name)
        axes.xaxis.grid(True)
        axes.set_ylim(-0.1, rows + 0.45)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_yticks(range(rows), [named(names[i]) for i in reversed(shown)] if place == 0 else [""] * rows)
    if rows < np.count_nonzero(counts):
        figure.axes[0].set_title(f"the {rows} largest of {np.count_nonzero(counts):,} groups")
    beside = figure.axes[-1]
    at: dict[str, Any] = {"x": 1.03, "transform": beside.get_yaxis_transform(), "fontsize": 7.5, "va": "center"}
    beside.text(y=rows + 0.2, s=f"in {TITLES['G_high']}", **at)
    for row, i in enumerate(reversed(shown)):
        beside.text(y=row, s=f"{100 * share[i]:.0f} % of {counts[i]:,}", color=colours[i], **at)
    return figure


def _ridge(axes: Axes, values: DoubleArray, row: int, colour: str) -> None:
    """Draw one group: its density, or its samples where they are too few for one."""
    if len(values) < FEW:
        axes.plot(values, [row + 0.2] * len(values), "o", color=colour, markersize=3, alpha=0.7, markeredgewidth=0)
        axes.axhline(row, color=RULE, linewidth=0.5)
        return
    at, height = density(values)
    top = row + 0.95 * height / height.max()
    axes.fill_between(at, row, top, facecolor=(colour, 0.35), edgecolor=colour, linewidth=0.8, zorder=2)


def _clusters(g_high: BoolArray) -> tuple[tuple[str, BoolArray], tuple[str, BoolArray]]:
    return ("G_low", ~g_high), ("G_high", g_high)


def _marker(label: str, shape: str, colour: str, *, edge: str = "none", line: str = "none") -> Line2D:
    look: dict[str, Any] = {"marker": shape, "linestyle": line, "color": colour, "markersize": 5}
    return Line2D([], [], label=label, markerfacecolor=colour, markeredgecolor=edge, markeredgewidth=0.7, **look)


def _score_axis(axes: Axes, values: DoubleArray, name: str) -> None:
    pad = (values.max() / values.min()) ** 0.08
    axes.set(xscale="log", xlabel=TITLES[name], xlim=(values.min() / (1.05 * pad), values.max() * 1.05 * pad))
    _plain_ticks(axes.xaxis, values)


def _plain_ticks(axis: Axis, values: DoubleArray) -> None:
    """Write plain numbers at a logarithmic axis, as far as they are short: at 1, 2 and 5 where there is room."""

    def said(value: float, _: int | None) -> str:
        return f"{value:g}" if 0.001 <= value <= 10_000 else f"$10^{{{round(np.log10(value))}}}$"

    short = values.max() / values.min() < 200
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=7))
    axis.set_major_formatter(FuncFormatter(said))
    axis.set_minor_locator(NullLocator())
