"""What a logger is, and the epochs and results that every one of them is sent.

Everything comes from the run folder: an epoch is a line of metrics.jsonl, the rest is config.toml and result.json. So a
run that is resumed sends what a tool does not have yet, and a finished one can be sent later: `--resume --logger NAME`.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tcsl.bench.seeds import METRICS
from tcsl.config import flat
from tcsl.data.bad import shown
from tcsl.errors import InputError, TcslError, TcslWarning
from tcsl.files import write_atomic
from tcsl.registry import LOGGERS
from tcsl.runs import RunFolder

if TYPE_CHECKING:
    from tcsl.training.loop import Epoch

# Of each line of metrics.jsonl, where it has them. The loss comes last: a tool that has it has the whole line.
EPOCH = ("separation", "judged", "seconds", "memory", "loss")

_log = logging.getLogger("tcsl")


class Logger(Protocol):
    """A tool, open for one run.

    Attributes
    ----------
    sent : lines of metrics.jsonl that the tool has already
    where : what to type, or where to go, to look at it
    """

    sent: int
    where: str

    def epoch(self, stage: str, epoch: int, values: Mapping[str, float]) -> None:
        """Take the numbers of an epoch (1, 2, ...), by the names in `EPOCH`."""

    def finish(self, final: Final) -> None:
        """Take what is known at the end."""

    def close(self, *, failed: bool) -> None:
        """Write what is left; `failed`: the run is not finished."""


@dataclass(frozen=True)
class Final:
    """What is known at the end of a run: numbers and texts by name, and the page, where there is one."""

    numbers: dict[str, float]
    texts: dict[str, str]
    page: Path | None


@dataclass(frozen=True)
class Kind:
    """A tool: how it is opened, and what must hold before anything is made.

    Attributes
    ----------
    module : what must be importable
    open : from the run folder, the settings by dotted names and the run's identity in the tool
    check : raises InputError where the tool cannot be used
    """

    module: str
    open: Callable[[RunFolder, Mapping[str, Any], Identity], Logger]
    check: Callable[[], None] = lambda: None


class Identity:
    """Under which id a tool knows a run: kept in loggers.json of the run folder, so that a resumed run is the same."""

    def __init__(self, folder: RunFolder, name: str) -> None:
        self._path, self._name = folder.path / "loggers.json", name

    def get(self) -> str | None:
        """Return the id, or None where the tool does not know the run."""
        return self._all().get(self._name)

    def set(self, value: str) -> None:
        """Keep the id."""
        write_atomic(self._path, json.dumps({**self._all(), self._name: value}, indent=2) + "\n")

    def _all(self) -> dict[str, str]:
        return dict(json.loads(self._path.read_text())) if self._path.exists() else {}


def check_loggers(names: Sequence[str]) -> None:
    """Refuse loggers that do not exist, or cannot be used on this machine: before anything is read or made.

    >>> check_loggers(["tensorbord"])
    Traceback (most recent call last):
    tcsl.errors.InputError: unknown logger 'tensorbord'; did you mean 'tensorboard'? Known: mlflow, tensorboard, wandb
    """
    for name in names:
        kind: Kind = LOGGERS.get(name)
        try:
            import_module(kind.module)
        except ImportError as error:
            raise InputError(
                f"the logger {name!r} needs a package that cannot be imported ({error}): pip install 'tcsl[{name}]'"
            ) from None
        kind.check()


@contextmanager
def opened_loggers(names: Sequence[str], folder: RunFolder) -> Iterator[Callable[[Epoch], None]]:
    """Open the tools and yield what sends them an epoch; at the end they are sent the results, and closed."""
    sending = _Sending(folder)
    failed = True
    try:
        for name in dict.fromkeys(names):
            tool = sending.tools[name] = _opened(name, folder)
            _log.info(f"{name}: {tool.where}")
        yield sending.report
        if folder.done:
            sending.finish()
            failed = False
    finally:
        sending.each(lambda tool: tool.close(failed=failed))


class _Sending:
    """The open tools of a run, and how many lines of its metrics.jsonl they were offered in this session."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.tools: dict[str, Logger] = {}
        self.offered = 0

    def report(self, epoch: Epoch) -> None:
        """Send an epoch that metrics.jsonl has; the first time, all that it has."""
        self._send([asdict(epoch)] if self.offered else self.folder.metrics())

    def finish(self) -> None:
        """Send what is known at the end."""
        if not self.offered:
            self._send(self.folder.metrics())
        final = final_of(self.folder)
        self.each(lambda tool: tool.finish(final))

    def _send(self, lines: Sequence[Mapping[str, Any]]) -> None:
        def send(tool: Logger) -> None:
            for number, line in enumerate(lines, self.offered):
                if number >= tool.sent:
                    values = {name: line[name] for name in EPOCH if line.get(name) is not None}
                    tool.epoch(line["stage"], line["epoch"], values)

        self.each(send)
        self.offered += len(lines)

    def each(self, call: Callable[[Logger], None]) -> None:
        """Do it with every tool; one that fails is left out: a training is worth more than its log."""
        for name, tool in list(self.tools.items()):
            try:
                call(tool)
            except Exception as error:  # each raises its own kinds: of networks, servers, databases
                del self.tools[name]
                warnings.warn(
                    f"the logger {name!r} failed and is left out from here on: {_first_line(error)}. The run goes on; "
                    f"the same command with --resume --logger {name} sends what is missing",
                    TcslWarning,
                    stacklevel=2,
                )


