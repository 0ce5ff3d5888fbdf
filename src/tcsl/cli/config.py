"""`tcsl config`: settings, with their meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tcsl.cli import options
from tcsl.cli.options import print_json, settings_from
from tcsl.config import PROFILES, flat, to_toml
from tcsl.registry import DATASETS, unknown

app = typer.Typer(help="Show settings.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Show settings."""


@app.command()
def show(
    dataset: Annotated[str, typer.Option(help="With the preset of this dataset.", show_default=False)] = "",
    profile: options.Profile = None,
    config: options.Config = None,
    set_: options.Set = None,
    compare: Annotated[bool, typer.Option("--compare", help="Show only what differs between the profiles.")] = False,
    as_json: options.Json = False,
) -> None:
    """Print every setting as TOML, with what it means; the output is a valid --config file.

    Example: tcsl config show --profile paper --dataset digits
    """
    if dataset and dataset not in DATASETS and not dataset.startswith("hf:") and not Path(dataset).exists():
        raise unknown("dataset", dataset, DATASETS.names())
    if compare:
        sides = {name: flat(settings_from(dataset, profile=name, config=config, set_=set_)) for name in PROFILES}
        names = [name for name in sides["default"] if len({repr(side[name]) for side in sides.values()}) > 1]
        table = {name: {profile: side[name] for profile, side in sides.items()} for name in names}
        if as_json:
            print_json(table)
            return
        for name, values in table.items():
            typer.echo(f"{name}: " + ", ".join(f"{profile} {value!r}" for profile, value in values.items()))
        return
    settings = settings_from(dataset, profile=profile, config=config, set_=set_)
    if as_json:
        print_json(flat(settings))
    else:
        typer.echo(to_toml(settings), nl=False)
