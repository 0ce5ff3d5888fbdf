"""One run: methods on a dataset into a run folder, and reading it back."""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from tcsl.caution import missed_classes
from tcsl.config import DeviceSettings, Settings, flat
from tcsl.data.columns import parse_columns
from tcsl.data.convert import Data, as_dataset
from tcsl.data.dataset import Dataset, Splits
from tcsl.data.load import load, load_beside
from tcsl.environment import describe_environment
from tcsl.errors import InputError, TcslWarning
from tcsl.evaluation import Evaluation, evaluate_predictions, identification
from tcsl.loggers.base import check_loggers, opened_loggers
from tcsl.methods.base import Method, Outcome, check_method, check_needs, check_options, run_method
from tcsl.methods.sources import file_of
from tcsl.model_selection import judge_of, judged_facts, judged_on, judging_steps, model_facts
from tcsl.pipeline import Job, biased_stage, load_final
from tcsl.registry import METHODS
from tcsl.runs import RunFolder
from tcsl.scores import SCHEMA, Coreset, Scores, save_predictions
from tcsl.selection.quota import check_quota
from tcsl.statistics import log_odds
from tcsl.training.augment import check_inputs
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed
from tcsl.training.loop import Epoch, Report
from tcsl.training.nets import NetFactory, check_output
from tcsl.training.views import predicted, predicted_and_logits
from tcsl.types import AnyArray, FloatArray, IntArray, Progress
from tcsl.verdict import KEPT, SURE, Verdict, verdict_of

_log = logging.getLogger("tcsl")


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
        return Coreset.load(self._file("coreset.parquet"))

    @cached_property
    def scores(self) -> Scores:
        """The scores of every training sample."""
        return Scores.load(self._file("scores.parquet"))

    @property
    def verdict(self) -> Verdict:
        """Whether there is a shortcut, as far as the held-out samples tell."""
        stored = self.result.get("verdict")
        return Verdict(None, "The run is older than verdicts; run it again") if stored is None else Verdict(**stored)

    @property
    def page(self) -> Path | None:
        """The page that shows the run, report.html; None where none was made."""
        place = self.path / "report.html"
        return place if place.is_file() else None

    @property
    def model(self) -> nn.Module:
        """The debiased model: plain training on the coreset."""
        if "tcsl_cs" not in self.models:
            raise self._without_tcsl_cs()
        return self.models["tcsl_cs"]

    def _file(self, name: str) -> Path:
        place = self.path / name
        RunFolder(self.path).check_left(place)
        if place.is_file():
            return place
        raise self._without_tcsl_cs()

    @property
    def _made(self) -> Collection[str]:
        made: Collection[str] = self.result.get("titles") or self.models
        return made

    def _without_tcsl_cs(self) -> InputError:
        if "tcsl_cs" in self._made:
            return InputError(
                f"the models of {self.path} are not loaded, since its data came from Python: give them, as in "
                "tcsl.load_run(path, (X, y))"
            )
        work = RunFolder(self.path).data()["work"]
        if work == "score":
            return InputError(f"{self.path} has scores alone: select from them with tcsl.select(run.scores)")
        if work == "train":
            return InputError(
                f"{self.path} has neither scores nor a coreset of its own, only a model, run.models['final'] (on data "
                "from Python with tcsl.load_run(path, (X, y)))"
            )
        return InputError(
            f"the run has no TCSL-CS, only {', '.join(self._made)}: name tcsl_cs among its methods; the models of the "
            "others are in run.models"
        )

    def __repr__(self) -> str:
        """Return the verdict and the accuracies as text."""
        from tcsl.report.notebook import run_text

        return run_text(self.path, self.result)

    def _repr_html_(self) -> str:
        """Return verdict, accuracies and map, for a notebook."""
        from tcsl.report.notebook import run_html

        return run_html(self.path, self.result)


