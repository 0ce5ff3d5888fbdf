"""Downloads that go on where they stopped."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tcsl import __version__
from tcsl.errors import InputError
from tcsl.types import Progress

TIMEOUT = 60.0  # seconds, for each socket operation
PAUSE = 1.0  # seconds before the second attempt; doubled before each further one
PASSING = (408, 429, 500, 502, 503, 504)  # HTTP answers that another attempt may change


@dataclass(frozen=True)
class Remote:
    """A file on the web: where it is, what it is called here, and its checksum where the publisher gives one."""

    url: str
    name: str
    checksum: str = ""  # "md5:..." or "sha256:..."
    size: int | None = None  # bytes, where known


class _Failed(Exception):
    """A request did not bring the whole file."""

    def __init__(self, reason: object, again: bool = True) -> None:
        super().__init__(str(reason))
        self.again = again  # whether another request may


def fetch(remote: Remote, folder: Path, *, progress: Progress | None = None, attempts: int = 5) -> Path:
    """Return the file in the folder; download it if it is not there or not right.

    What an interrupted download leaves (NAME.part) is where the next call goes on.

    Parameters
    ----------
    attempts : how many in a row may fail without getting any further
    """
    if not remote.url.startswith(("http://", "https://", "file:")):
        raise InputError(f"the URL of {remote.name} must begin with http, https or file, got {remote.url!r}")
    if remote.checksum and not re.fullmatch("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", remote.checksum.lower()):
        raise InputError(f"the checksum of {remote.name} must be md5:... or sha256:..., got {remote.checksum!r}")
    target, part, note, lock = (folder / f"{remote.name}{end}" for end in ("", ".part", ".part.json", ".lock"))
    try:
        if target.is_file() and not _wrong(remote, target):
            return target
        folder.mkdir(parents=True, exist_ok=True)
        with open(lock, "w") as held:
            _hold(held, target)
            if not target.is_file() or _wrong(remote, target):  # another process may just have finished it
                _download(remote, part, note, progress, attempts)
                if wrong := _wrong(remote, part):
                    part.unlink()
                    raise _Failed(f"it is not the file it should be: {wrong}")
                with open(part, "rb") as stream:
                    os.fsync(stream.fileno())
                os.replace(part, target)
        for path in (note, lock):
            path.unlink(missing_ok=True)
    except _Failed as error:
        kept = f", which goes on from the {_size(part)} bytes that came" if part.exists() else ""
        there = " (what is there now is not the right file)" if target.exists() else ""
        raise InputError(
            f"could not download {remote.url}: {error}. Try again{kept}, or download it by hand to {target}{there}"
        ) from error
    except OSError as error:
        raise InputError(
            f"could not write {target}: {error.strerror or error}. Free some space, make the folder writable or "
            "choose another one, then try again; what came so far is kept"
        ) from error
    return target


def _wrong(remote: Remote, path: Path) -> str:
    """Say what is wrong with a file; nothing if it is right."""
    size = _size(path)
    if remote.size is not None and size != remote.size:
        return f"expected {remote.size} bytes, got {size}"
    kind = remote.checksum.partition(":")[0].lower()
    if kind:
        with open(path, "rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
        if f"{kind}:{digest}" != remote.checksum.lower():
            return f"expected {remote.checksum}, got {kind}:{digest} ({size} bytes)"
    return ""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _hold(lock: IO[str], target: Path) -> None:
    """Keep another process from adding to the same part."""
    try:
        import fcntl
    except ImportError:  # not on this system: two downloads of one file are then the user's to avoid
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"another process is downloading {target}; wait for it, then try again") from None


def _download(remote: Remote, part: Path, note: Path, progress: Progress | None, attempts: int) -> None:
    failures, furthest = 0, _size(part)
    while True:
        try:
            return _receive(remote, part, note, progress)
        except _Failed as error:
            # Further than ever, not only further: a server that starts over each time would be asked for ever.
            failures = 1 if _size(part) > furthest else failures + 1
            furthest = max(furthest, _size(part))
            if failures >= attempts or not error.again:
                raise
        time.sleep(PAUSE * 2 ** (failures - 1))


def _receive(remote: Remote, part: Path, note: Path, progress: Progress | None) -> None:
    """Append to the part what it lacks, in one request."""
    try:
        known = json.loads(note.read_text())
    except (FileNotFoundError, ValueError):  # none, or cut short by a kill
        known = {}
    start = _size(part) if known.get("url") == remote.url else 0
    headers = {"User-Agent": f"tcsl/{__version__}"}
    if start:
        headers |= {"Range": f"bytes={start}-"} | ({"If-Range": known["version"]} if known["version"] else {})
    try:
        response = urlopen(Request(remote.url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:
            if start == (_content_range(error)[1] or known["total"]):
                return  # the part is complete
            raise _changed(part) from error
        raise _Failed(f"the server answered {error.code} {error.reason}", error.code in PASSING) from error
    except (OSError, HTTPException) as error:
        raise _Failed(getattr(error, "reason", error), not remote.url.startswith("file:")) from error
    with response:
        resumed, version = start > 0 and response.status == 206, _version(response)
        first, total = _content_range(response)
        if not resumed:  # nothing to go on from, a server without Range, or If-Range found that the file changed
            length = response.headers["Content-Length"]
            known, start, total = {}, 0, int(length) if length else remote.size
        elif first != start or _differ(version, known["version"]) or _differ(total, known["total"]):
            raise _changed(part)
        total = total or known.get("total")
        with open(part, "ab" if resumed else "wb") as stream:
            if not resumed:  # once the old bytes are gone: a kill must not leave them with the new note
                note.write_text(json.dumps({"url": remote.url, "version": version, "total": total}))
            free = shutil.disk_usage(part.parent).free
            if total is not None and free < total - start:
                raise InputError(
                    f"{remote.name} needs {(total - start) / 1e6:,.1f} MB more, but {part.parent} has {free / 1e6:,.1f}"
                    " MB free: free some space or choose another folder"
                )
            while chunk := _read(response):
                stream.write(chunk)
                start += len(chunk)
                if progress is not None:
                    progress(remote.name, start, total)
    if total is not None and start < total:
        raise _Failed(f"the connection ended after {start} of {total} bytes")


def _read(response: Any) -> bytes:
    """Return the next bytes; a failure of the network is told apart from one of the disk."""
    try:
        chunk: bytes = response.read1(1 << 18)  # what there is, so that a slow line that drops loses nothing
    except (OSError, HTTPException) as error:
        raise _Failed(error) from error
    return chunk


def _changed(part: Path) -> _Failed:
    part.unlink()
    return _Failed("the file changed on the server")


def _differ(new: object, old: object) -> bool:
    return bool(new and old and new != old)


def _version(response: Any) -> str | None:
    """Return what If-Range takes: the ETag, unless it is a weak one, or the date."""
    etag: str | None = response.headers["ETag"]
    modified: str | None = response.headers["Last-Modified"]
    return etag if etag and not etag.startswith("W/") else modified


def _content_range(response: Any) -> tuple[int | None, int | None]:
    """Return the first byte and the total, as far as the server tells them."""
    found = re.fullmatch(r"bytes (\d*)[-*\d]*/(\d*)\*?", response.headers["Content-Range"] or "")
    first, total = found.groups() if found else ("", "")
    return int(first) if first else None, int(total) if total else None
