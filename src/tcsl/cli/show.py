"""`tcsl show`: what is in a run folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    from tcsl.errors import RunFolderError
    from tcsl.runs import RunFolder, begun_seeds

    if (run / "summary.json").is_file():
        try:
            summary = dict(json.loads((run / "summary.json").read_text()))
        except (TypeError, ValueError) as error:
            again = "the same command with --resume writes it again"
            raise RunFolderError(f"{run / 'summary.json'} is damaged ({error}): {again}") from None
    elif seeds := begun_seeds(run):
        _show_progress([RunFolder.find(seed) for seed in seeds], as_json)
        return
    else:
        folder = RunFolder.find(run)
        if not folder.done:
            _show_progress([folder], as_json)
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


def _show_progress(folders: Sequence[RunFolder], as_json: bool) -> None:
    """Show how far a run has come, or each of several seeds."""
    stages = {folder.path: {line["stage"]: line for line in folder.metrics()} for folder in folders}
    if as_json:
        how_far = [{"done": folder.done, "stages": stages[folder.path]} for folder in folders]
        several = {folder.path.name: one for folder, one in zip(folders, how_far, strict=True)}
        print_json(how_far[0] if len(folders) == 1 else {"done": False, "seeds": several})
        return
    for folder in folders:
        state = "finished" if folder.done else "not finished; go on with the same command and --resume"
        typer.echo(f"{folder.path} is {state}")
        for stage, line in stages[folder.path].items():
            apart = "" if line.get("separation") is None else f", separation {line['separation']:.2f}"
            typer.echo(f"  {stage}: epoch {line['epoch']} of {line['epochs']}, loss {line['loss']:.4f}{apart}")
    if all(folder.done for folder in folders):
        typer.echo("all are finished: the same command with --resume writes what they have in common")
    if len(folders) == 1 and stages[folders[0].path]:
        from rich.console import Console

        from tcsl.tables import render_stages

        Console().print(render_stages([folders[0].seconds()], [folders[0].memory()]))
