"""Decoded images on disk: every image is decoded once, by all cores, into one file of bytes that is mapped, not read.

An entry is KEY.images, (n, height, width, 3) uint8 without a header, and KEY.json, written last. The key is a hash of
the images' place, names, sizes and times and of the transform. An interrupted decoding goes on where it stopped.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tcsl.data.bad import Bad
from tcsl.data.dataset import HASH_BLOCK, digest_blocks, join_digests
from tcsl.data.image import BadImage, decode_image, quiet
from tcsl.data.images import Images
from tcsl.data.parallel import in_order
from tcsl.data.transform import parse_transform
from tcsl.errors import InputError, RunFolderError, TcslWarning
from tcsl.files import write_atomic
from tcsl.types import IntArray, Progress

_VERSION = 2  # of the decoder and of the layout
AUTO_SIDE = 256  # images of one size up to this stay as they are
AUTO = "short:256,crop:224"
_SAVE_EVERY = 5.0  # seconds of decoding that a kill may lose


class Decoded(NamedTuple):
    """Images of one size.

    Attributes
    ----------
    inputs : (k, 3, height, width) uint8, mapped from the cache
    kept : (k,) positions of the images that could be decoded
    bad : the others
    digest : of the inputs, as `Dataset.inputs_digest` computes it
    facts : the transform that was applied, and how many images of which kind were converted
    """

    inputs: Tensor
    kept: IntArray
    bad: list[Bad]
    digest: str
    facts: dict[str, Any]


class _SizesDiffer(Exception):
    """Images that were taken to have one size do not."""


def folder() -> Path:
    """Return where decoded images are kept: $TCSL_CACHE, or the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TCSL_CACHE") or Path(home) / "tcsl")


def decode(
    images: Images, transform: str, *, name: str, fallback: str = AUTO, progress: Progress | None = None
) -> Decoded:
    """Return all images decoded and transformed, from the cache where they were decoded before.

    Parameters
    ----------
    transform : steps as in `parse_transform`, `none`, or `auto`: images of one size of up to 256 pixels stay as they
        are, others go through `fallback`
    """
    asked = f"auto {AUTO_SIDE} {fallback}" if transform == "auto" else transform
    parse_transform(fallback if transform == "auto" else transform)
    place = folder()
    key = _key(images, asked)
    meta, pixels = place / f"{key}.json", place / f"{key}.images"
    try:
        facts = _finished(meta, pixels, images)
        if facts is None:
            place.mkdir(parents=True, exist_ok=True)
            with quiet(), _locked(place / f"{key}.lock"):
                facts = _finished(meta, pixels, images)
                if facts is None:
                    facts = _make(images, transform, fallback, meta, pixels, name, progress)
    except (OSError, RunFolderError) as error:
        why = error.__cause__ or error
        raise InputError(
            f"{name}: decoded images cannot be kept in {place}: {getattr(why, 'strerror', None) or why}; "
            "set TCSL_CACHE to a folder with space"
        ) from None
    if "odd" in facts:
        warnings.warn(
            f"{name}: {facts['odd']}; so that all have one size, they are read as data.transform={facts['transform']}. "
            "Take the odd ones out, or choose another transform",
            TcslWarning,
            stacklevel=2,
        )
    kept = np.delete(np.arange(len(images)), facts["bad_rows"])
    bad = [Bad(str(images.names[i]), why) for i, why in zip(facts["bad_rows"], facts["bad_reasons"], strict=True)]
    width, height = facts["size"]
    if len(kept) == 0:
        return Decoded(torch.empty(0, 3, height, width, dtype=torch.uint8), kept, bad, "", {})
    inputs = _map(pixels, (len(kept), height, width, 3))
    shown = {"transform": facts["transform"], "converted": facts["converted"]}
    return Decoded(inputs, kept, bad, join_digests(inputs, facts["blocks"]), shown)


