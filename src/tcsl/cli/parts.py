"""`tcsl score`, `train`, `evaluate`: one stage each."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcsl.cli import options
from tcsl.cli.options import print_json, read_data, resumable, settings_from
from tcsl.errors import InputError

if TYPE_CHECKING:
    from tcsl.evaluation import Evaluation


def score(
    dataset: options.Dataset,
    out: Annotated[Path, typer.Option(help="The run folder; scores.parquet is written there.", show_default=False)],
    seed: options.Seed = None,
    root: options.Root = None,
    columns: options.Columns = None,
    on_bad: options.OnBad = None,
    profile: options.Profile = None,
    config: options.Config = None,
    set_: options.Set = None,
    resume: options.Resume = False,
    device: options.Device = None,
    logger: options.Logger = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train the biased and the core model (Algorithm 1) and write TCSL_s, TCSL_c and loss curves.

    Example: tcsl score digits --out runs/scores
    """
    settings = settings_from(
        dataset,
        profile=profile,
        config=config,
        set_=set_,
        device__device=device,
        seed=seed,
        methods=[],
        data__root=root,
        data__columns=columns,
        data__on_bad=on_bad,
    )
    from tcsl import api
    from tcsl.pipeline import scoring_steps
    from tcsl.progress import ProgressBars

    data = read_data(settings, logger, quiet=quiet, only_train=True).train
    with resumable(out), ProgressBars({settings.seed: scoring_steps(settings, len(data))}, quiet=quiet) as bars:
        scores = api.score(
            data,
            settings=settings,
            out=out,
            resume=resume,
            report=lambda epoch: bars.report(settings.seed, epoch),
            logger=logger or (),
        )
    path = out / "scores.parquet"
    high = int(scores.g_high.sum())
    if as_json:
        print_json({"path": str(path), "n": len(scores), "g_high": high, "digest": scores.digest})
    else:
        typer.echo(
            f"scored {len(scores)} samples; {high} stand apart by their losses (G_high)\n"
            f"the scores are in {path}  (tcsl select {path} --ratio 0.2)"
        )


def train(
    dataset: options.Dataset,
    out: Annotated[Path, typer.Option(help="The run folder; the model is written there.", show_default=False)],
    coreset: Annotated[
        Path | None, typer.Option(help="A coreset.parquet; everything by default.", show_default=False)
    ] = None,
    seed: options.Seed = None,
    model_selection: options.ModelSelection = None,
    root: options.Root = None,
    columns: options.Columns = None,
    on_bad: options.OnBad = None,
    config: options.Config = None,
    set_: options.Set = None,
    resume: options.Resume = False,
    device: options.Device = None,
    logger: options.Logger = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train plainly (CB ERM) on everything or on a coreset, for the same number of steps, and evaluate.

    Example: tcsl train digits --coreset runs/demo/coreset.parquet --out runs/mine
    """
    settings = settings_from(
        dataset,
        config=config,
        set_=set_,
        train__model_selection=model_selection,
        device__device=device,
        seed=seed,
        methods=[],
        data__root=root,
        data__columns=columns,
        data__on_bad=on_bad,
    )
    from tcsl import api
    from tcsl.model_selection import judging_steps
    from tcsl.pipeline import final_stage
    from tcsl.progress import ProgressBars
    from tcsl.scores import Coreset

    splits = read_data(settings, logger, quiet=quiet)
    kept = None if coreset is None else Coreset.load(coreset)
    n = len(splits.train)
    plan = judging_steps(settings, n) | final_stage("final")(settings, n)
    with resumable(out), ProgressBars({settings.seed: plan}, quiet=quiet) as bars:
        model = api.train(
            splits,
            kept,
            settings=settings,
            out=out,
            resume=resume,
            report=lambda epoch: bars.report(settings.seed, epoch),
            logger=logger or (),
        )
    if splits.evaluation is not None:
        evaluation = api.evaluate(model, splits.evaluation, train=splits.train, settings=settings)
        _show_evaluations(out, {"final": evaluation}, splits.evaluation.name, as_json)
    if not as_json:
        typer.echo(f"the model is in {out}  (tcsl evaluate {shlex.quote(str(out))})")


def evaluate(
    run: options.Run,
    view: Annotated[str, typer.Option(help="x (the inputs), or a view of the data: core (x^c), spurious (x^s).")] = "x",
    as_json: options.Json = False,
) -> None:
    """Evaluate a run's models on its test set again, or on a view of it.

    Example: tcsl evaluate runs/demo --view core
    """
    from dataclasses import replace

    from tcsl import api
    from tcsl.registry import unknown
    from tcsl.running import check_same_data, load_dataset, load_models
    from tcsl.runs import RunFolder

    settings = RunFolder.find(run).settings()
    if not settings.data.name:
        raise InputError(f"{run} was made from Python on data that only the caller has; use tcsl.evaluate there")
    splits = load_dataset(settings)
    test = splits.evaluation
    if test is None:
        raise InputError(f"dataset {settings.data.name} has neither a test nor a validation set")
    if view != "x":
        if view not in test.views:
            raise unknown("view", view, ["x", *test.views])
        test = replace(test, inputs=test.views[view])
    check_same_data(RunFolder.find(run), splits.train, splits.evaluation)
    models = load_models(run, splits.train)
    results = {name: api.evaluate(model, test, train=splits.train, settings=settings) for name, model in models.items()}
    _show_evaluations(run, results, test.name, as_json)


def _show_evaluations(run: Path, evaluations: dict[str, Evaluation], where: str, as_json: bool) -> None:
    from tcsl.model_selection import model_facts
    from tcsl.runs import RunFolder

    models = {name: model_facts(RunFolder.find(run), name) for name in evaluations}
    if as_json:
        print_json({name: {**found.as_dict(), "model": models[name]} for name, found in evaluations.items()})
        return
    from rich.console import Console

    from tcsl.tables import render_evaluations

    Console().print(render_evaluations(evaluations, models, where))
