"""Several trainings on one GPU, in turns: each launches a step on its own stream and passes on; the GPU overlaps them.

Only one thread runs at a time, so nothing that Python or torch share between threads is touched by two. What overlaps
is the work on the GPU, which a small net leaves mostly idle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

T = TypeVar("T")
_here = threading.local()


class _Stopped(BaseException):
    """The others have failed or were interrupted."""


class _Turns:
    def __init__(self, n: int) -> None:
        self.changed = threading.Condition()
        self.waiting = list(range(n))  # the first has its turn
        self.stopped = False

    def wait(self, k: int) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.stopped or self.waiting[0] == k)
            if self.stopped:
                raise _Stopped

    def pass_on(self, k: int) -> None:
        with self.changed:
            if len(self.waiting) == 1 and not self.stopped:
                return
            self.waiting.append(self.waiting.pop(0))
            self.changed.notify_all()
        self.wait(k)

    def leave(self, k: int, *, failed: bool) -> None:
        with self.changed:
            self.waiting.remove(k)
            self.stopped |= failed
            self.changed.notify_all()


def pass_on() -> None:
    """Let the next training go on until it passes on; nothing where there are no others."""
    if (mine := getattr(_here, "turn", None)) is not None:
        turns, k = mine
        turns.pass_on(k)


def in_turns(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run the tasks in threads, one at a time, changing where they call `pass_on`; return what they return.

    The first error stops all of them and is raised; Ctrl-C stops them, too.

    >>> in_turns([lambda: 1, lambda: 2])
    [1, 2]
    """
    turns = _Turns(len(tasks))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def work(k: int, task: Callable[[], T]) -> None:
        failed = True
        _here.turn = (turns, k)
        try:
            turns.wait(k)
            results[k] = task()
            failed = False
        except _Stopped:
            pass
        except BaseException as error:
            errors.append(error)
        finally:
            turns.leave(k, failed=failed)
            ended[k].set()

    # Events and not join: a join that Ctrl-C interrupts takes its thread for ended.
    ended = [threading.Event() for _ in tasks]
    begun: list[threading.Event] = []
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices):  # each training restores what it found, but not in the order of a stack
        try:
            for k, task in enumerate(tasks):
                threading.Thread(target=work, args=(k, task), daemon=True).start()
                begun.append(ended[k])
            for event in begun:
                event.wait()
        finally:
            with turns.changed:
                turns.stopped = True
                turns.changed.notify_all()
            for event in begun:
                event.wait()
    if errors:
        raise errors[0]
    return [results[k] for k in range(len(tasks))]
