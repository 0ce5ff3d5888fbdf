"""The public functions that train: debias for the whole, score, csl, train and evaluate for the parts.

`select` needs no torch and is in `selection/coreset.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from tcsl.config import UNJUDGED, Settings, flat, from_flat, resolve
from tcsl.data.convert import Data, as_dataset
from tcsl.data.dataset import Dataset, Splits
from tcsl.data.source import source_name
from tcsl.errors import InputError
from tcsl.evaluation import Evaluation
from tcsl.model_selection import judge_of, judged_facts, judged_on, model_facts
from tcsl.pipeline import load_final, score_stages, train_final
from tcsl.running import Run, check_shapes, evaluate_net, load_dataset, load_held_out, opened_job, run_methods
from tcsl.scores import SCHEMA, Coreset, Scores
from tcsl.scoring.watched import train_watched
from tcsl.selection.quota import Ratio
from tcsl.training.loop import Report
from tcsl.training.nets import NetFactory
from tcsl.types import AnyArray, FloatArray

Overrides = Mapping[str, Any]


def debias(
    data: Data,
    ratio: Ratio | None = None,
    *,
    test: Data | None = None,
    val: Data | None = None,
    groups: AnyArray | None = None,
    test_groups: AnyArray | None = None,
    val_groups: AnyArray | None = None,
    net: str | NetFactory | None = None,
    profile: str | None = None,
    settings: Settings | Overrides | None = None,
    methods: Sequence[str] | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    report: Report | None = None,
    logger: str | Sequence[str] = (),
    page: bool = True,
) -> Run:
    """Find the shortcut, select the coreset, train on it, and evaluate.

    Parameters
    ----------
    data : a known name, a path or `hf:NAME` (as in `tcsl.load`), a Dataset, a torch Dataset of (x, y) pairs, or
        arrays (X, y)
    ratio : r in (0, 1], the part that is kept, or "auto": three times what contradicts the shortcut; 0.1 by default
    test : the same kinds; by default the test set of what was loaded, else its validation set, else nothing. Of another
        file it is the test split, where it has one, else all of it; names tell classes, features and groups
    val : a validation set, for methods that need one and for `train.model_selection`; by default that of what was
        loaded
    groups, test_groups, val_groups : (n,) one attribute value a sample, for evaluation and for methods that say so
    net : a name, or a factory from the number of classes to a module
    profile : "default" (what measured best), "fast" (with 6 % of the epochs in stage 2) or "paper" (literal)
    settings : overrides with dotted names, such as {"train.epochs": 20}, or whole Settings
    methods : what is trained side by side; by default CB ERM on everything, and TCSL-CS
    out : the run folder; by default runs/NAME-HASH
    resume : go on in an existing folder
    report : called after each epoch
    logger : "tensorboard", "wandb" or "mlflow", or several: they are sent every epoch, the settings and the result
    page : whether the run ends with its page, report.html in the run folder, where TCSL-CS is among the methods

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
    resolved = _settings(settings, data, profile=profile, ratio=ratio, net=net, seed=seed, methods=methods)
    test, val = (None if _same_source(given, data) else given for given in (test, val))
    data = _loaded(data, resolved)
    val, val_iid = _validation(data, val)
    if isinstance(data, Splits):
        test = data.evaluation if test is None else test
    train_set = as_dataset(data, groups=groups, name="training data")
    return run_methods(
        train_set,
        None if test is None else _beside(train_set, test, test_groups, "test", resolved),
        resolved,
        val_set=None if val is None else _beside(train_set, val, val_groups, "val", resolved),
        val_iid=val_iid,
        net=net,
        out=out,
        resume=resume,
        report=report,
        loggers=_names(logger),
        page=page,
    )


