"""The trainings of benchmarks/reproduce.py: scores, final models, and what a record holds."""

import json
import statistics
import sys
import time
from dataclasses import dataclass, field

import numpy as np
from cells import Cell, Records
from frozen import frozen

from tcsl.config import DeviceSettings
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
from tcsl.selection.quota import number
from tcsl.selection.tcsl_cs import select_tcsl_cs, tcsl_s_of
from tcsl.training.checkpoint import under_prefix
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.views import predicted

PARTS = ("train", "score", "select", "device")  # of the settings, in every record
SHORTER = (0.02, 0.04, 0.1, 0.2, 0.5)  # parts of T_c after which the coreset is compared with the whole one's


@dataclass(frozen=True, eq=False)
class KeepingJob(Job):
    """A job that keeps its stages' tables: where weights are averaged, the last epoch's are among them."""

    tables: dict = field(default_factory=dict)

    def stage(self, name, weights, train):
        net, tables = super().stage(name, weights, train)
        self.tables.update(tables)
        return net, tables


class Campaign:
    """The data, and what is trained on it."""

    def __init__(self, options):
        self.options = options
        self.splits = load(options.dataset, root=options.root)
        self.records = Records(options, len(self.splits.train))
        hardware = choose(self.records.scoring("default").device)
        if options.frozen:  # whatever precision the final models are to have, the features are the same
            self.splits = frozen(self.splits, options.net, options.weights, choose(DeviceSettings()))
        self.feed = Feed.of(self.splits.train, hardware)
        self.tests = Feed.of(self.splits.test, hardware)
        self.judged = Feed.of(self.splits.val_iid, hardware) if self.splits.val_iid is not None else None
        self.in_turns = 1  # seeds that share the GPU: a record's seconds are those of all of them

    def run(self, cell):
        """Run one cell and write its records."""
        if cell.method == "core":
            self.scores("default", cell.seed)
            return
        first, *others = (cell._replace(model=model) for model in self.records.models)
        scored, settings, _ = self.records.of(first)
        indices, found = self.selected(cell, scored, settings)
        epochs = []
        job = self.job(settings, epochs)
        started = time.perf_counter()
        if cell.method == "gb_erm":
            net = run_method(REGISTRY.get(cell.method), job).net
        else:
            net = train_final(job.hiding(), "final", self.coreset(indices))
        seconds = {"final": time.perf_counter() - started}
        for one in (first, *others):
            if one is not first:
                net.load_state_dict(under_prefix("last.", job.tables))
            if self.records.lacks(one):
                _, own, path = self.records.of(one)
                self.write(path, cell, own, net, seconds, epochs, scored=scored, indices=indices, found=found)

    def job(self, settings, epochs):
        return KeepingJob(self.feed, settings, settings.train.net, report=epochs.append)

    def selected(self, cell, scored, settings):
        """Return the samples that a method keeps, and how well G_high recovers the minority; None where neither is."""
        data, ratio = self.splits.train, cell.ratio
        if scored:
            scores = self.scores(scored, cell.seed)
            told = data.groups.minority if cell.method == "tcsl_cs_true" else None
            chosen = select_tcsl_cs(
                scores["curves"], scores["tcsl_c"], data.numpy_labels, settings.select, seed=cell.seed, g_high=told
            )
            return chosen.indices, identification(tcsl_s_of(scores["curves"]), chosen.g_high, data.groups.minority)
        if cell.method == "random":
            return select_random(len(data), ratio=number(ratio), rng=generator(cell.seed, "random")), None
        if cell.method == "rgbal":
            rng = generator(cell.seed, "rgbal")
            return select_rgbal(data.groups.minority, ratio=number(ratio), rng=rng), None
        return None, None

    def coreset(self, indices):
        data = self.splits.train
        if indices is None:
            return None
        return Coreset(indices, data.ids[indices], data.numpy_labels[indices], np.zeros(len(indices), bool))

    def scores(self, name, seed):
        """Return what Algorithm 1 left, from the records or by running it; then f_c's own record is written, too."""
        path, record = self.records.of_scores(name, seed)
        settings = self.records.scoring(name, seed)
        if not (path.exists() and record.exists()):
            self.make_scores(name, settings, path, record)
        stored = dict(np.load(path, allow_pickle=False))
        stored["curves"] = stored["curves"].astype(np.float32)
        made, now = stored["curves"].shape[1], settings.biased_epochs_on(len(self.feed))
        if made != now:
            raise SystemExit(f"{path.name} was made with T_s = {made}, not {now}: choose other --records")
        return stored

    def make_scores(self, name, settings, path, record):
        if self.options.precision != "auto":
            raise SystemExit(f"{path.name} is missing: --precision is for final models; make the scores without it")
        seed, epochs, snapshots = settings.seed, [], {}
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
        cell = Cell(f"core-{name}", seed)
        self.write(record, cell, settings, core, seconds, epochs, scored=name, shorter=shorter)

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

    def write(self, path, cell, settings, net, seconds, epochs, *, scored=None, indices=None, found=None, shorter=None):
        """Evaluate a model and write its record."""
        groups = self.splits.train.groups
        evaluation = evaluate_predictions(predicted(net, self.tests), self.splits.test, train_groups=groups).as_dict()
        weights, digest = self.records.weights
        stages = {}
        for epoch in epochs:
            stages.setdefault(epoch.stage, []).append(epoch)
        record = {
            "dataset": self.records.dataset,
            "method": cell.method,
            "seed": cell.seed,
            "ratio": cell.ratio,
            "epochs": settings.train.epochs,
            "scored_with": self.records.scored_with,
            "settings": {part: getattr(settings, part).model_dump(exclude={"weights"}) for part in PARTS},
            "scores": None if scored is None else self.records.scored_by(scored),
            "weights": weights,
            "weights_sha256": digest,
            "wga": evaluation["wga"],
            "criterion": self.criterion(net, cell.seed),
            "evaluation": evaluation,
            "seconds": seconds,
            "in_turns": self.in_turns,
            "epoch_seconds": {name: statistics.median(e.seconds for e in those) for name, those in stages.items()},
            "losses": {name: [e.loss for e in those][-20:] for name, those in stages.items()},
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
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(
            f"{path.stem}: WGA {100 * record['wga']:.1f}, criterion {record['criterion']}",
            seconds,
            record["epoch_seconds"],
            record["coreset"],
            found,
            flush=True,
        )

    def criterion(self, net, seed):
        """Return the accuracy that needs no groups, where the biased model of this seed has judged."""
        path, _ = self.records.of_scores("default", seed)
        if self.judged is None or not path.exists():
            return None
        classes = predicted(net, self.judged)
        biased = np.load(path, allow_pickle=False)["biased_val"]
        return balanced_by_bias(classes, biased, self.splits.val_iid.numpy_labels)
