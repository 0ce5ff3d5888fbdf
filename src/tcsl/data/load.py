"""From one argument to a dataset: a known name, a folder, a table, arrays, shards, a Hugging Face dataset."""

from __future__ import annotations

import glob
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tcsl.data.bad import OnBad
from tcsl.data.cache import AUTO
from tcsl.data.dataset import Splits
from tcsl.data.manifest import Manifest
from tcsl.data.splits import load_manifest
from tcsl.errors import InputError
from tcsl.registry import DATASETS, unknown
from tcsl.types import Progress

KINDS = (
    "a folder of class folders, a table (.csv, .tsv, .parquet, .jsonl), arrays (.npz, .safetensors), WebDataset "
    "shards (.tar), or a Hugging Face dataset (hf:NAME, or its folder)"
)


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
    progress: Progress | None = None,
) -> Splits:
    """Load a dataset.

    Parameters
    ----------
    source : a known name (`tcsl data list`), or a path or `hf:NAME`
    seed : for known datasets that draw
    root : where a known dataset's files lie; what a table's paths are relative to and may not leave
    columns : roles (path, inputs, label, split, group, id) and their columns, where their names are unusual
    transform : of images: auto, none, or steps such as resize:256,crop:224
    on_bad : whether a bad sample is an error or is left out
    val_fraction, val_seed : the validation split that is made where there is none; not for known datasets
    options : of a known dataset, such as alpha
    progress : called with what is done, how far it is, and of how much

    >>> len(load("digits", options={"per_class": 20}).train)
    200
    """
    if str(source) in DATASETS:
        known = DATASETS.get(str(source))
        given = dict(options or {})
        if known.load is not None:
            made: Splits = _call(str(source), known.load, given, seed=seed, root=str(root))
            return made
        manifest = _call(str(source), known.read, given, root=str(root), on_bad=on_bad)
        val_fraction, fallback = 0.0, known.transform
    else:
        manifest = read(source, root=root, columns=columns, on_bad=on_bad)
        fallback = AUTO
    return load_manifest(
        manifest,
        transform=transform,
        fallback=fallback,
        on_bad=on_bad,
        val_fraction=val_fraction,
        val_seed=val_seed,
        progress=progress,
    )


def _call(name: str, function: Callable[..., Any], options: Mapping[str, Any], **common: Any) -> Any:
    """Call a known dataset's function with its own options and with what it takes of the common ones."""
    takes = list(inspect.signature(function).parameters)
    own = [parameter for parameter in takes if parameter not in (*common, "name")]
    for option in options:
        if option not in own:
            raise unknown(f"option of dataset {name}", option, own)
    try:
        return function(**options, **{key: value for key, value in common.items() if key in takes})
    except TypeError as error:
        raise InputError(f"dataset {name}: an option has the wrong type: {error}") from None


def read(
    source: str | Path,
    *,
    root: str | Path = "",
    columns: Mapping[str, str] | None = None,
    on_bad: OnBad = "error",
    options: Mapping[str, Any] | None = None,
    look: bool = True,
) -> Manifest:
    """List the samples of a source; `look=False` does not look for the files of a table."""
    text, named = str(source), dict(columns or {})
    if text in DATASETS:
        known = DATASETS.get(text)
        if known.read is None:
            raise InputError(f"{text} is made, not read from files")
        listed: Manifest = _call(text, known.read, options or {}, root=str(root), on_bad=on_bad)
        return listed
    if text.startswith("hf:"):
        from tcsl.data.hub import read_hub

        return read_hub(text.removeprefix("hf:"), named, on_bad=on_bad)
    path = Path(text).expanduser()
    bounds = Path(root).expanduser() if root else None
    if path.suffix == ".tar" or (path.is_dir() and any(path.glob("*.tar"))):
        return _shards(path, named, on_bad)
    if path.is_dir():
        from tcsl.data.hub import on_disk, read_hub

        if on_disk(path):
            return read_hub(str(path), named, on_bad=on_bad)
        from tcsl.data.folder import read_folder

        return read_folder(path, root=bounds, on_bad=on_bad)
    if not path.exists():
        raise unknown_source(text)
    if path.suffix in (".npz", ".npy", ".safetensors"):
        from tcsl.data.arrays import read_arrays

        return read_arrays(path, named, on_bad=on_bad)
    from tcsl.data.table import SUFFIXES, read_table

    if path.suffix in SUFFIXES:
        return read_table(path, named, root=bounds, on_bad=on_bad, look=look)
    raise InputError(f"{path} is of no kind that can be read: give {KINDS}")


def _shards(path: Path, columns: Mapping[str, str], on_bad: OnBad) -> Manifest:
    from tcsl.data.shards import read_shards

    found = sorted(path.glob("*.tar")) if path.is_dir() else [Path(name) for name in sorted(glob.glob(str(path)))]
    if not found:
        raise unknown_source(str(path))
    return read_shards(found, columns, name=path.name, on_bad=on_bad)


def unknown_source(text: str) -> InputError:
    """Return the error for a source that is neither a known name nor there."""
    if "/" in text or "." in text:
        return InputError(f"{text} is missing: give {KINDS}, or a known dataset ({', '.join(DATASETS.names())})")
    return unknown("dataset", text, DATASETS.names())