def _key(images: Images, asked: str) -> str:
    """Return a hash of what the images are, as far as it is known without reading them, and of what is made of them."""
    # Names are relative to a folder, and files of another one may have the same names, sizes and times.
    where = "" if images.path is None else os.path.abspath(images.path(int(images.rows[0])))
    stamps = "\n".join([f"{_VERSION} {asked}", where, *images.stamps()])
    return hashlib.sha256(stamps.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _finished(meta: Path, pixels: Path, images: Images) -> dict[str, Any] | None:
    """Return the facts of an entry, or None where it is not there, not whole, or lacks what can be read by now."""
    try:
        facts: dict[str, Any] = json.loads(meta.read_text())
        whole = pixels.stat().st_size == (len(images) - len(facts["bad_rows"])) * _bytes(facts["size"])
    except (FileNotFoundError, ValueError, KeyError):
        return None
    return facts if whole and not any(_readable(images, i) for i in facts["unread"]) else None


def _readable(images: Images, i: int) -> bool:
    try:
        images.content(i)
    except OSError:
        return False
    return True


def _bytes(size: Sequence[int]) -> int:
    """Return the bytes of an image of this width and height."""
    return 3 * size[0] * size[1]


def _map(pixels: Path, shape: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")  # nobody writes into a dataset
        return torch.from_numpy(np.memmap(pixels, np.uint8, "r", shape=shape)).permute(0, 3, 1, 2)


def _make(
    images: Images, transform: str, fallback: str, meta: Path, pixels: Path, name: str, progress: Progress | None
) -> dict[str, Any]:
    """Decode into PART, noting now and then how far it has come, put it in place when it is whole; return its facts."""
    n, part, notes = len(images), pixels.with_suffix(".part"), pixels.with_suffix(".part.json")
    auto = transform == "auto"
    state = _left_off(part, notes, n)
    if state is None:
        size = _first_size(images, "none" if auto else transform, name)
        if auto:
            transform = "none" if max(size) <= AUTO_SIDE else fallback
            size = size if transform == "none" else _first_size(images, transform, name)
        state = _begin(part, notes, n, transform, size, name)
    try:
        _fill(images, state, part, notes, name, progress, strict=auto and state["transform"] == "none")
    except _SizesDiffer as odd:
        state = _begin(part, notes, n, fallback, _first_size(images, fallback, name), name)
        state["odd"] = str(odd)
        _fill(images, state, part, notes, name, progress, strict=False)
    if state["bad_rows"]:
        notes.unlink(missing_ok=True)  # from here on, they would not be true of PART
        state["blocks"] = _close_gaps(part, n, state)
    os.replace(part, pixels)
    del state["done"]
    write_atomic(meta, json.dumps(state))
    notes.unlink(missing_ok=True)
    return state


def _first_size(images: Images, transform: str, name: str) -> tuple[int, int]:
    """Return the size of the first image that can be used; the others must have it, too."""
    apply = parse_transform(transform)
    why = ""
    for i in range(len(images)):
        try:
            return apply(decode_image(images.content(i))[0]).size
        except (BadImage, OSError) as error:
            why = why or str(error)
    raise InputError(f"{name}: none of the {len(images)} images can be read, such as {images.names[0]}, which {why}")


def _left_off(part: Path, notes: Path, n: int) -> dict[str, Any] | None:
    """Return how far an interrupted decoding has come."""
    try:
        state: dict[str, Any] = json.loads(notes.read_text())
        return state if part.stat().st_size == n * _bytes(state["size"]) else None
    except (FileNotFoundError, ValueError, KeyError):
        return None


def _begin(part: Path, notes: Path, n: int, transform: str, size: tuple[int, int], name: str) -> dict[str, Any]:
    """Make an empty PART and return the state of a decoding that has done nothing yet."""
    for left in (notes, part):  # in this order: a kill must not leave notes that tell of another PART
        left.unlink(missing_ok=True)
    needed, free = n * _bytes(size), shutil.disk_usage(part.parent).free
    if needed > free:
        raise InputError(
            f"{name}: {n:,} decoded images of {size[0]} x {size[1]} need {needed / 1e9:.1f} GB in {part.parent}, "
            f"which has {free / 1e9:.1f} GB free; set TCSL_CACHE to a larger disk, or data.transform to a smaller "
            "size such as short:128,crop:112"
        )
    try:
        _reserve(part, needed)
    except OSError:
        part.unlink()
        raise
    return {
        "transform": transform,
        "size": size,
        "done": 0,
        "bad_rows": [],
        "bad_reasons": [],
        "unread": [],  # those of the bad that another day may bring
        "converted": {},
        "blocks": [],
    }


def _reserve(part: Path, size: int) -> None:
    """Make a file of this size that has its place on the disk: writing to a mapped file on a full disk is a crash."""
    with open(part, "wb") as stream:
        stream.truncate(size)
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(stream.fileno(), 0, size)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # not every file system can
                    raise


def _fill(
    images: Images,
    state: dict[str, Any],
    part: Path,
    notes: Path,
    name: str,
    progress: Progress | None,
    *,
    strict: bool,
) -> None:
    """Decode what is left into PART; `strict` raises `_SizesDiffer` at the first image of another size."""
    n, (width, height) = len(images), state["size"]
    array = np.memmap(part, np.uint8, "r+", shape=(n, height, width, 3))
    apply = parse_transform(state["transform"])

    def block(start: int) -> tuple[list[tuple[int, str]], list[int], list[str], str]:
        bad: list[tuple[int, str]] = []
        unread: list[int] = []
        converted: list[str] = []
        stop = min(start + HASH_BLOCK, n)
        for i in range(start, stop):
            try:
                image, note = decode_image(images.content(i))
                image = apply(image)
                if image.size != (width, height):
                    sizes = f"has {image.width} x {image.height} pixels, the first image {width} x {height}"
                    if strict:
                        raise _SizesDiffer(f"{images.names[i]} {sizes}")
                    raise BadImage(f"{sizes} (choose a data.transform such as short:256,crop:224)")
                array[i] = np.asarray(image)
                converted += [note] if note else []
            except BadImage as reason:
                bad.append((i, str(reason)))
            except OSError as error:
                bad.append((i, f"cannot be read ({error.strerror or error})"))
                unread.append(i)
        return bad, unread, converted, hashlib.sha256(array[start:stop].data).hexdigest()

    def save() -> None:
        array.flush()
        write_atomic(notes, json.dumps(state))

    saved = time.monotonic()
    try:
        # Closed before anything else is done, so that no thread is left that writes.
        with closing(in_order(block, range(state["done"], n, HASH_BLOCK))) as blocks:
            for bad, unread, converted, digest in blocks:
                state.update(  # in one step: a Ctrl-C must not come between its parts
                    done=min(state["done"] + HASH_BLOCK, n),
                    bad_rows=[*state["bad_rows"], *(i for i, _ in bad)],
                    bad_reasons=[*state["bad_reasons"], *(why for _, why in bad)],
                    unread=[*state["unread"], *unread],
                    converted=dict(Counter(state["converted"]) + Counter(converted)),
                    blocks=[*state["blocks"], digest],
                )
                if progress is not None:
                    progress(f"decoding {name}", state["done"], n)
                if time.monotonic() - saved > _SAVE_EVERY:
                    save()
                    saved = time.monotonic()
    except _SizesDiffer:
        raise
    except BaseException:
        if state["done"]:
            save()
        raise
    array.flush()


def _close_gaps(part: Path, n: int, state: dict[str, Any]) -> list[str]:
    """Move the good images together and return the digests of their blocks."""
    width, height = state["size"]
    array = np.memmap(part, np.uint8, "r+", shape=(n, height, width, 3))
    kept = np.delete(np.arange(n), state["bad_rows"])
    for start in range(0, len(kept), HASH_BLOCK):
        rows = kept[start : start + HASH_BLOCK]
        array[start : start + len(rows)] = array[rows]
    array.flush()
    os.truncate(part, len(kept) * _bytes(state["size"]))
    return digest_blocks(_map(part, (len(kept), height, width, 3))) if len(kept) else []


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time decode an entry; the others wait and then find it."""
    try:
        import fcntl
    except ImportError:  # not on this system: two processes on the same images are then the user's to avoid
        yield
        return
    with open(path, "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
    path.unlink(missing_ok=True)


class Entry(NamedTuple):
    """Decoded images in the cache."""

    path: Path
    size: int  # bytes


def entries() -> list[Entry]:
    """Return what is in the cache."""
    place = folder()
    return [Entry(path, path.stat().st_size) for path in sorted(place.glob("*.images"))] if place.is_dir() else []


def clear() -> int:
    """Delete everything in the cache and return how many bytes that were."""
    freed = 0
    for path in folder().glob("*"):
        if path.suffix in (".images", ".json", ".part", ".lock"):
            freed += path.stat().st_size
            path.unlink()
    return freed
