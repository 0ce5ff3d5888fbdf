"""The fourth part of a page: loss curves, densities of the scores, what the coreset is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tcsl.report.material import Material
from tcsl.types import AnyArray, BoolArray, FloatArray, IntArray

BANDS = (10, 25, 50, 75, 90)  # percentiles of the loss curves
_MOST_PARTS = 8  # groups that have a curve each; where there are more, whether they agree
_SCORE_BINS = 10


def why(material: Material) -> dict[str, Any]:
    """Return the numbers behind the charts that tell why samples were found and kept."""
    scores, groups = material.scores, material.groups
    high = scores.g_high
    parts: dict[str, list[tuple[str, BoolArray]]] = {"cluster": [("G_high", high), ("G_low", ~high)]}
    if groups is not None:
        parts["group"] = _group_parts(groups.group, groups.minority, groups.names)
    measures = {"TCSL_s": scores.tcsl_s, "TCSL_c": scores.tcsl_c}
    if material.samples is not None and "el2n" in material.samples.columns:
        measures["EL2N"] = material.samples["el2n"].to_numpy()
    return {
        "curves": {name: bands(scores.curves[of]) for name, of in parts["cluster"] if of.any()},
        "densities": {
            title: {by: density(values, dict(named)) for by, named in parts.items()}
            for title, values in measures.items()
        },
        "composition": composition(material),
    }


def bands(curves: FloatArray) -> list[list[float]]:
    """Return percentiles of loss curves (m, T_s) in each epoch, one list a percentile of BANDS.

    >>> [row[0] for row in bands(np.array([[0.0], [1.0], [2.0]], np.float32))]
    [0.2, 0.5, 1.0, 1.5, 1.8]
    """
    made: list[list[float]] = np.percentile(curves.astype(np.float64), BANDS, axis=0).round(6).tolist()
    return made


def density(values: FloatArray, parts: Mapping[str, BoolArray], points: int = 160) -> dict[str, Any]:
    """Return kernel estimates of the density of a score in parts of the samples, over one grid.

    Each integrates to one, by scipy's Gaussian kernels with Scott's width, on 1,000 bins, so that a million samples
    cost what a thousand do. A part of one value has none.

    >>> made = density(np.array([0.0, 1.0, 2.0, 3.0], np.float32), {"all": np.ones(4, bool), "one": np.arange(4) == 1})
    >>> sorted(made["parts"]), len(made["grid"])
    (['all'], 160)
    """
    from scipy.stats import gaussian_kde

    low, high = float(values.min()), float(values.max())
    grid = np.linspace(low, high, points)
    edges = np.linspace(low, high, 1001)
    middle = (edges[:-1] + edges[1:]) / 2
    out = {}
    for name, of in parts.items():
        counts = np.histogram(values[of], edges)[0] if high > low else np.zeros(1000)
        if (counts > 0).sum() > 1:
            out[name] = gaussian_kde(middle, weights=counts)(grid).round(6).tolist()
    return {"grid": grid.round(6).tolist(), "parts": out}


def composition(material: Material) -> list[dict[str, Any]]:
    """Return, by class, cluster, bin of TCSL_c and group, the share of all samples and of the coreset."""
    scores, groups = material.scores, material.groups
    edges = np.quantile(scores.tcsl_c, np.linspace(0, 1, _SCORE_BINS + 1)[1:-1])
    tenth = np.searchsorted(edges, scores.tcsl_c, side="left")
    ways: list[tuple[str, AnyArray, list[str]]] = [
        ("class", scores.labels, material.class_names),
        ("cluster", scores.g_high.astype(np.int64), ["G_low", "G_high"]),
        ("TCSL_c, from the easiest tenth to the hardest", tenth, [str(k) for k in range(1, _SCORE_BINS + 1)]),
    ]
    if groups is not None:
        ways.append(("group", groups.group, list(groups.names)))
    return [
        {"by": by, "names": names, **_shares(np.asarray(part, np.int64), material.chosen, len(names))}
        for by, part, names in ways
    ]


def _shares(part: IntArray, chosen: BoolArray, parts: int) -> dict[str, list[int]]:
    return {
        "all": np.bincount(part, minlength=parts).tolist(),
        "coreset": np.bincount(part[chosen], minlength=parts).tolist(),
    }


def _group_parts(group: IntArray, minority: BoolArray, names: tuple[str, ...]) -> list[tuple[str, BoolArray]]:
    if len(names) > _MOST_PARTS:
        return [("contradicts the shortcut", minority), ("agrees with it", ~minority)]
    return [(name, group == k) for k, name in enumerate(names)]
