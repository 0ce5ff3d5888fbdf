"""Decoded images on disk: every image is decoded once, by all cores, into one file of bytes that is mapped, not read.

An entry is KEY.images, (n, height, width, 3) uint8 without a header, and KEY.json, written last. The key is a hash of
the images' names, sizes and times and of the transform. An interrupted decoding goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tcsl.data.bad import Bad
from tcsl.data.dataset import HASH_BLOCK, digest_blocks, join_digests
from tcsl.data.image import BadImage, decode_image, quiet
from tcsl.data.images import Images
from tcsl.data.transform import parse_transform
from tcsl.errors import InputError
from tcsl.files import write_atomic
from tcsl.types import AnyArray, IntArray, Progress

_VERSION = 1  # of the decoder and of the layout
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
    auto = transform == "auto"
    if not auto:
        parse_transform(transform)
    with quiet():
        first = _first_good(images, name)
        wanted = transform if not auto else "none" if max(first.size) <= AUTO_SIDE else fallback
        try:
            return _entry(images, wanted, parse_transform(wanted)(first).size, name, progress, strict=auto)
        except _SizesDiffer:
            return _entry(images, fallback, parse_transform(fallback)(first).size, name, progress, strict=False)


def _first_good(images: Images, name: str) -> Any:
    for i in range(len(images)):
        try:
            return decode_image(images.content(i))[0]
        except (BadImage, OSError):
            continue
    raise InputError(f"{name}: none of the {len(images)} images can be read, such as {images.names[0]}")


def _entry(
    images: Images, transform: str, size: tuple[int, int], name: str, progress: Progress | None, *, strict: bool
) -> Decoded:
    """Return the cache's entry; `strict` raises `_SizesDiffer` at the first image of another size."""
    stamps = "\n".join([f"{_VERSION} {transform} {size}", *images.stamps()])
    key = hashlib.sha256(stamps.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    place = folder()
    meta, pixels = place / f"{key}.json", place / f"{key}.images"
    if not meta.exists():
        try:
            place.mkdir(parents=True, exist_ok=True)
            with _locked(place / f"{key}.lock"):
                if not meta.exists():
                    _make(images, transform, size, meta, pixels, name, progress, strict)
        except OSError as error:
            raise InputError(
                f"{name}: decoded images cannot be kept in {place}: {error.strerror or error}; "
                "set TCSL_CACHE to a folder with space"
            ) from None
    facts = json.loads(meta.read_text())
    kept = np.delete(np.arange(len(images)), facts["bad_rows"])
    bad = [Bad(str(images.names[i]), why) for i, why in zip(facts["bad_rows"], facts["bad_reasons"], strict=True)]
    if len(kept) == 0:
        return Decoded(torch.empty(0, 3, *size[::-1], dtype=torch.uint8), kept, bad, "", {})
    inputs = _map(pixels, (len(kept), size[1], size[0], 3))
    shown = {"transform": transform, "converted": facts["converted"]}
    return Decoded(inputs, kept, bad, join_digests(inputs, facts["blocks"]), shown)


def _map(pixels: Path, shape: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")  # nobody writes into a dataset
        return torch.from_numpy(np.memmap(pixels, np.uint8, "r", shape=shape)).permute(0, 3, 1, 2)


def _make(
    images: Images,
    transform: str,
    size: tuple[int, int],
    meta: Path,
    pixels: Path,
    name: str,
    progress: Progress | None,
    strict: bool,
) -> None:
    """Decode into PART, noting now and then how far it has come, and put it in place when it is whole."""
    n, part, notes = len(images), pixels.with_suffix(".part"), pixels.with_suffix(".part.json")
    shape = (n, size[1], size[0], 3)
    needed = int(np.prod(shape))
    state: dict[str, Any] = {"done": 0, "bad_rows": [], "bad_reasons": [], "converted": {}, "blocks": []}
    if part.exists() and notes.exists() and part.stat().st_size == needed:
        state = json.loads(notes.read_text())
    else:
        free = shutil.disk_usage(pixels.parent).free
        if needed > free:
            raise InputError(
                f"{name}: {n:,} decoded images of {size[0]} x {size[1]} need {needed / 1e9:.1f} GB in {pixels.parent}, "
                f"which has {free / 1e9:.1f} GB free; set TCSL_CACHE to a larger disk, or data.transform to a smaller "
                "size such as short:128,crop:112"
            )
        with open(part, "wb") as stream:
            stream.truncate(needed)
    array = np.memmap(part, np.uint8, "r+", shape=shape)
    apply = parse_transform(transform)

    def block(start: int) -> tuple[list[tuple[int, str]], list[str], str]:
        bad: list[tuple[int, str]] = []
        converted: list[str] = []
        stop = min(start + HASH_BLOCK, n)
        for i in range(start, stop):
            try:
                image, note = decode_image(images.content(i))
                image = apply(image)
                if image.size != size:
                    if strict:
                        raise _SizesDiffer
                    raise BadImage(
                        f"has {image.width} x {image.height} pixels, the first image {size[0]} x {size[1]} (choose a "
                        "data.transform such as short:256,crop:224)"
                    )
                array[i] = np.asarray(image)
                converted += [note] if note else []
            except BadImage as reason:
                bad.append((i, str(reason)))
            except OSError as error:
                bad.append((i, f"cannot be read ({error.strerror or error})"))
        return bad, converted, hashlib.sha256(array[start:stop].data).hexdigest()

    saved = time.monotonic()
    try:
        for bad, converted, digest in in_order(block, range(state["done"], n, HASH_BLOCK)):
            state["done"] = min(state["done"] + HASH_BLOCK, n)
            state["bad_rows"] += [i for i, _ in bad]
            state["bad_reasons"] += [why for _, why in bad]
            state["blocks"].append(digest)
            for note in converted:
                state["converted"][note] = state["converted"].get(note, 0) + 1
            if progress is not None:
                progress(f"decoding {name}", state["done"], n)
            if time.monotonic() - saved > _SAVE_EVERY:
                array.flush()
                write_atomic(notes, json.dumps(state))
                saved = time.monotonic()
    except _SizesDiffer:
        part.unlink()
        raise
    except BaseException:
        if state["done"]:
            array.flush()
            write_atomic(notes, json.dumps(state))
        raise
    if state["bad_rows"]:
        state["blocks"] = _close_gaps(array, part, state["bad_rows"])
    array.flush()
    os.replace(part, pixels)
    del state["done"]
    write_atomic(meta, json.dumps(state))
    notes.unlink(missing_ok=True)


def in_order(work: Callable[[int], Any], starts: range) -> Iterator[Any]:
    """Run `work` on all cores and yield its results in order; what nobody waits for any more is cancelled."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        waiting: list[Future[Any]] = []
        try:
            for start in starts:
                waiting.append(pool.submit(work, start))
                if len(waiting) > 4 * cores:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()


def _close_gaps(array: AnyArray, part: Path, bad_rows: list[int]) -> list[str]:
    """Move the good images together and return the digests of their blocks."""
    kept = np.delete(np.arange(len(array)), bad_rows)
    for start in range(0, len(kept), HASH_BLOCK):
        rows = kept[start : start + HASH_BLOCK]
        array[start : start + len(rows)] = array[rows]
    array.flush()  # type: ignore[attr-defined]
    os.truncate(part, int(np.prod(array.shape[1:])) * len(kept))
    return digest_blocks(_map(part, (len(kept), *array.shape[1:]))) if len(kept) else []


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
