"""`tcsl show`: what is in a run folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcsl.cli import options
from tcsl.cli.options import print_json

if TYPE_CHECKING:
    from tcsl.runs import RunFolder


def show(
    run: Annotated[Path, typer.Argument(help="A run folder, of one seed or of several.", show_default=False)],
    as_json: options.Json = False,
) -> None:
    """Show a run's result, or how far it has come.

    Example: tcsl show runs/demo
    """
    from tcsl.bench.seeds import summarise_results
    from tcsl.runs import RunFolder

    if (run / "summary.json").is_file():
        summary = json.loads((run / "summary.json").read_text())
    else:
        folder = RunFolder.find(run)
        if not folder.done:
            _show_progress(folder, as_json)
            return
        result = folder.result()
        summary = summarise_results([result]) if "evaluation" in result else {**folder.spent(), **result}
    if as_json:
        print_json(summary)
        return
    from rich.console import Console

    from tcsl.tables import print_summary, render_stages, said_of_model

    if "methods" in summary:
        print_summary(summary, Console())
        seconds, memory = summary["seconds"], summary.get("memory", [])
    else:
        seconds, memory = [summary.pop("seconds")], [summary.pop("memory")]
        models = {f"model {name}": said_of_model(model) for name, model in summary.pop("models", {}).items()}
        typer.echo("  ".join(f"{name} {value}" for name, value in {**summary, **models}.items()))
    Console().print(render_stages(seconds, memory))


def _show_progress(folder: RunFolder, as_json: bool) -> None:
    last = {line["stage"]: line for line in folder.metrics()}
    if as_json:
        print_json({"done": False, "stages": last})
        return
    typer.echo(f"{folder.path} is not finished; go on with the same command and --resume")
    for stage, line in last.items():
        apart = "" if line.get("separation") is None else f", separation {line['separation']:.2f}"
        typer.echo(f"  {stage}: epoch {line['epoch']} of {line['epochs']}, loss {line['loss']:.4f}{apart}")
    if last:
        from rich.console import Console

        from tcsl.tables import render_stages

        Console().print(render_stages([folder.seconds()], [folder.memory()]))
