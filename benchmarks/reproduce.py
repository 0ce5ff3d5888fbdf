"""The paper's headline on real data: one record a cell, never computed twice.

    python benchmarks/reproduce.py waterbirds --root DATA --weights FILE --net resnet50_v1 --seeds 0 1 2 --ratios 0.1

A cell is a method, a ratio and a seed; its record is a JSON file in docs/results/reproduction with the settings, the
command, the commit and the hardware. Scores are kept beside the records (as .npz), so that other ratios and rules can
use them. With --minutes the campaign stops before cells that would not fit; the same command goes on. With --jobs
several seeds of a cell train in turns on one GPU; with --model both one training has two records, of the last epoch and
of the averaged weights. Methods: core (f_c itself), cb_erm, rgbal, random, tcsl_cs in the
profiles default, fast and paper, and with one setting of the default changed (SCORES, VARIANTS). gb_erm and
tcsl_cs_true are told the groups: they say what the data and the backbone allow.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from common import RESULTS

from tcsl.config import resolve
from tcsl.data.load import load
from tcsl.environment import describe_environment
from tcsl.evaluation import balanced_by_bias, evaluate_predictions, identification
from tcsl.methods.base import run_method
from tcsl.pipeline import Job, train_final
from tcsl.registry import METHODS as REGISTRY
from tcsl.scores import Coreset
from tcsl.scoring.tcsl import train_biased, train_core
from tcsl.seeds import generator
from tcsl.selection.baselines import select_random, select_rgbal
from tcsl.selection.quota import number, read_ratio, said
from tcsl.selection.tcsl_cs import select_tcsl_cs, tcsl_s_of
from tcsl.training.checkpoint import under_prefix
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed
from tcsl.training.turns import in_turns
from tcsl.training.views import predicted

SCORES = {  # the profile, and what is changed in it
    "default": ("default", {}),
    "paper": ("paper", {}),
    "fast": ("fast", {}),
    "tenth": ("default", {"score.biased_share": 0.1}),
}
VARIANTS = {  # of TCSL-CS: the scores, and what is changed in the selection
    "tcsl_cs": ("default", {}),
    "tcsl_cs_paper": ("paper", {}),
    "tcsl_cs_fast": ("fast", {}),
    "tcsl_cs_tenth": ("tenth", {}),
    "tcsl_cs_class": ("default", {"select.fill": "class"}),
    "tcsl_cs_tenth_class": ("tenth", {"select.fill": "class"}),
    "tcsl_cs_bot": ("default", {"select.tau": 0.0}),  # cMNIST's preset has it
    "tcsl_cs_hist": ("default", {"select.tau": 1.0}),
    "tcsl_cs_true": ("default", {}),
}
METHODS = ("core", "cb_erm", "gb_erm", "rgbal", "random", *VARIANTS)
USUAL = ("core", "cb_erm", "tcsl_cs", "rgbal", "random", "tcsl_cs_paper")
PARTS = ("train", "score", "select", "device")  # of the settings, in every record
SHORTER = (0.02, 0.04, 0.1, 0.2, 0.5)  # parts of T_c after which the coreset is compared with the whole one's


def settings_of(options, scores, seed, ratio, schedule=True, changed=None, model="last"):
    profile, rescored = SCORES[scores]
    overrides = {
        **rescored,
        **(changed or {}),
        "seed": seed,
        "select.ratio": ratio,
        "train.augment": options.augment,
        "train.model_selection": model,
        "device.engine": options.engine,
        "device.precision": options.precision,
        "train.pretrained": not options.weights,
        "train.weights": options.weights,
    }
    if options.net:
        overrides["train.net"] = options.net
    if options.epochs and schedule:
        overrides["train.epochs"] = options.epochs
    return resolve(profile=profile, dataset=options.dataset, overrides=overrides)


def weights_of(train):
    return Path(train.weights).name or "torchvision, ImageNet-1K"


@dataclass(frozen=True, eq=False)
class KeepingJob(Job):
    """A job that keeps its stages' tables: where weights are averaged, the last epoch's are among them."""

    tables: dict = field(default_factory=dict)

    def stage(self, name, weights, train):
        net, tables = super().stage(name, weights, train)
        self.tables.update(tables)
        return net, tables


class Campaign:
    """Where records and scores are, and the data."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(options.records)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.splits = load(options.dataset, root=options.root)
        self.hardware = choose(settings_of(options, "default", 0, 0.1).device)
        self.feed = Feed.of(self.splits.train, self.hardware)
        self.tests = Feed.of(self.splits.test, self.hardware)
        self.judged = Feed.of(self.splits.val_iid, self.hardware) if self.splits.val_iid is not None else None
        # The scores may come from the full schedule where only the final training is shortened.
        self.scored_with = self.scoring("default").train.epochs
        self.epochs = settings_of(options, "default", 0, 0.1).train.epochs
        self.models = ("average", "last") if options.model == "both" else (options.model,)
        self.in_turns = 1  # seeds that share the GPU: a record's seconds are those of all of them

    def name(self, kind, seed, ratio=None, epochs=0, model="last"):
        schedule = f"T{epochs or self.epochs}-{self.options.augment}"
        if not kind.startswith(("scores", "core")):
            schedule += "-average" * (model == "average")
            schedule += "-float32" * (self.options.precision == "float32")
        return f"{self.options.dataset}-{schedule}-{kind}{'' if ratio is None else f'-r{said(ratio)}'}-s{seed}"

    def job(self, settings, epochs):
        return KeepingJob(self.feed, settings, settings.train.net, report=epochs.append)

    def scores(self, name, seed):
        """Return what Algorithm 1 left, from the records or by running it; then f_c's own record is written, too."""
        path, record = (
            self.folder / f"{self.name(f'{kind}-{name}', seed, epochs=self.scored_with)}.{ending}"
            for kind, ending in (("scores", "npz"), ("core", "json"))
        )
        settings = self.scoring(name, seed)
        if not (path.exists() and record.exists()):
            if self.options.precision != "auto":
                raise SystemExit(f"{path.name} is missing: --precision is for final models; make the scores without it")
            epochs, snapshots = [], {}
            job = self.job(settings, epochs).hiding()
            started = time.perf_counter()
            biased = job.fresh_net("biased")
            curves = train_biased(biased, job.feed, settings, seed=seed, report=job.report)
            middle = time.perf_counter()
            core = job.fresh_net("core")
            marks = {round(part * settings.core_epochs) for part in SHORTER}

            def watch(epoch, tcsl_c):
                if epoch in marks:
                    snapshots[epoch] = tcsl_c.cpu().numpy()

            tcsl_c = train_core(core, biased, job.feed, settings, seed=seed, report=job.report, watch=watch)
            seconds = {"biased": middle - started, "core": time.perf_counter() - middle}
            arrays = {"curves": curves.cpu().numpy().astype(np.float16), "tcsl_c": tcsl_c.cpu().numpy()}
            shorter = self.shorter(arrays["curves"].astype(np.float32), arrays["tcsl_c"], snapshots, settings)
            if self.judged is not None:
                arrays["biased_val"] = predicted(biased, self.judged).astype(np.int8)
            np.savez_compressed(path, **arrays)
            self.write(f"core-{name}", seed, None, core, settings, seconds, epochs, scored=name, shorter=shorter)
        stored = dict(np.load(path, allow_pickle=False))
        stored["curves"] = stored["curves"].astype(np.float32)
        made, now = stored["curves"].shape[1], settings.biased_epochs_on(len(self.feed))
        if made != now:
            raise SystemExit(f"{path.name} was made with T_s = {made}, not {now}: choose other --records")
        return stored

    def scoring(self, name, seed=0):
        """Return the settings of scores."""
        return settings_of(self.options, name, seed, 0.1, schedule=not self.options.full_scores)

    def shorter(self, curves, tcsl_c, snapshots, settings):
        """Return what fewer epochs of either stage would have selected: overlap with the coreset, minority in it."""
        labels, minority = self.splits.train.numpy_labels, self.splits.train.groups.minority

        def select(curves, tcsl_c, g_high=None):
            return select_tcsl_cs(curves, tcsl_c, labels, settings.select, seed=settings.seed, g_high=g_high)

        whole = select(curves, tcsl_c)

        def compare(other):
            return {
                "overlap": len(np.intersect1d(other.indices, whole.indices)) / len(whole.indices),
                "minority": int(minority[other.indices].sum()),
                "g_high": int(other.g_high.sum()),
            }

        parts = dict.fromkeys(max(1, round(part * curves.shape[1])) for part in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0))
        return {
            "T_s": {epoch: compare(select(curves[:, :epoch], tcsl_c)) for epoch in parts},
            "T_c": {epoch: compare(select(curves, so_far, whole.g_high)) for epoch, so_far in snapshots.items()},
        }

    def scored_by(self, name):
        """Return what is said of scores in the records that use them."""
        settings = self.scoring(name)
        return {"name": name, "T_s": settings.biased_epochs_on(len(self.feed)), "T_c": settings.core_epochs}

    def write(
        self,
        method,
        seed,
        ratio,
        net,
        settings,
        seconds,
        epochs,
        *,
        scored=None,
        indices=None,
        found=None,
        shorter=None,
    ):
        groups = self.splits.train.groups
        classes = predicted(net, self.tests)
        evaluation = evaluate_predictions(classes, self.splits.test, train_groups=groups).as_dict()
        record = {
            "dataset": self.options.dataset,
            "method": method,
            "seed": seed,
            "ratio": ratio,
            "epochs": settings.train.epochs,
            "scored_with": self.scored_with,
            "settings": {part: getattr(settings, part).model_dump(exclude={"weights"}) for part in PARTS},
            "scores": None if scored is None else self.scored_by(scored),
            "weights": weights_of(settings.train),
            "wga": evaluation["wga"],
            "criterion": self.criterion(net, seed),
            "evaluation": evaluation,
            "seconds": seconds,
            "in_turns": self.in_turns,
            "epoch_seconds": {
                stage: statistics.median(epoch.seconds for epoch in epochs if epoch.stage == stage)
                for stage in dict.fromkeys(epoch.stage for epoch in epochs)
            },
            "losses": {
                stage: [epoch.loss for epoch in epochs if epoch.stage == stage][-20:]
                for stage in dict.fromkeys(epoch.stage for epoch in epochs)
            },
            "coreset": None
            if indices is None
            else {
                "n": len(indices),
                "minority": int(groups.minority[indices].sum()),
                "of": int(groups.minority.sum()),
                "groups": np.bincount(groups.group[indices], minlength=len(groups.names)).tolist(),
            },
            "g_high": found,
            "shorter": shorter,
            "environment": describe_environment()
            | {"command": f"python benchmarks/reproduce.py {' '.join(sys.argv[1:])}"},
        }
        name = self.name(method, seed, ratio, settings.train.epochs, settings.train.model_selection)
        (self.folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(
            f"{name}: WGA {100 * record['wga']:.1f}, criterion {record['criterion']}",
            seconds,
            record["epoch_seconds"],
            record["coreset"],
            found,
            flush=True,
        )

    def criterion(self, net, seed):
        """Return the accuracy that needs no groups, where the biased model of this seed has judged."""
        path = self.folder / f"{self.name('scores-default', seed, epochs=self.scored_with)}.npz"
        if self.judged is None or not path.exists():
            return None
        classes = predicted(net, self.judged)
        biased = np.load(path, allow_pickle=False)["biased_val"]
        return balanced_by_bias(classes, biased, self.splits.val_iid.numpy_labels)

    def run(self, method, seed, ratio):
        """Run one cell."""
        if method == "core":
            self.scores("default", seed)
            return
        scored, settings = self.settings_for(method, seed, ratio, self.models[0])
        data = self.splits.train
        indices, found = None, None
        if scored:
            scores = self.scores(scored, seed)
            told = data.groups.minority if method == "tcsl_cs_true" else None
            chosen = select_tcsl_cs(
                scores["curves"], scores["tcsl_c"], data.numpy_labels, settings.select, seed=seed, g_high=told
            )
            indices = chosen.indices
            found = identification(tcsl_s_of(scores["curves"]), chosen.g_high, data.groups.minority)
        elif method == "random":
            indices = select_random(len(data), ratio=number(ratio), rng=generator(seed, "random"))
        elif method == "rgbal":
            indices = select_rgbal(data.groups.minority, ratio=number(ratio), rng=generator(seed, "rgbal"))
        epochs = []
        kept = None
        if indices is not None:
            kept = Coreset(indices, data.ids[indices], data.numpy_labels[indices], np.zeros(len(indices), bool))
        started = time.perf_counter()
        job = self.job(settings, epochs)
        if method == "gb_erm":
            net = run_method(REGISTRY.get(method), job).net
        else:
            net = train_final(job.hiding(), "final", kept)
        seconds = {"final": time.perf_counter() - started}
        for model in self.models:
            if model != self.models[0]:
                net.load_state_dict(under_prefix("last.", job.tables))
            if self.lacks(method, seed, ratio, model):
                _, own = self.settings_for(method, seed, ratio, model)
                self.write(method, seed, ratio, net, own, seconds, epochs, scored=scored, indices=indices, found=found)

    def settings_for(self, method, seed, ratio, model):
        """Return the name of the scores that a method uses, or None, and its settings."""
        if method == "core-default":
            return None, self.scoring("default", seed)
        scored, changed = VARIANTS.get(method, (None, {}))
        return scored, settings_of(self.options, scored or "default", seed, ratio or 0.1, changed=changed, model=model)

    def missing(self, method, seed, ratio):
        """Tell whether a cell has no record yet; one that was made with other settings is an error."""
        if method == "core":
            return self.lacks("core-default", seed, None, "last")
        lacking = [self.lacks(method, seed, ratio, model) for model in self.models]  # of each: other settings are told
        return any(lacking)

    def lacks(self, method, seed, ratio, model):
        """Tell the same of one record."""
        scored, settings = self.settings_for(method, seed, ratio, model)
        path = self.folder / f"{self.name(method, seed, ratio, settings.train.epochs, model)}.json"
        if not path.exists():
            return True
        record = json.loads(path.read_text())
        pairs = {"weights": (record["weights"], weights_of(settings.train))}
        for part in ("train", "select") if scored else ("train",):
            now = getattr(settings, part).model_dump()
            pairs |= {f"{part}.{name}": (was, now.get(name, was)) for name, was in record["settings"][part].items()}
        if scored:
            pairs["the scores' T"] = record["scored_with"], self.scored_with
            today = self.scored_by(scored)
            pairs["scores"] = record.get("scores", today), today  # old records do not tell
        if other := [f"{name} {was!r}, not {now!r}" for name, (was, now) in pairs.items() if was != now]:
            raise SystemExit(f"{path.name} was made with {'; '.join(other)}: choose other --records")
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=("waterbirds", "cmnist"))
    parser.add_argument("--root", required=True)
    parser.add_argument("--weights", default="")
    parser.add_argument("--net", default="")
    parser.add_argument("--epochs", type=int, default=0, help="T; the paper's by default")
    parser.add_argument("--full-scores", action="store_true", help="scores from the paper's T, whatever --epochs is")
    parser.add_argument("--augment", default="none")
    parser.add_argument("--model", choices=("last", "average", "both"), default="last", help="the final model's epoch")
    parser.add_argument("--precision", choices=("auto", "float32"), default="auto", help="of the final model")
    parser.add_argument("--engine", default="auto", help="device.engine; compiled also pays for many short cells")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ratios", type=read_ratio, nargs="+", default=[0.1], help="numbers, or for TCSL-CS auto")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(USUAL))
    parser.add_argument("--jobs", type=int, default=1, help="seeds of a cell that train in turns")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--records", default=str(RESULTS / "reproduction"))
    options = parser.parse_args()
    if options.model != "last" and options.precision == "float32":
        parser.error(f"--model {options.model} and --precision float32 have no name together: choose one")
    if "auto" in options.ratios and (others := {"random", "rgbal"} & set(options.methods)):
        parser.error(f"--ratios auto is for TCSL-CS: name --methods without {', '.join(sorted(others))}")
    started = time.monotonic()
    campaign = Campaign(options)
    cells = [
        (method, seeds, ratio)
        for seeds in np.array_split(options.seeds, -(-len(options.seeds) // options.jobs))
        for method in options.methods
        for ratio in ([None] if method in ("cb_erm", "gb_erm", "core") else options.ratios)
    ]
    longest = 0.0
    with settled(settings_of(options, "default", 0, 0.1).device):
        for method, seeds, ratio in cells:
            todo = [int(seed) for seed in seeds if campaign.missing(method, seed, ratio)]
            begun = time.monotonic()
            if todo and begun + longest - started > 60 * options.minutes:
                print(f"stopped before {campaign.name(method, todo[0], ratio)}: the minutes are used up")
                return
            campaign.in_turns = max(1, len(todo))
            in_turns([partial(campaign.run, method, seed, ratio) for seed in todo])
            longest = max(longest, time.monotonic() - begun)


if __name__ == "__main__":
    main()