def run_methods(
    train_set: Dataset,
    test_set: Dataset | None,
    settings: Settings,
    *,
    val_set: Dataset | None = None,
    val_iid: Dataset | None = None,
    net: str | NetFactory | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    report: Report | None = None,
    loggers: Sequence[str] = (),
    page: bool = True,
) -> Run:
    """Run every method of the settings on one dataset and one seed, into one run folder.

    Parameters
    ----------
    val_set : what methods may look at that need a validation set
    val_iid : one that is distributed like the training set, where `val_set` is not
    loggers : names of tools that are sent the epochs and the result
    page : whether the run ends with its page, report.html, where TCSL-CS is among the methods
    """
    methods: dict[str, Method] = {name: METHODS.get(name) for name in settings.methods}
    if not methods:
        raise InputError('there is no method to run: give a list of names, such as ["cb_erm", "tcsl_cs"]')
    check_options(settings)
    for name in methods:
        check_needs(name, train_set, val_set)
    check_quota(settings.select.ratio, len(train_set))
    judged = judged_on(settings, train_set, val_set, val_iid)
    check_shapes(train_set, ("test", test_set), ("validation", val_set), ("validation", judged))
    work = {
        "work": "run",
        "test": None if test_set is None else test_set.fingerprint,
        "groups": [data.groups.digest if data and data.groups else None for data in (train_set, test_set)],
    }
    if val_set is not None and any({"val", "val groups"} & set(method.needs) for method in methods.values()):
        work["val"] = [val_set.fingerprint, val_set.groups.digest if val_set.groups else None]
    if test_set is not None and test_set.units is not None:
        work["units"] = hashlib.sha256(test_set.units.astype("<i8").tobytes()).hexdigest()
    work |= judged_facts(settings, judged)
    path = Path(out) if out is not None else default_path(settings, train_set, work=work)
    with opened_job(
        train_set,
        settings,
        net=net,
        work=work,
        path=path,
        val_set=val_set,
        methods=methods.values(),
        resume=resume,
        report=report,
        loggers=loggers,
    ) as job:
        folder = job.folder
        assert folder is not None
        if folder.whole:  # nothing is worked out again: what it was made from may be gone
            models = {name: load_final(job, name) for name in methods}
            if page:
                _end_with_page(job)
            return Run(path, folder.result(), models)
        whole = replace(job, judge=judge_of(job, judged))
        outcomes: dict[str, Outcome] = {name: run_method(method, whole) for name, method in methods.items()}
        models = {name: outcome.net for name, outcome in outcomes.items()}
        evaluations, verdict = _evaluated(job, models, test_set)
        result = {
            "schema": SCHEMA,
            "seed": settings.seed,
            "ratio": settings.select.ratio,
            "profile": settings.profile,
            "fingerprint": train_set.fingerprint,
            "titles": {name: method.title for name, method in methods.items()},
            "models": {name: model_facts(folder, name) for name in methods},
            "evaluated_on": None if test_set is None else test_set.name,
            "evaluation": evaluations,
            "verdict": verdict.as_dict(),
            "coresets": {name: _coreset_facts(o, o.coreset, train_set) for name, o in outcomes.items() if o.coreset},
            "identification": _identification(outcomes.get("tcsl_cs"), train_set),
            **folder.spent(),
            "unknown": _unknown(train_set, test_set, evaluations),
        }
        folder.finish(result, models=methods)
        if page:
            (path / "report.html").unlink(missing_ok=True)  # of a finished run that has just made again what it lost
            _end_with_page(job)
        return Run(path, folder.result(), models)


def run_splits(
    splits: Splits,
    settings: Settings,
    *,
    out: Path,
    resume: bool = False,
    report: Report | None = None,
    loggers: Sequence[str] = (),
    page: bool = True,
) -> Run:
    """Run every method of the settings on a dataset as it was loaded."""
    return run_methods(
        splits.train,
        splits.evaluation,
        settings,
        val_set=splits.validation,
        val_iid=splits.val_iid,
        out=out,
        resume=resume,
        report=report,
        loggers=loggers,
        page=page,
    )


def check_shapes(train_set: Dataset, *others: tuple[str, Dataset | None]) -> None:
    """Refuse other sets whose inputs are not of the training inputs' shape."""
    for what, other in others:
        if other is not None and other.inputs.shape[1:] != train_set.inputs.shape[1:]:
            raise InputError(
                f"{what} inputs have shape {tuple(other.inputs.shape[1:])}, training inputs "
                f"{tuple(train_set.inputs.shape[1:])}; they must agree"
            )


def planned_stages(settings: Settings, shape: Sequence[int]) -> dict[str, int]:
    """Return the stages of a run on training inputs of this shape, (n, ...), and their steps; shared ones once."""
    n, *one = shape
    plan = judging_steps(settings, n)
    for method in map(METHODS.get, settings.methods):
        left_out = method.images_only if len(one) != 3 else ()
        plan |= {stage: steps for stage, steps in method.stages(settings, n).items() if stage not in left_out}
    return plan


