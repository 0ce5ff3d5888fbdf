"""The tables of docs/reproduction.md, from the records of benchmarks/reproduce.py."""

import json
import re
import statistics
from collections import defaultdict
from functools import cache
from itertools import chain

from writing import RESULTS, interval, plain, read, shortened, spread, table

from tcsl.selection.quota import said
from tcsl.statistics import paired, summarise

METHODS = {
    "cb_erm": "CB ERM, everything",
    "random": "Random",
    "rgbal": "RGbal, told the groups",
    "tcsl_cs_paper": "TCSL-CS, profile paper",
    "tcsl_cs": "TCSL-CS, profile default",
    "tcsl_cs_fast": "TCSL-CS, profile fast",
    "tcsl_cs_all": "TCSL-CS, default, G_high takes what it has",
    "tcsl_cs_shares": "TCSL-CS, default, filled by the classes' shares",
    "tcsl_cs_shares_all": "TCSL-CS, default, filled by the classes' shares, G_high takes what it has",
    "tcsl_cs_global": "TCSL-CS, default, filled over all classes at once",
    "tcsl_cs_bot": "TCSL-CS, default, filled by the lowest TCSL_c",
    "tcsl_cs_hist": "TCSL-CS, default, filled from bins",
    "core-default": "f_c itself",
    "core-paper": "f_c itself, profile paper",
    "core-fast": "f_c itself, profile fast",
    "gb_erm": "GB ERM, everything, told the groups",
    "tcsl_cs_true": "TCSL-CS, default, told the minority",
}
HEADLINE = (  # datasets, as their columns are called, and which model
    ("waterbirds", "Waterbirds, ResNet50", "last"),
    ("cmnist", "cMNIST, ResNet18", "last"),
    ("cmnist", "the same, weights averaged over the last fifth", "average"),
)
MODELS = {
    "last": "the last epoch",
    "average": "weights averaged over the last fifth",
    "float32": "the last epoch, in float32",
}


def campaign_of(record):
    """Return T, the augmentation and which model was evaluated."""
    settings = record.get("settings", {"train": record})  # the oldest record has the augmentation and the net only
    float32 = settings.get("device", {}).get("precision") == "float32"
    model = "float32" if float32 else settings["train"].get("model_selection", "last")
    return record["epochs"], settings["train"]["augment"], model


@cache
def reproduced(dataset):
    """Return the records of a dataset: {(T, augmentation, model): {(ratio or None, method): records}}."""
    campaigns = defaultdict(lambda: defaultdict(list))
    for path in sorted((RESULTS / "reproduction").glob(f"{dataset}-*.json")):
        record = json.loads(path.read_text())
        campaigns[campaign_of(record)][record["ratio"], record["method"]].append(record)
    return {key: dict(cells) for key, cells in campaigns.items()}


def longest(dataset, model, *wanted):
    """Return T and the records of the longest training without augmentation that has the wanted cells, or None."""
    campaigns = reproduced(dataset)
    there = [key for key, cells in campaigns.items() if key[1:] == ("none", model) and all(c in cells for c in wanted)]
    return (max(there)[0], campaigns[max(there)]) if there else None


def weights_of(records):
    return ", ".join(sorted({record["weights"] for record in records}))


def real():
    """The headline on real images: WGA and plain average at r = 0.1."""
    methods = {"cb_erm": None, "rgbal": 0.1, "tcsl_cs": 0.1}
    columns = {}
    for dataset, title, model in HEADLINE:
        epochs, cells = longest(dataset, model, *((ratio, method) for method, ratio in methods.items()))
        columns[f"{title}, T = {epochs}"] = cells
    rows = []
    for method, ratio in methods.items():
        found = [cells[ratio, method] for cells in columns.values()]
        averages = [f"{100 * statistics.mean(r['evaluation']['average'] for r in records):.1f}" for records in found]
        spreads = [spread([r["wga"] for r in records]) for records in found]
        rows.append([METHODS[method], *(f"{a} ({b})" for a, b in zip(spreads, averages, strict=True))])
    shown = [[cells[ratio, method] for method, ratio in methods.items()] for cells in columns.values()]
    seeds = " and ".join(sorted({_seeds_of(column) for column in shown}))
    return table(["WGA (plain average), r = 0.1", *columns], rows) + (
        f"\n\nMean ± sd over {seeds} seeds; initial weights {weights_of(chain(*chain(*shown)))}; what they are, "
        "commands, commits and hardware are in "
        "[docs/reproduction.md](docs/reproduction.md)."
    )


def _seeds_of(column):
    counts = sorted({len(records) for records in column})
    return " or ".join(map(str, counts))


