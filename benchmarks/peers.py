"""Ours beside the peers' on the same arrays: numbers, time, and how much of the minority each way of grouping finds.

    python -m venv PEERS && PEERS/bin/pip install spuco wandb cleanlab aum
    python benchmarks/peers.py --peers PEERS/bin/python [--seeds 3] [--repeats 5] [--threads 1]

Each side is a process of its own with the same number of threads; their calls alternate, and medians are compared. The
logits, features and loss curves are of nets that are trained here: `digits`, ten classes, and `halves`, two (see
trials.py). What is larger is generated.
"""

import argparse
import statistics
import sys
import warnings
from contextlib import closing
from functools import partial
from itertools import product

import numpy as np
import torch
from common import write
from peers_arrays import (
    curves,
    dro_batches,
    generated,
    lff_start,
    losses_of,
    probabilities_of,
    side_by_side,
    trained,
    two_shapes,
)
from serving import Worker

from tcsl.evaluation import identification
from tcsl.methods.clusters import pca
from tcsl.methods.environments import irm_penalty, scale_gradient
from tcsl.statistics import log_odds

STEPS = 10_000  # of EIIL's Adam
STARTS = 10  # of GEORGE's mixtures: what they find of the minority depends on it


# How much of the minority each way of grouping finds.


def ways(arrays):
    """Return, for each way of grouping, its task, what it is given each time, and the classes that it looks at."""
    labels, one = arrays["labels"], np.zeros_like(arrays["labels"])
    early = {"logits": arrays["early"], "labels": labels}
    trained_out = {name: arrays[name] for name in ("labels", "losses")}
    hardness, components = log_odds(arrays["logits"], labels), pca(arrays["features"], labels, 2, seed=0)
    own = {name: arrays[name] for name in ("features", "logits", "labels", "losses")}

    def started(points):
        return [{**trained_out, "points": points, "start": start} for start in range(STARTS)]

    return {
        "EIIL": ("eiil", [{**early, "steps": STEPS}], one),
        "GEORGE, on the 1-d hardness": ("george", started(hardness), labels),
        "GEORGE, on each class's 2-d PCA": ("george", started(components), labels),
        "GEORGE, as it comes": ("george_whole", [own], labels),
        "SPARE, clusters by silhouette": ("spare", [{**early, "clusters": 0}], labels),
        "SPARE, two clusters a class": ("spare", [{**early, "clusters": 2}], labels),
        "TCSL_s and wKMeans": ("grouping", [{"curves": arrays["curves"]}], one),
    }


ONLY = {"spare": "theirs", "grouping": "ours"}  # SPARE is no method of ours, and wKMeans none of theirs


def all_but_the_largest(group, labels):
    """Return which samples are not in the largest group of their class: what a grouping without names calls rare."""
    rare = np.zeros(len(group), bool)
    for label in np.unique(labels):
        at = labels == label
        rare[at] = group[at] != np.bincount(group[at]).argmax()
    return rare


def mostly(group, minority):
    """Return which samples are in groups of which more than half are the minority's: the best that a name can do."""
    return (np.bincount(group, weights=minority) / np.maximum(np.bincount(group), 1))[group] > 0.5


def quality(found, within, minority):
    """Return the number of groups, and recall and precision of the minority: by size, and by the groups' true names."""
    by_size = all_but_the_largest(found.get("environment", found["group"]), within)
    out = {"groups": len(np.unique(found["group"]))}
    for name, rare in (("", by_size), (", named", mostly(found["group"], minority))):
        seen = identification(rare.astype(np.float32), rare, minority)
        out |= {f"recall{name}": seen["recall"], f"precision{name}": seen["precision"]}
    return out


def minority_found(workers, data, arrays):
    """Return a row for each way of grouping and each side: means over seeds and starts in which it did not fail.

    The sides' calls alternate.
    """
    rows = []
    for way in ways(arrays[0]):
        tries = [(one["minority"], *ways(one)[way]) for one in arrays]
        sides = [side for side in workers if ONLY.get(tries[0][1], side) == side]
        found, seconds, errors = ({side: [] for side in sides} for _ in range(3))
        for minority, task, given, within in tries:
            for each, side in product(given, sides):
                took, answer = workers[side].ask(task, each)
                if took is None:
                    errors[side].append(answer)
                else:
                    seconds[side].append(took)
                    found[side].append(quality(answer, within, minority))
        for side in sides:
            row = {"data": data, "grouping": way, "whose": side}
            for name in ("groups", "recall", "precision", "recall, named", "precision, named"):
                values = [one[name] for one in found[side] if one[name] is not None]
                row[name] = statistics.mean(values) if values else None
            row["seconds"] = statistics.median(seconds[side]) if seconds[side] else None
            failed = len(errors[side])
            row["fails"] = f"{failed} of {failed + len(found[side])}" if failed else ""
            row["error"] = errors[side][0] if failed else ""
            rows.append(row)
            print(row, file=sys.stderr)
    return rows


