"""What benchmarks/choices.py tries: data made of the embedded digits; ways of scoring, clustering, filling."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch

from tcsl.data.dataset import Splits, make_dataset
from tcsl.data.digits import load
from tcsl.data.groups import make_groups
from tcsl.seeds import generator
from tcsl.selection.fill import select_histogram, select_weighted
from tcsl.selection.quota import level, quota, shares
from tcsl.selection.tcsl_cs import select_coreset
from tcsl.selection.wkmeans import wkmeans


class Case(NamedTuple):
    """What a way of selecting may look at."""

    curves: np.ndarray
    tcsl_s: np.ndarray
    tcsl_c: np.ndarray
    labels: np.ndarray
    g_high: np.ndarray
    settings: object
    rng: np.random.Generator
    seed: int


class Trial(NamedTuple):
    """What is changed: settings, the number of runs whose scores are averaged, how G_high or the coreset is found."""

    part: str
    settings: Mapping = MappingProxyType({})
    runs: int = 1
    high: object = None
    choose: object = None


def cluster(case, rows, weights, losses="bounded"):
    """Return the cluster of higher mean TCSL_s among the rows."""
    found = wkmeans(case.curves[rows], weights[rows], rng=case.rng, losses=losses, restarts=10)
    if found is None:
        return np.zeros(len(rows), bool)
    high = case.tcsl_s[rows][found.second].mean() > case.tcsl_s[rows][~found.second].mean()
    return found.second if high else ~found.second


def unweighted(losses):
    return lambda case: cluster(case, np.arange(len(case.labels)), np.ones_like(case.tcsl_s), losses)


def by_class(losses):
    def high(case):
        out = np.zeros(len(case.labels), bool)
        for label in np.unique(case.labels):
            rows = np.flatnonzero(case.labels == label)
            out[rows] = cluster(case, rows, case.tcsl_s, losses)
        return out

    return high


def below_half_at_the_end(case):
    return case.curves[:, -1] > np.log(2)


def below_half_on_average(case):
    return (1 - np.exp(-case.curves)).mean(1) > 0.5


def random_fill(case):
    drawn = case.rng.random(len(case.labels), np.float32)
    return select_coreset(case.g_high, case.tcsl_s, drawn, case.labels, case.settings, seed=case.seed)


def as_many_easy(case):
    """What G_high leaves of the quota, as equally among the classes as can be, whatever they have in G_high."""
    labels, high, low = case.labels, np.flatnonzero(case.g_high), np.flatnonzero(~case.g_high)
    total = quota(case.settings.ratio, len(labels))
    if len(high) >= total:
        return select_coreset(case.g_high, case.tcsl_s, case.tcsl_c, labels, case.settings, seed=case.seed)
    there = np.bincount(labels[low], minlength=labels.max() + 1)
    wanted = level(total - len(high), np.zeros_like(there), there)
    return np.concatenate([high, *(spread(case, low[labels[low] == k], count) for k, count in enumerate(wanted))])


def equal_cells(case):
    """Of each class as many from G_high, drawn by TCSL_s, as from G_low, where they suffice."""
    cell = 2 * case.labels + case.g_high
    sizes = np.bincount(cell, minlength=2 * case.labels.max() + 2)
    wanted = level(quota(case.settings.ratio, len(cell)), np.zeros_like(sizes), sizes)
    parts = []
    for k, count in enumerate(wanted):
        mine = np.flatnonzero(cell == k)
        by_tcsl_s = mine[select_weighted(case.tcsl_s[mine], count, rng=case.rng)]
        parts.append(by_tcsl_s if k % 2 else spread(case, mine, count))
    return np.concatenate(parts)


def placed(weights):
    """Places of the classes in proportion to a function of the case; each class is filled by itself."""

    def choose(case):
        settings, sizes = case.settings, np.bincount(case.labels)
        tau = 0.0 if settings.ratio >= settings.tau else 2.0
        parts = []
        for k, count in enumerate(shares(quota(settings.ratio, len(case.labels)), weights(case), sizes)):
            mine = np.flatnonzero(case.labels == k)
            own = settings.model_copy(update={"ratio": min(1.0, count / len(mine) + 1e-9), "tau": tau})
            chosen = [case.g_high[mine], case.tcsl_s[mine], case.tcsl_c[mine], case.labels[mine]]
            parts += [mine[select_coreset(*chosen, own, seed=case.seed)]] if count else []
        return np.concatenate(parts)

    return choose


by_high = placed(lambda case: np.bincount(case.labels[case.g_high], minlength=case.labels.max() + 1))
by_root = placed(lambda case: np.rint(1000 * np.sqrt(np.bincount(case.labels))).astype(np.int64))


def spread(case, rows, count):
    return rows[select_histogram(case.tcsl_c[rows], count, bins=50, rng=case.rng)] if count else rows[:0]


def matched(k):
    """For each class, k times as many of G_low as G_high has; the ratio follows."""

    def choose(case):
        parts = [np.flatnonzero(case.g_high)]
        for label in np.unique(case.labels):
            mine = case.labels == label
            low = np.flatnonzero(mine & ~case.g_high)
            parts.append(spread(case, low, min(len(low), k * int((mine & case.g_high).sum()))))
        return np.concatenate(parts)

    return choose


def as_many(size):
    """As many samples as a function of the case says; the ratio follows."""

    def choose(case):
        ratio = min(1.0, size(case) / len(case.labels) + 1e-9)
        return select_coreset(
            case.g_high,
            case.tcsl_s,
            case.tcsl_c,
            case.labels,
            case.settings.model_copy(update={"ratio": ratio}),
            seed=case.seed,
        )

    return choose


def total_of(k):
    """k times G_high."""
    return as_many(lambda case: k * int(case.g_high.sum()))


def of_the_largest(k):
    """For each class, k times as many as G_high has of the class that it has most of."""
    return as_many(lambda case: k * np.bincount(case.labels[case.g_high]).max() * len(np.unique(case.labels)))


SCORING = {
    "literal weight update": Trial("stage 1", {"score.weight_update": "literal"}),
    "no new weights": Trial("stage 1", {"score.weight_update": "none"}),
    "losses recorded in evaluation": Trial("stage 1", {"score.record": "evaluation"}),
    "T_s = 1": Trial("stage 1", {"score.biased_epochs": 1}),
    "T_s = 2": Trial("stage 1", {"score.biased_epochs": 2}),
    "T_s = 3": Trial("stage 1", {"score.biased_epochs": 3}),
    "T_s = 4": Trial("stage 1", {"score.biased_epochs": 4}),
    "T_s = 8": Trial("stage 1", {"score.biased_epochs": 8}),
    "T_s = 16": Trial("stage 1", {"score.biased_epochs": 16}),
    "T_c = 4": Trial("stage 2", {"score.core_epochs": 4}),
    "T_c = 10": Trial("stage 2", {"score.core_epochs": 10}),
    "T_c = 20": Trial("stage 2", {"score.core_epochs": 20}),
    "no correction": Trial("stage 2", {"score.correction": 0.0}),
    "correction 0.5": Trial("stage 2", {"score.correction": 0.5}),
    "correction 1.5": Trial("stage 2", {"score.correction": 1.5}),
    "scores of 3 runs": Trial("both", runs=3),
    "scores of 3 runs, T_c = 10": Trial("both", {"score.core_epochs": 10}, runs=3),
}
CLUSTERING = {
    "raw losses": Trial("wKMeans", {"select.losses": "raw"}),
    "raw losses, no weights": Trial("wKMeans", high=unweighted("raw")),
    "no weights": Trial("wKMeans", high=unweighted("bounded")),
    "one clustering a class": Trial("wKMeans", high=by_class("bounded")),
    "raw, one clustering a class": Trial("wKMeans", high=by_class("raw")),
    "f_s gives the label less than half at the end": Trial("wKMeans", high=below_half_at_the_end),
    "f_s gives the label less than half on average": Trial("wKMeans", high=below_half_on_average),
}
PARTS = {  # of a class that G_high may be, and which of it
    "G_high takes what it has": {"select.high_share": 1.0},
    "G_high at most two thirds": {"select.high_share": 0.67},
    "G_high at most a third": {"select.high_share": 0.33},
    "G_high at most half, drawn by TCSL_s": {"select.exceeding": "weighted"},
    "G_high at most half, drawn evenly": {"select.exceeding": "uniform"},
}
G_HIGH = {row: Trial("G_high", changed) for row, changed in PARTS.items()}
LOWER = {
    f"r = {ratio}, {row}": Trial("ratio", changed | {"select.ratio": ratio})
    for ratio in (0.15, 0.1)
    for row, changed in PARTS.items()
}
TWO_THIRDS = PARTS["G_high at most two thirds"]
PLACES = {
    f"{before}places by {by}{after}": Trial("places", {"select.ratio": ratio} | share, choose=choose)
    for ratio, before in ((0.2, ""), (0.15, "r = 0.15, "), (0.1, "r = 0.1, "))
    for by, choose in (("G_high's part of a class", by_high), ("the roots of the classes' sizes", by_root))
    for share, after in (({}, ""), (TWO_THIRDS, ", G_high at most two thirds"))
}
LONGER = {name: SCORING[name] for name in ("T_s = 4", "T_s = 8", "T_s = 16")}
FILLING = {
    "by the classes' shares": Trial("filling", {"select.fill": "class"}),
    "over all classes at once": Trial("filling", {"select.fill": "global"}),
    "as many easy ones in each class": Trial("filling", choose=as_many_easy),
    "label x G_high equal": Trial("filling", choose=equal_cells),
    "lowest TCSL_c": Trial("filling", {"select.tau": 0.0}),
    "lowest TCSL_c, by the classes' shares": Trial("filling", {"select.tau": 0.0, "select.fill": "class"}),
    "lowest TCSL_c, over all classes at once": Trial("filling", {"select.tau": 0.0, "select.fill": "global"}),
    "10 bins": Trial("filling", {"select.bins": 10}),
    "at random": Trial("filling", choose=random_fill),
}
RATIO = {
    "r = 0.15": Trial("ratio", {"select.ratio": 0.15}),
    "r = 0.1": Trial("ratio", {"select.ratio": 0.1}),
    "r = 0.1, by the classes' shares": Trial("ratio", {"select.ratio": 0.1, "select.fill": "class"}),
    "r = 0.1, as many easy ones in each class": Trial("ratio", {"select.ratio": 0.1}, choose=as_many_easy),
    "r = 0.1, label x G_high equal": Trial("ratio", {"select.ratio": 0.1}, choose=equal_cells),
    "r = 0.3": Trial("ratio", {"select.ratio": 0.3}),
    "r = 0.3, lowest TCSL_c": Trial("ratio", {"select.ratio": 0.3, "select.tau": 0.0}),
    "r = 0.4": Trial("ratio", {"select.ratio": 0.4, "select.tau": 0.5}),
    "r = 0.4, lowest TCSL_c": Trial("ratio", {"select.ratio": 0.4}),
    "r = 0.4, lowest TCSL_c, by the classes' shares": Trial("ratio", {"select.ratio": 0.4, "select.fill": "class"}),
    "twice G_high": Trial("ratio", choose=total_of(2)),
    "3 times G_high": Trial("ratio", choose=total_of(3)),
    "4 times G_high": Trial("ratio", choose=total_of(4)),
    "5 times G_high": Trial("ratio", choose=total_of(5)),
    "in each class as many as G_high has": Trial("ratio", choose=matched(1)),
    "in each class twice as many": Trial("ratio", choose=matched(2)),
    "in each class 3 times as many": Trial("ratio", choose=matched(3)),
    "classes x twice the largest of G_high": Trial("ratio", choose=of_the_largest(2)),
    "classes x 3 times the largest of G_high": Trial("ratio", choose=of_the_largest(3)),
}
FINAL = {"weights averaged over the last fifth": Trial("final", {"train.model_selection": "average"})}
SIZES = {name: RATIO[name] for name in ("r = 0.15", "r = 0.1", "r = 0.3", "r = 0.4", "3 times G_high")}
EVERYTHING = SCORING | CLUSTERING | G_HIGH | FILLING | RATIO | LOWER | FINAL


def digits(seed, alpha=0.95):
    return load(seed, alpha=alpha, val_per_class=30)


def rare(seed):
    return digits(seed, alpha=0.99)


def mild(seed):
    return digits(seed, alpha=0.7)


def uneven(seed):
    """Digits 5 .. 9 are three tenths as frequent in training; conflicts are a twentieth of each class as before."""
    splits = digits(seed)
    train = splits.train
    labels, minority = train.numpy_labels, train.groups.minority
    rows = []
    for digit in range(10):
        for conflict, count in ((True, 2), (False, 34)):
            mine = np.flatnonzero((labels == digit) & (minority == conflict))
            rows.append(mine if digit < 5 else mine[:count])
    rows = np.sort(np.concatenate(rows))
    colours = train.groups.cell[rows] % 10
    kept = make_dataset(
        train.inputs[rows],
        train.labels[rows],
        class_names=train.class_names,
        groups=make_groups(
            labels[rows],
            colours,
            class_names=train.class_names,
            attribute_names=train.groups.attribute_names,
            majority=np.arange(10),
            agreement=True,
        ),
    )
    return Splits(kept, splits.test, val_iid=splits.val_iid)


def halves(seed, faint=None):
    """Two classes and two colours, in the proportions of Waterbirds.

    `faint` draws, for n samples, how far each one's colour is on the way to the other; by default none is.
    """
    splits = digits(seed)
    rng = generator(seed, "halves")
    names, colours = ("below 5", "5 or more"), ("red", "green")
    paint = torch.tensor([[230, 25, 75], [60, 180, 75]]).float()

    def painted(part, rows, colour):
        labels = (part.labels[rows] >= 5).long()
        grey = part.views["core"][rows].float() / 255
        groups = make_groups(
            labels.numpy(), colour, class_names=names, attribute_names=colours, majority=np.arange(2), agreement=True
        )
        away = np.zeros(len(colour)) if faint is None else faint(rng, len(colour))
        green = torch.from_numpy(np.abs(colour - away)).float()[:, None]
        mixed = (1 - green) * paint[0] + green * paint[1]
        images = (grey * mixed[:, :, None, None]).round().to(torch.uint8)
        return make_dataset(images, labels, class_names=names, groups=groups)

    def biased(part, counts):
        rows, colour = [], []
        for label, count in enumerate(counts):
            mine = rng.permutation(np.flatnonzero((part.numpy_labels >= 5) == label))[:count]
            rows.append(mine)
            colour.append(np.where(np.arange(len(mine)) < round(0.05 * len(mine)), 1 - label, label))
        return painted(part, np.concatenate(rows), np.concatenate(colour))

    once = np.arange(0, len(splits.test), 10)  # each test image, in the first of its ten colours
    test = painted(splits.test, np.repeat(once, 2), np.tile([0, 1], len(once)))
    return Splits(biased(splits.train, (600, 180)), test, val_iid=biased(splits.val_iid, (150, 150)))


def murky(seed):
    """The same with colours that are hard to tell: 6 in 100 are nearer to the other one than to their own."""
    return halves(seed, faint=lambda rng, n: rng.beta(1, 4, n))


DATA = {  # the data, what is tried on them, and the ratio
    "digits": (digits, EVERYTHING, 0.2),
    "uneven": (uneven, EVERYTHING, 0.2),
    "halves": (halves, EVERYTHING, 0.2),
    "murky": (murky, LONGER | G_HIGH | SIZES | LOWER | PLACES, 0.2),
    "rare": (rare, LONGER | G_HIGH, 0.2),
    "mild": (mild, G_HIGH, 0.2),
    "small": (digits, G_HIGH, 0.03),
}
