"""The command line: thin commands over the Python functions; torch is imported only where it is needed."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Any

import typer

from tcsl.cli import config, data, explore, export, figures, methods, parts, report, run, select, show
from tcsl.errors import TcslError, TcslWarning

app = typer.Typer(
    name="tcsl",
    help="Find the shortcut in a labelled dataset and keep the small, debiased part of it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("score")(parts.score)
app.command("select")(select.select)
app.command("train")(parts.train)
app.command("evaluate")(parts.evaluate)
app.command("show")(show.show)
app.command("figures")(figures.figures)
app.command("report")(report.report)
app.command("explore")(explore.explore)
app.command("export")(export.export)
app.command("methods")(methods.methods)
app.add_typer(data.app, name="data")
app.add_typer(config.app, name="config")


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        from tcsl import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; an error that the user can act on is printed without a traceback."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")  # ours are enough
    told = logging.StreamHandler()
    told.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("tcsl")
    logger.handlers = [told]  # one, also where a process calls this more than once
    logger.setLevel(logging.WARNING if "--quiet" in sys.argv else logging.INFO)
    try:
        app()
    except TcslError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except SystemExit as end:  # typer makes a quiet exit of Ctrl-C; `resumable` says its own
        if end.code == 130 and not isinstance(end.__context__, KeyboardInterrupt):
            sys.stderr.write("\ninterrupted. What was decoded or downloaded is kept: the same command goes on.\n")
        raise


_shown: set[str] = set()


def _show_warning(message: Any, category: type[Warning], *where: Any) -> None:
    """Print our warnings, each once; other libraries' are not for the user of a command."""
    if issubclass(category, TcslWarning) and str(message) not in _shown:
        _shown.add(str(message))
        sys.stderr.write(f"warning: {message}\n")
