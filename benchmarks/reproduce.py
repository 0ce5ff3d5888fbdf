"""The paper's headline on real data: one record a cell, never computed twice.

    python benchmarks/reproduce.py waterbirds --root DATA --weights FILE --net resnet50_v1 --seeds 0 1 2 --ratios 0.1

A cell is a method, a ratio and a seed; its record is a JSON file in docs/results/reproduction with the command, commit
and hardware. Scores are kept beside the records (as .npz), so that other ratios and rules can use them. With --minutes
the campaign stops before a cell that would not fit; the same command goes on. Methods: cb_erm, random, rgbal, tcsl_cs
(profile default), tcsl_cs_paper, and core, which is f_c itself.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import RESULTS

from tcsl.config import resolve
from tcsl.data.load import load
from tcsl.environment import describe_environment
from tcsl.evaluation import identification
from tcsl.pipeline import Job, train_final
from tcsl.running import evaluate_net
from tcsl.scores import Coreset
from tcsl.scoring.tcsl import train_biased, train_core
from tcsl.seeds import generator
from tcsl.selection.baselines import select_random, select_rgbal
from tcsl.selection.tcsl_cs import select_tcsl_cs, tcsl_s_of
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed

METHODS = ("cb_erm", "tcsl_cs", "rgbal", "core", "random", "tcsl_cs_paper")


def settings_of(options, profile, seed, ratio):
    overrides = {
        "seed": seed,
        "select.ratio": ratio,
        "train.augment": options.augment,
        "train.pretrained": not options.weights,
        "train.weights": options.weights,
    }
    if options.net:
        overrides["train.net"] = options.net
    if options.epochs:
        overrides["train.epochs"] = options.epochs
    return resolve(profile=profile, dataset=options.dataset, overrides=overrides)


class Campaign:
    """Where records and scores are, and the data."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(options.records)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.epochs = []  # what the cell that is running has reported
        self.splits = load(options.dataset, root=options.root)
        self.hardware = choose(settings_of(options, "default", 0, 0.1).device)
        self.feed = Feed.of(self.splits.train, self.hardware)
        self.schedule = f"T{settings_of(options, 'default', 0, 0.1).train.epochs}-{options.augment}"

    def name(self, kind, seed, ratio=None):
        return f"{self.options.dataset}-{self.schedule}-{kind}{'' if ratio is None else f'-r{ratio:g}'}-s{seed}"

    def job(self, settings):
        feed = replace(self.feed, data=self.splits.train)
        return Job(feed, settings, settings.train.net, report=self.epochs.append)

    def scores(self, profile, seed):
        """Return curves and TCSL_c, from the records or by running Algorithm 1; also writes the record of f_c."""
        path = self.folder / f"{self.name(f'scores-{profile}', seed)}.npz"
        settings = settings_of(self.options, profile, seed, 0.1)
        if not path.exists():
            job = self.job(settings).hiding_groups()
            started = time.perf_counter()
            biased = job.fresh_net("biased")
            curves = train_biased(biased, job.feed, settings, seed=seed, report=self.epochs.append)
            middle = time.perf_counter()
            core = job.fresh_net("core")
            tcsl_c = train_core(core, biased, job.feed, settings, seed=seed, report=self.epochs.append)
            seconds = {"biased": middle - started, "core": time.perf_counter() - middle}
            arrays = {"curves": curves.cpu().numpy().astype(np.float16), "tcsl_c": tcsl_c.cpu().numpy()}
            np.savez_compressed(path, **arrays)
            self.write(f"core-{profile}", seed, None, core, settings, seconds, None, None)
        stored = np.load(path, allow_pickle=False)
        return stored["curves"].astype(np.float32), stored["tcsl_c"]

    def write(self, method, seed, ratio, net, settings, seconds, indices, g_high):
        data = self.splits.train
        groups = data.groups
        evaluation = evaluate_net(net, self.splits.test, data, settings.device).as_dict()
        record = {
            "dataset": self.options.dataset,
            "method": method,
            "seed": seed,
            "ratio": ratio,
            "epochs": settings.train.epochs,
            "augment": settings.train.augment,
            "net": settings.train.net,
            "weights": Path(settings.train.weights).name or "torchvision, ImageNet-1K",
            "wga": evaluation["wga"],
            "evaluation": evaluation,
            "seconds": seconds,
            "epoch_seconds": {
                stage: statistics.median(epoch.seconds for epoch in self.epochs if epoch.stage == stage)
                for stage in dict.fromkeys(epoch.stage for epoch in self.epochs)
            },
            "coreset": None
            if indices is None
            else {
                "n": len(indices),
                "minority": int(groups.minority[indices].sum()),
                "of": int(groups.minority.sum()),
                "groups": np.bincount(groups.group[indices], minlength=len(groups.names)).tolist(),
            },
            "g_high": g_high,
            "environment": describe_environment()
            | {"command": f"python benchmarks/reproduce.py {' '.join(sys.argv[1:])}"},
        }
        self.epochs = []
        (self.folder / f"{self.name(method, seed, ratio)}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(
            f"{self.name(method, seed, ratio)}: WGA {100 * record['wga']:.1f}", seconds, record["coreset"], flush=True
        )

    def run(self, method, seed, ratio):
        """Run one cell."""
        profile = "paper" if method == "tcsl_cs_paper" else "default"
        settings = settings_of(self.options, profile, seed, ratio or 0.1)
        if method == "core":
            self.scores("default", seed)
            return
        data = self.splits.train
        indices, found = None, None
        if method.startswith("tcsl_cs"):
            curves, tcsl_c = self.scores(profile, seed)
            chosen = select_tcsl_cs(curves, tcsl_c, data.numpy_labels, settings.select, seed=seed)
            indices = chosen.indices
            found = identification(tcsl_s_of(curves), chosen.g_high, data.groups.minority)
            found["n"] = int(chosen.g_high.sum())
        elif method == "random":
            indices = select_random(len(data), ratio=ratio, rng=generator(seed, "random"))
        elif method == "rgbal":
            indices = select_rgbal(data.groups.minority, ratio=ratio, rng=generator(seed, "rgbal"))
        job = self.job(settings)
        started = time.perf_counter()
        kept = None
        if indices is not None:
            kept = Coreset(indices, data.ids[indices], data.numpy_labels[indices], np.zeros(len(indices), bool))
        net = train_final(job.hiding_groups(), "final", kept)
        self.write(method, seed, ratio, net, settings, {"final": time.perf_counter() - started}, indices, found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", choices=("waterbirds", "cmnist"))
    parser.add_argument("--root", required=True)
    parser.add_argument("--weights", default="")
    parser.add_argument("--net", default="")
    parser.add_argument("--epochs", type=int, default=0, help="T; the paper's by default")
    parser.add_argument("--augment", default="none")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.1])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--records", default=str(RESULTS / "reproduction"))
    options = parser.parse_args()
    started = time.monotonic()
    campaign = Campaign(options)
    longest = 0.0
    with settled(settings_of(options, "default", 0, 0.1).device):
        for seed in options.seeds:
            for method in options.methods:
                for ratio in [None] if method in ("cb_erm", "core") else options.ratios:
                    stored = "core-default" if method == "core" else method
                    if (campaign.folder / f"{campaign.name(stored, seed, ratio)}.json").exists():
                        continue
                    begun = time.monotonic()
                    if begun + longest - started > 60 * options.minutes:
                        print(f"stopped before {campaign.name(method, seed, ratio)}: the minutes are used up")
                        return
                    campaign.run(method, seed, ratio)
                    longest = max(longest, time.monotonic() - begun)


if __name__ == "__main__":
    main()
