"""What the C library does with the memory that a net on the CPU frees."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of glibc's mallopt
_KEPT = {_MMAP_THRESHOLD: 128 << 20, _TRIM_THRESHOLD: -1}  # blocks of up to 128 MB, however many are free
_USUAL = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}  # where glibc's own adapting ends

_lock = threading.Lock()
_holders = 0


@contextmanager
def kept_heap() -> Iterator[None]:
    """Keep freed memory for the next batch; at the end of the outermost such block it is handed back.

    glibc hands freed blocks above 32 MB back to the system, which clears each page again when it is next asked for. On
    images of 224 pixels that is half of an evaluation with MobileNetV2 and 12 % of an epoch of ResNet50, whose peak
    memory is a quarter higher for it (docs/benchmarks.md). With another C library nothing is done.
    """
    global _holders
    libc = _glibc()
    if libc is None:
        yield
        return
    with _lock:
        _holders += 1
        if _holders == 1:
            _tell(libc, _KEPT)
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _tell(libc, _USUAL)
                libc.malloc_trim(0)


def _tell(libc: ctypes.CDLL, options: dict[int, int]) -> None:
    for option, value in options.items():
        libc.mallopt(option, value)


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
