"""Options that several commands share, and what they all do with them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tcsl.config import Settings, parse_override, resolve
from tcsl.data.source import source_name
from tcsl.selection import quota

if TYPE_CHECKING:
    from tcsl.data.dataset import Splits

Dataset = Annotated[
    str,
    typer.Argument(
        help="A known dataset (tcsl data list), a folder of class folders, a table (.csv, .tsv, .parquet, .jsonl), "
        "arrays (.npz, .safetensors), shards (.tar), or hf:NAME.",
        show_default=False,
    ),
]
Run = Annotated[Path, typer.Argument(help="The folder of a finished run, of one seed.", show_default=False)]
Root = Annotated[
    Path | None,
    typer.Option(
        help="Where a known dataset's files are ($TCSL_DATA or ./data by default), or a table's images.",
        show_default=False,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns with unusual names, such as label=y,group=place,unit=patient.", show_default=False),
]
OnBad = Annotated[
    str | None,
    typer.Option(help="Samples that cannot be used: error (by default) or skip.", show_default=False),
]
Ratio = Annotated[
    str | None,
    typer.Option(
        help="r in (0, 1]: the part that is kept; auto, with TCSL-CS: three times what contradicts the shortcut.",
        metavar="R",
        show_default=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(help="Of the data's draw, the weights, the order, the selection; 0 by default.", show_default=False),
]
Profile = Annotated[
    str | None,
    typer.Option(
        help="default (what measured best), fast (6 % of its epochs in stage 2) or paper (literal).",
        show_default=False,
    ),
]
ModelSelection = Annotated[
    str | None,
    typer.Option(
        help="Which epoch of a final model is evaluated: last (by default); average, the mean of the weights in the "
        "last fifth; or the best on the validation set by worst_class, worst_group (told its groups) or "
        "balanced_by_bias (not told).",
        show_default=False,
    ),
]
Config = Annotated[Path | None, typer.Option(help="A TOML file of settings.", show_default=False)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting, such as train.epochs=20; may be repeated.", show_default=False),
]
Device = Annotated[
    str | None, typer.Option(help="auto, cpu, cuda, cuda:1 or mps; auto by default.", show_default=False)
]
Logger = Annotated[
    list[str] | None,
    typer.Option(
        help="tensorboard, wandb or mlflow: every epoch, the settings and the result go there, too; may be repeated. "
        "Extras: pip install 'tcsl[tensorboard]'. Files are in the run folder; wandb sends them to its server unless "
        "WANDB_MODE=offline, mlflow only where MLFLOW_TRACKING_URI is set.",
        show_default=False,
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on in an existing folder from its last finished epoch.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


def settings_from(
    dataset: str,
    *,
    profile: str | None = None,
    config: Path | None = None,
    set_: list[str] | None = None,
    **named: Any,
) -> Settings:
    """Put the settings of a command together; `named` are dotted names with __ for the dot, None where not given."""
    overrides = overrides_from(set_, **named)
    return resolve(profile=profile, dataset=source_name(dataset), file=config, overrides=overrides)


def ratio_of(text: str | None) -> quota.Ratio | None:
    """Read --ratio, where it is given."""
    return None if text is None else quota.read_ratio(text)


def overrides_from(set_: list[str] | None, **named: Any) -> dict[str, Any]:
    """Return the overrides of a command by dotted names."""
    given = {name.replace("__", "."): value for name, value in named.items() if value is not None}
    if "data.root" in given:
        given["data.root"] = str(given["data.root"])
    return dict(parse_override(text) for text in set_ or []) | given


def read_data(settings: Settings, logger: list[str] | None, *, quiet: bool, only_train: bool = False) -> Splits:
    """Read the data of a command that trains, with a bar; a logger that cannot work is said before."""
    from tcsl.loggers.base import check_loggers
    from tcsl.progress import reading
    from tcsl.running import load_dataset

    check_loggers(logger or ())
    with reading(quiet=quiet) as progress:
        return load_dataset(settings, progress, only_train=only_train)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """On Ctrl-C say that the state is saved, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        words = [word for word in sys.argv[1:] if word != "--resume"]
        if "--out" not in words:
            words += ["--out", str(out)]
        command = shlex.join(["tcsl", *words, "--resume"])
        sys.stderr.write(f"\ninterrupted. Every finished epoch is saved in {out}; go on with:\n  {command}\n")
        sys.exit(130)
