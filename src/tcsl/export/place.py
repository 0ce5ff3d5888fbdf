"""Where an export goes: nothing is written over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tcsl.errors import InputError

TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")


def check_place(path: Path, endings: Sequence[str] = ()) -> None:
    """Refuse to write over what is there, but for an empty folder, and a file whose name has none of the endings."""
    if path.is_file() or path.is_symlink() or (path.is_dir() and any(path.iterdir())):
        raise InputError(f"{path} exists already; choose another place, or delete it")
    if endings and path.suffix.lower() not in endings:
        raise InputError(f"{path} must end in {', '.join(endings)}")
