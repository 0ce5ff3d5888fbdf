"""The first part of a page: the verdict, how many samples contradict the shortcut, what retraining did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tcsl.caution import caution, worse
from tcsl.report.material import Material
from tcsl.statistics import seen, wilson, wilson_of_mean
from tcsl.types import IntArray

BEFORE, AFTER = "cb_erm", "tcsl_cs"


def outcome(material: Material) -> dict[str, Any]:
    """Return verdict, G_high and accuracies before and after; what is not known is None, and `unknown` says why."""
    result = material.result
    found, coreset = result["identification"], result["coresets"][AFTER]
    cautions = caution(found, coreset), worse(result.get("evaluation") or {})
    return {
        "verdict": result.get("verdict"),
        "n": found["n"],
        "g_high": found["g_high"],
        "truth": found if "minority" in found else None,
        "coreset": int(material.chosen.sum()),
        "accuracy": _accuracy(material),
        "caution": [*filter(None, cautions)],
        "unknown": _unknown(material),
    }


def measured(part: Mapping[str, Any], name: str = "") -> dict[str, Any] | None:
    """Return a part's accuracy with its 95 % interval; None where there is none.

    Parameters
    ----------
    part : "accuracy" on "n" samples, and what they are "worth" where they are not independent (`Part`)

    >>> measured({"accuracy": 0.5, "n": 4})["low"].__round__(2), measured({"accuracy": None, "n": 0})
    (0.15, None)
    """
    if part["accuracy"] is None:
        return None
    low, high = wilson(*_seen(part))
    return {"value": part["accuracy"], "low": low, "high": high, "n": part["n"], "name": name}


def measured_mean(value: float, parts: Sequence[Mapping[str, Any]], weights: Sequence[float]) -> dict[str, Any]:
    """Return a weighted mean of the parts' accuracies with its 95 % interval.

    >>> sorted(measured_mean(0.9, [{"accuracy": 0.8, "n": 10}, {"accuracy": 1.0, "n": 20}], [0.5, 0.5]))
    ['high', 'low', 'n', 'name', 'value']
    """
    low, high = wilson_of_mean([_seen(part) for part in parts], weights)
    return {"value": value, "low": low, "high": high, "n": sum(part["n"] for part in parts), "name": ""}


def _seen(part: Mapping[str, Any]) -> tuple[float, float]:
    return seen(part["accuracy"], part["n"], part.get("worth"))


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
            "before": before and measured({**before, "accuracy": before["average"]}),
            "after": measured({**after, "accuracy": after["average"]}),
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
        "by_unit": after.get("worth") is not None,
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
    return measured_mean(value, parts, [share[part["name"]] for part in parts])


def _worst(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    part = min((part for part in parts if part["accuracy"] is not None), key=lambda part: part["accuracy"])
    return measured(part, part["name"])


def _parts(before: Mapping[str, Any] | None, after: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return every group's, or class's, accuracy before and after."""
    return [
        {
            "name": part["name"],
            "n": part["n"],
            "before": before and measured(before[kind][i]),
            "after": measured(part),
        }
        for i, part in enumerate(after[kind])
    ]


def _by_bias(material: Material) -> list[dict[str, Any]]:
    """Return what needs no groups: the accuracy where the biased model is wrong, and the one balanced by it."""
    from tcsl.evaluation import accuracy_by, balanced_by_bias, cells_by_bias

    table = material.predictions
    if table is None or not {"biased", BEFORE, AFTER} <= set(table.columns):
        return []
    labels, biased = table["label"].to_numpy(), table["biased"].to_numpy()
    units = table["unit"].to_numpy() if "unit" in table.columns else None

    def parts_of(name: str, part: IntArray) -> list[dict[str, Any]]:
        names = tuple(map(str, range(part.max() + 1)))
        parts = accuracy_by(table[name].to_numpy() == labels, part, names, units)
        return [asdict(part) for part in parts if part.n]

    def balanced(name: str) -> dict[str, Any]:
        parts = parts_of(name, cells_by_bias(biased, labels))
        value = balanced_by_bias(table[name].to_numpy(), biased, labels)
        return measured_mean(value, parts, [1 / len(parts)] * len(parts))

    def where_wrong(name: str) -> dict[str, Any] | None:
        return measured(parts_of(name, (biased == labels).astype(np.int64))[0])

    rows = []
    if (biased != labels).any():
        title = "Where the biased model is wrong"
        rows.append({"title": title, "before": where_wrong(BEFORE), "after": where_wrong(AFTER)})
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
