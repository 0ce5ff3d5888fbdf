"""What a known dataset is: how it is loaded, and how to come by its files."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tcsl.data.cache import AUTO
from tcsl.data.dataset import Splits
from tcsl.data.download import Remote
from tcsl.data.manifest import Manifest
from tcsl.errors import InputError


@dataclass(frozen=True)
class Known:
    """A dataset that can be named.

    Attributes
    ----------
    title : one line for lists
    load : from the seed and the dataset's own options to its splits, where it is made rather than read
    read : from the root, `on_bad` and the dataset's own options to its manifest, where it is read from files
    transform : of its images in the literature
    markers : files under the root of which one is there when the dataset is, written last; none: it needs no files
    remotes : what `tcsl data get` downloads, each with the folder under the root that it goes or is unpacked into
    by_hand : what the user has to do where nothing may be downloaded, or what else is possible
    """

    title: str
    load: Callable[..., Splits] | None = None
    read: Callable[..., Manifest] | None = None
    transform: str = AUTO
    markers: tuple[str, ...] = ()
    remotes: tuple[tuple[Remote, str], ...] = ()
    by_hand: str = ""

    def present(self, root: Path) -> bool:
        """Tell whether the files are there."""
        return not self.markers or any((root / marker).exists() for marker in self.markers)


def data_root(root: str | Path = "") -> Path:
    """Return where the known datasets' files lie: as given, else $TCSL_DATA, else ./data."""
    return Path(root or os.environ.get("TCSL_DATA") or "data").expanduser()


def need(name: str, root: Path, *candidates: str, within: Path | None = None) -> Path:
    """Return the first of these files or folders that is there, or say how to come by it.

    Parameters
    ----------
    root : the folder that holds the dataset
    within : the folder of the candidates, where it is not the root itself
    """
    folder = within or root
    for candidate in candidates:
        if (folder / candidate).exists():
            return folder / candidate
    raise InputError(
        f"{name}: {folder / candidates[0]} is missing. `tcsl data get {name} --root {root}` downloads it or says how "
        "to come by it; where it lies elsewhere, name the folder that holds it with --root (or $TCSL_DATA)"
    )


def read_rows(name: str, table: Path, columns: Mapping[str, tuple[str, ...]]) -> list[dict[str, str]]:
    """Read a dataset's own CSV; each column has the values it may hold, or () for any."""
    try:
        with open(table, newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{name}: {table} cannot be read: {error}") from None
    absent = [column for column in columns if not rows or column not in rows[0]]
    if absent:
        raise InputError(f"{name}: {table} has no rows with {', '.join(absent)}; it must have {', '.join(columns)}")
    for i, row in enumerate(rows):
        for column, allowed in columns.items():
            value = row[column]
            if not value or (allowed and value not in allowed):
                what = f"must be {', '.join(allowed)}" if allowed else "must not be empty"
                raise InputError(f"{name}: line {i + 2} of {table}: {column} {what}, got {value!r}")
    return rows


def check_counts(name: str, where: Path, found: Mapping[str, int], official: Mapping[str, int]) -> None:
    """Refuse a copy whose counts are not the official ones, naming the file and the counts that differ.

    >>> check_counts("birds", Path("metadata.csv"), {"train": 9}, {"train": 10})
    Traceback (most recent call last):
    tcsl.errors.InputError: birds: metadata.csv is not the official one: train has 9 samples, official are 10. ...
    """
    wrong = [
        f"{part} has {found.get(part, 0):,} samples, official are {official.get(part, 0):,}"
        for part in dict.fromkeys([*official, *found])
        if found.get(part, 0) != official.get(part, 0)
    ]
    if wrong:
        raise InputError(
            f"{name}: {where} is not the official one: {'; '.join(wrong)}. Get it again, or accept it as it is with "
            "--set data.options.check=false"
        )
