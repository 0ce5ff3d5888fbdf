"""`tcsl export`: a coreset and scores as others read them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcsl.errors import InputError

if TYPE_CHECKING:
    from tcsl.runs import RunFolder


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    ids: Annotated[Path | None, typer.Option(help="The coreset's ids, one a line.", show_default=False)] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="The rows of the input table that are kept: .csv, .tsv, .parquet or .jsonl.", show_default=False
        ),
    ] = None,
    links: Annotated[
        Path | None, typer.Option(help="A folder of class folders with links to the images.", show_default=False)
    ] = None,
    hub: Annotated[Path | None, typer.Option(help="A Hugging Face dataset on disk.", show_default=False)] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="The scores of every training sample: .csv, .tsv, .parquet or .jsonl.", show_default=False),
    ] = None,
    method: Annotated[str, typer.Option(help="The method whose coreset it is.")] = "tcsl_cs",
    coreset: Annotated[
        Path | None, typer.Option(help="Another coreset.parquet of the same data.", show_default=False)
    ] = None,
) -> None:
    """Write a run's coreset or scores in other forms.

    Example: tcsl export runs/mine --table kept.csv --links kept/
    """
    from tcsl import export as forms
    from tcsl.runs import RunFolder
    from tcsl.scores import Coreset, Scores

    if (run / "summary.json").is_file():
        raise InputError(f"{run} holds several seeds: name one of them, such as {run / 'seed-0'}")
    folder = RunFolder.find(run)
    settings, class_names = folder.settings(), folder.data()["class_names"]
    places = {"ids": ids, "table": table, "links": links, "hub": hub, "scores": scores}
    wanted = {form: path for form, path in places.items() if path is not None}
    if not wanted:
        raise InputError("say what to write: --ids, --table, --links, --hub or --scores, with a path")
    for form, path in wanted.items():  # before anything is written
        forms.check_place(path, table=form in ("table", "scores"))
    if scores is not None:
        if not (run / "scores.parquet").is_file():
            raise InputError(f"{run} has no scores{_why_not(folder, scoring=True)}")
        forms.export_scores(Scores.load(run / "scores.parquet"), scores)
        typer.echo(f"the scores are in {scores}")
        del wanted["scores"]
    if not wanted:
        return
    if coreset is None and not folder.coreset_path(method).is_file():
        raise InputError(f"{run} has no coreset of {method}{_why_not(folder)}")
    kept = Coreset.load(coreset if coreset is not None else folder.coreset_path(method))
    relative_to = None
    if ids is not None:
        forms.export_ids(kept, ids)
    if table is not None:
        relative_to = forms.export_table(kept, settings, table, class_names=class_names)
    if links is not None:
        images = forms.export_links(kept, settings, links, class_names=class_names)
        typer.echo(f"the links lead to {images}: tcsl run {links} --root {images}")
    if hub is not None:
        forms.export_hub(kept, settings, hub, class_names=class_names)
    for form, path in wanted.items():
        typer.echo(f"{len(kept)} samples ({form}) are in {path}")
    if relative_to is not None:
        typer.echo(f"the paths in {table} are relative to {relative_to}: add --root {shlex.quote(str(relative_to))}")


def _why_not(folder: RunFolder, *, scoring: bool = False) -> str:
    """Say why a run lacks scores, or a method's coreset, and what to do."""
    methods = folder.settings().methods
    if not folder.done and methods:
        return " yet: it is not finished, go on with the same command and --resume"
    if scoring:
        return ": no method that scores was run"
    there = [name for name in methods if folder.coreset_path(name).is_file()]
    return f"; it has those of {', '.join(there)} (--method)" if there else "; make one with tcsl select, for --coreset"