@contextmanager
def opened_job(
    train_set: Dataset,
    settings: Settings,
    *,
    net: str | NetFactory | None,
    work: dict[str, Any],
    path: Path | None,
    val_set: Dataset | None = None,
    methods: Collection[Method] = (),
    resume: bool = False,
    report: Report | None = None,
    loggers: Sequence[str] = (),
) -> Iterator[Job]:
    """Put the data on its device and open the run folder, where there is one; both are let go at the end.

    Parameters
    ----------
    work : what is done with the data; a folder in which something else was done is refused
    methods : which must be able to work with the data and the net, or nothing is made; where the folder is finished,
        they have
    loggers : names of tools; they are sent the result when the job is let go, so that it has all its files by then
    """
    if loggers and path is None:
        raise InputError(f"a logger keeps its files in the run folder: say where with out=, got {', '.join(loggers)}")
    check_loggers(loggers)
    hardware = choose(settings.device)
    check_inputs(settings.train.augment, train_set.inputs)
    told: list[Report] = []  # the folder first: loggers read it

    def tell(epoch: Epoch) -> None:
        for one in told:
            one(epoch)

    with settled(settings.device), ExitStack() as stack:
        feed = Feed.of(train_set, hardware, how=settings.device.feed)
        job = Job(feed, settings, net if net is not None else settings.train.net, report=tell, val=val_set)
        if path is None or not RunFolder(path).done:
            _check_net(job, methods)
        if path is not None:
            facts = {**work, **_data_facts(train_set), **_start_facts(settings)}
            environment = describe_environment() | feed.facts()
            folder = RunFolder.open(path, settings, facts, resume=resume, environment=environment)
            stack.callback(folder.close)
            _warn_of_another_device(folder, feed)
            job = replace(job, folder=folder)
            told += [folder.report, stack.enter_context(opened_loggers(loggers, folder))]
        if report is not None:
            told.append(report)
        _log.info(feed.describe())
        yield job


def _warn_of_another_device(folder: RunFolder, feed: Feed) -> None:
    """Say where a run goes on with other hardware than it began with: its bytes are then those of neither."""
    if folder.whole or not (folder.path / "environment.json").exists():
        return
    began, now = folder.environment(), feed.facts() | {"threads": torch.get_num_threads()}
    now.pop("feed" if feed.hardware.device.type == "cpu" else "threads")  # which changes nothing there
    others = [name for name, value in now.items() if began.get(name, value) != value]
    if others:
        was, is_now = (", ".join(f"{name} {facts[name]}" for name in others) for facts in (began, now))
        warnings.warn(
            f"{folder.path} began with {was} and goes on with {is_now}: numbers will differ a little from a run on "
            "either alone",
            TcslWarning,
            stacklevel=2,
        )


def _check_net(job: Job, methods: Collection[Method]) -> None:
    """Build a net, which says where it does not fit the data, and ask the methods; it is let go afterwards."""
    net = job.feed.hardware.place(job.fresh_net("final"))
    for method in methods:
        check_method(method, job, net)


def _evaluated(
    job: Job, models: Mapping[str, nn.Module], test_set: Dataset | None
) -> tuple[dict[str, dict[str, Any]], Verdict]:
    """Return each model's accuracies and the verdict; the predictions are kept in the run folder."""
    if test_set is None:
        return {}, verdict_of({}, None)
    assert job.folder is not None
    hardware = job.feed.hardware
    feed = Feed.of(test_set, hardware, how=job.settings.device.feed)
    predictions: dict[str, IntArray] = {}
    logits: dict[str, FloatArray] = {}
    for name, model in models.items():
        if name in ("cb_erm", "tcsl_cs"):
            predictions[name], logits[name] = predicted_and_logits(hardware.place(model), feed)
        else:
            predictions[name] = predicted(hardware.place(model), feed)
    evaluations = {
        name: evaluate_predictions(classes, test_set, train_groups=job.data.groups).as_dict()
        for name, classes in predictions.items()
    }
    if "tcsl_cs" in models:
        predictions["biased"] = predicted(biased_stage(job)[0], feed)
    facts = {"data": test_set.name, "fingerprint": test_set.fingerprint, "class_names": list(test_set.class_names)}
    columns: dict[str, AnyArray] = {**predictions}
    for name, by in ((SURE, "cb_erm"), (KEPT, "tcsl_cs")):
        if by in logits and "cb_erm" in predictions:
            columns[name] = log_odds(logits[by], predictions["cb_erm"])
    if test_set.units is not None:
        columns["unit"] = test_set.units
    save_predictions(job.folder.path / "predictions.parquet", test_set.ids, test_set.numpy_labels, columns, facts)
    return evaluations, verdict_of(columns, test_set.numpy_labels)


