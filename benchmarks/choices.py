"""What each choice of the default profile is worth, on the embedded digits: one thing changed at a time.

    python benchmarks/choices.py [--seeds 20] [--jobs 2]        7 minutes a seed and core; a seed is done only once

Choices are made by the column "criterion", which looks at no group: the accuracy on a validation set that is coloured
like the training set, balanced over label x (is the default biased model right). Worst-group accuracy on the test set
is beside it, to see whether the criterion can be trusted. Scores are made once for each way of scoring and shared by
the ways of selecting; the final model starts from the same weights in every row.
"""

import argparse
import json
import multiprocessing
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from common import RESULTS, write

from tcsl.config import resolve
from tcsl.data.digits import load
from tcsl.environment import describe_environment
from tcsl.evaluation import balanced_by_bias, evaluate_predictions, identification
from tcsl.pipeline import train_final
from tcsl.running import opened_job
from tcsl.scores import Coreset
from tcsl.scoring.tcsl import train_biased, train_core
from tcsl.seeds import generator
from tcsl.selection.baselines import select_random, select_rgbal
from tcsl.selection.fill import select_histogram
from tcsl.selection.tcsl_cs import identify, select_coreset, tcsl_s_of
from tcsl.selection.wkmeans import wkmeans
from tcsl.statistics import paired, summarise
from tcsl.training.feed import Feed
from tcsl.training.views import logits_of


class Case(NamedTuple):
    """What a way of selecting may look at."""

    curves: np.ndarray
    tcsl_s: np.ndarray
    tcsl_c: np.ndarray
    labels: np.ndarray
    g_high: np.ndarray
    settings: object
    rng: np.random.Generator


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


def wrong_at_the_end(case):
    return case.curves[:, -1] > np.log(2)


def worst_on_average(case):
    return (1 - np.exp(-case.curves)).mean(1) > 0.5


def random_fill(case):
    total = int(case.settings.ratio * len(case.labels))
    high = np.flatnonzero(case.g_high)
    if len(high) >= total:
        return case.rng.choice(high, total, replace=False)
    return np.r_[high, case.rng.choice(np.flatnonzero(~case.g_high), total - len(high), replace=False)]


def matched(k):
    """For each class, k times as many of G_low as G_high has; the ratio follows."""

    def choose(case):
        parts = [np.flatnonzero(case.g_high)]
        for label in np.unique(case.labels):
            mine = case.labels == label
            low = np.flatnonzero(mine & ~case.g_high)
            count = min(len(low), k * int((mine & case.g_high).sum()))
            if count:
                parts.append(low[select_histogram(case.tcsl_c[low], count, bins=50, rng=case.rng)])
        return np.concatenate(parts)

    return choose


def total_of(k):
    """As many samples as k times G_high, filled by the classes' shares; the ratio follows."""

    def choose(case):
        ratio = min(1.0, k * int(case.g_high.sum()) / len(case.labels) + 1e-9)
        return select_coreset(
            case.g_high, case.tcsl_c, case.labels, case.settings.model_copy(update={"ratio": ratio}), seed=0
        )

    return choose


TRIALS = {
    "default": Trial(""),
    "literal weight update": Trial("stage 1", {"score.weight_update": "literal"}),
    "no new weights": Trial("stage 1", {"score.weight_update": "none"}),
    "losses recorded in evaluation": Trial("stage 1", {"score.record": "evaluation"}),
    "T_s = 1": Trial("stage 1", {"score.biased_epochs": 1}),
    "T_s = 2": Trial("stage 1", {"score.biased_epochs": 2}),
    "T_s = 3": Trial("stage 1", {"score.biased_epochs": 3}),
    "T_s = 8": Trial("stage 1", {"score.biased_epochs": 8}),
    "T_s = 16": Trial("stage 1", {"score.biased_epochs": 16}),
    "T_c = 4": Trial("stage 2", {"score.core_epochs": 4}),
    "T_c = 10": Trial("stage 2", {"score.core_epochs": 10}),
    "T_c = 20": Trial("stage 2", {"score.core_epochs": 20}),
    "no correction": Trial("stage 2", {"score.correction": 0.0}),
    "correction 0.5": Trial("stage 2", {"score.correction": 0.5}),
    "scores of 3 runs": Trial("stage 1", runs=3),
    "scores of 3 runs, T_c = 10": Trial("stage 1", {"score.core_epochs": 10}, runs=3),
    "raw losses": Trial("wKMeans", {"select.losses": "raw"}),
    "raw losses, no weights": Trial("wKMeans", high=unweighted("raw")),
    "no weights": Trial("wKMeans", high=unweighted("bounded")),
    "one clustering a class": Trial("wKMeans", high=by_class("bounded")),
    "raw, one clustering a class": Trial("wKMeans", high=by_class("raw")),
    "f_s is wrong at the end": Trial("wKMeans", high=wrong_at_the_end),
    "f_s is wrong on average": Trial("wKMeans", high=worst_on_average),
    "over all classes at once": Trial("filling", {"select.fill": "global"}),
    "lowest TCSL_c": Trial("filling", {"select.tau": 0.0}),
    "lowest TCSL_c, over all classes at once": Trial("filling", {"select.tau": 0.0, "select.fill": "global"}),
    "10 bins": Trial("filling", {"select.bins": 10}),
    "at random": Trial("filling", choose=random_fill),
    "r = 0.1": Trial("ratio", {"select.ratio": 0.1}),
    "r = 0.1, lowest TCSL_c": Trial("ratio", {"select.ratio": 0.1, "select.tau": 0.0}),
    "r = 0.3": Trial("ratio", {"select.ratio": 0.3}),
    "r = 0.3, lowest TCSL_c": Trial("ratio", {"select.ratio": 0.3, "select.tau": 0.0}),
    "r = 0.4": Trial("ratio", {"select.ratio": 0.4}),
    "twice G_high": Trial("ratio", choose=total_of(2)),
    "3 times G_high": Trial("ratio", choose=total_of(3)),
    "4 times G_high": Trial("ratio", choose=total_of(4)),
    "5 times G_high": Trial("ratio", choose=total_of(5)),
    "in each class as many as G_high has": Trial("ratio", choose=matched(1)),
    "in each class twice as many": Trial("ratio", choose=matched(2)),
    "in each class 3 times as many": Trial("ratio", choose=matched(3)),
}


