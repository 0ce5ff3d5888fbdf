"""The fourth part of a page: loss curves, densities of the scores, what the coreset is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tcsl.report.composition import compositions
from tcsl.report.curves import bands
from tcsl.report.densities import FEW, density, positive
from tcsl.report.material import MEASURES, Material
from tcsl.types import BoolArray, DoubleArray, FloatArray, IntArray

_MOST_PARTS = 8  # groups that have a curve each; where there are more, whether they agree
_BY = {"tenth": "tenth of TCSL_c"}


def why(material: Material) -> dict[str, Any]:
    """Return the numbers behind the charts that tell why samples were found and kept."""
    scores, groups = material.scores, material.groups
    high = scores.g_high
    parts: dict[str, list[tuple[str, BoolArray]]] = {"cluster": [("G_high", high), ("G_low", ~high)]}
    if groups is not None:
        parts["group"] = _group_parts(groups.group, groups.minority, groups.names)
    return {
        "curves": {name: made.round(6).tolist() for name, made in bands(scores.curves, high).items()},
        "densities": {
            MEASURES[name]: {by: spread(values, dict(named)) for by, named in parts.items()}
            for name, values in material.measures.items()
        },
        "composition": [
            {
                "by": _BY.get(by, by),
                "names": list(part.names),
                "all": part.full.tolist(),
                "coreset": part.kept.tolist(),
            }
            for by, part in compositions(scores, material.chosen, material.class_names, groups).items()
        ],
    }


def spread(values: FloatArray, parts: Mapping[str, BoolArray]) -> dict[str, Any]:
    """Return the density of a score in parts of the samples, each up to one; of a part of few samples, the samples.

    >>> import numpy as np
    >>> values = np.arange(1.0, 31.0)
    >>> made = spread(values, {"all": values > 0, "one": values == 5, "none": values > 30})
    >>> made["ends"], max(made["parts"]["all"]["y"]), made["parts"]["one"], list(made["parts"])
    ([1.0, 30.0], 1.0, {'x': [5.0]}, ['all', 'one'])
    """
    known = positive(values)
    out: dict[str, dict[str, list[float]]] = {}
    for name, of in parts.items():
        if of.sum() >= FEW:
            at, height = density(known[of])
            out[name] = {"x": _short(at), "y": _short(height / height.max())}
        elif of.any():
            out[name] = {"x": _short(known[of])}
    return {"ends": [float(known.min()), float(known.max())], "parts": out}


def _short(values: DoubleArray) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def _group_parts(group: IntArray, minority: BoolArray, names: tuple[str, ...]) -> list[tuple[str, BoolArray]]:
    if len(names) > _MOST_PARTS:
        return [("contradicts the shortcut", minority), ("agrees with it", ~minority)]
    return [(name, group == k) for k, name in enumerate(names)]
