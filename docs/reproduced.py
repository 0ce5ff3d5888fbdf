"""The tables of docs/reproduction.md, from the records of benchmarks/reproduce.py."""

import json
import re
import statistics
from collections import defaultdict
from functools import cache
from itertools import chain

from writing import RESULTS, interval, plain, read, shortened, spread, table

from tcsl.selection.quota import said
from tcsl.statistics import paired

METHODS = {
    "cb_erm": "CB ERM, everything",
    "random": "Random",
    "rgbal": "RGbal, told the groups",
    "tcsl_cs_paper": "TCSL-CS, profile paper",
    "tcsl_cs": "TCSL-CS, profile default",
    "tcsl_cs_fast": "TCSL-CS, profile fast",
    "tcsl_cs_tenth": "TCSL-CS, default, T_s = T / 10",
    "tcsl_cs_class": "TCSL-CS, default, filled by the classes' shares",
    "tcsl_cs_tenth_class": "TCSL-CS, default, T_s = T / 10, filled by the classes' shares",
    "tcsl_cs_bot": "TCSL-CS, default, filled by the lowest TCSL_c",
    "tcsl_cs_hist": "TCSL-CS, default, filled from bins",
    "core-default": "f_c itself",
    "core-paper": "f_c itself, profile paper",
    "core-fast": "f_c itself, profile fast",
    "core-tenth": "f_c itself, T_s = T / 10",
    "gb_erm": "GB ERM, everything, told the groups",
    "tcsl_cs_true": "TCSL-CS, default, told the minority",
}
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


def full_schedule(dataset, model="last"):
    """Return the records of the longest training without augmentation: {(ratio or None, method): records}."""
    campaigns = reproduced(dataset)
    return campaigns[max(key for key in campaigns if key[1:] == ("none", model))]


def weights_of(records):
    return ", ".join(sorted({record["weights"] for record in records}))


def real():
    """The headline on real images: WGA and plain average at r = 0.1."""
    columns = {
        "Waterbirds, ResNet50": full_schedule("waterbirds"),
        "cMNIST, ResNet18": full_schedule("cmnist"),
        "cMNIST, weights averaged over the last fifth": full_schedule("cmnist", "average"),
    }
    rows = []
    for method, ratio in (("cb_erm", None), ("rgbal", 0.1), ("tcsl_cs", 0.1)):
        found = [cells[ratio, method] for cells in columns.values()]
        averages = [f"{100 * statistics.mean(r['evaluation']['average'] for r in records):.1f}" for records in found]
        spreads = [spread([r["wga"] for r in records]) for records in found]
        rows.append([METHODS[method], *(f"{a} ({b})" for a, b in zip(spreads, averages, strict=True))])
    shown = [cells[0.1, "tcsl_cs"] for cells in columns.values()]
    return table(["WGA (plain average), r = 0.1", *columns], rows) + (
        f"\n\nMean ± sd over {', '.join(str(len(records)) for records in shown)} seeds; initial weights "
        f"{weights_of(chain(*shown))}; what they are, commands, commits and hardware are in "
        "[docs/reproduction.md](docs/reproduction.md)."
    )


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
                "r": "" if ratio is None else said(ratio),
                "WGA": spread([r["wga"] for r in records]),
                "WGA, finer cells": spread(_known(r["evaluation"]["wga_cells"] for r in records)),
                "plain average": spread([r["evaluation"]["average"] for r in records]),
                "weighted average": spread([r["evaluation"]["weighted_average"] for r in records]),
                "criterion": spread(_known(r.get("criterion") for r in records)),
                "G_high: recall / precision": " / ".join(
                    plain([f[part] for f in found]) for part in ("recall", "precision") if found
                ),
                "minority kept": plain(
                    [r["coreset"]["minority"] / r["coreset"]["of"] for r in records if r["coreset"]]
                ),
                "seconds": " + ".join(_seconds(dataset, key, records)),
                "seeds": ", ".join(str(r["seed"]) for r in records),
                "the paper: WGA (average)": "" if paper is None else f"{paper[0]:.2f} ({paper[1]:.2f})",
            }
        )
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    records = [r for group in cells.values() for r in group]
    commits = {shortened(r["environment"]["commit"]) for r in records}
    made_on = {f"{r['environment']['gpu']}, torch {r['environment']['packages']['torch']}" for r in records}
    scored = {r.get("scored_with", epochs) for r in records} - {epochs}
    return table(columns, [[row[name] for name in columns] for row in rows]) + (
        f"\n\nWeights {weights_of(records)}; {'; '.join(sorted(made_on))}; commits {', '.join(sorted(commits))}."
        + (f" Scores are those of T = {max(scored)}." if scored else "")
    )


def _known(values):
    return [value for value in values if value is not None]


def _seconds(dataset, key, records):
    """Yield the median seconds of the scores that a method uses, if any, and of the final model."""
    method = records[0]["method"]
    if method.startswith("tcsl_cs"):
        name = method.removeprefix("tcsl_cs").strip("_").partition("_")[0]
        core = f"core-{name if name in ('paper', 'fast', 'tenth') else 'default'}"
        scored = reproduced(dataset)[records[0].get("scored_with", key[0]), key[1], "last"][None, core]
        yield f"{statistics.median(map(_of_a_seed, scored)):.0f}"
    yield f"{statistics.median(map(_of_a_seed, records)):.0f}"


