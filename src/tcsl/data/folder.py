"""A folder of class folders, with or without folders for the splits above them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tcsl.data.bad import OnBad
from tcsl.data.images import files, missing_or_outside
from tcsl.data.manifest import Manifest, encode, read_splits
from tcsl.errors import InputError


def read_folder(folder: Path, *, root: Path | None, on_bad: OnBad) -> Manifest:
    """List CLASS/FILE, or SPLIT/CLASS/FILE where all folders are named like splits; ids are the paths.

    Parameters
    ----------
    root : links must not lead out of it; by default the folder itself
    """
    tops = _folders(folder)
    if not tops:
        raise InputError(f"{folder} has no class folders; it must look like {folder}/CLASS/IMAGE, or be a table or npz")
    unknown = read_splits(encode(tops))[1]
    split_folders = tops if len(tops) > len(unknown) and not unknown else [""]
    paths: list[str] = []
    labels: list[str] = []
    splits: list[str] = []
    for split in split_folders:
        for label in _folders(folder / split):
            for path in _files(folder / split / label):
                paths.append(os.path.join(split, label, path))
                labels.append(label)
                splits.append(split)
    if not paths:
        raise InputError(f"{folder}: its class folders ({', '.join(tops[:10])}) have no files")
    manifest = Manifest(
        name=folder.name or str(folder),
        inputs=files(folder, paths),
        labels=encode(labels),
        ids=np.array(paths, object),
        rows=np.arange(len(paths)),
        where=lambda row: paths[row],
        split=read_splits(encode(splits))[0] if split_folders != [""] else None,
    )
    outside = missing_or_outside(folder, paths, bounds=root)
    return manifest.without(outside, on_bad)


def _folders(folder: Path) -> list[str]:
    try:
        found = [entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from None
    return sorted(found)


def _files(folder: Path) -> list[str]:
    """Return all files below a class folder, hidden ones left out."""
    found = []
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        below = os.path.relpath(place, folder)
        found += [os.path.normpath(os.path.join(below, name)) for name in sorted(names) if not name.startswith(".")]
    return found
