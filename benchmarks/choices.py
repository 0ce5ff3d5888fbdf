"""What each choice of the default profile is worth, on the embedded digits: one setting changed at a time.

    python benchmarks/choices.py [--seeds 10] [--jobs 2]

Scores are made once for each way of scoring and shared by the ways of selecting; the final model starts from the same
weights in every row.
"""

import argparse
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor

from common import write

VARIANTS = {
    "default": {},
    "filled over all classes at once": {"select.fill": "global"},
    "lowest TCSL_c (tau = 0)": {"select.tau": 0.0},
    "lowest TCSL_c, over all classes at once": {"select.tau": 0.0, "select.fill": "global"},
    "10 bins, so that all are visited": {"select.bins": 10},
    "wKMeans on raw losses": {"select.losses": "raw"},
    "literal weight update": {"score.weight_update": "literal"},
    "losses recorded in evaluation": {"score.record": "evaluation"},
    "r = 0.3": {"select.ratio": 0.3},
    "r = 0.3, lowest TCSL_c": {"select.ratio": 0.3, "select.tau": 0.0},
}


def one_seed(seed):
    """Return, for each row of the table, WGA, average and what is known of G_high."""
    from tcsl.config import resolve
    from tcsl.evaluation import identification
    from tcsl.methods.base import run_method
    from tcsl.pipeline import score_stages, train_final
    from tcsl.registry import METHODS
    from tcsl.running import evaluate_net, load_dataset, opened_job
    from tcsl.selection.coreset import coreset_from_scores

    warnings.simplefilter("ignore")
    out, scored = {}, {}

    def settings_of(profile="default", **overrides):
        return resolve(profile=profile, dataset="digits", overrides={"seed": seed, **overrides})

    def job_of(settings):
        return opened_job(train, settings, net=None, work={}, path=None)

    def tell(name, net, found=None):
        evaluation = evaluate_net(net, test, train, settings_of().device)
        out[name] = {"wga": evaluation.wga, "average": evaluation.average, **(found or {})}

    train, test = load_dataset(settings_of())[:2]
    with job_of(settings_of()) as job:
        tell("CB ERM", run_method(METHODS.get("cb_erm"), job).net)
    for ratio in (0.2, 0.3):
        with job_of(settings_of(**{"select.ratio": ratio})) as job:
            tell(f"RGbal, told the groups, r = {ratio}", run_method(METHODS.get("rgbal"), job).net)
    rows = [(name, settings_of(**overrides)) for name, overrides in VARIANTS.items()]
    for name, settings in [*rows, ("paper profile", settings_of("paper"))]:
        with job_of(settings) as job:
            if settings.score not in scored:
                scored[settings.score] = score_stages(job)
            scores = scored[settings.score]
            coreset = coreset_from_scores(scores, settings)
            high = select_high(scores, settings)
            found = identification(scores.tcsl_s, high, train.groups.minority)
            tell(
                name,
                train_final(job, "tcsl_cs", coreset),
                {k: found[k] for k in ("g_high", "recall", "precision", "auc")},
            )
    return out


def select_high(scores, settings):
    from tcsl.selection.tcsl_cs import identify

    return identify(scores.curves, scores.tcsl_s, settings.select, seed=settings.seed)


def main():
    from tcsl.statistics import paired, summarise

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.seeds)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(one_seed, seeds))
    rows = []
    for name in results[0]:
        values = {
            key: [result[name].get(key) for result in results] for key in ("wga", "average", "recall", "precision")
        }
        wga = summarise(values["wga"])
        gain = paired(values["wga"], [result["default"]["wga"] for result in results])
        rows.append(
            {
                "row": name,
                "WGA": 100 * wga.mean,
                "sd": 100 * wga.sd,
                "minus default": 100 * gain.mean,
                "low": 100 * gain.low,
                "high": 100 * gain.high,
                "average": 100 * summarise(values["average"]).mean,
                "recall": None if values["recall"][0] is None else summarise(values["recall"]).mean,
                "precision": None if values["precision"][0] is None else summarise(values["precision"]).mean,
                "values": [100 * value for value in values["wga"]],
            }
        )
    write("choices-digits", rows, seeds=list(seeds))


if __name__ == "__main__":
    main()
