"""`tcsl data`: what is known, getting it, building it, and checking one's own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tcsl.cli import options
from tcsl.cli.options import print_json, settings_from

if TYPE_CHECKING:
    from tcsl.config import Settings
    from tcsl.data.manifest import Manifest

app = typer.Typer(help="List, get, build and check datasets.", no_args_is_help=True, rich_markup_mode=None)
build = typer.Typer(help="Build a dataset from its sources.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(build, name="build")


@app.command("list")
def list_(root: options.Root = None, as_json: options.Json = False) -> None:
    """Show the known datasets, and which of them are here.

    Example: tcsl data list --root /data
    """
    from tcsl.data.known import data_root
    from tcsl.registry import DATASETS

    place = data_root(root or "")
    known = {name: DATASETS.get(name) for name in DATASETS.names()}
    if as_json:
        print_json({name: {"title": one.title, "present": one.present(place)} for name, one in known.items()})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Known datasets (files in {place})")
    for column in ("name", "here", "what it is"):
        table.add_column(column)
    for name, one in known.items():
        table.add_row(name, "yes" if one.present(place) else "no", one.title)
    Console().print(table)
    typer.echo("tcsl data get NAME downloads one, or says how to come by it")


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A known dataset (tcsl data list).", show_default=False)],
    root: options.Root = None,
    quiet: options.Quiet = False,
) -> None:
    """Download what may be downloaded, and say where to put the rest. An interrupted download goes on.

    Example: tcsl data get cmnist --root /data
    """
    from tcsl.data.download import fetch
    from tcsl.data.known import data_root
    from tcsl.data.unpack import unpack
    from tcsl.progress import reading
    from tcsl.registry import DATASETS

    known = DATASETS.get(name)
    if not known.markers:
        typer.echo(f"{name} needs no files: tcsl run {name}")
        return
    place = data_root(root or "")
    archives = []
    if not known.present(place):
        with reading(quiet=quiet) as progress:
            for remote, folder in known.remotes:
                archives.append(fetch(remote, place / folder, progress=progress))
                unpack(archives[-1], place / folder)
    if not known.present(place):
        steps = known.by_hand or f"{place / known.markers[0]} is missing; delete what is there and get it again"
        typer.echo(f"{name} is not in {place} yet: {steps.replace('ROOT', str(place))}")
        raise typer.Exit(1)
    for archive in archives:  # only now: a call that goes on after a kill finds those that it has
        archive.unlink(missing_ok=True)
    typer.echo(f"{name} is here, in {place}: tcsl run {name} --root {shlex.quote(str(place))}")


@app.command()
def check(
    source: options.Dataset,
    root: options.Root = None,
    columns: options.Columns = None,
    images: Annotated[
        bool, typer.Option(help="Open every image; without, only the list of samples is checked.")
    ] = True,
    set_: options.Set = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Tell what is in a dataset and what is wrong with it.

    The exit code is 1 where there are bad samples, copies across splits or labels, or units both in training and held
    out, and 2 where it cannot be read.

    Example: tcsl data check birds.csv --columns label=species
    """
    settings = settings_from(source, set_=set_, data__root=root, data__columns=columns)
    from tcsl.data.check import check_manifest, problems
    from tcsl.progress import reading

    manifest = _listed(settings, look=images)
    with reading(quiet=quiet) as progress:
        report = check_manifest(manifest, look=images, transform=settings.data.transform, progress=progress)
        shape = _input_shape(report, settings.data.transform)
        if shape is not None:
            from tcsl.estimate import estimate_run

            progress("timing a few steps", 0, None)
            n, classes, dtype = report["splits"]["train"], len(report["classes"]), report.get("dtype", "uint8")
            report["estimate"] = estimate_run(settings, n, shape, classes, dtype=dtype)
    if as_json:
        print_json(report)
    else:
        from rich.console import Console

        from tcsl.tables import render_check

        Console().print(render_check(report))
    if problems(report):
        raise typer.Exit(1)


