"""Which epoch of a final model is evaluated (`train.model_selection`): the protocol's choice, and no method's.

A judge is made here from a validation set, and the loop asks it between epochs. Methods are not handed the set by that,
and nothing but final models is chosen so.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tcsl.config import UNJUDGED, Settings
from tcsl.data.dataset import Dataset
from tcsl.errors import InputError, TcslWarning
from tcsl.evaluation import accuracy_by, balanced_by_bias, worst
from tcsl.pipeline import Job, biased_stage, scoring_steps
from tcsl.registry import METHODS
from tcsl.runs import RunFolder
from tcsl.training.best import Judge
from tcsl.training.feed import Feed
from tcsl.training.views import predicted
from tcsl.types import BoolArray


def judged_on(settings: Settings, train: Dataset, val: Dataset | None, val_iid: Dataset | None) -> Dataset | None:
    """Return the set that epochs are judged on, None where none is; refuse, before any training, one that cannot.

    The criterion without groups is for users who have none, and their validation set is distributed like the training
    set: where there is such a one, it is taken. The other criteria take the set that methods may declare.

    Parameters
    ----------
    val_iid : a validation set that is distributed like the training set, where `val` is not
    """
    how = settings.train.model_selection
    if how in UNJUDGED:
        return None
    data = val_iid if how == "balanced_by_bias" and val_iid is not None else val
    if data is None:
        raise InputError(
            f"train.model_selection = {how!r} needs a validation set, and there is none (one that models are evaluated "
            "on does not count); pass val=, use data with a validation and a test split, or use 'last'"
        )
    groups = data.groups if how == "worst_group" else None
    if how == "worst_group" and groups is None:
        raise InputError(
            f"train.model_selection = {how!r} needs the groups of the validation set, and {data.name} has none; pass "
            "val_groups=, or use 'worst_class' or 'balanced_by_bias', which need none"
        )
    if groups is not None:
        kind, names, counts = "group", groups.names, groups.counts()
    else:
        kind, names, counts = "class", train.class_names, np.bincount(data.numpy_labels, minlength=train.num_classes)
    # A cell is a class where the biased model is right, or where it is wrong: of one sample it cannot be both.
    least = 2 if how == "balanced_by_bias" else 1
    few = [f"{name!r} has {n}" for name, n in zip(names, counts, strict=False) if n < least]
    if few:
        raise InputError(
            f"train.model_selection = {how!r} needs {least} or more validation samples of every {kind}, and of "
            f"{data.name} {', '.join(few)}; take a larger validation set (data.val_fraction, where it is made from the "
            "training set), or use 'last'"
        )
    return data


def judge_of(job: Job, data: Dataset | None) -> Judge | None:
    """Return the function from a net to its accuracy in 0 .. 1 on `data` by the criterion of the settings, or None.

    The criterion without groups asks the biased model, which is trained here unless the run has it already.
    """
    if data is None:
        return None
    how = job.settings.train.model_selection
    feed = Feed.of(data, job.feed.hardware, how=job.settings.device.feed)
    labels = data.numpy_labels

    if how == "balanced_by_bias":
        biased = predicted(biased_stage(job.hiding())[0], feed)
        _tell_unbiased(biased == labels, data)
        return lambda net: balanced_by_bias(predicted(net, feed), biased, labels)
    part, names = labels, data.class_names
    if how == "worst_group":
        assert data.groups is not None  # judged_on saw to it
        part, names = data.groups.group, data.groups.names
    return lambda net: worst(accuracy_by(predicted(net, feed) == labels, part, names))


def _tell_unbiased(right: BoolArray, data: Dataset) -> None:
    """Refuse a biased model that is wrong nowhere, and tell of classes in which it is."""
    parts = accuracy_by(right, data.numpy_labels, data.class_names)
    whole = [part.name for part in parts if part.accuracy == 1.0]
    which = "train.model_selection = 'balanced_by_bias': the biased model is right on all"
    if len(whole) == len(parts):
        raise InputError(
            f"{which} {len(right)} samples of {data.name}, so that none of them shows where the shortcut fails; take a "
            "larger validation set, fewer epochs of the biased model (score.biased_epochs), or another criterion"
        )
    if whole:
        warnings.warn(
            f"{which} samples of {', '.join(whole)} in {data.name}; these classes have one cell in the mean, the "
            "others two",
            TcslWarning,
            stacklevel=2,
        )


def judging_steps(settings: Settings, n: int) -> dict[str, int]:
    """Return the stages that judging needs before any method, and their steps."""
    if settings.train.model_selection != "balanced_by_bias":
        return {}
    return {"biased": scoring_steps(settings, n)["biased"]}


def judged_facts(settings: Settings, data: Dataset | None) -> dict[str, Any]:
    """Return what a run folder is told of the set that epochs are judged on; nothing where there is none."""
    if data is None:
        return {}
    groups = data.groups if settings.train.model_selection == "worst_group" else None
    digest = groups.digest if groups else None
    return {"judged_on": {"name": data.name, "fingerprint": data.fingerprint, "groups": digest}}


def model_facts(folder: RunFolder, name: str) -> dict[str, Any]:
    """Return which epoch a final model is: `by` what it was chosen, `on` which data, and its `value` there."""
    by = folder.settings().train.model_selection
    own = METHODS.get(name).chooses if name in METHODS else ""
    if own:
        return {"by": "own", "how": own}
    if by == "last":
        return {"by": by}
    averaged = folder.stage_table(name, "averaged")
    if averaged is not None:
        return {"by": by, "looks": int(averaged.item())}
    chosen = folder.stage_table(name, "chosen")
    if chosen is None:
        return {"by": "own", "how": "the method does not say"}
    epoch, epochs, value = chosen.tolist()
    on = folder.data()["judged_on"]["name"]
    return {"by": by, "on": on, "epoch": int(epoch), "epochs": int(epochs), "value": value}
