"""The first part of a page: the verdict, how many samples contradict the shortcut, what retraining did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tcsl.report.material import Material
from tcsl.statistics import wilson, wilson_of_mean
from tcsl.types import BoolArray

BEFORE, AFTER = "cb_erm", "tcsl_cs"


def outcome(material: Material) -> dict[str, Any]:
    """Return verdict, G_high and accuracies before and after; what is not known is None, and `unknown` says why."""
    result = material.result
    found = result["identification"]
    return {
        "verdict": result.get("verdict"),
        "n": found["n"],
        "g_high": found["g_high"],
        "truth": found if "minority" in found else None,
        "coreset": int(material.chosen.sum()),
        "accuracy": _accuracy(material),
        "unknown": _unknown(material),
    }


def measured(accuracy: float | None, n: int, name: str = "") -> dict[str, Any] | None:
    """Return an accuracy on n samples with its 95 % interval; None where there is none.

    >>> measured(0.5, 4, "a")["low"].__round__(2), measured(None, 0)
    (0.15, None)
    """
    if accuracy is None or not n:
        return None
    low, high = wilson(round(accuracy * n), n)
    return {"value": accuracy, "low": low, "high": high, "n": n, "name": name}


def measured_mean(value: float, parts: Sequence[tuple[int, int]], weights: Sequence[float]) -> dict[str, Any]:
    """Return a weighted mean of accuracies, k of n right in each part, with its 95 % interval.

    >>> sorted(measured_mean(0.9, [(8, 10), (20, 20)], [0.5, 0.5]))
    ['high', 'low', 'n', 'name', 'value']
    """
    low, high = wilson_of_mean(parts, weights)
    return {"value": value, "low": low, "high": high, "n": sum(n for _, n in parts), "name": ""}


def _accuracy(material: Material) -> dict[str, Any] | None:
    """Return rows of a table: the same accuracies before (CB ERM on everything) and after (TCSL-CS)."""
    evaluation, titles = material.result["evaluation"], material.result["titles"]
    after = evaluation.get(AFTER)
    if after is None:
        return None
    before = evaluation.get(BEFORE)
    kind = "groups" if after["groups"] else "classes"
    rows = [
        {
            "title": "Worst group" if kind == "groups" else "Worst class",
            "before": before and _worst(before[kind]),
            "after": _worst(after[kind]),
        },
        {
            "title": "Average",
            "before": before and measured(before["average"], before["n"]),
            "after": measured(after["average"], after["n"]),
        },
    ]
    if after["weighted_average"] is not None:
        rows.append(
            {
                "title": "Average, groups weighted as in the training set",
                "before": before and _weighted(before, material),
                "after": _weighted(after, material),
            }
        )
    return {
        "on": material.result["evaluated_on"],
        "kind": kind,
        "titles": {"before": titles[BEFORE] if before else None, "after": titles[AFTER]},
        "rows": rows + _by_bias(material),
        "parts": _parts(before, after, kind),
    }


def _weighted(evaluation: Mapping[str, Any], material: Material) -> dict[str, Any]:
    """Return the average weighted by the training set's groups; without an interval where the page has no groups."""
    value, groups = evaluation["weighted_average"], material.groups
    if groups is None:
        return {"value": value}
    counts = np.bincount(groups.group, minlength=len(groups.names))
    share = {name: float(count) / len(groups.group) for name, count in zip(groups.names, counts, strict=True)}
    parts = [part for part in evaluation["groups"] if share.get(part["name"])]
    seen = [(round(part["accuracy"] * part["n"]), part["n"]) for part in parts]
    return measured_mean(value, seen, [share[part["name"]] for part in parts])


def _worst(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    part = min((part for part in parts if part["accuracy"] is not None), key=lambda part: part["accuracy"])
    return measured(part["accuracy"], part["n"], part["name"])


def _parts(before: Mapping[str, Any] | None, after: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return every group's, or class's, accuracy before and after."""
    return [
        {
            "name": part["name"],
            "n": part["n"],
            "before": before and measured(before[kind][i]["accuracy"], before[kind][i]["n"]),
            "after": measured(part["accuracy"], part["n"]),
        }
        for i, part in enumerate(after[kind])
    ]


def _by_bias(material: Material) -> list[dict[str, Any]]:
    """Return what needs no groups: the accuracy where the biased model is wrong, and the one balanced by it."""
    from tcsl.evaluation import cells_by_bias

    table = material.predictions
    if table is None or not {"biased", BEFORE, AFTER} <= set(table.columns):
        return []
    labels, biased = table["label"].to_numpy(), table["biased"].to_numpy()
    wrong: BoolArray = biased != labels
    rows = []
    if wrong.any():
        right = {name: (table[name].to_numpy() == labels)[wrong] for name in (BEFORE, AFTER)}
        rows.append(
            {
                "title": "Where the biased model is wrong",
                "before": measured(float(right[BEFORE].mean()), int(wrong.sum())),
                "after": measured(float(right[AFTER].mean()), int(wrong.sum())),
            }
        )

    def balanced(name: str) -> dict[str, Any]:
        right, size = cells_by_bias(table[name].to_numpy(), biased, labels)
        parts = list(zip(right.tolist(), size.tolist(), strict=True))
        return measured_mean(float((right / size).mean()), parts, [1 / len(parts)] * len(parts))

    title = "Balanced over class x (is the biased model right)"
    rows.append({"title": title, "before": balanced(BEFORE), "after": balanced(AFTER)})
    return rows


def _unknown(material: Material) -> list[str]:
    """Say what cannot be known, and what this run does not have."""
    out = list(material.result["unknown"])
    if material.result["evaluation"].get(AFTER) and BEFORE not in material.result["evaluation"]:
        out.append("what training on everything gives: the run has no method cb_erm to compare with")
    if "verdict" not in material.result:
        out.append("the verdict: the run was made by a version of tcsl that gave none")
    if material.samples is None:
        out.append("how the samples look: the run has no samples.parquet; its own command with --resume adds it")
    if material.groups is None and _has_groups(material):
        out.append("the groups in the map: the run has no groups.parquet; its own command with --resume adds it")
    return out


def _has_groups(material: Material) -> bool:
    known = material.data.get("groups")
    return bool(known and known[0])