def reproduction(dataset):
    """One table for each schedule and augmentation that has records; the paper's numbers beside them."""
    campaigns = reproduced(dataset)
    return "\n\n".join(_campaign(dataset, key, campaigns[key]) for key in sorted(campaigns, reverse=True))


def _campaign(dataset, key, cells):
    epochs, augment, model = key
    printed = read("paper")[dataset]
    order = sorted(cells, key=lambda cell: (1 if cell[0] == "auto" else cell[0] or 0, list(METHODS).index(cell[1])))
    rows = []
    for ratio, method in order:
        records = cells[ratio, method]
        found = [r["g_high"] for r in records if r.get("g_high")]
        paper = printed.get(method.removesuffix("_paper"), {}).get("" if ratio is None else f"{ratio}")
        rows.append(
            {
                f"T = {epochs}, augmentation {augment}, {MODELS[model]}": METHODS[method],
                "r": _ratio(ratio, records),
                "WGA": spread([r["wga"] for r in records]),
                "WGA, finer cells": spread(_known(r["evaluation"]["wga_cells"] for r in records)),
                "plain average": spread([r["evaluation"]["average"] for r in records]),
                "weighted average": spread([r["evaluation"]["weighted_average"] for r in records]),
                "criterion": spread(_known(r.get("criterion") for r in records)),
                "G_high: recall / precision": " / ".join(
                    plain([f[part] for f in found]) for part in ("recall", "precision") if found
                ),
                "minority kept": plain([minority_kept(r) for r in records if r["coreset"]]),
                "seconds": " + ".join(_seconds(dataset, key, records)),
                "seeds": ", ".join(str(r["seed"]) for r in records),
                "the paper: WGA (average)": "" if paper is None else f"{paper[0]:.2f} ({paper[1]:.2f})",
            }
        )
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    records = [r for group in cells.values() for r in group]
    commits = {shortened(r["environment"]["commit"]) for r in records}
    made_on = {f"{r['environment']['gpu']}, torch {r['environment']['packages']['torch']}" for r in records}
    scored = {r["scored_with"] for r in records if _scored_by(r)} - {epochs}
    return table(columns, [[row[name] for name in columns] for row in rows]) + (
        f"\n\nWeights {weights_of(records)}; {'; '.join(sorted(made_on))}; "
        f"commits {', '.join(sorted(commits))}." + (f" Scores are those of T = {max(scored)}." if scored else "")
    )


def _ratio(ratio, records):
    if ratio == "auto":
        return f"auto, {statistics.mean(r['coreset']['n'] for r in records):,.0f} samples"
    return "" if ratio is None else said(ratio)


def minority_kept(record):
    return record["coreset"]["minority"] / record["coreset"]["of"]


def _known(values):
    return [value for value in values if value is not None]


def _seconds(dataset, key, records):
    """Yield the median seconds of the scores that a method uses, where they were recorded, and of the final model."""
    if scored := _scored_by(records[0]):
        campaign = reproduced(dataset).get((records[0]["scored_with"], key[1], "last"), {})
        if cores := campaign.get((None, f"core-{scored}")):
            yield f"{statistics.median(map(_of_a_seed, cores)):.0f}"
    yield f"{statistics.median(map(_of_a_seed, records)):.0f}"


def _scored_by(record):
    """Return the name of the scores that a coreset of TCSL-CS is chosen by, or None."""
    if not record["method"].startswith("tcsl_cs"):
        return None
    if "scores" in record:
        return record["scores"]["name"]
    named = record["method"].removeprefix("tcsl_cs").strip("_").partition("_")[0]  # old records do not tell
    return named if named in ("paper", "fast") else "default"


def _of_a_seed(record):
    """Where several seeds shared the GPU, each has its part of the time."""
    jobs = re.search(r"--jobs (\d+)", record["environment"]["command"])  # old records do not tell
    return sum(record["seconds"].values()) / record.get("in_turns", int(jobs[1]) if jobs else 1)