# Time.


def timed(workers, what, n, asks, repeats):
    """Return a row: medians of both sides' seconds, their calls in turns. Each side has its task and its arrays."""
    seconds = {side: [] for side in workers}
    for _ in range(repeats):
        for side, worker in workers.items():
            took, answer = worker.ask(*asks[side])
            if took is None:
                sys.exit(f"{side}, {what}: {answer}")
            seconds[side].append(took)
    ours, theirs = (statistics.median(seconds[side]) for side in ("ours", "theirs"))
    row = {"what": what, "n": n, "ours, s": ours, "theirs, s": theirs, "theirs / ours": theirs / ours}
    print(row, file=sys.stderr)
    return row


def times(workers, halves, repeats):
    """Return a row for each task that both sides have."""
    rows = []

    def row(what, n, task, given, times=repeats):
        rows.append(timed(workers, what, n, dict.fromkeys(workers, (task, given)), times))

    for n, classes, steps in ((1_200, 10, STEPS), (10_000, 2, STEPS), (50_000, 10, STEPS // 10)):
        logits, labels = generated(n, classes)
        given = {"logits": logits, "labels": labels, "steps": steps}
        row(f"EIIL, {classes} classes, {steps:,} steps", n, "eiil", given, max(1, repeats // 2))
    both = {name: halves[name] for name in ("labels", "losses")}
    hardness = log_odds(halves["logits"], halves["labels"])
    components = pca(halves["features"], halves["labels"], 2, seed=0)
    row("GEORGE's clusters: hardness of `halves`", len(hardness), "george", {**both, "points": hardness})
    row("GEORGE's clusters: 2-d PCA of `halves`", len(hardness), "george", {**both, "points": components})
    logits, labels = generated(10_000, 2)
    given = {"points": log_odds(logits, labels), "labels": labels, "losses": losses_of(logits, labels)}
    row("GEORGE's clusters: hardness, generated", 10_000, "george", given)
    for what, rows_of, early, classes in (
        ("of `halves`", halves["curves"], halves["early"], halves["labels"]),
        ("generated", curves(10_000), logits, labels),
    ):
        asks = {
            "ours": ("grouping", {"curves": rows_of}),
            "theirs": ("spare", {"logits": early, "labels": classes, "clusters": 2}),
        }
        name = f"grouping, {what}: wKMeans; theirs: SPARE, two clusters a class"
        rows.append(timed(workers, name, len(classes), asks, repeats))
    row("GroupDRO's loss, 200 batches of 64", 12_800, "groupdro", dro_batches())
    start = lff_start()
    row("LfF, 20 steps on all digits, linear nets", 1_200, "lff", start)
    asks = {"ours": ("lff", start), "theirs": ("lff", start | {"workers": 0})}
    rows.append(timed(workers, "the same, theirs without loading processes", 1_200, asks, repeats))
    logits, labels = generated(50_000, 10)
    given = {"probabilities": probabilities_of(logits), "labels": labels}
    row("margins of probabilities (cleanlab)", 50_000, "normalised_margin", given)
    row("AUM, 5 epochs (aum)", 50_000, "area_under_margin", {"logits": np.stack([logits] * 5), "labels": labels})
    return rows


# Numbers.


def numbers(workers, digits):
    """Return a row for each number that both sides compute: the largest difference, beside the largest value."""
    logits, labels = generated(1_000, 2)
    two = {"probabilities": probabilities_of(logits), "labels": labels}
    ten = {"probabilities": probabilities_of(digits["early"]), "labels": digits["labels"]}
    epochs = {"logits": np.stack([digits["early"], digits["logits"]]), "labels": digits["labels"]}
    wrong = {"predicted": digits["early"].argmax(1), "labels": digits["labels"]}
    rows = []
    for peer, task, given, names in (
        ("spuco", "groupdro", dro_batches(), {"totals": "GroupDRO: loss", "weights": "GroupDRO: q, after each batch"}),
        ("spuco", "lff", lff_start(), {"biased": "LfF: biased net, 20 steps", "debiased": "LfF: debiased net"}),
        ("spuco", "jtt", wrong, {"wrong": "JTT: which are wrong"}),
        ("cleanlab", "confidence", two, {"score": "self-confidence; ours: 1 - EL2N / sqrt(2), two classes"}),
        ("cleanlab", "normalised_margin", ten, {"score": "normalised margin; ours: margin of probabilities"}),
        ("aum", "area_under_margin", epochs, {"score": "AUM; ours, negated"}),
    ):
        ours, theirs = (workers[side].ask(task, given)[1] for side in ("ours", "theirs"))
        for name, what in names.items():
            difference = float(np.abs(ours[name].astype(np.float64) - theirs[name]).max())
            largest = float(np.abs(theirs[name].astype(np.float64)).max())
            rows.append({"peer": peer, "what": what, "largest difference": difference, "largest value": largest})
    return rows


def disagreements(workers, digits):
    """Return a row for each thing that the sides do differently, with what it should be."""

    def ask(side, task, **given):
        seconds, found = workers[side].ask(task, given)
        return {"error": found} if seconds is None else found

    def both(task, read, **given):
        return {side: read(ask(side, task, **given)) for side in ("theirs", "ours")}

    def error(found):
        return found.get("error", "no error")

    def groups(found):
        return str(len(np.unique(found["group"])))

    labels, features = digits["labels"], digits["features"]
    hardness = {"points": log_odds(digits["logits"], labels), "labels": labels, "losses": digits["losses"]}
    sure, y = generated(10_000, 2, sure=12.0)
    environments = [
        ("digits, early", digits["early"], labels),
        ("digits, trained to the end", digits["logits"], labels),
        ("10,000 sure logits, generated", sure, y),
    ]
    return [
        *[
            {
                "what": f"EIIL, {what}: samples away from the highest penalty (share of it that is reached)",
                **both("eiil", partial(reached, logits=z, labels=own), logits=z, labels=own, steps=STEPS),
                "right": "0 (100 %)",
            }
            for what, z, own in environments
        ],
        {
            "what": "the same, with Adam's epsilon at 1e-20",
            "theirs": reached(ask("theirs", "eiil", logits=sure, labels=y, steps=STEPS, epsilon=1e-20), sure, y),
            "ours": "as before",
            "right": "0 (100 %)",
        },
        {
            "what": "EIIL, ten classes: groups for GroupDRO",
            **both("eiil", groups, logits=digits["early"], labels=labels, steps=10),
            "right": "20, if over class x environment",
        },
        {
            "what": "GEORGE, three blobs side by side, one of them hard, and one far away: clusters",
            **both("george", groups, **side_by_side()),
            "right": "3, easy parts are not split off",
        },
        {
            "what": "GEORGE, digits: clusters of fewer than five samples",
            **both("george", error, **hardness),
            "right": "no error",
        },
        {
            "what": "GEORGE by k-means",
            "theirs": error(ask("theirs", "george_kmeans", features=features, labels=labels)),
            "ours": "mixtures only",
            "right": "no error",
        },
        {
            "what": "SPARE, chance of the rarer cluster of class 0: class 0 first in the data; class 1 first",
            "theirs": "; ".join(f"{rare_share(ask, first):.2f}" for first in (0, 1)),
            "ours": "not a method of ours",
            "right": "twice the same",
        },
        {
            "what": "LfF with a validation set",
            "theirs": error(ask("theirs", "lff_with_validation", **lff_start())),
            "ours": "takes none",
            "right": "no error",
        },
    ]


def reached(found, logits, labels):
    """Return how many samples are not where EIIL's penalty is highest, and which share of it is reached.

    The penalty is A^2 + B^2, where A and B add up to the same for every split: highest where A is largest, so that one
    environment has every sample whose gradient is above 0.
    """
    gradient = scale_gradient(torch.from_numpy(logits).double(), torch.from_numpy(labels))
    best, environment = gradient > 0, torch.from_numpy(found["environment"])
    away = min(int((environment != best).sum()), int((environment == best).sum()))
    share = irm_penalty(gradient, environment.double()) / irm_penalty(gradient, best.double())
    return f"{away} ({100 * float(share):.2f} %)"


def rare_share(ask, first):
    """Return the chance that SPARE draws the smaller cluster of class 0."""
    logits, labels = two_shapes(first)
    rare = all_but_the_largest(ask("theirs", "spare", logits=logits, labels=labels, clusters=2)["group"], labels)
    return ask("theirs", "spare_shares", logits=logits, labels=labels)["share"][rare & (labels == 0)].sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", required=True, help="the Python of the peers' environment")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    ours = Worker(sys.executable, "peers_ours.py", options.threads)
    theirs = Worker(options.peers, "peers_theirs.py", options.threads)
    with closing(ours), closing(theirs):
        workers = {"ours": ours, "theirs": theirs}
        versions = {name: str(value) for name, value in theirs.ask("versions", {})[1].items()}
        arrays = {name: [trained(name, seed) for seed in range(options.seeds)] for name in ("digits", "halves")}
        same, differ = (compare(workers, arrays["digits"][0]) for compare in (numbers, disagreements))
        found = [row for name, some in arrays.items() for row in minority_found(workers, name, some)]
        rows = times(workers, arrays["halves"][0], options.repeats)
    facts = {"seeds": options.seeds, "starts": STARTS, "repeats": options.repeats, "threads": options.threads}
    write("benchmark-peers", rows, minority=found, numbers=same, disagreements=differ, **facts, peers=versions)


if __name__ == "__main__":
    main()