def score(
    data: Data,
    *,
    net: str | NetFactory | None = None,
    profile: str | None = None,
    settings: Settings | Overrides | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    report: Report | None = None,
    logger: str | Sequence[str] = (),
) -> Scores:
    """Run Algorithm 1: train the biased and the core model and return TCSL_s, TCSL_c and the loss curves.

    Parameters are those of `debias`; without `out` nothing is written, and a logger has no place.

    >>> X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> scores = score((X, y), settings={"train.epochs": 20})
    >>> scores.curves.shape, scores.tcsl_c.shape
    ((40, 20), (40,))
    """
    resolved = _settings(settings, data, profile=profile, net=net, seed=seed)
    train_set = as_dataset(_loaded(data, resolved, only_train=True), name="training data")
    path = None if out is None else Path(out)
    work = {"work": "score"}
    with opened_job(
        train_set, resolved, net=net, work=work, path=path, resume=resume, report=report, loggers=_names(logger)
    ) as job:
        scores = score_stages(job.hiding())
        if job.folder:
            found = {"n": len(scores), "g_high": int(scores.g_high.sum())}
            job.folder.finish({"schema": SCHEMA, **found, **job.folder.spent()})
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
    resolved = _settings(settings, data, net=net, seed=seed)
    train_set = as_dataset(_loaded(data, resolved, only_train=True), name="training data")
    with opened_job(train_set, resolved, net=net, work={"work": "csl"}, path=None, report=report) as job:
        hidden = job.hiding()
        losses = train_watched(
            hidden.fresh_net("final"), hidden.feed, resolved, "csl", seed=resolved.seed, report=report
        )
    return np.asarray(losses.cpu().numpy(), np.float32)


def train(
    data: Data,
    coreset: Coreset | None = None,
    *,
    val: Data | None = None,
    val_groups: AnyArray | None = None,
    net: str | NetFactory | None = None,
    settings: Settings | Overrides | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    report: Report | None = None,
    logger: str | Sequence[str] = (),
) -> nn.Module:
    """Train CB ERM on everything or on a coreset, for the same number of steps, and return the model.

    Parameters are those of `debias`; the validation set is for `train.model_selection`.

    >>> X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> import torch
    >>> model = train((X, y), settings={"train.epochs": 2})
    >>> model(torch.zeros(1, 3)).shape
    torch.Size([1, 2])
    """
    resolved = _settings(settings, data, net=net, seed=seed)
    val = None if _same_source(val, data) else val
    data = _loaded(data, resolved, only_train=resolved.train.model_selection in UNJUDGED)
    train_set = as_dataset(data, name="training data")
    if coreset is not None:
        _check_fits(coreset, train_set)
    val, val_iid = _validation(data, val)
    val_set = None if val is None else _beside(train_set, val, val_groups, "val", resolved)
    judged = judged_on(resolved, train_set, val_set, val_iid)
    check_shapes(train_set, ("validation", judged))
    path = None if out is None else Path(out)
    work = {
        "work": "train",
        "coreset": "everything" if coreset is None else coreset.digest,
        **judged_facts(resolved, judged),
    }
    with opened_job(
        train_set, resolved, net=net, work=work, path=path, resume=resume, report=report, loggers=_names(logger)
    ) as job:
        if job.folder and job.folder.whole:
            return load_final(job, "final")
        model = train_final(replace(job.hiding(), judge=judge_of(job, judged)), "final", coreset)
        if job.folder:
            n = len(train_set if coreset is None else coreset)
            models = {"final": model_facts(job.folder, "final")}
            job.folder.finish({"schema": SCHEMA, "n": n, "models": models, **job.folder.spent()}, models=["final"])
        return model


def evaluate(
    model: nn.Module,
    data: Data,
    *,
    groups: AnyArray | None = None,
    train: Data | None = None,
    train_groups: AnyArray | None = None,
    settings: Settings | Overrides | None = None,
) -> Evaluation:
    """Evaluate a model: average, worst class, and by group where groups are known.

    Parameters
    ----------
    data : the kinds that `debias` takes. Of a file it is the test split, where it has one, else the validation split,
        else all of it; of the file that is `train`, too, it is what training held out
    groups : (n,) one attribute value a sample
    train, train_groups : the training set: its classes' names tell which output of the model is which, where the data
        lack some, and its groups' shares weight the weighted average

    >>> import torch
    >>> X, y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
    >>> evaluate(torch.nn.Linear(4, 2), (X, y)).n
    4
    """
    resolved = _settings(settings, data)
    loaded = _loaded(train, resolved)
    train_set = None if train is None else as_dataset(loaded, groups=train_groups, name="training data")
    given = loaded if _same_source(data, train) else data
    return evaluate_net(model, _beside(train_set, given, groups, "test", resolved), train_set, resolved.device)


