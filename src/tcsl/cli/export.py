"""`tcsl export`: a coreset and scores as others read them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tcsl.errors import InputError


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

    folder = RunFolder.find(run)
    settings = folder.settings()
    wanted = {"ids": ids, "table": table, "links": links, "hub": hub}
    if scores is None and not any(wanted.values()):
        raise InputError("say what to write: --ids, --table, --links, --hub or --scores, with a path")
    if scores is not None:
        forms.export_scores(Scores.load(run / "scores.parquet"), scores)
        typer.echo(f"the scores are in {scores}")
    if not any(wanted.values()):
        return
    kept = Coreset.load(coreset if coreset is not None else folder.coreset_path(method))
    if ids is not None:
        forms.export_ids(kept, ids)
    if table is not None:
        forms.export_table(kept, settings, table, class_names=folder.data()["class_names"])
    if links is not None:
        forms.export_links(kept, settings, links)
    if hub is not None:
        forms.export_hub(kept, settings, hub)
    for what, path in wanted.items():
        if path is not None:
            typer.echo(f"{len(kept)} samples ({what}) are in {path}")
