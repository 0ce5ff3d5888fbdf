"""Draw the worst-group accuracies of the reproduction, from its records: at r = 0.1, and over the ratios.

python docs/reproduction_figure.py docs/results/reproduction.svg
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D
from reproduced import METHODS, reproduced
from writing import read

from tcsl.report.style import BLUE, GREEN, INK, MUTED, ORANGE, encoded, new_figure, styled

LOOKS = {  # the colour and the line of each method
    "cb_erm": (INK, {"linestyle": "--", "linewidth": 0.9}),
    "random": (MUTED, {"marker": "x"}),
    "rgbal": (GREEN, {"marker": "s"}),
    "tcsl_cs_paper": (ORANGE, {"marker": "v"}),
    "tcsl_cs": (BLUE, {"marker": "o"}),
}
FIRST = {  # title: dataset, T, augmentation and model
    "Waterbirds, T = 300, r = 0.1": ("waterbirds", 300, "none", "last"),
    "cMNIST, T = 50, r = 0.1": ("cmnist", 50, "none", "last"),
    "the same, averaged weights": ("cmnist", 50, "none", "average"),
}
SHORTENED = {
    "Waterbirds, T = 30": ("waterbirds", 30, "none", "last"),
    "the same, averaged weights": ("waterbirds", 30, "none", "average"),
    "cMNIST, T = 10": ("cmnist", 10, "none", "last"),
}
RATIOS = (0.1, 0.2, 0.4)


def values(cells, ratio, method):
    return [100 * record["wga"] for record in cells.get((None if method == "cb_erm" else ratio, method), [])]


def at_one_ratio(axes, cells, paper):
    """Draw a line for each method: every seed, their mean, and what the paper prints of the last epoch."""
    for row, (method, (colour, _)) in enumerate(LOOKS.items()):
        if not (seeds := values(cells, 0.1, method)):
            axes.text(2, row, "not run", color=MUTED, fontsize=7, va="center")
            continue
        axes.plot(seeds, [row] * len(seeds), "o", color=colour, markersize=3, alpha=0.5, markeredgewidth=0)
        axes.plot(np.mean(seeds), row, "|", color=colour, markersize=11, markeredgewidth=2)
        if paper:
            said = paper[method.removesuffix("_paper")]["" if method == "cb_erm" else "0.1"][0]
            axes.plot(said, row, "D", color=colour, markersize=4, fillstyle="none", markeredgewidth=0.8)
    axes.set(xlim=(0, 100), ylim=(len(LOOKS) - 0.5, -0.5), xlabel="worst-group accuracy, %")
    axes.set_yticks(range(len(LOOKS)), [METHODS[method] for method in LOOKS])
    axes.grid(axis="x")


def over_ratios(axes, cells):
    """Draw each method's means over the ratios, with standard deviations, side by side; plain training is one line."""
    absent = []
    for place, (method, (colour, line)) in enumerate(LOOKS.items()):
        found = {ratio: seeds for ratio in RATIOS if len(seeds := values(cells, ratio, method)) > 1}
        absent += [METHODS[method]] * (not found)
        if method == "cb_erm" and found:
            axes.axhline(np.mean(found[0.1]), color=colour, **line)
        elif found:
            axes.errorbar(
                [RATIOS.index(ratio) + 0.05 * (place - 2.5) for ratio in found],
                [np.mean(seeds) for seeds in found.values()],
                [np.std(seeds, ddof=1) for seeds in found.values()],
                color=colour,
                markersize=4,
                elinewidth=0.8,
                capsize=2,
                **line,
            )
    if absent:
        said = "\n".join(f"not run: {name}" for name in absent)
        axes.text(0.03, 0.98, said, color=MUTED, fontsize=7, va="top", transform=axes.transAxes)
    axes.set(ylim=(0, 120), xlabel="r", ylabel="worst-group accuracy, %")
    axes.set_xticks(range(len(RATIOS)), map(str, RATIOS))
    axes.set_yticks(range(0, 101, 20))
    axes.grid(axis="y")


@styled
def reproduction_figure():
    """Draw both rows of panels."""
    paper = read("paper")
    figure = new_figure(7.2, 4.9)
    panels = figure.subplots(2, 3, height_ratios=(3, 4))
    for axes, (title, (dataset, *campaign)) in zip(panels[0], FIRST.items(), strict=True):
        at_one_ratio(axes, reproduced(dataset)[tuple(campaign)], paper[dataset] if campaign[-1] == "last" else None)
        axes.set_title(title)
        axes.tick_params(labelleft=axes is panels[0, 0])
    for axes, (title, (dataset, *campaign)) in zip(panels[1], SHORTENED.items(), strict=True):
        over_ratios(axes, reproduced(dataset)[tuple(campaign)])
        axes.set_title(title)
        axes.label_outer()
    marks = {
        "a seed": {"marker": "o", "markersize": 3, "alpha": 0.5},
        "mean": {"marker": "|", "markersize": 9, "markeredgewidth": 2},
        "the paper": {"marker": "D", "markersize": 4, "fillstyle": "none"},
    }
    figure.legend(
        handles=[
            *(Line2D([], [], color=MUTED, linestyle="none", label=label, **looks) for label, looks in marks.items()),
            *(
                Line2D([], [], color=c, label=METHODS[method], markersize=4, **line)
                for method, (c, line) in LOOKS.items()
            ),
        ],
        loc="outside lower center",
        ncols=4,
    )
    return figure


def main(place):
    Path(place).write_bytes(encoded(reproduction_figure(), Path(place).suffix[1:]))


if __name__ == "__main__":
    main(sys.argv[1])
