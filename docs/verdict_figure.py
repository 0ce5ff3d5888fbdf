"""Draw how often the verdict says "shortcut", over the strength of the planted one, from docs/results/verdict.json.

python docs/verdict_figure.py docs/results/verdict.svg
"""

import json
import sys
from pathlib import Path

import numpy as np

from tcsl.report.style import BLUE, MUTED, encoded, new_figure, styled
from tcsl.statistics import clopper_pearson


@styled
def verdict_figure(rows, chance=0.1):
    """Draw the share of runs in which a shortcut was found, with exact binomial 95 % intervals.

    rows: data (an alpha), runs and found of each; chance: the alpha at which the colour says nothing about the class.
    """
    figure = new_figure(4.8, 3.0)
    axes = figure.add_subplot()
    for level, at, said in ((5, 0.87, "5 %, the level"), (95, 0.35, "95 %, the aim from alpha 0.9 on")):
        axes.axhline(level, color=MUTED, linewidth=0.8, linestyle=":")
        axes.text(at, level + 1.5, said, color=MUTED, fontsize=7.5, ha="center")
    alpha = np.array([float(row["data"]) for row in rows])
    share = np.array([row["found"] / row["runs"] for row in rows])
    ends = np.array([clopper_pearson(row["found"], row["runs"]) for row in rows])
    axes.plot(alpha, 100 * share, color=BLUE, linewidth=0.8, alpha=0.6)
    reach = 100 * np.abs(ends.T - share)
    axes.errorbar(alpha, 100 * share, yerr=reach, fmt="o", color=BLUE, markersize=4, elinewidth=1.2, capsize=2)
    axes.axvline(chance, color=MUTED, linewidth=0.6)
    axes.text(chance + 0.01, 50, "colour drawn\nat random", color=MUTED, fontsize=7.5, va="center")
    counts = sorted({row["runs"] for row in rows})
    of = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    axes.set(xlim=(0, 1.02), ylim=(-2, 102))
    axes.set_xlabel("alpha: share of digits whose colour gives the class away")
    axes.set_ylabel(f'runs that say "shortcut", % of {of}')
    return figure


def main(place, record=Path(__file__).parent / "results" / "verdict.json"):
    rows = [row for row in json.loads(Path(record).read_text())["rows"] if "-" not in row["data"]]
    Path(place).write_bytes(encoded(verdict_figure(rows), Path(place).suffix[1:]))


if __name__ == "__main__":
    main(*sys.argv[1:3])
