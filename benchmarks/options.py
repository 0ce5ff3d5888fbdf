"""Choose an option of a method on the embedded digits, without looking at groups.

    python benchmarks/options.py lc biased_lr 0.1 0.3 1.0 [--seeds 5]     writes docs/results/choices-lc.json

The choice is made by the column "criterion": the accuracy on a validation set that is coloured like the training set,
balanced over label x (is the biased model of stage 1 right). Each seed draws its own data. Worst-group accuracy and
average on the test set are beside it, to see whether the criterion can be trusted; they choose nothing.
"""

import argparse
import warnings

from common import write

from tcsl.config import parse_override, resolve
from tcsl.evaluation import balanced_by_bias, evaluate_predictions
from tcsl.methods.base import run_method
from tcsl.registry import METHODS
from tcsl.running import load_dataset, opened_job
from tcsl.scoring.tcsl import train_biased
from tcsl.statistics import summarise
from tcsl.training.feed import Feed
from tcsl.training.views import logits_of


def settings_of(seed, method, **overrides):
    device = {"device.device": "cpu", "device.threads": 1}
    return resolve(dataset="digits", overrides={"seed": seed, "methods": [method], **device, **overrides})


def predict(net, data, job):
    return logits_of(net, Feed.of(data, job.feed.hardware)).argmax(1).cpu().numpy()


def judge_of(settings, splits):
    """Return what the biased model of stage 1 says of the validation set."""
    with opened_job(splits.train, settings, net=None, work={}, path=None) as job:
        hidden = job.hiding()
        biased = hidden.fresh_net("biased")
        train_biased(biased, hidden.feed, settings, seed=settings.seed)
        return predict(biased, splits.val_iid, job)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=METHODS.names())
    parser.add_argument("option")
    parser.add_argument("values", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    overrides = [parse_override(f"method.{options.method}.{options.option}={value}") for value in options.values]
    found = {value: {"criterion": [], "WGA": [], "average": []} for _, value in overrides}
    for seed in range(options.seeds):
        splits = load_dataset(settings_of(seed, options.method))
        judge = judge_of(settings_of(seed, options.method), splits)
        for name, value in overrides:
            settings = settings_of(seed, options.method, **{name: value})
            with opened_job(splits.train, settings, net=None, work={}, path=None) as job:
                net = run_method(METHODS.get(options.method), job).net
                chosen_by = balanced_by_bias(predict(net, splits.val_iid, job), judge, splits.val_iid.numpy_labels)
                evaluation = evaluate_predictions(predict(net, splits.test, job), splits.test)
            for key, number in (("criterion", chosen_by), ("WGA", evaluation.wga), ("average", evaluation.average)):
                found[value][key].append(100 * number)
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
