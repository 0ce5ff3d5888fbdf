"""A folder of class folders, with or without folders for the splits above them."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from tcsl.data.bad import Bad, OnBad, shown
from tcsl.data.images import files, missing_or_outside
from tcsl.data.manifest import Manifest, encode, read_splits, split_in_name
from tcsl.errors import InputError, TcslWarning

_PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def read_folder(folder: Path, *, root: Path | None, on_bad: OnBad) -> Manifest:
    """List CLASS/FILE, or SPLIT/CLASS/FILE where the folders are named like splits; ids are the paths.

    Parameters
    ----------
    root : links must not lead out of it; by default the folder itself
    """
    tops = _folders(folder)
    if not tops:
        raise InputError(f"{folder} has no class folders; it must look like {folder}/CLASS/IMAGE, or be a table or npz")
    split_folders = _split_folders(folder, tops) or [""]
    paths: list[str] = []
    labels: list[str] = []
    splits: list[str] = []
    empty: list[str] = []
    for split in split_folders:
        classes = _folders(folder / split)
        empty += [] if classes else [split]
        for label in classes:
            found = _files(folder / split / label)
            empty += [] if found else [os.path.join(split, label)]
            paths += [os.path.join(split, label, path) for path in found]
            labels += [label] * len(found)
            splits += [split] * len(found)
    if not paths:
        raise InputError(f"{folder}: its class folders ({shown(', '.join(tops[:10]))}) have no files")
    stray = [one.name for one in os.scandir(folder) if one.is_file() and one.name.lower().endswith(_PICTURES)]
    if stray:
        warnings.warn(
            f"{folder.name}: {len(stray):,} images beside the class folders are of no class and left out, such as "
            f"{shown(min(stray))}",
            TcslWarning,
            stacklevel=2,
        )
    if empty:
        listing = shown(", ".join(empty[:10])) + (", ..." if len(empty) > 10 else "")
        warnings.warn(
            f"{folder}: left out, as they have no files in class folders: {listing}", TcslWarning, stacklevel=2
        )
    manifest = Manifest(
        name=folder.name or str(folder),
        inputs=files(folder, paths),
        labels=encode(labels),
        ids=np.array(paths, object),
        rows=np.arange(len(paths)),
        where=lambda row: paths[row],
        split=read_splits(encode(splits))[0] if split_folders != [""] else None,
    )
    odd = {i: Bad(path, "has a name that is not UTF-8 text; rename it") for i, path in enumerate(paths) if _odd(path)}
    return manifest.without(missing_or_outside(folder, paths, bounds=root) | odd, on_bad)


def _split_folders(folder: Path, tops: list[str]) -> list[str]:
    """Return the folders of the splits, where there are any: then all folders are."""
    named = [name for name in tops if split_in_name(name)]
    others = [name for name in tops if name not in named]
    if others and any(_folders(folder / name) for name in named):  # not where a class is called train
        raise InputError(
            f"{folder}: {', '.join(named)} look like splits, {shown(', '.join(others[:10]))} not; it must have either "
            "SPLIT/CLASS/IMAGE with the splits train, val and test, or CLASS/IMAGE"
        )
    return [] if others else named


def _odd(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return True
    return False


def _folders(folder: Path) -> list[str]:
    try:
        found = [entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from None
    return sorted(found)


def _files(folder: Path) -> list[str]:
    """Return all files below a class folder, hidden ones left out."""
    found = []

    def stop(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}")

    seen: set[str] = set()  # a link may lead back up
    for place, inner, names in os.walk(folder, onerror=stop, followlinks=True):
        seen.add(os.path.realpath(place))
        shown_folders = sorted(name for name in inner if not name.startswith("."))
        inner[:] = [name for name in shown_folders if os.path.realpath(os.path.join(place, name)) not in seen]
        below = os.path.relpath(place, folder)
        found += [os.path.normpath(os.path.join(below, name)) for name in sorted(names) if not name.startswith(".")]
    return found
