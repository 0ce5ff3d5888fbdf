"""Draw the README's picture from a finished run of the digits and the record of five seeds.

python docs/picture.py runs/demo docs/images/digits.png
"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from tcsl import load_run
from tcsl.running import load_dataset
from tcsl.runs import RunFolder

INK, MUTED = "#1b1f24", "#6b7280"
COLOURS = {"cb_erm": "#9aa3ad", "rgbal": "#4c9be8", "tcsl_cs": "#e8743b"}


def first_of_each(ranked, labels):
    return [next(i for i in ranked if labels[i] == k) for k in range(10)]


def main(folder, place):
    run = load_run(folder)
    data = load_dataset(RunFolder.find(Path(folder)).settings()).train
    scores = run.scores
    record = json.loads((Path(__file__).parent / "results" / "digits-seeds.json").read_text())

    figure = plt.figure(figsize=(11, 3.1), dpi=150, facecolor="white")
    grid = figure.add_gridspec(3, 15, width_ratios=[1] * 10 + [0.8] + [1.4] * 4, hspace=0.75, wspace=0.12)
    easiest, hardest = np.argsort(scores.tcsl_s), np.argsort(-scores.tcsl_s)
    kept = run.coreset.indices[run.coreset.labels == 8]
    high_first = sorted(kept, key=lambda i: (not scores.g_high[i], i))
    rows = {
        "what most samples show: the colour gives the digit away": first_of_each(easiest, scores.labels),
        "found without group labels (highest TCSL$_s$): the colour misleads": first_of_each(hardest, scores.labels),
        "kept of one digit: those that contradict the colour, and some that do not": high_first[:10],
    }
    for line, (title, picks) in enumerate(rows.items()):
        for column, i in enumerate(picks):
            axes = figure.add_subplot(grid[line, column])
            axes.imshow(data.inputs[i].permute(1, 2, 0).numpy(), interpolation="nearest")
            axes.set_axis_off()
            if column == 0:
                axes.set_title(title, loc="left", fontsize=9, color=INK)
    axes = figure.add_subplot(grid[:, 11:])
    names = list(record["methods"])
    for position, name in enumerate(names):
        value = record["methods"][name]["wga"]
        axes.bar(position, 100 * value["mean"], color=COLOURS[name], width=0.65)
        axes.plot([position] * len(value["values"]), 100 * np.array(value["values"]), "o", ms=3.5, color=INK, alpha=0.6)
        axes.text(position, 2, f"{100 * value['mean']:.0f} %", ha="center", color="white", fontsize=11, weight="bold")
    labels = {
        "cb_erm": "plain training\non everything",
        "rgbal": "RGbal: 20 %,\ntold the groups",
        "tcsl_cs": "TCSL-CS: 20 %,\nnot told",
    }
    axes.set_xticks(range(len(names)), [labels[name] for name in names], fontsize=8, color=INK)
    axes.set_title("accuracy on the worst of 20 groups (5 seeds)", fontsize=9, loc="left", color=INK)
    axes.set_ylim(0, 100)
    axes.tick_params(axis="y", labelsize=8, colors=MUTED)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(place, bbox_inches="tight", pad_inches=0.1)


if __name__ == "__main__":
    main(*sys.argv[1:3])
