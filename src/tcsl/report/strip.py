"""The strip: of each class, the samples that contradict the shortcut most, beside some that follow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tcsl.report.style import CLUSTERS, INK, TITLES, named, new_figure, styled
from tcsl.types import AnyArray, BoolArray, FloatArray, IntArray

_FOLLOW, _CONTRADICT = 3, 8  # pictures of a class
_MOST_CLASSES = 10
_CELL, _GAP = 0.46, 0.5  # inches; of a cell


class Row(NamedTuple):
    """One class: which samples follow the shortcut most, and which contradict it most, each from the most on."""

    label: int
    follow: IntArray
    contradict: IntArray


def strip_rows(tcsl_s: FloatArray, labels: IntArray, g_high: BoolArray, pictured: BoolArray) -> list[Row]:
    """Choose the samples of a strip: the highest and the lowest TCSL_s of each class that have a picture.

    Of many classes, those with the most samples in G_high; all arrays are (n,).

    >>> s, y = np.array([3.0, 1.0, 2.0, 0.5]), np.array([0, 0, 1, 1])
    >>> [(r.label, r.contradict.tolist()) for r in strip_rows(s, y, s > 1.5, np.ones(4, bool))]
    [(0, [0, 1]), (1, [2, 3])]
    """
    classes = np.unique(labels[pictured])
    high = np.bincount(labels[g_high], minlength=labels.max() + 1)[classes]
    rows = []
    for label in np.sort(classes[np.argsort(-high, kind="stable")[:_MOST_CLASSES]]).tolist():
        members = np.flatnonzero((labels == label) & pictured)
        ranked = members[np.argsort(-tcsl_s[members], kind="stable")]
        rows.append(Row(label, ranked[_CONTRADICT:][::-1][:_FOLLOW], ranked[:_CONTRADICT]))
    return rows


@styled
def strip_figure(
    names: Sequence[str],
    follow: Sequence[Sequence[AnyArray]],
    contradict: Sequence[Sequence[AnyArray]],
    in_g_high: Sequence[Sequence[bool]],
) -> Figure:
    """Draw pictures in rows: some that follow the shortcut, then those that contradict it most.

    Parameters
    ----------
    names : of the rows
    follow, contradict : for each row its pictures, (height, width) or (height, width, 3) uint8
    in_g_high : whether each of `contradict` is in G_high, which its frame says

    >>> grey = np.full((8, 8), 128, np.uint8)
    >>> len(strip_figure(["a"], [[grey]], [[grey, grey]], [[True, False]]).axes[0].images)
    3
    """
    left = max(map(len, follow))
    start = left + _GAP if left else 0
    across = start + max(map(len, contradict))
    labels = [named(name, 18) for name in names]
    figure = new_figure(_CELL * across + 0.075 * max(map(len, labels)) + 0.2, _CELL * len(names) + 0.55)
    axes = figure.add_subplot()
    for row, (lows, highs, marks) in enumerate(zip(follow, contradict, in_g_high, strict=True)):
        for place, picture in enumerate(lows):
            put_picture(axes, picture, place, row)
        for place, (picture, high) in enumerate(zip(highs, marks, strict=True)):
            put_picture(axes, picture, start + place, row, CLUSTERS["G_high" if high else "G_low"])
    axes.set(xlim=(0, across), ylim=(len(names), -0.1), aspect="equal")
    axes.set_yticks(np.arange(len(names)) + 0.5, labels)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)
    if left:
        axes.text(0, -0.2, f"follow it:\nlow {TITLES['tcsl_s']}", color=INK)
    frames = f"orange frame: in {TITLES['G_high']}, blue: in {TITLES['G_low']}"
    axes.text(start, -0.2, f"contradict the shortcut most: high {TITLES['tcsl_s']}\n{frames}", color=INK)
    return figure


def put_picture(axes: Axes, picture: AnyArray, x: float, y: float, frame: str | None = None) -> None:
    """Put a picture into the cell from (x, y) to (x + 1, y + 1), y downwards, its sides in proportion."""
    tall, wide = picture.shape[:2]
    half_x, half_y = (0.45 * side / max(tall, wide) for side in (wide, tall))
    left, right, top, bottom = x + 0.5 - half_x, x + 0.5 + half_x, y + 0.5 - half_y, y + 0.5 + half_y
    axes.imshow(picture, extent=(left, right, bottom, top), cmap="gray", vmin=0, vmax=255, aspect="auto")
    if frame is not None:
        place = (left, top), right - left, bottom - top
        axes.add_patch(Rectangle(*place, fill=False, edgecolor=frame, linewidth=1.2))