def _opened(name: str, folder: RunFolder) -> Logger:
    kind: Kind = LOGGERS.get(name)
    try:
        return kind.open(folder, flat(folder.settings()), Identity(folder, name))
    except TcslError:
        raise
    except Exception as error:  # each raises its own kinds: of networks, servers, databases
        raise InputError(
            f"the logger {name!r} could not be opened: {_first_line(error)}. Nothing was trained; the run folder "
            f"{folder.path} is kept: go on in it with --resume, with or without --logger {name}"
        ) from None


def run_name(folder: RunFolder) -> str:
    """Return what tools call the run: the last two parts of its path, such as runs/demo or five/seed-0."""
    return "/".join(folder.path.resolve().parts[-2:])


def final_of(folder: RunFolder) -> Final:
    """Return what is sent at the end of a run."""
    numbers, texts = facts_of(folder.result())
    page = folder.path / "report.html"
    return Final(numbers, texts, page if page.is_file() else None)


def facts_of(result: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Return the numbers and texts of a result: accuracies and coresets by method, G_high, the verdict where it is.

    >>> evaluated = {"evaluation": {"cb_erm": {"wga": 0.5, "average": 0.75, "wga_cells": None}}}
    >>> facts_of(evaluated | {"coresets": {"tcsl_cs": {"n": 40}}, "identification": {"n": 200, "g_high": 12}})
    ({'cb_erm/wga': 0.5, 'cb_erm/average': 0.75, 'tcsl_cs/samples': 40, 'g_high': 12}, {})
    >>> facts_of({"verdict": {"found": True, "sentence": "There is one.", "p": 0.01}})
    ({'verdict/found': 1, 'verdict/p': 0.01}, {'verdict': 'There is one.'})
    """
    numbers: dict[str, float | None] = {}
    for method, accuracies in result.get("evaluation", {}).items():
        numbers |= {f"{method}/{metric}": accuracies.get(metric) for metric in METRICS}
    numbers |= {f"{method}/samples": coreset["n"] for method, coreset in result.get("coresets", {}).items()}
    numbers["g_high"] = (result.get("identification") or result).get("g_high")
    verdict = result.get("verdict") or {}
    found = verdict.get("found")
    numbers |= {"verdict/found": None if found is None else int(found), "verdict/p": verdict.get("p")}
    texts = {"verdict": verdict["sentence"]} if "sentence" in verdict else {}
    return {name: value for name, value in numbers.items() if value is not None}, texts


def _first_line(error: Exception) -> str:
    return shown(str(error).strip().split("\n")[0], 600).rstrip(".") or type(error).__name__