GAINS = (  # differences in WGA, the goal, and what must reach it
    ("waterbirds", "last", "tcsl_cs", "cb_erm", 10.76, "mean"),
    ("waterbirds", "last", "tcsl_cs", "rgbal", 0.0, "mean"),
    ("waterbirds", "average", "tcsl_cs", "cb_erm", 10.76, "mean"),
    ("waterbirds", "average", "tcsl_cs", "rgbal", 0.0, "mean"),
    ("waterbirds", "last", "tcsl_cs_all", "tcsl_cs", None, "mean"),
    ("waterbirds", "last", "tcsl_cs_fast", "tcsl_cs", -3.0, "lower end"),
    ("cmnist", "last", "tcsl_cs", "cb_erm", 26.76, "mean"),
    ("cmnist", "last", "tcsl_cs", "rgbal", 11.69, "mean"),
    ("cmnist", "average", "tcsl_cs", "cb_erm", 26.76, "mean"),
    ("cmnist", "average", "tcsl_cs", "rgbal", 11.69, "mean"),
    ("cmnist", "last", "tcsl_cs_true", "cb_erm", None, "mean"),
    ("cmnist", "last", "tcsl_cs_true", "rgbal", None, "mean"),
    ("cmnist", "average", "tcsl_cs_true", "cb_erm", None, "mean"),
    ("cmnist", "average", "tcsl_cs_true", "rgbal", None, "mean"),
)
LEVELS = (  # what a coreset or its model must have, in %
    ("waterbirds", "last", "tcsl_cs", "minority in the coreset", 80.0),
    ("waterbirds", "last", "tcsl_cs_all", "minority in the coreset", 80.0),
    ("waterbirds", "last", "tcsl_cs", "WGA", 91.91),
    ("waterbirds", "last", "tcsl_cs", "weighted average", 92.83),
    ("cmnist", "last", "tcsl_cs", "minority in the coreset", 90.0),
    ("cmnist", "last", "tcsl_cs", "WGA", 83.37),
    ("cmnist", "last", "tcsl_cs", "plain average", 91.76),
    ("cmnist", "average", "tcsl_cs", "WGA", 83.37),
    ("cmnist", "average", "tcsl_cs", "plain average", 91.76),
)
READ = {
    "minority in the coreset": minority_kept,
    "WGA": lambda record: record["wga"],
    "plain average": lambda record: record["evaluation"]["average"],
    "weighted average": lambda record: record["evaluation"]["weighted_average"],
}


def goals():
    """Return the goals beside what was measured, at r = 0.1 after the longest training without augmentation."""
    rows = []
    for dataset, model, method, other, goal, end in GAINS:
        cells = (0.1, method), (None if other == "cb_erm" else 0.1, other)
        if found := longest(dataset, model, *cells):
            ours, theirs = ({r["seed"]: r["wga"] for r in found[1][cell]} for cell in cells)
            seeds = sorted(ours.keys() & theirs.keys())
            gain = paired([ours[s] for s in seeds], [theirs[s] for s in seeds])
            named = f"{_named(dataset, found[0], model)}: {METHODS[method]} minus {METHODS[other]}"
            rows.append([named, interval(gain), *_judged(gain, goal, end, "+.2f"), seeds])
    for dataset, model, method, what, goal in LEVELS:
        if found := longest(dataset, model, (0.1, method)):
            records = found[1][0.1, method]
            values = [READ[what](record) for record in records]
            named = f"{_named(dataset, found[0], model)}: {METHODS[method]}, {what}"
            rows.append([named, spread(values), *_judged(summarise(values), goal), [r["seed"] for r in records]])
    header = ["r = 0.1, in %", "measured", "goal", "reached", "seeds"]
    return table(header, [[*row, ", ".join(map(str, seeds))] for *row, seeds in rows])


def _named(dataset, epochs, model):
    return f"{dataset}, T = {epochs}, {MODELS[model]}"


def _judged(found, goal, end="mean", form=".2f"):
    """Return the goal, and whether it is reached: by the mean, with what the interval tells, or by its lower end."""
    if goal is None:
        return "", ""
    low, mean, high = ((None if value is None else 100 * value) for value in (found.low, found.mean, found.high))
    if end == "lower end":
        return f"{goal:{form}}, {end}", "yes" if low is not None and low >= goal else "no"
    if mean >= goal:
        reached = "yes" if low is None or low >= goal else "yes, but the interval reaches below"
    else:
        reached = "no" if high is None or high < goal else "no, but the interval reaches above"
    return f"{goal:{form}}", reached


def shorter(dataset):
    """Return what fewer epochs of a stage would have selected, over the seeds that were scored with the full one."""
    _, cells = longest(dataset, "last", (None, "core-default"))
    records = cells[None, "core-default"]
    rows = []
    for stage in ("T_s", "T_c"):
        epochs = sorted({int(e) for r in records for e in r["shorter"][stage]})
        for epoch in epochs:
            found = [r["shorter"][stage][str(epoch)] for r in records if str(epoch) in r["shorter"][stage]]
            rows.append(
                [
                    f"{stage} = {epoch}",
                    plain([f["overlap"] for f in found]),
                    f"{statistics.mean(f['minority'] for f in found):.0f}",
                    f"{statistics.mean(f['g_high'] for f in found):.0f}",
                    f"{len(found)}",
                ]
            )
    header = [f"{dataset}, r = 0.1", "overlap with the whole one's coreset", "minority in it", "G_high", "seeds"]
    return table(header, rows)
