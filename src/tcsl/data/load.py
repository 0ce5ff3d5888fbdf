"""From one argument to a dataset: a known name, a folder, a table, arrays, shards, a Hugging Face dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tcsl.data.bad import OnBad
from tcsl.data.cache import AUTO
from tcsl.data.dataset import Dataset, Splits
from tcsl.data.known import Known
from tcsl.data.read import call_known, read
from tcsl.data.splits import load_held_out, load_manifest
from tcsl.registry import DATASETS
from tcsl.types import Progress


def load(
    source: str | Path,
    *,
    seed: int = 0,
    root: str | Path = "",
    columns: Mapping[str, str] | None = None,
    transform: str = "auto",
    on_bad: OnBad = "error",
    val_fraction: float = 0.1,
    val_seed: int = 0,
    options: Mapping[str, Any] | None = None,
    only_train: bool = False,
    progress: Progress | None = None,
) -> Splits:
    """Load a dataset.

    Parameters
    ----------
    source : a known name (`tcsl data list`), or a path or `hf:NAME`
    seed : for known datasets that draw
    root : where a known dataset's files lie; what a table's paths are relative to and may not leave
    columns : roles (path, inputs, label, split, group, unit, id) and their columns, where their names are unusual
    transform : of images: auto, none, or steps such as resize:256,crop:224
    on_bad : whether a bad sample is an error or is left out
    val_fraction, val_seed : the validation split that is made where there is none; not for known datasets
    options : of a known dataset, such as alpha
    only_train : do not decode the images of the other splits; they are None then
    progress : called with what is done, how far it is, and of how much

    >>> len(load("digits", options={"per_class": 20}).train)
    200
    """
    known = _known(source)
    if known is not None and known.load is not None:
        return _made(source, known, columns, options, seed, root)
    manifest = read(source, root=root, columns=columns, on_bad=on_bad, options=options)
    return load_manifest(
        manifest,
        transform=transform,
        fallback=AUTO if known is None else known.transform,
        on_bad=on_bad,
        val_fraction=val_fraction if known is None else 0.0,
        val_seed=val_seed,
        only_train=only_train,
        progress=progress,
    )


def load_beside(
    source: str | Path,
    splits: Sequence[Literal["test", "val"]],
    *,
    seed: int = 0,
    root: str | Path = "",
    columns: Mapping[str, str] | None = None,
    transform: str = "auto",
    on_bad: OnBad = "error",
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Load a test or validation set that lies beside the training set, in a source of its own.

    Parameters are those of `load`; of a source with splits it is the first of `splits` that it has, else all samples.

    >>> len(load_beside("digits", ["test", "val"])) == len(load("digits").test)
    True
    """
    known = _known(source)
    if known is not None and known.load is not None:
        made = _made(source, known, columns, options, seed, root)
        return next((part for split in splits if (part := getattr(made, split)) is not None), made.train)
    manifest = read(source, root=root, columns=columns, on_bad=on_bad, options=options)
    fallback = AUTO if known is None else known.transform
    return load_held_out(manifest, splits, transform=transform, fallback=fallback, on_bad=on_bad, progress=progress)


def _known(source: str | Path) -> Known | None:
    return DATASETS.get(str(source)) if str(source) in DATASETS else None


def _made(
    source: str | Path,
    known: Known,
    columns: Mapping[str, str] | None,
    options: Mapping[str, Any] | None,
    seed: int,
    root: str | Path,
) -> Splits:
    assert known.load is not None
    made: Splits = call_known(str(source), known.load, columns, options, seed=seed, root=str(root))
    return made
