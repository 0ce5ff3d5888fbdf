"""The tables of linear heads on frozen features in docs/reproduction.md: a column for each ratio."""

from itertools import chain
from statistics import mean

from reproduced import METHODS, minority_kept, reproduced, weights_of
from writing import interval, plain, shortened, spread, table

from tcsl.selection.quota import said
from tcsl.statistics import paired

DIFFERENCES = ("cb_erm", "rgbal", "tcsl_cs_all", "tcsl_cs_fast", "tcsl_cs_paper")  # what the default is compared with


def heads(dataset):
    """Return the table of a campaign: WGA (plain average), then what `default` gains over others, paired by seed."""
    ((epochs, _, _), cells), *others = reproduced(dataset).items()
    assert not others, f"{dataset} has several schedules, and a table is of one"
    ratios = sorted({ratio for ratio, _ in cells if ratio})
    everything, *kept = (sorted(m for r, m in cells if r == ratio) for ratio in (None, *ratios))
    rows = []
    for method in sorted({*everything, *chain(*kept)}, key=list(METHODS).index):
        own = [cells.get((ratio, method), []) for ratio in (None, *ratios)]
        found = [r["g_high"] for r in chain(*own) if r["g_high"]]
        quality = " / ".join(plain([f[part] for f in found]) for part in ("recall", "precision") if found)
        least = [minority_kept(r) for r in own[1]]
        rows.append([METHODS[method], *map(_accuracy, own), plain(least), quality])
    for other in DIFFERENCES:
        named = f"*{METHODS['tcsl_cs']} minus {METHODS[other]}*"
        gains = [_gain(cells[ratio, "tcsl_cs"], cells.get((ratio, other)) or cells[None, other]) for ratio in ratios]
        rows.append([named, "", *gains, "", ""])
    records = list(chain(*cells.values()))
    seeds = sorted({r["seed"] for r in records})
    kept_at = f"minority kept, r = {said(ratios[0])}"
    header = [
        f"T = {epochs}, learning rate {records[0]['settings']['train']['lr']:g}",
        "everything",
        *(f"r = {said(ratio)}" for ratio in ratios),
        kept_at,
        "G_high: recall / precision",
    ]
    commits = ", ".join(sorted({shortened(r["environment"]["commit"]) for r in records}))
    made_on = sorted({_hardware(r["environment"]) for r in records})
    return table(header, rows) + (
        f"\n\n{len(seeds)} seeds. Weights {weights_of(records)}; {'; '.join(made_on)}; commit {commits}."
    )


def _hardware(environment):
    return f"{environment['gpu'] or environment['cpu']}, torch {environment['packages']['torch']}"


def _accuracy(records):
    if not records:
        return ""
    return f"{spread([r['wga'] for r in records])} ({100 * mean(r['evaluation']['average'] for r in records):.1f})"


def _gain(ours, theirs):
    ours, theirs = ({r["seed"]: r["wga"] for r in records} for records in (ours, theirs))
    assert ours.keys() == theirs.keys(), "differences are paired by seed"
    return interval(paired([ours[s] for s in sorted(ours)], [theirs[s] for s in sorted(theirs)]))
