"""`tcsl report`: the page of a run, or one that compares several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tcsl.cli import options
from tcsl.cli.options import print_json


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="One run folder or more; one of several seeds counts as its seeds.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where the page goes; by default report.html in the run folder, or comparison.html here for several.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Make the page that shows a run, from what its folder holds; of several runs, a page that compares them.

    Example: tcsl report runs/demo
    """
    from tcsl.report.compare import seeds_of, write_comparison
    from tcsl.report.page import write_page

    paths = [path for run in runs for path in seeds_of(run)]
    if len(runs) == 1 and paths == runs:
        place = write_page(runs[0], out)
    else:
        default = runs[0] / "report.html" if len(runs) == 1 else Path("comparison.html")
        place = write_comparison(paths, default if out is None else out)
    if as_json:
        print_json({"page": str(place)})
        return
    typer.echo(str(place))
