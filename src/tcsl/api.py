"""The public functions: debias for the whole, and score, select, train, evaluate for the parts."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from tcsl.config import DeviceSettings, Settings, flat, from_flat, resolve
from tcsl.data.convert import Data, as_dataset
from tcsl.data.dataset import Dataset, Splits
from tcsl.environment import describe_environment
from tcsl.errors import InputError
from tcsl.evaluation import Evaluation, evaluate_predictions, identification
from tcsl.methods.base import Method, Outcome, check_groups, run_method
from tcsl.pipeline import Job, load_final, score_stages, train_final
from tcsl.registry import DATASETS, METHODS, unknown
from tcsl.runs import RunFolder
from tcsl.scores import SCHEMA, Coreset, Scores
from tcsl.scoring.csl import train_csl
from tcsl.selection.coreset import coreset_from_scores
from tcsl.selection.quota import quota
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed
from tcsl.training.loop import Epoch, Report
from tcsl.training.nets import NetFactory, build_net
from tcsl.training.views import logits_of
from tcsl.types import AnyArray, FloatArray

Overrides = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    Attributes
    ----------
    path : its folder
    result : every number of the run, as in result.json
    models : the final model of each method, in evaluation mode; they take raw inputs
    """

    path: Path
    result: dict[str, Any]
    models: Mapping[str, nn.Module]

    @cached_property
    def coreset(self) -> Coreset:
        """What TCSL-CS keeps."""
        return Coreset.load(self.path / "coreset.parquet")

    @cached_property
    def scores(self) -> Scores:
        """The scores of every training sample."""
        return Scores.load(self.path / "scores.parquet")

    @property
    def model(self) -> nn.Module:
        """The debiased model: plain training on the coreset."""
        return self.models["tcsl_cs"]


