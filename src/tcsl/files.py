"""Files and folders that are whole or absent: written beside their place, then renamed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tcsl.errors import RunFolderError


def write_atomic(path: Path, content: bytes | str | Callable[[Path], object]) -> None:
    """Write a file so that a kill at any instant leaves the old one or the new one.

    Parameters
    ----------
    content : the bytes or the text, or a function that writes the file at the path it is given
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(temporary)
        else:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        with open(temporary, "rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise RunFolderError(
            f"could not write {path}: {error.strerror or error}. Nothing that was there before is lost; "
            "free some space or choose another place, then run the same command again (a run: with --resume)"
        ) from error
    finally:
        with suppress(OSError):  # such as of a read-only place, which has been said
            temporary.unlink(missing_ok=True)


def cut_short(path: Path) -> bool:
    """Tell whether a Parquet or safetensors file lacks its end or its head, as one does that was not copied whole."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        head = file.read(8)
        if path.suffix == ".parquet":
            file.seek(max(0, size - 4))
            return not (head.startswith(b"PAR1") and file.read() == b"PAR1" and size > 8)
        if path.suffix == ".safetensors":
            try:
                about = json.loads(file.read(int.from_bytes(head, "little")))
                ends = [one["data_offsets"][1] for name, one in about.items() if name != "__metadata__"]
            except (ValueError, AttributeError, KeyError, TypeError, IndexError, OverflowError, MemoryError):
                return True
            return size != file.tell() + max(ends, default=0)
    return False


def write_folder(path: Path, fill: Callable[[Path], object]) -> None:
    """Make a folder so that a failure or Ctrl-C leaves nothing; an empty one may be there.

    Parameters
    ----------
    fill : writes what belongs into the folder at the path it is given
    """
    place = Path(os.path.abspath(path))  # "." has no name of its own
    temporary = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        temporary.mkdir(parents=True)
        fill(temporary)
        os.replace(temporary, place)
    except OSError as error:
        raise RunFolderError(
            f"could not write {path}: {error.strerror or error}. Free some space or choose another place"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
