"""What each choice of the default profile is worth, on the embedded digits: one thing changed at a time.

    python benchmarks/choices.py digits|uneven|halves|murky|rare|mild|small [--seeds 12] [--jobs 2]

The same command goes on where it was stopped.

`digits` are the embedded ones. In `uneven`, digits 5 .. 9 have 36 training samples where the others have 120. In
`halves` there are two classes, digits below 5 and the others, 77 % and 23 % of the data, and two colours; in `murky`
these colours are hard to tell. In `rare` 99 % of the colours give the digit away, in `mild` 70 %; `small` are the
digits at r = 0.03: there what is kept of a G_high that exceeds its places is compared.

Choices are made by the column "criterion", which looks at no group: the accuracy on a validation set that is coloured
like the training set, balanced over label x (is the default biased model right). Worst-group accuracy on the test set
is beside it, to see whether the criterion can be trusted. Scores are made once for each way of scoring and shared by
the ways of selecting; the final model starts from the same weights in every row, and rows of the same coreset share it.
"""

import argparse
import json
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from common import RESULTS, made_with, write
from trials import DATA, Case, Trial

from tcsl.config import resolve
from tcsl.environment import describe_environment
from tcsl.evaluation import balanced_by_bias, evaluate_predictions, identification
from tcsl.pipeline import train_final
from tcsl.running import opened_job
from tcsl.scores import Coreset
from tcsl.scoring.tcsl import train_biased, train_core
from tcsl.seeds import generator
from tcsl.selection.baselines import select_random, select_rgbal
from tcsl.selection.tcsl_cs import identify, select_coreset, tcsl_s_of
from tcsl.statistics import paired, summarise
from tcsl.training.feed import Feed
from tcsl.training.views import predicted

TOLD = {f"RGbal, told the groups, r = {ratio}": ratio for ratio in (0.1, 0.2, 0.3)}


def rows_of(trials):
    """Return the rows of a table, in order."""
    return ["default", *trials, "paper profile", "CB ERM", "Random", *TOLD]


def hardware(environment):
    return environment["cpu"], environment["packages"]["torch"]


