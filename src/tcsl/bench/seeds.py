"""Several seeds of one run, side by side: in processes of their own, or in turns on one GPU.

Each seed has its own folder, OUT/seed-K, with the same bytes as if it had been run alone.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any

from tcsl.config import Settings, flat
from tcsl.environment import describe_environment
from tcsl.errors import RunFolderError, TcslError, TcslWarning
from tcsl.files import write_atomic
from tcsl.scores import SCHEMA
from tcsl.statistics import paired, summarise

METRICS = ("wga", "wga_cells", "average", "weighted_average", "worst_class")

SeedReport = Callable[[int, Any], None]  # seed, Epoch
OneSeed = Callable[..., dict[str, Any]]  # `_run_one`, told how


def run_seeds(
    settings: Settings,
    seeds: Sequence[int],
    *,
    out: Path,
    jobs: int | None = None,
    resume: bool = False,
    report: SeedReport | None = None,
    loggers: Sequence[str] = (),
    page: bool = True,
) -> dict[str, Any]:
    """Run the settings once a seed and return the summary, also written to OUT/summary.json.

    Parameters
    ----------
    jobs : seeds at a time; by default the cores divided by the threads of a run. On a CUDA device they share it in
        turns, which pays for small nets: three seeds of ResNet18 on cMNIST take 0.81 s an epoch each, one alone 1.56 s
    report : called with the seed and the epoch after each epoch of each seed
    loggers : names of tools, in which each seed is a run of its own
    page : whether each seed ends with its page, and all with one that compares them, where TCSL-CS is among the methods
    """
    from tcsl.training.device import choose

    folders = {seed: out / f"seed-{seed}" for seed in seeds}
    if (out / "config.toml").exists():
        raise RunFolderError(f"{out} holds a run of one seed; choose another place for several seeds with --out")
    if not resume:
        for folder in folders.values():
            if folder.exists():
                raise RunFolderError(
                    f"{folder} exists: add --resume to go on with what is there, or choose another place with --out"
                )
    if jobs is None:
        jobs = max(1, (os.cpu_count() or 1) // max(1, settings.device.threads or os.cpu_count() or 1))
    on_gpu = jobs > 1 and choose(settings.device).device.type == "cuda"
    one = partial(_run_one, resume=resume, loggers=loggers, page=page)
    results = (_run_in_turns if on_gpu else _run_in_processes)(one, settings, folders, jobs, report)
    summary = summarise_results([results[seed] for seed in seeds])
    identity = {name: value for name, value in flat(settings).items() if name != "seed"}
    record = {**summary, "settings": identity, "environment": describe_environment()}
    write_atomic(out / "summary.json", json.dumps(record, indent=2) + "\n")
    if page and "tcsl_cs" in settings.methods:
        from tcsl.report.compare import write_comparison

        write_comparison(list(folders.values()), out / "report.html")
    return summary


def summarise_results(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return means, deviations and paired differences of TCSL-CS to the others, over runs that differ in the seed."""
    methods = results[0]["titles"]
    evaluated = [name for name in methods if name in results[0]["evaluation"]]

    def values(method: str, metric: str) -> list[float] | None:
        out = [result["evaluation"][method][metric] for result in results]
        return None if any(value is None for value in out) else out

    table: dict[str, Any] = {}
    differences: dict[str, Any] = {}
    for method in evaluated:
        known = {metric: values(method, metric) for metric in METRICS}
        table[method] = {m: None if v is None else asdict(summarise(v)) | {"values": v} for m, v in known.items()}
        if method != "tcsl_cs" and "tcsl_cs" in evaluated:
            differences[method] = {
                metric: asdict(paired(ours, theirs))
                for metric in METRICS
                if (ours := values("tcsl_cs", metric)) is not None and (theirs := known[metric]) is not None
            }
    return {
        "schema": SCHEMA,
        "seeds": [result["seed"] for result in results],
        "ratio": results[0]["ratio"],
        "profile": results[0]["profile"],
        "evaluated_on": results[0]["evaluated_on"],
        "titles": methods,
        "models": [result.get("models", {}) for result in results],  # older runs have none: their last epochs
        "methods": table,
        "tcsl_cs_minus": differences,
        "groups": _mean_groups(results, evaluated),
        "cells": results[0]["evaluation"][evaluated[0]]["cells"] if evaluated else 0,
        "verdicts": [result.get("verdict") for result in results],  # older runs have none
        "identification": [result["identification"] for result in results],
        "coresets": [result["coresets"] for result in results],
        "seconds": [result["seconds"] for result in results],
        "memory": [result.get("memory", {}) for result in results],  # older runs have none
        "unknown": results[0]["unknown"],
    }