def _of_a_seed(record):
    """Where several seeds shared the GPU, each has its part of the time."""
    jobs = re.search(r"--jobs (\d+)", record["environment"]["command"])  # of records that do not say it themselves
    return sum(record["seconds"].values()) / record.get("in_turns", int(jobs[1]) if jobs else 1)


GAINS = (  # differences in WGA, and their goals
    ("waterbirds", "last", "tcsl_cs", "cb_erm", 10.76),
    ("waterbirds", "last", "tcsl_cs", "rgbal", 0.0),
    ("waterbirds", "last", "tcsl_cs_tenth", "cb_erm", 10.76),
    ("waterbirds", "last", "tcsl_cs_tenth", "rgbal", 0.0),
    ("cmnist", "last", "tcsl_cs", "cb_erm", 26.76),
    ("cmnist", "last", "tcsl_cs", "rgbal", 11.69),
    ("cmnist", "average", "tcsl_cs", "cb_erm", 26.76),
    ("cmnist", "average", "tcsl_cs", "rgbal", 11.69),
    ("cmnist", "average", "tcsl_cs_true", "cb_erm", None),
    ("cmnist", "average", "tcsl_cs_true", "rgbal", None),
    ("cmnist", "last", "tcsl_cs_true", "cb_erm", None),
    ("cmnist", "last", "tcsl_cs_true", "rgbal", None),
    ("waterbirds", "last", "tcsl_cs_fast", "tcsl_cs_tenth", "lower end -3"),
    ("waterbirds", "last", "tcsl_cs_fast", "tcsl_cs", None),
    ("waterbirds", "last", "tcsl_cs", "tcsl_cs_tenth", None),
)
KEPT = {"waterbirds": 0.80, "cmnist": 0.90}  # of the minority, in the coreset
ABSOLUTE = {"cmnist": (83.37, 91.76)}  # WGA and plain average; on Waterbirds, what the backbone allows


def goals():
    """Return the goals beside what was measured, at r = 0.1 and the full schedule without augmentation."""
    rows = []
    for dataset, model, method, other, goal in GAINS:
        cells = full_schedule(dataset, model)
        ours = {r["seed"]: r["wga"] for r in cells[0.1, method]}
        theirs = {r["seed"]: r["wga"] for r in cells[None if other == "cb_erm" else 0.1, other]}
        seeds = sorted(ours.keys() & theirs.keys())
        gain = paired([ours[s] for s in seeds], [theirs[s] for s in seeds])
        named = f"{dataset}, {MODELS[model]}: {METHODS[method]} minus {METHODS[other]}"
        if isinstance(goal, str):
            rows.append([named, interval(gain), goal, _reached(100 * gain.low, -3.0), seeds])
        else:
            ends = [] if goal is None or gain.sd is None else [100 * gain.low, 100 * gain.high]
            rows.append(
                [
                    named,
                    interval(gain),
                    "" if goal is None else f"{goal:+.2f}",
                    _reached(100 * gain.mean, goal, *ends),
                    seeds,
                ]
            )
    for dataset, model in (("waterbirds", "last"), ("cmnist", "last"), ("cmnist", "average")):
        for method in ("tcsl_cs", "tcsl_cs_tenth"):
            if records := full_schedule(dataset, model).get((0.1, method)):
                rows += list(_absolute(dataset, model, method, records))
    return table(
        ["r = 0.1, full schedule", "measured [95 %]", "goal", "reached", "seeds"],
        [[name, value, str(goal), reached, ", ".join(map(str, seeds))] for name, value, goal, reached, seeds in rows],
    )


def _absolute(dataset, model, method, records):
    """Yield the rows of the goals that are no differences."""
    named, seeds = f"{dataset}, {MODELS[model]}: {METHODS[method]}", [r["seed"] for r in records]
    for what, part, goal in zip(("WGA", "plain average"), ("wga", "average"), ABSOLUTE.get(dataset, ()), strict=False):
        values = [r["evaluation"][part] for r in records]
        yield [f"{named}, {what}", spread(values), goal, _reached(100 * statistics.mean(values), goal), seeds]
    if model == "last":
        kept = statistics.mean(r["coreset"]["minority"] / r["coreset"]["of"] for r in records)
        yield [
            f"{named}, minority in the coreset",
            f"{kept:.3f}",
            f"{KEPT[dataset]:.2f}",
            _reached(kept, KEPT[dataset]),
            seeds,
        ]


def _reached(mean, goal, low=None, high=None):
    """Say whether a goal is reached, and where an interval says less, in what."""
    if goal is None:
        return ""
    if mean >= goal:
        return "yes" if low is None or low >= goal else "in the mean"
    return "no" if high is None or high < goal else "not in the mean"


def shorter(dataset):
    """Return what fewer epochs of a stage would have selected, over the seeds that were scored with the full one."""
    cells = full_schedule(dataset)
    records = cells.get((None, "core-tenth")) or cells[None, "core-default"]
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
