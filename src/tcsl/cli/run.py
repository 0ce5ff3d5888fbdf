"""`tcsl run`: the whole, for one seed or several."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tcsl.cli import options
from tcsl.cli.options import print_json, read_data, resumable, settings_from
from tcsl.errors import InputError


def run(
    dataset: options.Dataset,
    ratio: options.Ratio = None,
    seed: options.Seed = None,
    seeds: Annotated[
        int | None, typer.Option(help="Run this many seeds, from --seed on, and compare.", show_default=False)
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="One of `tcsl methods`; may be repeated.", show_default=False),
    ] = None,
    model_selection: options.ModelSelection = None,
    root: options.Root = None,
    columns: options.Columns = None,
    on_bad: options.OnBad = None,
    profile: options.Profile = None,
    config: options.Config = None,
    set_: options.Set = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder; runs/NAME-HASH by default.", show_default=False)
    ] = None,
    resume: options.Resume = False,
    jobs: Annotated[
        int | None,
        typer.Option(help="Seeds at a time; as many as the cores allow by default.", show_default=False),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Make no page of the run (report.html).")] = False,
    device: options.Device = None,
    logger: options.Logger = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Score the data, select the coreset, train on it, and compare with plain training.

    While the biased model is trained, "separation" says how far its losses have fallen apart into two clusters: the
    share of their variance that lies between the two. One heap has 0.6 to 0.8; near 1, there are two.

    Example: tcsl run digits --ratio 0.2 --seeds 5
    """
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds must be 1 or more, got {seeds}")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be 1 or more, got {jobs}")
    settings = settings_from(
        dataset,
        profile=profile,
        config=config,
        set_=set_,
        select__ratio=options.ratio_of(ratio),
        train__model_selection=model_selection,
        data__root=root,
        data__columns=columns,
        data__on_bad=on_bad,
        device__device=device,
        methods=method,
        seed=seed,
    )
    from tcsl.bench.seeds import run_seeds, summarise_results
    from tcsl.progress import ProgressBars
    from tcsl.registry import METHODS
    from tcsl.running import default_path, planned_stages, run_splits

    for name in settings.methods:
        METHODS.get(name)  # a name that does not exist is said before the data are read
    splits = read_data(settings, logger, quiet=quiet)
    plan = planned_stages(settings, splits.train.inputs.shape)
    path = out if out is not None else default_path(settings, splits.train, seeds=seeds)
    first = settings.seed
    wanted = range(first, first + (seeds or 1))
    with resumable(path), ProgressBars(dict.fromkeys(wanted, plan), quiet=quiet) as bars:
        if seeds is None:
            one = run_splits(
                splits,
                settings,
                out=path,
                resume=resume,
                report=lambda epoch: bars.report(first, epoch),
                loggers=logger or (),
                page=not no_report,
            )
            summary = summarise_results([one.result])
        else:
            summary = run_seeds(
                settings,
                wanted,
                out=path,
                jobs=jobs,
                resume=resume,
                report=bars.report,
                loggers=logger or (),
                page=not no_report,
            )
    if as_json:
        print_json({"path": str(path), **summary})
        return
    from rich.console import Console

    from tcsl.tables import print_summary

    print_summary(summary, Console())
    typer.echo(f"the run is in {path}  (tcsl show {shlex.quote(str(path))})")
    if (page := path / "report.html").is_file():
        typer.echo(f"open its page: {page}")
