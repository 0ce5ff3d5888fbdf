"""`tcsl export`: a run in the forms that others read."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tcsl.cli import options
from tcsl.errors import InputError
from tcsl.registry import unknown

if TYPE_CHECKING:
    from tcsl.export.fiftyone import ImageFiles
    from tcsl.export.marked import Marked, Only
    from tcsl.scores import Coreset

_MARKED: dict[str, Only] = {"hub": "coreset", "csv": "all", "fiftyone": "all"}  # which samples they have by default


def export(
    run: options.Run,
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
    hub: Annotated[
        Path | None,
        typer.Option(
            help="A Hugging Face dataset on disk: image, label, id, scores, and what tcsl explore marked.",
            show_default=False,
        ),
    ] = None,
    fiftyone: Annotated[
        Path | None,
        typer.Option(help="A FiftyOne dataset on disk, with tags g_high, coreset and marked.", show_default=False),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            help="A sheet: id, label, scores, what tcsl explore marked, file:// link; an apostrophe goes before text "
            "that begins with = + - @ or a tab.",
            show_default=False,
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            help="The scores and curves of every training sample: .csv, .tsv, .parquet or .jsonl.", show_default=False
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Of --hub, --fiftyone and --csv: coreset, or all training samples. By default "
            "coreset for --hub, all for the others.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        str | None,
        typer.Option(
            help="Of --fiftyone: copy the images (by default; arrays become PNG), or link to the files.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="The method whose coreset it is.")] = "tcsl_cs",
    coreset: Annotated[
        Path | None, typer.Option(help="Another coreset.parquet of the same data.", show_default=False)
    ] = None,
) -> None:
    """Write a run's coreset, scores or samples in other forms.

    Example: tcsl export runs/mine --table kept.csv --links kept/

    Example: tcsl export runs/mine --fiftyone mine_fo --csv mine.csv

    Example: tcsl export runs/mine --hub mine_hf --only all
    """
    from tcsl.export import links as linked
    from tcsl.export import tables
    from tcsl.export.fiftyone import export_fiftyone
    from tcsl.export.hub import export_hub
    from tcsl.export.marked import stored_coreset, stored_scores
    from tcsl.export.place import TABLES, check_place
    from tcsl.export.sheet import SHEETS, export_sheet
    from tcsl.runs import RunFolder
    from tcsl.scores import Coreset

    folder = RunFolder.find(run)
    settings, class_names = folder.settings(), folder.data()["class_names"]
    places = {
        "ids": ids,
        "table": table,
        "links": links,
        "hub": hub,
        "fiftyone": fiftyone,
        "csv": csv,
        "scores": scores,
    }
    wanted = {form: path for form, path in places.items() if path is not None}
    if not wanted:
        raise InputError(f"say what to write, with a path: {', '.join(f'--{form}' for form in places)}")
    _check_options(wanted, only, images)
    endings = {"table": TABLES, "scores": TABLES, "csv": SHEETS}
    for form, path in wanted.items():  # before anything is written
        check_place(path, endings.get(form, ()))
    if scores is not None:
        tables.export_scores(stored_scores(folder), scores)
        typer.echo(f"the scores are in {scores}")
        del wanted["scores"]
    if not wanted:
        return
    kept = stored_coreset(folder, method) if coreset is None else Coreset.load(coreset)
    which = {form: only or usual for form, usual in _MARKED.items() if form in wanted}
    opened = {samples: _opened(run, kept, samples) for samples in sorted(set(which.values()))}
    marked = {form: opened[samples] for form, samples in which.items()}
    said: list[str] = []
    if ids is not None:
        tables.export_ids(kept, ids)
    if table is not None:
        relative_to = tables.export_table(kept, settings, table, class_names=class_names)
        if relative_to is not None:
            root = shlex.quote(str(relative_to))
            said.append(f"the paths in {table} are relative to {relative_to}: add --root {root}")
    if links is not None:
        leads_to = linked.export_links(kept, settings, links, class_names=class_names)
        command = shlex.join(["tcsl", "run", str(links), "--root", str(leads_to)])
        said.append(f"the links lead to {leads_to}: {command}")
    if hub is not None:
        export_hub(marked["hub"], hub)
    if fiftyone is not None:
        export_fiftyone(marked["fiftyone"], fiftyone, images=cast("ImageFiles", images or "copy"))
        said.append(f"open it with fiftyone.Dataset.from_dir({str(fiftyone)!r}, fiftyone.types.FiftyOneDataset)")
    if csv is not None and (changed := export_sheet(marked["csv"], csv)):
        said.append(f"an apostrophe stands before {changed:,} cells of {csv} that a spreadsheet may take for formulas")
    if any("tcsl_s" not in samples.table.columns for samples in marked.values()):
        said.append(f"{run} has no scores, so tcsl_s, tcsl_c and g_high are left out")
    for form, path in wanted.items():
        typer.echo(f"{len(marked.get(form, kept))} samples ({form}) are in {path}")
    for line in said:
        typer.echo(line)


def _check_options(wanted: Collection[str], only: str | None, images: str | None) -> None:
    """Refuse options that none of the forms reads, or that one of them cannot follow."""
    if only not in (None, "coreset", "all"):
        raise unknown("--only", str(only), ["coreset", "all"])
    marked = ", ".join(f"--{form}" for form in _MARKED)
    if only == "all" and (others := [f"--{form}" for form in ("ids", "table", "links") if form in wanted]):
        raise InputError(f"--only all is for {marked}; {' and '.join(others)} have the coreset")
    if only == "coreset" and set(wanted) == {"scores"}:
        raise InputError(f"--only is for {marked}; --scores has every training sample")
    if images not in (None, "copy", "link"):
        raise unknown("--images", str(images), ["copy", "link"])
    if images is not None and "fiftyone" not in wanted:
        raise InputError("--images is for --fiftyone")


def _opened(run: Path, kept: Coreset, only: str) -> Marked:
    """Return a run's samples with their marks, with a bar while images are decoded."""
    from tcsl.export.marked import open_marked
    from tcsl.progress import reading

    with reading() as progress:
        return open_marked(run, coreset=kept, only=cast("Only", only), progress=progress)