def _listed(settings: Settings, *, look: bool) -> Manifest:
    """Return the samples of the dataset that the settings name, whether it is read or made."""
    from tcsl.data.columns import parse_columns
    from tcsl.data.read import read
    from tcsl.registry import DATASETS

    data = settings.data
    if data.name in DATASETS and DATASETS.get(data.name).read is None:
        from tcsl.data.check import manifest_of
        from tcsl.running import load_dataset

        made = load_dataset(settings)
        sets = {"train": made.train, "val": made.val, "test": made.test}
        return manifest_of({split: one for split, one in sets.items() if one is not None}, data.name)
    columns = parse_columns(data.columns)
    return read(data.name, root=data.root, columns=columns, on_bad="skip", options=data.options, look=look)


def _input_shape(report: Mapping[str, Any], transform: str) -> tuple[int, ...] | None:
    """Return the shape of one input of a run, as far as it is known."""
    if "shape" in report:
        return tuple(report["shape"])
    if not report.get("sizes", {}).get("most"):
        return None
    from PIL import Image

    from tcsl.data.cache import AUTO, AUTO_SIDE
    from tcsl.data.image import BadImage
    from tcsl.data.transform import parse_transform

    width, height = map(int, next(iter(report["sizes"]["most"])).split(" x "))
    if transform == "auto":
        transform = "none" if report["sizes"]["distinct"] == 1 and max(width, height) <= AUTO_SIDE else AUTO
    try:
        width, height = parse_transform(transform)(Image.new("RGB", (width, height))).size
    except BadImage:  # of a shape that the transform cannot take
        return None
    return 3, height, width


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all decoded images.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show where decoded images are kept and how much they take, or delete them.

    Example: tcsl data cache --clear
    """
    from tcsl.data import cache as decoded

    entries = decoded.entries()
    freed = decoded.clear() if clear else 0
    size = sum(entry.size for entry in entries)
    if as_json:
        print_json({"folder": str(decoded.folder()), "entries": len(entries), "bytes": size, "freed": freed})
        return
    from tcsl.tables import size_of

    if clear:
        typer.echo(f"deleted {size_of(freed)} from {decoded.folder()}")
    else:
        sets = "1 decoded set" if len(entries) == 1 else f"{len(entries)} decoded sets"
        typer.echo(f"{sets}, {size_of(size)}, in {decoded.folder()} (TCSL_CACHE)")


@build.command("waterbirds")
def build_waterbirds(
    cub: Annotated[Path, typer.Option(help="CUB_200_2011, with images and segmentations.", show_default=False)],
    places: Annotated[Path, typer.Option(help="Places365, the folder that holds data_large.", show_default=False)],
    root: options.Root = None,
    seed: Annotated[int, typer.Option(help="Of the draw of splits and backgrounds.")] = 0,
    quiet: options.Quiet = False,
) -> None:
    """Make Waterbirds and its core-only and spurious-only views; where Waterbirds is there, only the views.

    Example: tcsl data build waterbirds --cub CUB_200_2011 --places places365
    """
    from tcsl.data.build_waterbirds import build_waterbirds as make
    from tcsl.data.known import data_root
    from tcsl.progress import reading

    with reading(quiet=quiet) as progress:
        made = make(cub, places, data_root(root or ""), seed=seed, progress=progress)
    typer.echo(f"waterbirds is in {made}: tcsl run waterbirds --root {shlex.quote(str(made.parent))}")


@build.command("metashift")
def build_metashift(
    images: Annotated[Path, typer.Option(help="Visual Genome's images, ID.jpg.", show_default=False)],
    metadata: Annotated[Path, typer.Option(help="MetaShift's full-candidate-subsets.pkl.", show_default=False)],
    root: options.Root = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the images instead of linking to them.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Make the cat and dog, indoor and outdoor split of MetaShift's original release.

    Example: tcsl data build metashift --images allImages/images --metadata full-candidate-subsets.pkl
    """
    from tcsl.data.build_metashift import build_metashift as make
    from tcsl.data.known import data_root
    from tcsl.progress import reading

    with reading(quiet=quiet) as progress:
        made = make(images, metadata, data_root(root or ""), copy=copy, progress=progress)
    typer.echo(f"metashift is in {made}: tcsl run metashift --root {shlex.quote(str(made.parent))}")
