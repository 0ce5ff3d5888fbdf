"""Methods: from a job to a final model. A method says what it needs beside labels, and is handed no more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import nn

from tcsl.config import Scalar, Section, Settings
from tcsl.data.dataset import Dataset
from tcsl.embeddings import embed
from tcsl.errors import InputError
from tcsl.methods.options import Options, Preset, options_of
from tcsl.pipeline import Job, Need, train_final
from tcsl.registry import METHODS
from tcsl.scores import Coreset, Scores
from tcsl.selection.classes import warn_of_lost_classes
from tcsl.selection.quota import check_quota, number
from tcsl.training.features import last_linear
from tcsl.types import IntArray


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method leaves: the final model, and the coreset and scores where it has them."""

    net: nn.Module
    coreset: Coreset | None = None
    scores: Scores | None = None


@dataclass(frozen=True)
class About:
    """What docs/methods.md says of a method, beside what its other fields tell.

    Attributes
    ----------
    idea : in two sentences
    formula : in plain text
    reference : where it comes from
    differs : how ours differs from that; empty where it does not
    """

    idea: str
    formula: str
    reference: str
    differs: str = ""


@dataclass(frozen=True)
class Method:
    """A way to get a model from a training set.

    Attributes
    ----------
    title : its name in tables
    summary : what it does, in a sentence
    run : does it
    stages : from the settings and n, the training stages that `run` goes through and their steps, for progress
    images_only : those of them that only images have
    needs : what it reads beside the training set and its labels
    options : what `method.NAME.OPTION` may name
    presets : from a known dataset's name to what is published for it
    check : refuses, before any training, a job or a fresh net that it cannot work with; it sees as much as `run`
    chooses : how it comes to its final model, where that has no epochs to choose from (`train.model_selection`)
    about : for the documentation
    """

    title: str
    summary: str
    run: Callable[[Job], Outcome]
    stages: Callable[[Settings, int], dict[str, int]]
    images_only: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    options: type[Section] | None = None
    presets: Mapping[str, Preset] = field(default_factory=dict)
    check: Callable[[Job, nn.Module], None] | None = None
    chooses: str = ""
    about: About | None = None

    def preset(self, dataset: str, changed: Collection[str] = ()) -> dict[str, Scalar]:
        """Return the options that are published for a dataset.

        Parameters
        ----------
        changed : `train` settings that the user changed. What a preset has in their place is left out; with `epochs`,
            so is every number of epochs that would else follow from T

        >>> METHODS.get("jtt").preset("waterbirds", ["epochs"])
        {'batch_size': 64, 'lr': 1e-05, 'weight_decay': 1.0, 'times': 100}
        """
        if dataset not in self.presets or self.options is None:
            return {}
        fields = self.options.model_fields
        following = {name for name in fields if fields[name].default is None and name not in Options.model_fields}
        dropped = {*changed, *(following if "epochs" in changed else ())}
        return {name: value for name, value in self.presets[dataset].options.items() if name not in dropped}


def check_options(settings: Settings) -> None:
    """Refuse, before any training, options that a method does not have."""
    for name, given in settings.method.items():
        kind = METHODS.get(name).options
        if kind is None:
            raise InputError(f"{name} has no options of its own, got method.{name}.{next(iter(given), '')}")
        options_of(settings, name, kind)


def check_needs(name: str, train: Dataset, val: Dataset | None) -> None:
    """Refuse, before any training, a method that needs what the data do not have."""
    method: Method = METHODS.get(name)
    if "train groups" in method.needs and train.groups is None:
        raise InputError(
            f"{name} needs the groups of the training set, and {train.name} has none; "
            "name a column with --columns group=NAME (in Python, groups=), or leave the method out"
        )
    if {"val", "val groups"} & set(method.needs) and val is None:
        raise InputError(
            f"{name} needs a validation set, and there is none; pass val=, use data with a validation split, or leave "
            "the method out"
        )
    if "val groups" in method.needs and val is not None and val.groups is None:
        raise InputError(
            f"{name} needs the groups of the validation set, and {val.name} has none; pass val_groups=, or leave the "
            "method out"
        )


def check_method(method: Method, job: Job, net: nn.Module) -> None:
    """Ask a method whether it can work with a job, from which the same is hidden as in `run_method`, and a net."""
    if method.check is not None:
        method.check(job.hiding(but=method.needs), net)


def run_method(method: Method, job: Job) -> Outcome:
    """Run a method on a job from which everything is hidden that it did not declare."""
    return method.run(job.hiding(but=method.needs))


def check_every_group(job: Job, net: nn.Module) -> None:
    """Refuse a training set of which some group has no sample: it can have no weight, and no loss."""
    groups = job.data.groups
    assert groups is not None  # check_needs saw to it
    empty = [group for group, n in zip(groups.names, groups.counts(), strict=True) if n == 0]
    if empty:
        raise InputError(
            f"weights of groups need samples of every group, and {job.data.name} has none of {', '.join(empty)}; leave "
            "GroupDRO and GB ERM out"
        )


def check_minority(job: Job, name: str, *, instead: str) -> None:
    """Refuse a training set without a minority, for a method of this name that keeps it; `instead` is one to use."""
    groups = job.data.groups
    assert groups is not None  # check_needs saw to it
    if not groups.minority.any():
        raise InputError(
            f"{name} keeps every minority sample, and {job.data.name} has none: every class has one value of the "
            f"group; use the method {instead}, or other groups"
        )


def check_number(job: Job, net: nn.Module) -> None:
    """Refuse a ratio that is no number, for methods that have no G_high to take it from."""
    check_quota(number(job.settings.select.ratio), len(job.data))


def check_last_layer(job: Job, net: nn.Module) -> None:
    """Refuse a net whose logits are not those of a linear layer."""
    last_linear(net, job.feed)


def check_features(job: Job, net: nn.Module) -> None:
    """Refuse a net that has no features, by taking those of two samples."""
    embed(net, job.feed.subset(np.arange(2)))


def train_on(job: Job, name: str, indices: IntArray, *, advice: str = "use a larger ratio") -> Outcome:
    """Train on the coreset that a rule of this name chose, without G_high; `advice` is for classes that it left out."""
    data, settings = job.data, job.settings
    warn_of_lost_classes(data.numpy_labels, indices, advice=advice, names=data.class_names, of=f"the coreset of {name}")
    facts = {"rule": name, "fingerprint": data.fingerprint, "ratio": settings.select.ratio, "seed": settings.seed}
    none = np.zeros(len(indices), np.bool_)
    coreset = Coreset(indices, data.ids[indices], data.numpy_labels[indices], none, facts)
    return Outcome(train_final(job, name, coreset), coreset)
