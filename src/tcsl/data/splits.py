"""From a manifest to the training, validation and test set."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tcsl.data.bad import Bad, OnBad, describe, settle, shown
from tcsl.data.cache import AUTO, decode
from tcsl.data.dataset import Dataset, Splits, make_dataset
from tcsl.data.groups import Groups, check_group_count, make_groups
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest, check_rows, divided_units
from tcsl.errors import InputError, TcslWarning
from tcsl.seeds import generator
from tcsl.types import IntArray, Progress

_log = logging.getLogger("tcsl")
_WORDS = {"train": "training", "val": "validation", "test": "test"}


def load_manifest(
    manifest: Manifest,
    *,
    transform: str = "auto",
    fallback: str = AUTO,
    on_bad: OnBad = "error",
    val_fraction: float = 0.0,
    val_seed: int = 0,
    only_train: bool = False,
    progress: Progress | None = None,
) -> Splits:
    """Check, split and decode.

    Parameters
    ----------
    transform, fallback : as in `tcsl.data.cache.decode`
    val_fraction : where there is no validation split, this part of each class's training samples becomes one; what
        shows the same unit stays together
    val_seed : which samples those are
    only_train : leave the other splits undecoded, and out
    """
    manifest = check_rows(manifest, on_bad)
    check_group_count(manifest.labels.names, () if manifest.group is None else manifest.group.names, manifest.name)
    rows = {split: np.flatnonzero(manifest.part(split)) for split in ("val", "test")}
    rows["train"] = np.flatnonzero(manifest.training())
    facts: dict[str, Any] = {"source": manifest.name}
    if len(rows["val"]) == 0 and val_fraction != 0:
        units = None if manifest.unit is None else manifest.unit.codes
        rows["train"], rows["val"] = hold_out(manifest.labels.codes, rows["train"], val_fraction, val_seed, units)
        if len(rows["val"]):
            about = "" if units is None else "about "
            facts["validation"] = (
                f"{about}{val_fraction:g} of each class's training samples, drawn with seed {val_seed}"
                + (", units whole" if units is not None else "")
            )
            _log.info(
                f"{manifest.name} has no validation split, so one was made: {len(rows['val']):,} of the training "
                f"samples, {about}{100 * val_fraction:g} % of each class (data.val_fraction, data.val_seed)"
                + ("; those of a unit are all in one split" if units is not None else "")
            )
        else:
            few = "samples of each class" if units is None else "units that are small enough"
            _log.info(f"{manifest.name} has no validation split, and too few {few} to make one")
    parts: dict[str, _Part] = {}
    for split in ("train",) if only_train else ("train", "val", "test"):
        if len(rows[split]):
            applied = parts["train"].facts.get("transform", transform) if parts else transform
            parts[split] = _decoded(manifest.take(rows[split]), split, applied, fallback, progress)
    bad = [one for part in parts.values() for one in part.bad]
    settle(manifest.name, bad, on_bad)
    left = np.bincount(parts["train"].manifest.labels.codes, minlength=len(manifest.labels.names))
    if left.min() < 2:  # a class lost its images: again, without it
        good = {split: rows[split][parts[split].kept] if split in parts else rows[split] for split in rows}
        kept = np.sort(np.concatenate(list(good.values())))
        return load_manifest(
            replace(manifest.take(kept), skipped=(*manifest.skipped, *bad)),
            transform=transform,
            fallback=fallback,
            on_bad=on_bad,
            val_fraction=val_fraction,
            val_seed=val_seed,
            only_train=only_train,
            progress=progress,
        )
    _check_shapes(manifest.name, parts)
    _warn_of_units(manifest, rows["val"])
    facts |= _told_of_skipped(manifest, bad)
    converted = parts["train"].facts.get("converted")
    if converted:
        listing = ", ".join(f"{count:,} {kind}" for kind, count in converted.items())
        _log.info(f"{manifest.name}: converted to upright 8-bit RGB: {listing}")
    sets: dict[str, Dataset] = {}
    for split, part in parts.items():
        known = sets["train"].groups if sets else None
        sets[split] = _dataset(part, split, known, facts)
    return Splits(sets["train"], sets.get("test"), sets.get("val"))


def load_held_out(
    manifest: Manifest,
    splits: Sequence[str],
    *,
    transform: str = "auto",
    fallback: str = AUTO,
    on_bad: OnBad = "error",
    progress: Progress | None = None,
) -> Dataset:
    """Return what a source has to test or to validate on: the first of these splits that it has, else all of it."""
    manifest = check_rows(manifest, on_bad, trained_on=False)
    has = [split for split in splits if manifest.part(split).any()]
    if has:
        manifest = manifest.take(np.flatnonzero(manifest.part(has[0])))
    part = _decoded(manifest, splits[0], transform, fallback, progress)
    settle(manifest.name, part.bad, on_bad)
    facts = {"source": manifest.name, **_told_of_skipped(manifest, part.bad)}
    return _dataset(part, splits[0], None, facts)


def _told_of_skipped(manifest: Manifest, bad: Sequence[Bad]) -> dict[str, Any]:
    """Say what was left out; return it as a fact of the data."""
    skipped = [*manifest.skipped, *bad]
    if not skipped:
        return {}
    warnings.warn(f"{manifest.name}: left out {describe(skipped)}", TcslWarning, stacklevel=3)
    return {"skipped": [[shown(where), shown(why)] for where, why in skipped]}


def hold_out(
    labels: IntArray, rows: IntArray, fraction: float, seed: int, units: IntArray | None = None
) -> tuple[IntArray, IntArray]:
    """Split rows into those that stay and those that are held out: the same part of each class, to the nearest sample.

    At least two samples of each class stay. With `units` (n,), what shows the same is held out together: units are
    visited at random, and one is held out where that brings the classes nearer to their parts.

    >>> stay, out = hold_out(np.array([0] * 10 + [1] * 20), np.arange(30), 0.1, seed=0)
    >>> len(stay), np.bincount((out >= 10).astype(int)).tolist()
    (27, [1, 2])
    >>> hold_out(np.arange(12) % 2, np.arange(12), 0.3, seed=0, units=np.arange(12) // 4)[1].tolist()
    [0, 1, 2, 3]
    """
    if not 0 <= fraction < 1:
        raise InputError(f"data.val_fraction must be in [0, 1), got {fraction:g}")
    rng = generator(seed, "validation")
    if units is not None:
        return _hold_out_units(labels, rows, fraction, units, rng)
    out: list[IntArray] = []
    for label in np.unique(labels[rows]):
        members = rows[labels[rows] == label]
        out.append(rng.permutation(members)[: min(round(fraction * len(members)), len(members) - 2)])
    held = np.sort(np.concatenate(out))
    return np.setdiff1d(rows, held, assume_unique=True), held


def _hold_out_units(
    labels: IntArray, rows: IntArray, fraction: float, units: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    unit = np.unique(units[rows], return_inverse=True)[1]
    members = np.split(rows[np.argsort(unit, kind="stable")], np.cumsum(np.bincount(unit))[:-1])
    present = np.bincount(labels[rows])
    held, chosen = np.zeros_like(present), [rows[:0]]
    for k in rng.permutation(len(members)):
        counts = np.bincount(labels[members[k]], minlength=len(present))
        off, off_with_it = (np.abs(fraction * present - part).sum() for part in (held, held + counts))
        if off_with_it < off and (present - held - counts)[counts > 0].min() >= 2:
            held += counts
            chosen.append(members[k])
    out = np.sort(np.concatenate(chosen))
    return np.setdiff1d(rows, out, assume_unique=True), out


def _warn_of_units(manifest: Manifest, val: IntArray) -> None:
    """Say what units do to the splits: those that were divided by somebody, classes that whole ones cannot divide."""
    told = []
    divided = divided_units(manifest)
    if divided:
        told.append(
            f"{divided:,} units have samples for training and others that are held out, which tell less than they seem "
            "to: put all samples of a unit into one split"
        )
    labels = manifest.labels
    absent = np.flatnonzero(np.bincount(labels.codes[val], minlength=len(labels.names)) == 0)
    if manifest.unit is not None and len(val) and not manifest.part("val").any() and len(absent):
        told.append(
            f"the validation split that was made has no sample of {shown(', '.join(labels.names[k] for k in absent))}: "
            "whole units could not be divided so that it has; name a split, or try a larger data.val_fraction"
        )
    for text in told:
        warnings.warn(f"{manifest.name}: {text}", TcslWarning, stacklevel=3)


def _check_shapes(name: str, parts: Mapping[str, _Part]) -> None:
    """Refuse splits whose images are not of the training images' size."""
    wanted = parts["train"].inputs.shape
    for split, part in parts.items():
        shape = part.inputs.shape
        if shape[1:] != wanted[1:]:
            raise InputError(
                f"{name}: {_WORDS[split]} images have {shape[3]} x {shape[2]} pixels, training images {wanted[3]} x "
                f"{wanted[2]}; choose a data.transform such as short:256,crop:224"
            )


class _Part(NamedTuple):
    manifest: Manifest  # the rows that could be decoded
    kept: IntArray  # their positions
    inputs: Tensor
    views: Mapping[str, Tensor]
    bad: list[Bad]
    digest: str
    facts: dict[str, Any]


def _decoded(manifest: Manifest, split: str, transform: str, fallback: str, progress: Progress | None) -> _Part:
    """Return the inputs of one split; images that cannot be decoded are taken out and told."""
    if not isinstance(manifest.inputs, Images):
        return _Part(manifest, np.arange(len(manifest)), torch.from_numpy(manifest.inputs), {}, [], "", {})
    name = f"{manifest.name}, {_WORDS[split]}"
    found = decode(manifest.inputs, transform, fallback=fallback, name=name, progress=progress)
    views: dict[str, Tensor] = {}
    for view, images in manifest.views.items():
        other = decode(images.take(found.kept), found.facts["transform"], name=f"{name}, {view}", progress=progress)
        settle(f"{name}, view {view!r}", other.bad, "error")
        views[view] = other.inputs
    if len(found.kept) == 0:
        raise InputError(f"{name}: no sample is left: {describe(found.bad)}")
    return _Part(manifest.take(found.kept), found.kept, found.inputs, views, found.bad, found.digest, found.facts)


def _dataset(part: _Part, split: str, train_groups: Groups | None, facts: Mapping[str, Any]) -> Dataset:
    manifest = part.manifest
    made = make_dataset(
        part.inputs,
        torch.from_numpy(manifest.labels.codes),
        class_names=manifest.labels.names,
        ids=np.array(manifest.ids.tolist()),
        groups=_groups(manifest, split, train_groups),
        units=None if manifest.unit is None else manifest.unit.codes,
        name=f"{manifest.name}, {_WORDS[split]}",
        views=part.views,
        facts={**facts, **part.facts, **({"features": list(manifest.features)} if manifest.features else {})},
        test=split != "train",
    )
    if part.digest:
        made.__dict__["inputs_digest"] = part.digest  # hashed while it was decoded
    return made


def _groups(manifest: Manifest, split: str, train_groups: Groups | None) -> Groups | None:
    """Return the groups of a split; one that lacks the group of any sample counts as without, and that is said."""
    if manifest.group is None:
        return None
    names = tuple(name for name in manifest.group.names if name)
    known = np.array([bool(name) for name in manifest.group.names])[manifest.group.codes]
    if not known.all():
        if known.any():
            warnings.warn(
                f"{manifest.name}: {int((~known).sum()):,} of {len(known):,} {_WORDS[split]} samples have no group, so "
                "this set counts as one without groups",
                TcslWarning,
                stacklevel=2,
            )
        return None
    place = {name: i for i, name in enumerate(names)}
    codes = np.array([place.get(name, 0) for name in manifest.group.names], np.int64)
    return make_groups(
        manifest.labels.codes,
        codes[manifest.group.codes],
        class_names=manifest.labels.names,
        attribute_names=names,
        majority=train_groups.majority if train_groups is not None else None,
    )