def debias(
    data: Data,
    ratio: float | None = None,
    *,
    test: Data | None = None,
    groups: AnyArray | None = None,
    test_groups: AnyArray | None = None,
    net: str | NetFactory | None = None,
    profile: str = "default",
    settings: Settings | Overrides | None = None,
    methods: Sequence[str] | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Run:
    """Find the shortcut, select the coreset, train on it, and evaluate.

    Parameters
    ----------
    data : a Dataset, a torch Dataset of (x, y) pairs, or arrays (X, y)
    ratio : r in (0, 1], the part that is kept; 0.1 by default
    test : the same kinds; without it nothing is evaluated
    groups, test_groups : (n,) one attribute value a sample, for evaluation only
    net : a name, or a factory from the number of classes to a module
    profile : "default" (what measured best) or "paper" (literal everywhere)
    settings : overrides with dotted names, such as {"train.epochs": 20}, or whole Settings
    methods : what is trained side by side; by default CB ERM on everything, and TCSL-CS
    out : the run folder; by default runs/NAME-HASH
    resume : go on in an existing folder
    report : called after each epoch

    Returns
    -------
    Run; `run.coreset.indices` drops into `torch.utils.data.Subset`

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 60)
    >>> X = rng.normal(size=(60, 3)) + y[:, None]
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = debias((X, y), ratio=0.5, settings={"train.epochs": 10}, out=f"{folder}/run")
    ...     kept = run.coreset.indices
    >>> len(kept)
    30
    """
    train_set = as_dataset(data, groups=groups, name="training data")
    test_set = None if test is None else as_dataset(test, groups=test_groups, name="test data", like=train_set)
    resolved = _settings(settings, profile=profile, ratio=ratio, net=net, seed=seed, methods=methods)
    return run_methods(train_set, test_set, resolved, net=net, out=out, resume=resume, report=report)


def run_methods(
    train_set: Dataset,
    test_set: Dataset | None,
    settings: Settings,
    *,
    net: str | NetFactory | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Run:
    """Run every method of the settings on one dataset and one seed, into one run folder."""
    methods: dict[str, Method] = {name: METHODS.get(name) for name in settings.methods}
    for name, method in methods.items():
        check_groups(name, method, train_set)
    quota(settings.select.ratio, len(train_set))
    if test_set is not None and test_set.inputs.shape[1:] != train_set.inputs.shape[1:]:
        raise InputError(
            f"test inputs have shape {tuple(test_set.inputs.shape[1:])}, training inputs "
            f"{tuple(train_set.inputs.shape[1:])}; they must agree"
        )
    path = Path(out) if out is not None else default_path(settings, train_set)
    work = {"work": "run"}
    with opened_job(train_set, settings, net=net, work=work, path=path, resume=resume, report=report) as job:
        folder = job.folder
        assert folder is not None
        outcomes: dict[str, Outcome] = {name: run_method(method, job) for name, method in methods.items()}
        models = {name: outcome.net for name, outcome in outcomes.items()}
        if folder.done:
            return Run(path, folder.result(), models)
        evaluations = {
            name: evaluate(model, test_set, train=train_set, settings=settings).as_dict()
            for name, model in models.items()
            if test_set is not None
        }
        result = {
            "schema": SCHEMA,
            "seed": settings.seed,
            "ratio": settings.select.ratio,
            "profile": settings.profile,
            "fingerprint": train_set.fingerprint,
            "titles": {name: method.title for name, method in methods.items()},
            "evaluation": evaluations,
            "coresets": {name: _coreset_facts(o.coreset, train_set) for name, o in outcomes.items() if o.coreset},
            "identification": _identification(outcomes.get("tcsl_cs"), train_set),
            "seconds": folder.seconds(),
            "unknown": _unknown(train_set, test_set),
        }
        folder.finish(result)
        return Run(path, folder.result(), models)


@contextmanager
def opened_job(
    train_set: Dataset,
    settings: Settings,
    *,
    net: str | NetFactory | None,
    work: dict[str, Any],
    path: Path | None,
    resume: bool = False,
    report: Report | None = None,
) -> Iterator[Job]:
    """Put the data on its device and open the run folder, where there is one; both are let go at the end.

    Parameters
    ----------
    work : what is done with the data; a folder in which something else was done is refused
    """
    hardware = choose(settings.device)
    factory = net if net is not None else settings.train.net
    build_net(factory, train_set, seed=0)  # a net that does not fit is said before anything is made
    folder = None
    if path is not None:
        folder = RunFolder.open(
            path,
            settings,
            {**work, **_data_facts(train_set)},
            resume=resume,
            environment=describe_environment(),
        )

    def tell(epoch: Epoch) -> None:
        if folder is not None:
            folder.report(epoch)
        if report is not None:
            report(epoch)

    try:
        with settled(settings.device):
            yield Job(Feed.of(train_set, hardware), settings, factory, folder, tell)
    finally:
        if folder is not None:
            folder.close()


def score(
    data: Data,
    *,
    net: str | NetFactory | None = None,
    profile: str = "default",
    settings: Settings | Overrides | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Scores:
    """Run Algorithm 1: train the biased and the core model and return TCSL_s, TCSL_c and the loss curves.

    Parameters are those of `debias`; without `out` nothing is written.

    >>> X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> scores = score((X, y), settings={"train.epochs": 20})
    >>> scores.curves.shape, scores.tcsl_c.shape
    ((40, 2), (40,))
    """
    train_set = as_dataset(data, name="training data")
    resolved = _settings(settings, profile=profile, net=net, seed=seed)
    path = None if out is None else Path(out)
    work = {"work": "score"}
    with opened_job(train_set, resolved, net=net, work=work, path=path, resume=resume, report=report) as job:
        scores = score_stages(job.hiding_groups())
        if job.folder:
            job.folder.finish({"schema": SCHEMA, "n": len(scores), "g_high": int(scores.g_high.sum())})
        return scores


def csl(
    data: Data,
    *,
    net: str | NetFactory | None = None,
    settings: Settings | Overrides | None = None,
    seed: int | None = None,
    report: Report | None = None,
) -> FloatArray:
    """Return the cumulative sample loss (n,) of a single run of plain training; higher is harder.

    >>> X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> csl((X, y), settings={"train.epochs": 2}).shape
    (40,)
    """
    train_set = as_dataset(data, name="training data")
    resolved = _settings(settings, net=net, seed=seed)
    with opened_job(train_set, resolved, net=net, work={"work": "csl"}, path=None, report=report) as job:
        hidden = job.hiding_groups()
        losses = train_csl(hidden.fresh_net("final"), hidden.feed, resolved, seed=resolved.seed, report=report)
    return np.asarray(losses.cpu().numpy(), np.float32)


def select(
    scores: Scores | Path | str,
    ratio: float | None = None,
    *,
    profile: str = "default",
    settings: Settings | Overrides | None = None,
    seed: int | None = None,
) -> Coreset:
    """Run Algorithm 2 on scores, or on a scores.parquet: no data, no training.

    >>> from tcsl.scores import Scores
    >>> curves = np.repeat(np.float32([[0.1], [0.1], [3.0], [0.2]]), 3, axis=1)
    >>> empty = np.zeros(4, bool)
    >>> table = Scores(np.arange(4), np.array([0, 1, 0, 1]), curves.mean(1), curves.mean(1), empty, curves)
    >>> select(table, ratio=0.5).indices.tolist()
    [0, 2]
    """
    table = scores if isinstance(scores, Scores) else Scores.load(scores)
    return coreset_from_scores(table, _settings(settings, profile=profile, ratio=ratio, seed=seed))


def train(
    data: Data,
    coreset: Coreset | None = None,
    *,
    net: str | NetFactory | None = None,
    settings: Settings | Overrides | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> nn.Module:
    """Train CB ERM on everything or on a coreset, for the same number of steps, and return the model.

    >>> X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> import torch
    >>> model = train((X, y), settings={"train.epochs": 2})
    >>> model(torch.zeros(1, 3)).shape
    torch.Size([1, 2])
    """
    train_set = as_dataset(data, name="training data")
    resolved = _settings(settings, net=net, seed=seed)
    if coreset is not None:
        _check_fits(coreset, train_set)
    path = None if out is None else Path(out)
    work = {"work": "train", "coreset": "everything" if coreset is None else coreset.digest}
    with opened_job(train_set, resolved, net=net, work=work, path=path, resume=resume, report=report) as job:
        model = train_final(job.hiding_groups(), "final", coreset)
        if job.folder:
            job.folder.finish({"schema": SCHEMA, "n": len(train_set if coreset is None else coreset)})
        return model


def evaluate(
    model: nn.Module,
    data: Data,
    *,
    groups: AnyArray | None = None,
    train: Dataset | None = None,
    settings: Settings | None = None,
) -> Evaluation:
    """Evaluate a model: average, worst class, and by group where groups are known.

    Parameters
    ----------
    data : a Dataset, a torch Dataset, or arrays
    groups : (n,) one attribute value a sample
    train : the training set, whose groups' shares weight the weighted average

    >>> X, y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
    >>> import torch
    >>> evaluate(torch.nn.Linear(4, 2), (X, y)).n
    4
    """
    test_set = as_dataset(data, groups=groups, name="test data", like=train)
    chosen = settings.device if settings else DeviceSettings()
    hardware = choose(chosen)
    with settled(chosen):
        logits = logits_of(hardware.place(model), Feed.of(test_set, hardware))
    predicted = logits.argmax(1).cpu().numpy()
    known = train is not None and train.groups is not None
    return evaluate_predictions(predicted, test_set, train_groups=train.groups if train and known else None)


def load_run(path: Path | str) -> Run:
    """Read a finished run. Its models are there where its dataset is one of the known ones."""
    folder = RunFolder.find(Path(path))
    result = folder.result()
    return Run(folder.path, result, load_models(path) if folder.settings().data.name in DATASETS else {})


def load_models(path: Path | str) -> dict[str, nn.Module]:
    """Return the final models of a run on a known dataset."""
    folder = RunFolder.find(Path(path))
    settings = folder.settings()
    job = Job(Feed.of(load_dataset(settings).train, choose(settings.device)), settings, settings.train.net, folder)
    names = {"run": settings.methods, "train": ("final",), "score": ()}[folder.data()["work"]]
    if not names:
        raise InputError(f"{path} has scores but no final model; make one with tcsl train")
    return {name: load_final(job, name) for name in names}


def load_dataset(settings: Settings) -> Splits:
    """Make or read the dataset that the settings name."""
    loader = DATASETS.get(settings.data.name)
    options = list(inspect.signature(loader).parameters)[1:]
    for option in settings.data.options:
        if option not in options:
            raise unknown(f"option of dataset {settings.data.name}", option, options)
    try:
        splits: Splits = loader(settings.seed, **settings.data.options)
    except TypeError as error:
        raise InputError(f"dataset {settings.data.name}: an option has the wrong type: {error}") from None
    return splits


def default_path(settings: Settings, data: Dataset) -> Path:
    """Return runs/NAME-HASH; the hash is over all settings and the data."""
    identity = json.dumps([flat(settings), data.fingerprint], sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    return Path("runs") / f"{settings.data.name or 'data'}-{settings.profile}-{digest}"


def _settings(
    given: Settings | Overrides | None,
    *,
    profile: str = "default",
    ratio: float | None = None,
    net: str | NetFactory | None = None,
    seed: int | None = None,
    methods: Sequence[str] | None = None,
) -> Settings:
    """Merge what a function was called with into settings."""
    named: dict[str, Any] = {
        "select.ratio": ratio,
        "train.net": getattr(net, "__qualname__", type(net).__name__) if callable(net) else net,
        "seed": seed,
        "methods": None if methods is None else list(methods),
    }
    named = {name: value for name, value in named.items() if value is not None}
    if isinstance(given, Settings):
        return from_flat(flat(given) | named)
    return resolve(profile=profile, overrides={**(given or {}), **named})


def _check_fits(coreset: Coreset, data: Dataset) -> None:
    stored = coreset.facts.get("fingerprint")
    if stored not in (None, data.fingerprint):
        raise InputError(f"the coreset was chosen from other data: fingerprint {stored}, this is {data.fingerprint}")
    if len(coreset) and coreset.indices.max() >= len(data):
        raise InputError(f"the coreset has index {coreset.indices.max()}, {data.name} has {len(data)} samples")


def _data_facts(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "fingerprint": data.fingerprint,
        "n": len(data),
        "input_shape": list(data.inputs.shape[1:]),
        "class_names": list(data.class_names),
        "class_counts": np.bincount(data.numpy_labels, minlength=data.num_classes).tolist(),
    }


def _coreset_facts(coreset: Coreset, data: Dataset) -> dict[str, Any]:
    """Return size and composition; the true minority's share is for evaluation, where groups are known."""
    facts: dict[str, Any] = {
        "n": len(coreset),
        "g_high": int(coreset.g_high.sum()),
        "class_counts": np.bincount(coreset.labels, minlength=data.num_classes).tolist(),
    }
    if data.groups is not None:
        facts["minority"] = int(data.groups.minority[coreset.indices].sum())
    return facts


def _identification(outcome: Outcome | None, data: Dataset) -> dict[str, Any] | None:
    if outcome is None or outcome.scores is None:
        return None
    scores = outcome.scores
    if data.groups is None:
        return {"g_high": int(scores.g_high.sum())}
    return identification(scores.tcsl_s, scores.g_high, data.groups.minority)


def _unknown(train_set: Dataset, test_set: Dataset | None) -> list[str]:
    """Say what cannot be known from what was given."""
    out = []
    if train_set.groups is None:
        out.append("how many of the samples in G_high truly contradict the shortcut: the training set has no groups")
    if test_set is None:
        out.append("accuracy: there is no test set")
    elif test_set.groups is None:
        out.append("worst-group accuracy: the test set has no groups")
    return out