def one_seed(seed, folder):
    """Write, for each row of the table, the criterion, WGA, average and what is known of G_high."""
    path = folder / f"digits-s{seed}.json"
    if path.exists():
        return
    warnings.simplefilter("ignore")
    splits = load(seed, val_per_class=30)
    labels, minority = splits.train.numpy_labels, splits.train.groups.minority
    out, scored, judge = {}, {}, None

    def settings_of(profile="default", **overrides):
        return resolve(profile=profile, dataset="digits", overrides={"seed": seed, **overrides})

    def job_of(settings):
        return opened_job(splits.train, settings, net=None, work={}, path=None)

    def predict(net, data, job):
        return logits_of(net, Feed.of(data, job.feed.hardware)).argmax(1).cpu().numpy()

    def final(name, job, indices, found=None):
        indices = None if indices is None else np.sort(indices)
        kept = indices if indices is None else Coreset(indices, indices, labels[indices], np.zeros(len(indices), bool))
        net = train_final(job, "final", kept)
        evaluation = evaluate_predictions(predict(net, splits.test, job), splits.test)
        out[name] = {
            "criterion": balanced_by_bias(predict(net, splits.val_iid, job), judge, splits.val_iid.numpy_labels),
            "wga": evaluation.wga,
            "average": evaluation.average,
            "n": None if indices is None else len(indices),
            "kept": None if indices is None else int(minority[indices].sum()) / int(minority.sum()),
            **(found or {}),
        }

    def scores_of(settings, run):
        nonlocal judge
        key = settings.score.model_dump_json() + f" {run}"
        if key not in scored:
            with job_of(settings.model_copy(update={"seed": seed + 1000 * run})) as job:
                hidden = job.hiding_groups()
                biased, core = hidden.fresh_net("biased"), hidden.fresh_net("core")
                curves = train_biased(biased, hidden.feed, settings, seed=job.settings.seed)
                tcsl_c = train_core(core, biased, hidden.feed, settings, seed=job.settings.seed)
                scored[key] = np.ascontiguousarray(curves.numpy()), tcsl_c.numpy()
                if judge is None:  # the default comes first
                    judge = predict(biased, splits.val_iid, job)
        return scored[key]

    def tcsl_cs(name, settings, trial):
        runs = [scores_of(settings, run) for run in range(trial.runs)]
        curves, tcsl_c = (np.mean([run[i] for run in runs], 0) for i in range(2))
        tcsl_s = tcsl_s_of(curves)
        case = Case(curves, tcsl_s, tcsl_c, labels, None, settings.select, generator(seed, "trial"))
        high = trial.high(case) if trial.high else identify(curves, tcsl_s, settings.select, seed=seed)
        if trial.choose:
            indices = trial.choose(case._replace(g_high=high))
        else:
            indices = select_coreset(high, tcsl_c, labels, settings.select, seed=seed)
        found = identification(tcsl_s, high, minority)
        with job_of(settings) as job:
            final(name, job, indices, {k: found[k] for k in ("g_high", "recall", "precision", "auc")})

    for name, trial in TRIALS.items():
        tcsl_cs(name, settings_of(**trial.settings), trial)
    tcsl_cs("paper profile", settings_of("paper"), Trial("profile"))
    with job_of(settings_of()) as job:
        final("CB ERM", job, None)
        final("Random", job, select_random(len(labels), ratio=0.2, rng=generator(seed, "random")))
        for ratio in (0.1, 0.2, 0.3):
            indices = select_rgbal(minority, ratio=ratio, rng=generator(seed, "rgbal"))
            final(f"RGbal, told the groups, r = {ratio}", job, indices)
    path.write_text(json.dumps({"rows": out, "environment": describe_environment()}) + "\n")
    print(f"seed {seed} is done", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--records", type=Path, default=RESULTS / "choices")
    options = parser.parse_args()
    options.records.mkdir(parents=True, exist_ok=True)
    seeds = range(options.seeds)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(partial(one_seed, folder=options.records), seeds))
    results = [json.loads((options.records / f"digits-s{seed}.json").read_text())["rows"] for seed in seeds]
    rows = []
    for name in results[0]:

        def values(key, name=name):
            return [result[name].get(key) for result in results]

        def mean(key, values=values):
            return None if values(key)[0] is None else summarise(values(key)).mean

        def minus_default(key, values=values):
            gain = paired(values(key), [result["default"][key] for result in results])
            return [100 * gain.mean, 100 * gain.low, 100 * gain.high]

        rows.append(
            {
                "part": TRIALS[name].part if name in TRIALS else "",
                "row": name,
                "criterion": 100 * mean("criterion"),
                "criterion minus default": minus_default("criterion"),
                "WGA": 100 * mean("wga"),
                "sd": 100 * summarise(values("wga")).sd,
                "WGA minus default": minus_default("wga"),
                "average": 100 * mean("average"),
                "n": mean("n"),
                "kept": mean("kept"),
                "recall": mean("recall"),
                "precision": mean("precision"),
                "auc": mean("auc"),
                "values": [100 * value for value in values("wga")],
            }
        )
    write("choices-digits", rows, seeds=list(seeds))


if __name__ == "__main__":
    main()
