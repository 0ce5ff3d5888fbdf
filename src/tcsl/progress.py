"""Progress in the terminal: a bar a run with its stage, epoch, loss and time left; plain lines where it is a file.

In stage 1 it says how far the two clusters of losses have come apart, too (`scoring/separation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column


class ProgressBars:
    """Bars on standard error, one for each key (a seed); a context manager."""

    def __init__(self, plans: Mapping[int, Mapping[str, int]], *, quiet: bool = False) -> None:
        """Take, for each key, the stages to come and their steps."""
        self._console = Console(stderr=True, quiet=quiet)
        self._plans = plans
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),  # what the text leaves
            TextColumn("{task.percentage:>3.0f} %"),
            *([TimeElapsedColumn(Column(no_wrap=True))] if self._console.width >= 100 else []),
            TextColumn("left"),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            console=self._console,
            disable=not self._console.is_terminal or quiet,
            speed_estimate_period=24 * 3600,  # an epoch may take longer than rich's 30 s, which then knows no speed
        )
        self._tasks: dict[int, TaskID] = {}

    def __enter__(self) -> Self:
        """Show the bars."""
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bars as they are."""
        self._bars.stop()

    def report(self, key: int, epoch: Any) -> None:
        """Move a bar after an epoch."""
        plan = self._plans[key]
        stages = list(plan)
        before = sum(plan[stage] for stage in stages[: stages.index(epoch.stage)])
        name = f"seed {key}  " if len(self._plans) > 1 else ""
        apart = "" if epoch.separation is None else f"  separation {epoch.separation:.2f}"
        number = f"{epoch.epoch:>{len(str(epoch.epochs))}}/{epoch.epochs}"
        text = f"{name}{epoch.stage:<7} epoch {number}  loss {epoch.loss:.4f}{apart}"
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task(text, total=sum(plan.values()))
        made = before + plan[epoch.stage] * epoch.step / epoch.steps  # a stage may take other steps than was planned
        self._bars.update(self._tasks[key], completed=made, description=text)
        if not self._console.is_terminal and epoch.epoch == epoch.epochs:
            self._console.print(f"{text}  {100 * made / sum(plan.values()):.0f} % done", highlight=False)


@contextmanager
def reading(*, quiet: bool = False) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a bar while data is read; what is yielded takes what is done, how far it is, and of how much."""
    console = Console(stderr=True, quiet=quiet)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal or quiet,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def report(what: str, done: int, total: int | None) -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=total)
        bars.update(tasks[what], completed=done)

    with bars:
        yield report
