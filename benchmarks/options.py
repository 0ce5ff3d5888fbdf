"""Choose an option of a method on the embedded digits, without looking at groups.

    python benchmarks/options.py lc biased_lr 0.1 0.3 1.0 [--seeds 5]     writes docs/results/choices-lc.json

The choice is made by the column "criterion": the accuracy on a validation set that is coloured like the training set,
balanced over label x (is the biased model of stage 1 right). Each seed draws its own data. Worst-group accuracy and
average on the test set are beside it, to see whether the criterion can be trusted; they choose nothing. Of methods with
scores of their own, the size of G_high is beside them.
"""

import argparse
import warnings
from collections import defaultdict

from common import write

from tcsl.config import parse_override, resolve
from tcsl.methods.base import run_method
from tcsl.model_selection import judge_of
from tcsl.registry import METHODS
from tcsl.running import evaluate_net, load_dataset, opened_job
from tcsl.statistics import summarise


def settings_of(seed, method, **overrides):
    device = {"device.device": "cpu", "device.threads": 1}
    return resolve(dataset="digits", overrides={"seed": seed, "methods": [method], **device, **overrides})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", choices=METHODS.names())
    parser.add_argument("option")
    parser.add_argument("values", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    overrides = [parse_override(f"method.{options.method}.{options.option}={value}") for value in options.values]
    found = {value: defaultdict(list) for _, value in overrides}
    for seed in range(options.seeds):
        splits = load_dataset(settings_of(seed, options.method))
        judging = settings_of(seed, options.method, **{"train.model_selection": "balanced_by_bias"})
        with opened_job(splits.train, judging, net=None, work={}, path=None) as job:
            judge = judge_of(job, splits.val_iid)
        for name, value in overrides:
            settings = settings_of(seed, options.method, **{name: value})
            with opened_job(splits.train, settings, net=None, work={}, path=None) as job:
                outcome = run_method(METHODS.get(options.method), job)
                criterion = judge(outcome.net)
            evaluation = evaluate_net(outcome.net, splits.test, splits.train, settings.device)
            for key, number in (("criterion", criterion), ("WGA", evaluation.wga), ("average", evaluation.average)):
                found[value][key].append(100 * number)
            if outcome.scores is not None:
                found[value]["G_high"].append(int(outcome.scores.g_high.sum()))
        print(f"seed {seed} is done", flush=True)
    rows = [
        {options.option: value}
        | {key: summarise(numbers).mean for key, numbers in columns.items()}
        | {f"{key} by seed": numbers for key, numbers in columns.items()}
        for value, columns in found.items()
    ]
    write(f"choices-{options.method}", rows, seeds=list(range(options.seeds)))


if __name__ == "__main__":
    main()