def evaluate_net(net: nn.Module, test_set: Dataset, train_set: Dataset | None, device: DeviceSettings) -> Evaluation:
    """Evaluate a net on a test set; the training set's groups, where known, weight the weighted average."""
    if not isinstance(net, nn.Module):
        raise InputError(f"the model must be a torch.nn.Module, such as run.model, got {type(net).__name__}")
    hardware = choose(device)
    with settled(device):
        net = hardware.place(net)
        unclear = test_set.named and train_set is None
        cure = "give the training set, train=, whose classes tell which logit is which" * unclear
        check_output(net, test_set, device=hardware.device, more=not unclear, cure=cure)
        classes = predicted(net, Feed.of(test_set, hardware, how=device.feed))
    train_groups = None if train_set is None else train_set.groups
    return evaluate_predictions(classes, test_set, train_groups=train_groups)


def load_run(path: Path | str, data: Data | None = None) -> Run:
    """Read a finished run. Where its data came from Python, its models are there only if `data`, the same, are given.

    >>> import tempfile, tcsl
    >>> X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = tcsl.debias((X, y), 0.5, settings={"train.epochs": 10}, methods=["cb_erm"], out=f"{folder}/run")
    ...     again = load_run(f"{folder}/run", (X, y))
    >>> again.result == made.result, list(again.models)
    (True, ['cb_erm'])
    """
    folder = RunFolder.find(Path(path))
    result = folder.result()
    train_set = None if data is None else as_dataset(data, name="training data")
    if train_set is not None:
        check_same_data(folder, train_set, only_train=True)
    has_models = folder.data()["work"] != "score" and (train_set is not None or folder.settings().data.name)
    return Run(folder.path, result, load_models(path, train_set) if has_models else {})


def load_models(path: Path | str, train_set: Dataset | None = None) -> dict[str, nn.Module]:
    """Return the final models of a run on a dataset that has a name, which is loaded unless given."""
    folder = RunFolder.find(Path(path))
    settings = folder.settings()
    data = load_dataset(settings, only_train=True).train if train_set is None else train_set
    job = Job(Feed.of(data, choose(settings.device), how="stream"), settings, settings.train.net, folder)
    names = {"run": settings.methods, "train": ("final",), "score": ()}[folder.data()["work"]]
    if not names:
        raise InputError(f"{path} has scores but no final model; make one with tcsl train")
    return {name: load_final(job, name) for name in names}


def check_same_data(
    folder: RunFolder, train_set: Dataset, test_set: Dataset | None = None, *, only_train: bool = False
) -> None:
    """Refuse data that are not those of the run: a file may have changed since."""
    stored = folder.data()
    now = {"fingerprint": train_set.fingerprint}
    if "test" in stored and not only_train:
        now["test"] = "" if test_set is None else test_set.fingerprint
    names = {"fingerprint": "training", "test": "test"}
    changed = [names[key] for key, value in now.items() if (stored[key] or "") != value]
    if changed:
        raise InputError(
            f"the {' and '.join(changed)} data of {folder.path} have changed since the run; bring them back, or run it "
            "again in another folder"
        )


def load_training_set(folder: RunFolder, settings: Settings, progress: Progress | None = None) -> Dataset:
    """Load the training set of a run again; one that has changed since is refused.

    Parameters
    ----------
    settings : the run's, but for where the data are now
    """
    data = load_dataset(settings, progress, only_train=True).train
    check_same_data(folder, data, only_train=True)
    return data


def load_dataset(settings: Settings, progress: Progress | None = None, *, only_train: bool = False) -> Splits:
    """Make or read the dataset that the settings name; `only_train` spares the decoding of the other splits."""
    data = settings.data
    return load(
        data.name,
        **_how(settings),
        transform=data.transform,
        options=data.options,
        val_fraction=data.val_fraction,
        val_seed=data.val_seed,
        only_train=only_train,
        progress=progress,
    )


