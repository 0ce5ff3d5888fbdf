"""Draw the README's picture from a finished run of the digits and the record of five seeds.

python docs/picture.py runs/demo docs/images/digits.png
"""

import json
import sys
from pathlib import Path

import numpy as np

from tcsl import load_run
from tcsl.report.pictures import pixels_of
from tcsl.report.strip import put_picture
from tcsl.report.style import BLUE, INK, MUTED, TITLES, VERMILLION, encoded, new_figure, styled
from tcsl.running import load_dataset
from tcsl.runs import RunFolder

METHODS = {  # what each is called, and its colour
    "cb_erm": ("plain training\non everything", "#9aa3ad"),
    "rgbal": ("RGbal: 20 %,\ntold the groups", BLUE),
    "tcsl_cs": ("TCSL-CS: 20 %,\nnot told", VERMILLION),
}


def first_of_each(ranked, labels):
    return [next(i for i in ranked if labels[i] == k) for k in range(10)]


@styled
def draw(run, picture, record):
    figure = new_figure(11, 3.1)
    samples, bars = figure.subfigures(1, 2, width_ratios=[1.75, 1])
    scores = run.scores
    easiest, hardest = np.argsort(scores.tcsl_s), np.argsort(-scores.tcsl_s)
    kept = run.coreset.indices[run.coreset.labels == 8]
    high_first = sorted(kept, key=lambda i: (not scores.g_high[i], i))
    rows = {
        "what most samples show: the colour gives the digit away": first_of_each(easiest, scores.labels),
        f"found without group labels (highest {TITLES['tcsl_s']}): the colour misleads": first_of_each(
            hardest, scores.labels
        ),
        "kept of one digit: those that contradict the colour, and some that do not": high_first[:10],
    }
    axes = samples.subplots()
    for row, (title, picks) in enumerate(rows.items()):
        axes.text(0, 1.7 * row - 0.1, title, fontsize=9)
        for place, i in enumerate(picks):
            put_picture(axes, picture(int(i)), place, 1.7 * row)
    axes.set(xlim=(0, 10), ylim=(1.7 * len(rows) - 0.7, -0.5), aspect="equal")
    axes.set_axis_off()
    axes = bars.subplots()
    for position, (name, (_, colour)) in enumerate(METHODS.items()):
        value = record["methods"][name]["wga"]
        axes.bar(position, 100 * value["mean"], color=colour, width=0.65)
        axes.plot([position] * len(value["values"]), 100 * np.array(value["values"]), "o", ms=3.5, color=INK, alpha=0.6)
        axes.text(position, 2, f"{100 * value['mean']:.0f} %", ha="center", color="white", fontsize=11, weight="bold")
    axes.set_xticks(range(len(METHODS)), [title for title, _ in METHODS.values()], fontsize=8)
    axes.set_title("accuracy on the worst of 20 groups (5 seeds)", fontsize=9)
    axes.set_ylim(0, 100)
    axes.tick_params(axis="y", colors=MUTED)
    return figure


def main(folder, place):
    data = load_dataset(RunFolder.find(Path(folder)).settings()).train
    record = json.loads((Path(__file__).parent / "results" / "digits-seeds.json").read_text())
    figure = draw(load_run(folder), pixels_of(data.inputs).of, record)
    Path(place).write_bytes(encoded(figure, "png", dpi=150))


if __name__ == "__main__":
    main(*sys.argv[1:3])
