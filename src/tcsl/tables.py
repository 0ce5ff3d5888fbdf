"""Results as tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tcsl.caution import caution, worse
from tcsl.selection.quota import said
from tcsl.statistics import summarise
from tcsl.text import printable

if TYPE_CHECKING:
    from tcsl.evaluation import Evaluation


_MOST = 20  # classes in a table of what was kept
_ABREAST = 5  # methods in a table of groups
_METRICS = {
    "wga": "WGA",
    "wga_cells": "WGA, all cells",
    "worst_class": "worst class",
    "average": "plain average",
    "weighted_average": "weighted average",
}


_CRITERIA = {
    "worst_class": "worst-class accuracy",
    "worst_group": "worst-group accuracy",
    "balanced_by_bias": "accuracy balanced over label x (is the biased model right)",
}


def said_of_model(model: Mapping[str, Any]) -> str:
    """Say which epoch a model is, and by what it was chosen.

    >>> said_of_model({"by": "worst_group", "on": "digits, validation", "epoch": 12, "epochs": 40, "value": 0.75})
    'best worst-group accuracy on digits, validation: epoch 12 of 40 (75.0 %)'
    >>> said_of_model({"by": "last"}), said_of_model({"by": "own", "how": "there is one"})
    ('last epoch', 'its own: there is one')
    """
    if model["by"] == "average":
        return f"mean of the weights in the last fifth of the epochs, {model['looks']} times"
    if "epoch" not in model:
        return "last epoch" if model["by"] == "last" else f"its own: {model['how']}"
    return f"{_chosen_by(model)}: epoch {model['epoch']} of {model['epochs']} ({100 * model['value']:.1f} %)"


def _chosen_by(model: Mapping[str, Any]) -> str:
    return f"best {_CRITERIA[model['by']]} on {model['on']}"


def print_summary(summary: Mapping[str, Any], console: Console) -> None:
    """Print a summary over one or more seeds: methods, paired differences, groups, identification, what is unknown."""
    console.print(render_summary(summary))


def render_summary(summary: Mapping[str, Any]) -> RenderableType:
    """Return the tables of a summary."""
    parts: list[RenderableType] = []
    if summary["methods"]:
        parts.append(_methods(summary))
        if len(summary["seeds"]) > 1 and summary["tcsl_cs_minus"]:
            parts.append(_differences(summary))
        parts.extend(_groups(summary))
    parts += [Text(printable(line)) for line in _notes(summary)]
    return Group(*parts)


def _methods(summary: Mapping[str, Any]) -> Table:
    seeds = summary["seeds"]
    over = f"mean ± sd of {len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    where = printable(summary["evaluated_on"])
    about = f"Accuracy on {where}, % ({over}, r = {said(summary['ratio'])}, profile {summary['profile']})"
    table = Table(title=Text(about))
    columns = known_metrics(summary)
    table.add_column("method")
    for title in columns.values():
        table.add_column(title, justify="right")
    table.add_column("training samples", justify="right")
    epochs = _epochs(summary)
    if epochs:
        table.add_column("epoch (judged)", justify="right")
    for name, metrics in summary["methods"].items():
        sizes = sorted({c[name]["n"] for c in summary["coresets"] if name in c})
        samples = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1])))) if sizes else "all"
        chosen = [epochs.get(name, "its own")] if epochs else []
        table.add_row(summary["titles"][name], *[_mean_sd(metrics[m]) for m in columns], samples, *chosen)
    return table


def _epochs(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return, for each method whose epoch was chosen by a validation set, which it was and how it was judged."""
    out = {}
    for name in summary["methods"]:
        models = [models[name] for models in summary.get("models", []) if name in models]
        if models and all("epoch" in model for model in models):
            epochs = sorted({model["epoch"] for model in models})
            of = max(model["epochs"] for model in models)
            between = f"{epochs[0]} to {epochs[-1]}" if len(epochs) > 1 else str(epochs[0])
            judged = _mean_sd(asdict(summarise([model["value"] for model in models])))
            out[name] = f"{between} of {of} ({judged})"
    return out


