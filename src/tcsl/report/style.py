"""How every figure looks, and how it becomes a file: the same figure, the same bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Literal

from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tcsl.errors import TcslWarning
from tcsl.report.material import MEASURES
from tcsl.text import printable, shortened

Form = Literal["svg", "png"]

INK, MUTED, RULE = "#1b1f24", "#5b6470", "#d5d9de"
# Okabe and Ito's colours, which people with any colour vision tell apart.
ORANGE, SKY, GREEN, BLUE = "#e69f00", "#56b4e9", "#009e73", "#0072b2"
VERMILLION, PURPLE = "#d55e00", "#cc79a7"
CLUSTERS = {"G_low": BLUE, "G_high": VERMILLION}  # with a shape or a name beside the colour, for print in grey
TITLES = {
    **MEASURES,
    "tcsl_s": "TCSL$_s$",
    "tcsl_c": "TCSL$_c$",
    "G_low": "G$_{low}$",
    "G_high": "G$_{high}$",
}

_DPI, _SCREEN = 300, 120  # of a PNG and of what is a picture in an SVG; of what a notebook shows
_LOOKS = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handletextpad": 0.4,
    "lines.linewidth": 1.4,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "svg.hashsalt": "tcsl",  # else the ids in an SVG are drawn anew each time
}

styled = style.context(["default", _LOOKS])  # of a function that draws: whatever the user's own settings are


class _Shown(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        return encoded(self, "png", dpi=_SCREEN)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, outside pyplot: nothing to close, no window, no state."""
    return _Shown(figsize=(width, height), layout="constrained")


def named(text: str, most: int = 28) -> str:
    r"""Return a name from the data for a figure: no markup, no control characters, not too long.

    >>> print(named("costs $5 to $9"))
    costs \$5 to \$9
    """
    return shortened(printable(text), most).replace("$", r"\$")


def legend_above(axes: Axes, handles: Sequence[Artist], columns: int) -> None:
    """Put a legend over the plot, from its left end."""
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=columns, borderaxespad=0.2, borderpad=0
    )


@styled
def encoded(figure: Figure, form: Form, *, dpi: float | None = None) -> bytes:
    """Return the figure as a file; a name that the font cannot write is said, and has boxes in its place.

    >>> encoded(new_figure(1, 1), "svg") == encoded(new_figure(1, 1), "svg")
    True
    """
    out = io.BytesIO()
    about = {"Date": None, "Creator": "tcsl"} if form == "svg" else {"Software": "tcsl"}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure.savefig(out, format=form, metadata=about, dpi=_DPI if dpi is None else dpi)
    unwritten = [one for one in told if "missing from font" in str(one.message)]
    for one in told:
        if one not in unwritten:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if unwritten:
        warnings.warn(
            "a name has letters that DejaVu Sans, the figures' font, does not have: they are drawn as boxes",
            TcslWarning,
            stacklevel=2,
        )
    return out.getvalue()
