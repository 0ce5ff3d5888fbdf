"""Files that are whole or absent: written beside their place, flushed, then renamed."""

from __future__ import annotations

import os
from collections.abc import Callable
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
        temporary.unlink(missing_ok=True)
