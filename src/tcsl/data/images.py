"""Where images are: files, members of tar shards, cells of a table; each can be read as bytes by its number."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tcsl.data.bad import Bad
from tcsl.types import AnyArray, IntArray


@dataclass(frozen=True, eq=False)
class Images:
    """A list of images that have not been read.

    Attributes
    ----------
    names : (n,) what messages call them
    read : from a row of the source to the file's bytes; may raise OSError
    stamp : from a row of the source to text that changes when the image does, such as size and time of a file
    rows : (n,) the row of the source of each image
    path : from a row of the source to the file, where it is one
    """

    names: AnyArray
    read: Callable[[int], bytes]
    stamp: Callable[[int], str]
    rows: IntArray
    path: Callable[[int], Path] | None = None

    def __len__(self) -> int:
        """Return n."""
        return len(self.rows)

    def take(self, index: IntArray) -> Images:
        """Return the images at these positions."""
        return replace(self, names=self.names[index], rows=self.rows[index])

    def content(self, i: int) -> bytes:
        """Return the bytes of image i."""
        return self.read(int(self.rows[i]))

    def stamps(self) -> list[str]:
        """Return a line for each image that changes when the image does."""
        return [f"{name}\t{self.stamp(row)}" for name, row in zip(self.names, self.rows.tolist(), strict=True)]


def files(root: Path, paths: Sequence[str]) -> Images:
    """Return the files at these paths under `root`."""

    def read(row: int) -> bytes:
        return (root / paths[row]).read_bytes()

    def stamp(row: int) -> str:
        try:
            found = os.stat(root / paths[row])
        except OSError as error:  # it is said when the file is to be decoded
            return f"{error.strerror}"
        return f"{found.st_size} {found.st_mtime_ns}"

    return Images(np.array(paths, object), read, stamp, np.arange(len(paths)), lambda row: root / paths[row])


def missing_or_outside(root: Path, paths: Sequence[str], *, bounds: Path | None = None) -> dict[int, Bad]:
    """Return, by position, the paths that are not files, or that leave the bounds: by `..`, by links, or absolute ones.

    Parameters
    ----------
    root : what the paths are relative to
    bounds : the folder that they may not leave; by default `root`
    """
    limit = os.path.realpath(bounds or root)
    parents: dict[str, str] = {}
    out: dict[int, Bad] = {}

    def inside(path: str) -> bool:
        return os.path.commonpath([limit, path]) == limit

    for i, path in enumerate(paths):
        if "\0" in path:
            out[i] = Bad(repr(path), "has a zero byte in its path")
            continue
        full = os.path.join(root, path)
        head = os.path.dirname(full)
        try:
            if head not in parents:  # one look at each folder, not one at each file
                parents[head] = os.path.realpath(head)
            real = os.path.join(parents[head], os.path.basename(full))
            linked = os.path.islink(real)
            real = os.path.realpath(real) if linked else real
            if linked and not os.path.exists(real):
                out[i] = Bad(path, f"is a link to {real}, which is missing")
            elif not inside(os.path.normpath(real)):
                out[i] = Bad(path, f"leads out of {bounds or root} (give the folder that holds all images with --root)")
            elif not os.path.isfile(real):
                out[i] = Bad(path, "is missing" if not os.path.exists(real) else "is not a file")
        except (OSError, ValueError) as error:
            out[i] = Bad(path[:200], f"cannot be reached ({getattr(error, 'strerror', None) or error})")
    return out