def load_held_out(
    source: str, splits: Sequence[Literal["test", "val"]], settings: Settings, like: Dataset | None
) -> Dataset:
    """Read a test or validation set from a source of its own; images are made as those of the training set were."""
    transform = settings.data.transform if like is None else like.facts.get("transform", settings.data.transform)
    options = settings.data.options if source == settings.data.name else None  # they are of one dataset
    return load_beside(source, splits, **_how(settings), transform=transform, options=options)


def _how(settings: Settings) -> dict[str, Any]:
    data = settings.data
    return {
        "seed": settings.seed,
        "root": data.root,
        "columns": parse_columns(data.columns),
        "on_bad": data.on_bad,
    }


def default_path(
    settings: Settings, data: Dataset, *, seeds: int | None = None, work: Mapping[str, Any] | None = None
) -> Path:
    """Return runs/NAME-HASH; the hash is over all settings, the data and, where given, the seeds and what is done."""
    identity = json.dumps([flat(settings), data.fingerprint, seeds, *([work] if work else [])], sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    name = Path(settings.data.name.partition(":")[2] or settings.data.name or "data").stem
    return Path("runs") / f"{name}-{settings.profile}-{digest}"


def _end_with_page(job: Job) -> None:
    """Keep what the page needs of the data and make the page, where that was not done and TCSL-CS was run."""
    from tcsl.report.keep import el2n_of_run, keep_groups, keep_samples
    from tcsl.report.page import write_page

    assert job.folder is not None
    path, groups = job.folder.path, job.data.groups
    if "tcsl_cs" not in job.settings.methods:
        return
    missing = [name for name in ("samples.parquet", "groups.parquet", "report.html") if not (path / name).exists()]
    if "samples.parquet" in missing:
        keep_samples(job.hiding().data, path, seed=job.settings.seed, el2n=el2n_of_run(job))
    if "groups.parquet" in missing and groups is not None:
        keep_groups(groups, path)
    if missing != ([] if groups is not None else ["groups.parquet"]):
        write_page(path)


def _data_facts(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "fingerprint": data.fingerprint,
        "n": len(data),
        "input_shape": list(data.inputs.shape[1:]),
        "class_names": list(data.class_names),
        "class_counts": np.bincount(data.numpy_labels, minlength=data.num_classes).tolist(),
        **({"read": dict(data.facts)} if data.facts else {}),
    }


def _start_facts(settings: Settings) -> dict[str, Any]:
    """Return the digests of the files that the settings name, weights and embeddings; one that is gone has none."""
    embeddings = [str(of["embedding"]) for of in settings.method.values() if "embedding" in of]
    named = [settings.train.weights, *map(file_of, embeddings)]
    digests = {}
    for name in named:
        with suppress(OSError), open(name, "rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return {"files": digests} if digests else {}


def _coreset_facts(outcome: Outcome, coreset: Coreset, data: Dataset) -> dict[str, Any]:
    """Return size and composition, and what its scores found; groups are for evaluation, where they are known."""
    facts: dict[str, Any] = {
        "n": len(coreset),
        "g_high": int(coreset.g_high.sum()),
        "class_counts": np.bincount(coreset.labels, minlength=data.num_classes).tolist(),
    }
    for what, classes in missed_classes(data.numpy_labels, coreset.indices, coreset.g_high).items():
        facts[what] = [data.class_names[k] for k in classes]
    if data.groups is not None:
        facts["minority"] = int(data.groups.minority[coreset.indices].sum())
    if outcome.scores is not None:
        facts["identification"] = _identification(outcome, data)
    return facts


def _identification(outcome: Outcome | None, data: Dataset) -> dict[str, Any] | None:
    """Return the size of G_high, and how well it recovers the true minority where groups are known."""
    if outcome is None or outcome.scores is None:
        return None
    scores = outcome.scores
    known = {} if data.groups is None else identification(scores.tcsl_s, scores.g_high, data.groups.minority)
    return {"n": len(scores), "g_high": int(scores.g_high.sum()), **known}


def _unknown(train_set: Dataset, test_set: Dataset | None, evaluations: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say what cannot be known from what was given."""
    out = []
    if train_set.groups is None:
        out.append("how many of the samples in G_high truly contradict the shortcut: the training set has no groups")
    if test_set is None:
        out.append("accuracy: there is no test set")
    return list(dict.fromkeys([*out, *(what for found in evaluations.values() for what in found["unknown"])]))
