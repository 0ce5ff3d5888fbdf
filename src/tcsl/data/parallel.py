"""Work on all cores whose results are wanted in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[int], Any], starts: range) -> Generator[Any]:
    """Run `work` on all cores and yield its results in order; what nobody waits for any more is cancelled."""
    workers = cores()
    with ThreadPoolExecutor(workers) as pool:
        waiting: list[Future[Any]] = []
        try:
            for start in starts:
                waiting.append(pool.submit(work, start))
                if len(waiting) > 4 * workers:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