def one_seed(seed, name, folder):
    """Write, for each row of the table, the criterion, WGA, average and what is known of G_high."""
    path = folder / f"{name}-s{seed}.json"
    made = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    out = made["rows"]
    warnings.simplefilter("ignore")
    make, trials, usual_ratio = DATA[name]
    if all(row in out for row in rows_of(trials)):
        return
    environment = describe_environment()
    was, now = hardware(made.get("environment", environment)), hardware(environment)
    if was != now:  # the same seed gives the same bytes on the same machine only, and rows are paired by seed
        raise SystemExit(f"{path.name} was made on {was}, not on {now}: remove it, or choose other --records")
    splits = make(seed)
    labels, minority = splits.train.numpy_labels, splits.train.groups.minority
    scored, trained, judge = {}, {}, None

    def settings_of(profile="default", **overrides):
        usual = {"seed": seed, "select.ratio": usual_ratio, "device.device": "cpu", "device.threads": 1}
        return resolve(profile=profile, dataset="digits", overrides=usual | overrides)

    def job_of(settings):
        return opened_job(splits.train, settings, net=None, work={}, path=None)

    def predict(net, data, job):
        return predicted(net, Feed.of(data, job.feed.hardware))

    def final(row, job, indices, found=None):
        indices = None if indices is None else np.sort(indices)
        kept = indices if indices is None else Coreset(indices, indices, labels[indices], np.zeros(len(indices), bool))
        key = job.settings.train.model_dump_json(), None if indices is None else indices.tobytes()
        if key not in trained:
            net = train_final(job, "final", kept)
            evaluation = evaluate_predictions(predict(net, splits.test, job), splits.test)
            guess = predict(net, splits.val_iid, job)
            trained[key] = {
                "criterion": balanced_by_bias(guess, judge, splits.val_iid.numpy_labels),
                "wga": evaluation.wga,
                "average": evaluation.average,
            }
        out[row] = {
            **trained[key],
            "n": None if indices is None else len(indices),
            "kept": None if indices is None else int(minority[indices].sum()) / int(minority.sum()),
            **(found or {}),
            "commit": environment["commit"],
        }
        path.write_text(json.dumps({"rows": out, "environment": environment}) + "\n")

    def scores_of(settings, run):
        nonlocal judge
        key = settings.score.model_dump_json() + f" {run}"
        if key not in scored:
            with job_of(settings.model_copy(update={"seed": seed + 1000 * run})) as job:
                hidden = job.hiding()
                biased, core = hidden.fresh_net("biased"), hidden.fresh_net("core")
                curves = train_biased(biased, hidden.feed, settings, seed=job.settings.seed)
                tcsl_c = train_core(core, biased, hidden.feed, settings, seed=job.settings.seed)
                scored[key] = np.ascontiguousarray(curves.numpy()), tcsl_c.numpy()
                if judge is None:
                    judge = predict(biased, splits.val_iid, job)
        return scored[key]

    def tcsl_cs(row, settings, trial):
        if row in out:
            return
        runs = [scores_of(settings, run) for run in range(trial.runs)]
        curves, tcsl_c = (np.mean([run[i] for run in runs], 0) for i in range(2))
        tcsl_s = tcsl_s_of(curves)
        case = Case(curves, tcsl_s, tcsl_c, labels, None, settings.select, generator(seed, "trial"), seed)
        high = trial.high(case) if trial.high else identify(curves, tcsl_s, settings.select, seed=seed)
        if trial.choose:
            indices = trial.choose(case._replace(g_high=high))
        else:
            indices = select_coreset(high, tcsl_s, tcsl_c, labels, settings.select, seed=seed)
        found = identification(tcsl_s, high, minority)
        with job_of(settings) as job:
            final(row, job, indices, {k: found[k] for k in ("g_high", "recall", "precision", "auc")})

    scores_of(settings_of(), 0)  # the biased model that judges comes first
    tcsl_cs("default", settings_of(), Trial(""))
    for row, trial in trials.items():
        tcsl_cs(row, settings_of(**trial.settings), trial)
    tcsl_cs("paper profile", settings_of("paper"), Trial(""))
    others = {"CB ERM": None, "Random": select_random(len(labels), ratio=usual_ratio, rng=generator(seed, "random"))}
    for row, ratio in TOLD.items():
        others[row] = select_rgbal(minority, ratio=ratio, rng=generator(seed, "rgbal"))
    with job_of(settings_of()) as job:
        for row, indices in others.items():
            if row not in out:
                final(row, job, indices)
    print(f"seed {seed} is done", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=DATA)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--records", type=Path, default=RESULTS / "choices")
    options = parser.parse_args()
    options.records.mkdir(parents=True, exist_ok=True)
    seeds = range(options.seeds)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(partial(one_seed, name=options.data, folder=options.records), seeds))
    made = [json.loads((options.records / f"{options.data}-s{seed}.json").read_text()) for seed in seeds]
    results = [each["rows"] for each in made]
    trials = DATA[options.data][1]
    rows = []
    for name in rows_of(trials):

        def values(key, name=name):
            return [result[name].get(key) for result in results]

        def mean(key, values=values):
            return None if values(key)[0] is None else summarise(values(key)).mean

        def minus_default(key, values=values):
            gain = paired(values(key), [result["default"][key] for result in results])
            return [100 * gain.mean, 100 * gain.low, 100 * gain.high]

        rows.append(
            {
                "part": trials[name].part if name in trials else "",
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
                "criteria": values("criterion"),
                "wgas": values("wga"),
            }
        )
    by = {
        made_with(*hardware(each["environment"]), each["rows"][name]["commit"])
        for each in made
        for name in rows_of(trials)
    }
    write(f"choices-{options.data}", rows, seeds=list(seeds), made_with=sorted(by))


if __name__ == "__main__":
    main()
