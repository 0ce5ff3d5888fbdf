"""The tables of linear heads on frozen features in docs/reproduction.md."""

from itertools import chain
from statistics import mean

from reproduced import METHODS, minority_kept, reproduced, weights_of
from writing import interval, plain, shortened, spread, table

from tcsl.selection.quota import said
from tcsl.statistics import paired

DIFFERENCES = (  # what the default is compared with
    "cb_erm",
    "rgbal",
    "tcsl_cs_all",
    "tcsl_cs_shares",
    "tcsl_cs_global",
    "tcsl_cs_fast",
    "tcsl_cs_paper",
)
BESIDE = ("cb_erm", "rgbal", "tcsl_cs_paper")  # the same, where little room is
CAMPAIGNS = {  # the ends of the records' names, by the net
    "ResNet50": ("resnet50_v1_lr0.01_wd0.001", "resnet50_v1_lr0.01"),
    "MobileNetV2": ("mobilenet_v2_lr0.01_wd0.001", "mobilenet_v2_lr0.01", "mobilenet_v2"),
}


def heads(net):
    """Return the table of a net's first campaign, a column for each ratio: WGA (average), then paired differences."""
    epochs, cells = _campaign(CAMPAIGNS[net][0])
    ratios = sorted({ratio for ratio, _ in cells if ratio})
    everything, *kept = (sorted(m for r, m in cells if r == ratio) for ratio in (None, *ratios))
    rows = []
    for method in sorted({*everything, *chain(*kept)}, key=list(METHODS).index):
        own = [cells.get((ratio, method), []) for ratio in (None, *ratios)]
        least = [minority_kept(r) for r in own[1]]
        rows.append([METHODS[method], *map(_accuracy, own), plain(least), _quality(chain(*own))])
    for other in DIFFERENCES:
        named = f"*{METHODS['tcsl_cs']} minus {METHODS[other]}*"
        gains = [_gain(cells[ratio, "tcsl_cs"], cells.get((ratio, other)) or cells[None, other]) for ratio in ratios]
        rows.append([named, "", *gains, "", ""])
    records = list(chain(*cells.values()))
    seeds = sorted({r["seed"] for r in records})
    kept_at = f"minority kept, r = {said(ratios[0])}"
    header = [
        f"{net}, T = {epochs}",
        "everything",
        *(f"r = {said(ratio)}" for ratio in ratios),
        kept_at,
        "G_high: recall / precision",
    ]
    return table(header, rows) + f"\n\n{len(seeds)} seeds. {_made(records)}"


def rates():
    """Return what the learning rate and the weight decay of a head change, at r = 0.1."""
    rows, seen = [], []
    for net, campaigns in CAMPAIGNS.items():
        for name in campaigns:
            _, cells = _campaign(name)
            ours, *others = compared = [cells[0.1, "tcsl_cs"], *(cells.get((0.1, m)) or cells[None, m] for m in BESIDE)]
            train = ours[0]["settings"]["train"]
            rows.append(
                [
                    f"{net}, {train['lr']:g}, {train['weight_decay']:g}",
                    *(spread([r["wga"] for r in records]) for records in compared),
                    *(_gain(ours, records) for records in others),
                    *map(_quality, (ours, cells[0.1, "tcsl_cs_paper"])),
                ]
            )
            seen += chain(*cells.values())
    names = [METHODS[method] for method in BESIDE]
    found = "G_high: recall / precision"
    header = ["net, learning rate, weight decay", METHODS["tcsl_cs"], *names, *(f"minus {name}" for name in names)]
    return table([*header, f"its {found}", f"profile paper's {found}"], rows) + f"\n\nr = 0.1. {_made(seen)}"


def _campaign(name):
    ((epochs, _, _), cells), *others = reproduced(f"waterbirds_{name}").items()
    assert not others, f"{name} has several schedules, and a table is of one"
    return epochs, cells


def _made(records):
    commits = ", ".join(sorted({shortened(r["environment"]["commit"]) for r in records}))
    made_on = {f"{r['environment']['cpu']}, torch {r['environment']['packages']['torch']}" for r in records}
    return f"Weights {weights_of(records)}; {'; '.join(sorted(made_on))}; commits {commits}."


def _quality(records):
    found = [record["g_high"] for record in records if record["g_high"]]
    return " / ".join(plain([f[part] for f in found]) for part in ("recall", "precision") if found)


def _accuracy(records):
    if not records:
        return ""
    return f"{spread([r['wga'] for r in records])} ({100 * mean(r['evaluation']['average'] for r in records):.1f})"


def _gain(ours, theirs):
    ours, theirs = ({r["seed"]: r["wga"] for r in records} for records in (ours, theirs))
    assert ours.keys() == theirs.keys(), "differences are paired by seed"
    return interval(paired([ours[s] for s in sorted(ours)], [theirs[s] for s in sorted(theirs)]))
