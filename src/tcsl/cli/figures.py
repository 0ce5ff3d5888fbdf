"""`tcsl figures`: the figures of a run, for a paper or a talk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tcsl.cli import options
from tcsl.cli.options import print_json


def figures(
    run: options.Run,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the figures; RUN/figures by default.", show_default=False)
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw a run's figures, each as SVG and PNG; the same run gives the same bytes.

    map (TCSL_s x TCSL_c, by cluster, what is kept marked), loss-curves (of the biased model, G_high and G_low),
    densities (of the scores by cluster) and densities-by-group, composition (of the coreset against the full set),
    accuracy (by group or class, before and after), contradicting (the samples that contradict the shortcut most).

    What a run has nothing for is left out, and said: groups, a test set, pictures.

    Example: tcsl figures runs/demo --out paper/figures
    """
    from tcsl.progress import reading
    from tcsl.report.drawing import save_figures

    with reading(quiet=quiet) as progress:
        files, missing = save_figures(run, out, progress=progress)
    if as_json:
        print_json({"files": [str(file) for file in files], "missing": missing})
        return
    for file in files:
        typer.echo(str(file))
    for name, why in missing.items():
        typer.echo(f"not drawn: {name}: {why}")
