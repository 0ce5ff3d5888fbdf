"""From a dataset to a debiased model: each stage is one function, and its result one file of the run folder."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from torch import Tensor, nn

from tcsl.config import Settings, TrainSettings, select_beyond_profile
from tcsl.data.dataset import Dataset
from tcsl.errors import RunFolderError
from tcsl.runs import RunFolder
from tcsl.scores import Coreset, Scores
from tcsl.scoring.tcsl import train_biased, train_core
from tcsl.seeds import derive
from tcsl.selection.tcsl_cs import identify, tcsl_s_of
from tcsl.training.average import Average
from tcsl.training.best import Best, Judge, Watch
from tcsl.training.checkpoint import Checkpoint, under_prefix, with_prefix
from tcsl.training.feed import Feed, Order
from tcsl.training.loop import Report, fit, steps_of
from tcsl.training.nets import NetFactory, build_net
from tcsl.training.weights import class_balanced
from tcsl.types import FloatArray, IntArray

Need: TypeAlias = Literal["train groups", "val", "val groups"]  # what a method may be handed beside labels


@dataclass(frozen=True, eq=False)
class Job:
    """What every stage needs: the data (groups hidden unless declared), the settings, and where to put results.

    Attributes
    ----------
    val : the validation set, for methods that declare it
    judge : what `train.model_selection` chooses a final model's epoch by, for `watched` and not for methods
    embeddings : by name, what is loaded to make them and then their rows, which all methods of a run share
    """

    feed: Feed
    settings: Settings
    net: str | NetFactory
    folder: RunFolder | None = None
    report: Report | None = None
    val: Dataset | None = None
    judge: Judge | None = None
    embeddings: dict[str, FloatArray | Callable[[Feed], FloatArray]] = field(default_factory=dict)

    @property
    def data(self) -> Dataset:
        """The training set."""
        return self.feed.data

    def hiding(self, *, but: Collection[Need] = ()) -> Job:
        """Return the same job with all groups and the validation set hidden, but for what is named."""
        data, val = self.data, self.val
        if "train groups" not in but:
            data = data.without_groups()
        if "val groups" not in but:
            val = val.without_groups() if val is not None and "val" in but else None
        return replace(self, feed=replace(self.feed, data=data), val=val)

    def fresh_net(self, stage: str, *, start: bool = True) -> nn.Module:
        """Return an untrained net; the same seed and stage give the same weights.

        Without `start` it is one to load a trained model into: what training starts from is not read, and may be gone.
        """
        return build_net(
            self.net,
            self.data,
            seed=derive(self.settings.seed, stage),
            pretrained=self.settings.train.pretrained,
            weights=self.settings.train.weights,
            start=start,
        )

    def chosen(self, method: str) -> IntArray | None:
        """Return what a method's coreset keeps, where the run folder has it and the model that was trained on it."""
        if self.folder is None or not self.folder.has_stage(method):
            return None
        path = self.folder.coreset_path(method)
        return Coreset.load(path).indices if path.exists() else None

    def stage(
        self, name: str, weights: str, train: Callable[[nn.Module, Checkpoint | None], dict[str, Tensor]]
    ) -> tuple[nn.Module, dict[str, Tensor]]:
        """Return a stage's net and tables: from the run folder where it is finished there, else by training.

        Parameters
        ----------
        weights : names the initial weights; final models share them
        train : trains the net in place, saving to the checkpoint, and returns the stage's tables
        """
        stored = self.folder.load_stage(name) if self.folder else None
        net = self.feed.hardware.place(self.fresh_net(weights, start=stored is None))
        if stored is not None:
            net.load_state_dict(under_prefix("net.", stored))
            return net.eval(), {k: v for k, v in stored.items() if not k.startswith("net.")}
        tables = train(net, self.folder.checkpoint(name) if self.folder else None)
        tables = {k: table.cpu() for k, table in tables.items()}
        if self.folder:
            self.folder.save_stage(name, with_prefix("net.", net.state_dict()) | tables)
        return net.eval(), tables


