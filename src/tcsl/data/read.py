"""From one argument to a list of samples: a known name, a folder, a table, arrays, shards, a Hugging Face dataset.

Nothing is decoded, and torch is not needed.
"""

from __future__ import annotations

import glob
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from tcsl.data.bad import OnBad, shown
from tcsl.data.manifest import Manifest
from tcsl.errors import InputError
from tcsl.registry import DATASETS, unknown

KINDS = (
    "a folder of class folders, a table (.csv, .tsv, .parquet, .jsonl), arrays (.npz, .safetensors), WebDataset "
    "shards (.tar), or a Hugging Face dataset (hf:NAME, or its folder)"
)


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
    if on_bad not in get_args(OnBad):
        raise unknown("on_bad", str(on_bad), get_args(OnBad))
    text, named = str(source), dict(columns or {})
    if text in DATASETS:
        known = DATASETS.get(text)
        if known.read is None:
            raise InputError(f"{text} is made, not read from files")
        listed: Manifest = call_known(text, known.read, named, options, root=str(root), on_bad=on_bad)
        return listed
    if options:
        raise InputError(f"{shown(text)} takes no options, got {', '.join(options)}: known datasets have some")
    if text.startswith("hf:"):
        from tcsl.data.hub import read_hub

        return read_hub(text.removeprefix("hf:"), named, on_bad=on_bad)
    try:
        path, bounds = Path(text).expanduser(), Path(root).expanduser() if root else None
        there, is_folder = path.exists() and text != "", path.is_dir()
        if bounds is not None and not bounds.is_dir():
            raise InputError(f"--root {bounds} is {'not a folder' if bounds.exists() else 'missing'}")
    except (OSError, RuntimeError) as error:  # a name that is too long, a folder that may not be looked into
        raise InputError(f"{shown(text, 200)} cannot be reached: {getattr(error, 'strerror', None) or error}") from None
    suffix = path.suffix.lower()
    # A folder of class folders may have the archive they came in beside them.
    only_shards = there and is_folder and any(path.glob("*.tar")) and not any(one.is_dir() for one in path.iterdir())
    if suffix == ".tar" or only_shards:
        return _shards(path, named, on_bad)
    if not there:
        raise unknown_source(text)
    if is_folder:
        return _folder(path, bounds, named, on_bad)
    if suffix in (".npz", ".npy", ".safetensors"):
        from tcsl.data.arrays import read_arrays

        return read_arrays(path, named, on_bad=on_bad)
    from tcsl.data.frame import SUFFIXES
    from tcsl.data.table import read_table

    if suffix in SUFFIXES:
        return read_table(path, named, root=bounds, on_bad=on_bad, look=look)
    unpack = "; unpack it first" if suffix in (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip", ".7z") else ""
    raise InputError(f"{path} is of no kind that can be read{unpack}: give {KINDS}")


def _folder(path: Path, bounds: Path | None, columns: Mapping[str, str], on_bad: OnBad) -> Manifest:
    from tcsl.data.folder import read_folder
    from tcsl.data.hub import on_disk, read_hub

    if on_disk(path):
        return read_hub(str(path), columns, on_bad=on_bad)
    if columns:
        raise InputError(f"{path} is a folder of class folders, which has no columns; leave out --columns")
    return read_folder(path, root=bounds, on_bad=on_bad)


def _shards(path: Path, columns: Mapping[str, str], on_bad: OnBad) -> Manifest:
    from tcsl.data.shards import read_shards

    found = sorted(path.glob("*.tar")) if path.is_dir() else [path]
    if not path.exists():
        found = [Path(name) for name in sorted(glob.glob(str(path)))]
    if not found:
        raise unknown_source(str(path))
    return read_shards(found, columns, name=path.name, on_bad=on_bad)


def unknown_source(text: str) -> InputError:
    """Return the error for a source that is neither a known name nor there."""
    if "/" in text or "." in text:
        return InputError(f"{shown(text)} is missing: give {KINDS}, or a known dataset ({', '.join(DATASETS.names())})")
    return unknown("dataset", text, DATASETS.names())


def call_known(
    name: str,
    function: Callable[..., Any],
    columns: Mapping[str, str] | None,
    options: Mapping[str, Any] | None,
    **common: Any,
) -> Any:
    """Call a known dataset's function with its own options and with what it takes of the common ones."""
    if columns:
        raise InputError(f"{name} is known, and so are its columns; leave out --columns")
    takes = list(inspect.signature(function).parameters)
    own = [parameter for parameter in takes if parameter not in (*common, "name")]
    given = dict(options or {})
    for option in given:
        if option not in own:
            raise unknown(f"option of dataset {name}", option, own)
    try:
        return function(**given, **{key: value for key, value in common.items() if key in takes})
    except TypeError as error:
        if not given:
            raise
        raise InputError(f"dataset {name}: an option has the wrong type: {error}") from None