def _differences(summary: Mapping[str, Any]) -> Table:
    table = Table(title="TCSL-CS minus the other methods, paired by seed: mean [95 % interval]")
    columns = known_metrics(summary)
    table.add_column("minus")
    for title in columns.values():
        table.add_column(title, justify="right")
    for name, difference in summary["tcsl_cs_minus"].items():
        table.add_row(summary["titles"][name], *[_interval(difference.get(m)) for m in columns])
    return table


def known_metrics(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the metrics that every method has, with their titles."""
    rows = summary["methods"].values()
    known = {metric: title for metric, title in _METRICS.items() if all(row[metric] is not None for row in rows)}
    if "wga" in known:
        del known["worst_class"]
    return known


def _groups(summary: Mapping[str, Any]) -> list[Table]:
    """Return the accuracy of each group, a few methods a table: more do not fit a terminal."""
    methods = list(summary["methods"])
    lowest = {m: min((row[m] for row in summary["groups"] if row[m] is not None), default=None) for m in methods}
    tables = []
    for first in range(0, len(methods), _ABREAST):
        some = methods[first : first + _ABREAST]
        table = Table(title="Accuracy by group, %" if _has_groups(summary) else "Accuracy by class, %")
        table.add_column("group" if _has_groups(summary) else "class")
        table.add_column("test samples", justify="right")
        for name in some:
            table.add_column(summary["titles"][name], justify="right")
        for row in summary["groups"]:
            cells = [
                Text("-" if row[m] is None else f"{100 * row[m]:.1f}", style="bold" if row[m] == lowest[m] else "")
                for m in some
            ]
            table.add_row(Text(printable(row["name"])), str(row["n"]), *cells)
        tables.append(table)
    return tables


def _has_groups(summary: Mapping[str, Any]) -> bool:
    rows = summary["methods"].values()
    return bool(rows) and all(row["wga"] is not None for row in rows)


def said_of_models(summary: Mapping[str, Any]) -> list[str]:
    """Say which epoch the models are, and where a method has its own way; runs that are older than this say nothing."""
    models: Mapping[str, Any] = next(iter(summary.get("models", [])), {})
    followed = [model for model in models.values() if model["by"] != "own"]
    said = dict.fromkeys(_chosen_by(model) if "epoch" in model else said_of_model(model) for model in followed)
    own = [f"model of {summary['titles'][name]}: {said_of_model(m)}" for name, m in models.items() if m["by"] == "own"]
    return [*(f"model: {text}" for text in said), *own]


def _verdict(summary: Mapping[str, Any]) -> list[str]:
    """Say the verdict of one seed, or in how many of several a shortcut was found."""
    verdicts = [verdict for verdict in summary.get("verdicts", []) if verdict is not None]
    if len(verdicts) < 2:
        return [verdict["sentence"] for verdict in verdicts]
    found = sum(verdict["found"] is True for verdict in verdicts)
    silent = sum(verdict["found"] is None for verdict in verdicts)
    if silent == len(verdicts):
        return [verdicts[0]["sentence"]]
    but = f"; {silent} cannot tell" if silent else ""
    return [f"a shortcut was found in {found} of {len(verdicts)} seeds{but}"]


def _notes(summary: Mapping[str, Any]) -> list[str]:
    notes = [*_verdict(summary), *said_of_models(summary)]
    if _has_groups(summary):
        cells = f"; all cells: {summary['cells']} (class x attribute)" if summary["cells"] else ""
        groups = summary["groups"]
        tested = sum(row["n"] > 0 for row in groups)
        of = "" if tested == len(groups) else f" of {len(groups)}, those with a sample there"
        weighted = "; weighted average: groups weighted by their share of the training set"
        known = "weighted_average" in known_metrics(summary)
        notes.append(f"WGA: the worst of {tested} groups{of}{cells}{weighted * known}")
    for seed, found, coresets in zip(summary["seeds"], summary["identification"], summary["coresets"], strict=True):
        if found is None:
            continue
        text = f"seed {seed}: {found['g_high']} of {found['n']} samples stand apart by their losses (G_high)"
        if found.get("recall") is not None:
            precision = "-" if found["precision"] is None else f"{found['precision']:.2f}"
            auc = "" if found["auc"] is None else f", AUC of TCSL_s {found['auc']:.3f}"
            text += (
                f"; of the {found['minority']} that truly contradict the shortcut, it has {found['recall']:.2f} "
                f"(precision {precision}{auc})"
            )
        notes.append(text)
        if care := caution(found, coresets.get("tcsl_cs")):
            notes.append(f"seed {seed}: take care: {care}")
    means = {
        name: {metric: value and value["mean"] for metric, value in row.items()}
        for name, row in summary["methods"].items()
    }
    if care := worse(means):
        notes.append(f"take care: {care}")
    times = [sum(stages.values()) for stages in summary["seconds"]]
    notes.append(f"training took {sum(times):.1f} s" + (f" for {len(times)} seeds" if len(times) > 1 else ""))
    notes += [f"not known: {what}" for what in summary["unknown"]]
    return notes


def render_stages(seconds: Sequence[Mapping[str, float]], memory: Sequence[Mapping[str, int | None]]) -> RenderableType:
    """Return a table of the stages of one seed or several: how long they took, and their peak memory.

    Seconds are the mean over the seeds, memory the largest. It is the stage's own on a CUDA device; elsewhere it is the
    process's so far, which a later stage cannot lower.
    """
    table = Table(title="Stages" if len(seconds) == 1 else f"Stages (mean and peak of {len(seconds)} seeds)")
    table.add_column("stage")
    table.add_column("seconds", justify="right")
    table.add_column("peak memory, MB", justify="right")
    for stage in seconds[0]:
        peaks = [peak for peaks in memory if (peak := peaks.get(stage)) is not None]
        mean = summarise([one[stage] for one in seconds if stage in one]).mean
        table.add_row(stage, f"{mean:.1f}", f"{max(peaks) / 1e6:,.0f}" if peaks else "not known")
    return table


def _mean_sd(value: Mapping[str, Any]) -> str:
    mean = f"{100 * value['mean']:.1f}"
    return mean if value["sd"] is None else f"{mean} ± {100 * value['sd']:.1f}"


def _interval(value: Mapping[str, Any] | None) -> str:
    if value is None or value["low"] is None:
        return "-"
    return f"{100 * value['mean']:+.1f} [{100 * value['low']:+.1f}, {100 * value['high']:+.1f}]"


def render_evaluations(
    evaluations: Mapping[str, Evaluation], models: Mapping[str, Mapping[str, Any]], where: str
) -> RenderableType:
    """Return a table of models and their accuracies on `where`; below it, their epochs, and what cannot be known."""
    table = Table(title=Text(f"Accuracy on {printable(where)}, %"))
    table.add_column("model")
    for title in _METRICS.values():
        table.add_column(title, justify="right")
    for name, evaluation in evaluations.items():
        values = [getattr(evaluation, metric) for metric in _METRICS]
        table.add_row(name, *["-" if value is None else f"{100 * value:.1f}" for value in values])
    unknown = dict.fromkeys(what for evaluation in evaluations.values() for what in evaluation.unknown)
    said = [Text(f"model {name}: {said_of_model(model)}") for name, model in models.items()]
    return Group(table, *said, *[Text(printable(f"not known: {what}")) for what in unknown])


def render_check(report: Mapping[str, Any]) -> RenderableType:
    """Return what `tcsl data check` found as a table."""
    table = Table(title=Text(printable(report["source"])), show_header=False)
    table.add_column("what")
    table.add_column("found", overflow="fold")

    def row(what: str, found: str) -> None:
        table.add_row(what, Text(printable(found)))  # Text: a name such as [red] is not markup

    bad, samples, empty = report["bad"], report["samples"], report["empty_groups"]
    row("samples", f"{samples:,}" if samples == report["listed"] else f"{samples:,} of the {report['listed']:,} listed")
    row("classes", _listing(report["classes"]))
    row("class imbalance", f"{report['imbalance']:.1f} : 1 in training")
    row("splits", _listing({name: n for name, n in report["splits"].items() if n}))
    row("training groups", (_listing(report["groups"]) or "not given") + (f"; {empty:,} empty" if empty else ""))
    if report["units"]:
        units = report["units"]
        row("units", f"{units['distinct']:,}; {units['divided']:,} both in training and held out")
    if "sizes" in report:
        sizes = report["sizes"]
        others = sizes["distinct"] - len(sizes["most"])
        row("image sizes", _listing(sizes["most"]) + (f"; {others:,} other sizes" if others else ""))
        row("image modes", _listing(report["modes"]))
    if "shape" in report:
        row("input shape", f"{' x '.join(map(str, report['shape']))}, {report['dtype']}")
    more = bad["count"] - len(bad["first"])
    row("bad samples", f"{bad['count']:,}" + (f": {_listing(bad['reasons'])}" if more else ""))
    for where, why in bad["first"]:
        row("", f"{where} {why}")
    if more:
        row("", f"and {more:,} more")
    if "duplicates" in report:
        copies = report["duplicates"]
        text = f"{copies['copies']:,} exact copies"
        if copies["copies"]:
            text += f"; across splits {copies['across_splits']:,}, across labels {copies['across_labels']:,}"
        row("duplicates", text)
        for members in copies["first"]:
            row("", " = ".join(f"{name} ({', '.join(kind)})" for name, *kind in (one.values() for one in members)))
    else:
        row("images", "not opened: sizes, unreadable files and duplicates are not known")
    if "estimate" in report:
        run = report["estimate"]
        net = size_of(run["training_bytes"])
        row("memory", f"{size_of(run['bytes'])} of decoded training inputs; {net} to train the net")
        row("a run takes", f"about {_duration(run['seconds'])} ({run['net']}, {run['epochs']} epochs, {run['device']})")
    return table


def render_kept(classes: Mapping[str, Mapping[str, int]]) -> RenderableType:
    """Return what a selection kept of each class; of many classes, those that it kept least of."""
    shares = {name: count["kept"] / count["samples"] for name, count in classes.items()}
    shown = list(classes) if len(classes) <= _MOST else sorted(classes, key=shares.__getitem__)[:_MOST]
    table = Table()
    for title, justify in (("class", "left"), ("samples", "right"), ("kept", "right"), ("kept, %", "right")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    for name in shown:
        count = classes[name]
        table.add_row(Text(printable(name)), f"{count['samples']:,}", f"{count['kept']:,}", f"{100 * shares[name]:.1f}")
    more = len(classes) - len(shown)
    return Group(table, Text(f"and {more:,} classes of which more was kept")) if more else table


def _listing(counts: Mapping[str, int], most: int = 12, few: int = 4) -> str:
    """Say all counts, or of many the largest and the smallest."""
    if len(counts) <= most:
        return "; ".join(f"{name}: {n:,}" for name, n in counts.items())
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    largest, smallest = (_listing(dict(part)) for part in (ranked[:few], ranked[-few:]))
    return f"{len(counts):,} in all. Largest: {largest}. Smallest: {smallest}"


def size_of(count: float) -> str:
    """Return a number of bytes as people read it.

    >>> size_of(230_400), size_of(19.3e9)
    ('230.4 kB', '19.3 GB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e3:,.1f} kB"


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 2):.0f} seconds"