def score_stages(job: Job, *, gce: float = 0.0) -> Scores:
    """Run Algorithm 1 and return the scores, which the run folder keeps; those of the ablation (`gce`) beside them."""
    settings, data = job.settings, job.data
    seed = settings.seed
    path = job.folder.scores_path("tcsl_cs_gce" if gce else "tcsl_cs") if job.folder else None
    core = _stage("core", gce)
    if path and path.exists():
        return Scores.load(path)

    def core_stage(net: nn.Module, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
        table = train_core(
            net, biased, job.feed, settings, seed=seed, stage=core, checkpoint=checkpoint, report=job.report
        )
        return {"tcsl_c": table}

    biased, losses = biased_stage(job, gce=gce)
    curves = np.ascontiguousarray(losses.numpy())
    _, tables = job.stage(core, "core", core_stage)
    tcsl_s = tcsl_s_of(curves)
    g_high = identify(curves, tcsl_s, settings.select, seed=seed)
    facts = {
        "data": data.name,
        "fingerprint": data.fingerprint,
        "class_names": list(data.class_names),
        "profile": settings.profile,
        "select": select_beyond_profile(settings),
        "seed": seed,
    }
    scores = Scores(data.ids, data.numpy_labels, tcsl_s, tables["tcsl_c"].numpy(), g_high, curves, facts)
    if path:
        scores.save(path)
    return scores


def biased_stage(job: Job, *, gce: float = 0.0) -> tuple[nn.Module, Tensor]:
    """Run stage 1 of Algorithm 1 and return the biased model with its loss curves, (n, T_s) on the host."""
    stage = _stage("biased", gce)

    def train(net: nn.Module, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
        settings = job.settings
        curves = train_biased(
            net,
            job.feed,
            settings,
            seed=settings.seed,
            stage=stage,
            gce=gce,
            checkpoint=checkpoint,
            report=job.report,
        )
        return {"curves": curves}

    biased, tables = job.stage(stage, "biased", train)
    return biased, tables["curves"]


def scoring_steps(settings: Settings, n: int, *, gce: float = 0.0) -> dict[str, int]:
    """Return the optimizer steps of Algorithm 1's two stages."""
    return {
        _stage("biased", gce): steps_of(n, settings.train, settings.biased_epochs_on(n)),
        _stage("core", gce): steps_of(n, settings.train, settings.core_epochs),
    }


def _stage(name: str, gce: float) -> str:
    """Return what a stage of Algorithm 1 is called; the ablation's have names of their own."""
    return f"{name}-gce" if gce else name


def final_stage(name: str) -> Callable[[Settings, int], dict[str, int]]:
    """Return the plan of a method that trains one final model, under this stage's name."""
    return lambda settings, n: {name: steps_of(n, settings.train)}


def watched(job: Job, net: nn.Module, feed: Feed, settings: TrainSettings, order: Order | None = None) -> Watch | None:
    """Return what chooses the epoch of a final model while it is trained; None where that is the last one.

    It looks once for every ceil(n / batch) steps, n the size of the whole training set: a model that is trained on a
    coreset, whose epochs are short, is looked at as often as one that is trained on everything. `feed` is what it is
    trained on, `order` in which order, as in `fit`.
    """
    how, every = job.settings.train.model_selection, steps_of(len(job.feed), settings, 1)
    if how == "last":
        return None
    if how == "average":
        return Average(net, feed, settings, every=every, seed=job.settings.seed, order=order)
    assert job.judge is not None  # who makes the job sees to it
    return Best(net, job.judge, every=every)


def train_final(job: Job, stage: str, coreset: Coreset | None = None, *, last: bool = False) -> nn.Module:
    """Train CB ERM on everything or on a coreset, for exactly T ceil(n / batch) steps in both cases.

    Parameters
    ----------
    last : return the last epoch's net, whichever is chosen: a net that a method looks at must know nothing of the
        validation set
    """
    feed = job.feed if coreset is None else job.feed.subset(coreset.indices)
    if coreset is not None and job.folder:
        coreset.save(job.folder.coreset_path(stage))
    weights = class_balanced(feed.labels, job.data.num_classes)
    steps = steps_of(len(job.feed), job.settings.train)
    return train_model(job, stage, feed, log_weights=weights, steps=steps, final=True, last=last)


def train_model(
    job: Job,
    stage: str,
    feed: Feed,
    *,
    log_weights: Tensor | None = None,
    train: TrainSettings | None = None,
    steps: int | None = None,
    weights: str = "final",
    final: bool = False,
    last: bool = False,
    around: Callable[[nn.Module], nn.Module] | None = None,
    order: Order | None = None,
    **how: Any,
) -> nn.Module:
    """Train a net as a stage of the job.

    Parameters
    ----------
    log_weights : as in `fit`; by default all samples weigh the same
    train : by default the run's own settings
    steps : by default T ceil(n / batch) on this feed
    weights : names the initial weights; every final model starts from the same
    final : whether this is the model that is evaluated, whose epoch `train.model_selection` chooses
    last : return the last epoch's net, whichever is chosen
    around : from the net to what is trained in its place and has it as a part, such as a pair; the net is kept
    order : as in `fit`
    how : what else `fit` takes: objective, state
    """
    settings = job.settings.train if train is None else train

    def run(net: nn.Module, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
        best = watched(job, net, feed, settings, order) if final else None
        fit(
            net if around is None else around(net),
            feed,
            settings,
            stage=stage,
            steps=steps_of(len(feed), settings) if steps is None else steps,
            seed=job.settings.seed,
            log_weights=log_weights,
            order=order,
            best=best,
            checkpoint=checkpoint,
            report=job.report,
            **how,
        )
        return best.take() if best else {}

    net, tables = job.stage(stage, weights, run)
    if last and (kept := under_prefix("last.", tables)):
        net.load_state_dict(kept)
    return net


def load_final(job: Job, stage: str) -> nn.Module:
    """Return a final model that the run folder has."""

    def missing(net: nn.Module, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
        assert job.folder is not None
        job.folder.check_left(job.folder.stage_path(stage))
        raise RunFolderError(f"the run has no model {stage!r}: go on with --resume, which makes it")

    return job.stage(stage, "final", missing)[0]