def _mean_groups(results: Sequence[dict[str, Any]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Return each group's size and its mean accuracy by each method; classes where there are no groups."""
    if not methods:
        return []
    kind = "groups" if results[0]["evaluation"][methods[0]]["groups"] else "classes"
    rows = []
    for i, part in enumerate(results[0]["evaluation"][methods[0]][kind]):
        row: dict[str, Any] = {"name": part["name"], "n": part["n"]}
        for method in methods:
            values = [result["evaluation"][method][kind][i]["accuracy"] for result in results]
            row[method] = None if None in values else summarise(values).mean
        rows.append(row)
    return rows


def _run_in_turns(
    run_one: OneSeed, settings: Settings, folders: dict[int, Path], jobs: int, report: SeedReport | None
) -> dict[int, dict[str, Any]]:
    from tcsl.training.device import settled
    from tcsl.training.turns import in_turns

    def one(seed: int) -> dict[str, Any]:
        def tell(epoch: Any) -> None:
            if report is not None:
                report(seed, epoch)

        try:
            return run_one(settings.model_copy(update={"seed": seed}), folders[seed], report=tell)
        except TcslError as error:
            raise type(error)(f"seed {seed}: {error}") from None

    seeds = list(folders)
    results: dict[int, dict[str, Any]] = {}
    with settled(settings.device):  # each run restores what it finds, which must then be the same for all
        for start in range(0, len(seeds), jobs):
            part = seeds[start : start + jobs]
            results |= dict(zip(part, in_turns([partial(one, seed) for seed in part]), strict=True))
    return results


def _run_one(settings: Settings, path: Path, **how: Any) -> dict[str, Any]:
    from tcsl.running import load_dataset, run_splits

    return run_splits(load_dataset(settings), settings, out=path, **how).result


def _run_in_processes(
    run_one: OneSeed, settings: Settings, folders: dict[int, Path], jobs: int, report: SeedReport | None
) -> dict[int, dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    waiting = list(folders)
    running: dict[int, Any] = {}
    results: dict[int, dict[str, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                seed = waiting.pop(0)
                one = settings.model_copy(update={"seed": seed})
                process = context.Process(target=_work, args=(run_one, one, folders[seed], queue), daemon=True)
                process.start()
                running[seed] = process
            try:
                seed, kind, value = queue.get(timeout=0.5)
            except Empty:
                dead = [seed for seed, process in running.items() if not process.is_alive() and queue.empty()]
                if dead:
                    raise RunFolderError(
                        f"the process of seed {dead[0]} ended with code {running[dead[0]].exitcode} "
                        "(out of memory, or killed); go on with --resume"
                    ) from None
                continue
            if kind == "epoch" and report is not None:
                report(seed, value)
            elif kind == "warning":
                warnings.warn(f"seed {seed}: {value}", TcslWarning, stacklevel=2)
            elif kind == "error":
                raise value
            elif kind == "crash":
                raise RuntimeError(f"seed {seed} failed:\n{value}")
            elif kind == "done":
                results[seed] = value
                running.pop(seed).join()
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.join()
    return results


def _work(run_one: OneSeed, settings: Settings, path: Path, queue: Any) -> None:
    """Run one seed and send its epochs, warnings and result; Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seed = settings.seed

    def forward(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, TcslWarning):
            queue.put((seed, "warning", str(message)))

    warnings.showwarning = forward
    try:
        result = run_one(settings, path, report=lambda epoch: queue.put((seed, "epoch", epoch)))
        queue.put((seed, "done", result))
    except TcslError as error:
        queue.put((seed, "error", type(error)(f"seed {seed}: {error}")))
    except Exception:
        queue.put((seed, "crash", traceback.format_exc()))