def _names(logger: str | Sequence[str]) -> tuple[str, ...]:
    return (logger,) if isinstance(logger, str) else tuple(logger)


def _validation(data: Data, val: Data | None) -> tuple[Data | None, Dataset | None]:
    """Return the validation set that is given; else the data's own, and theirs that is like the training set."""
    if val is not None or not isinstance(data, Splits):
        return val, None
    return data.validation, data.val_iid


def _same_source(one: Data | None, other: Data | None) -> bool:
    """Tell whether both are given by name or path, and by the same."""
    both = [source_name(given) for given in (one, other) if isinstance(given, str | Path)]
    return len(both) == 2 and both[0] == both[1]


def _beside(
    train_set: Dataset | None,
    given: Data,
    groups: AnyArray | None,
    role: Literal["test", "val"],
    settings: Settings,
) -> Dataset:
    """Return a test or validation set with the training set's classes."""
    if isinstance(given, str | Path):
        order: tuple[Literal["test", "val"], ...] = ("test", "val") if role == "test" else ("val", "test")
        given = load_held_out(source_name(given), order, settings, train_set)
    name = {"test": "test data", "val": "validation data"}[role]
    return as_dataset(given, groups=groups, name=name, test=True, like=train_set)


def _loaded(data: Data, settings: Settings, *, only_train: bool = False) -> Data:
    """Load what was given by name; other things stay as they are."""
    if not isinstance(data, str | Path):
        return data
    named = settings.data.model_copy(update={"name": source_name(data)})
    return load_dataset(settings.model_copy(update={"data": named}), only_train=only_train)


def _settings(
    given: Settings | Overrides | None,
    data: Data = None,
    *,
    profile: str | None = None,
    ratio: Ratio | None = None,
    net: str | NetFactory | None = None,
    seed: int | None = None,
    methods: Sequence[str] | None = None,
) -> Settings:
    """Merge what a function was called with into settings."""
    named: dict[str, Any] = {
        "select.ratio": ratio,
        "train.net": getattr(net, "__qualname__", type(net).__name__) if callable(net) else net,
        "seed": seed,
        "methods": methods if methods is None or isinstance(methods, str) else list(methods),
    }
    named = {name: value for name, value in named.items() if value is not None}
    if not isinstance(given, Settings):
        dataset = source_name(data) if isinstance(data, str | Path) else ""
        return resolve(profile=profile, dataset=dataset, overrides={**(given or {}), **named})
    if profile not in (None, given.profile):
        raise InputError(f"profile={profile!r} and settings of profile {given.profile!r}: give one of them")
    return from_flat(flat(given) | named)


def _check_fits(coreset: Coreset, data: Dataset) -> None:
    if not isinstance(coreset, Coreset):
        raise InputError(
            f"coreset must be what tcsl.select or a run gives, got {type(coreset).__name__}; with indices of your own, "
            "give the samples themselves as data"
        )
    stored = coreset.facts.get("fingerprint")
    if stored not in (None, data.fingerprint):
        raise InputError(f"the coreset was chosen from other data: fingerprint {stored}, this is {data.fingerprint}")
    if len(coreset) and not 0 <= coreset.indices.min() <= coreset.indices.max() < len(data):
        low, high = coreset.indices.min(), coreset.indices.max()
        raise InputError(f"the coreset has indices {low} .. {high}, {data.name} has {len(data)} samples")
    # A table that was not made from this training set: its rows may be others, such as those of all splits.
    if stored is None and "table" in coreset.facts:
        here, there = (ids.astype(str).tolist() for ids in (data.ids[coreset.indices], coreset.ids))
        odd = next((i for i, (one, other) in enumerate(zip(here, there, strict=True)) if one != other), None)
        if odd is not None:
            raise InputError(
                f"the coreset was chosen from {coreset.facts['table']}, whose row {coreset.indices[odd]} has the id "
                f"{there[odd]!r}; in {data.name} that is {here[odd]!r}. Select from a table of the training set "
                "in its order, such as scores.parquet of tcsl score"
            )
