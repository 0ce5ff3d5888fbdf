"""The biased model's loss curves as median and bands."""

from __future__ import annotations

import numpy as np

from tcsl.types import BoolArray, DoubleArray, FloatArray

BANDS = (10, 25, 50, 75, 90)  # percentiles


def bands(curves: FloatArray, g_high: BoolArray) -> dict[str, DoubleArray]:
    """Return the percentiles BANDS of the loss in each epoch, (5, T_s), of G_high and G_low; not of an empty one.

    Parameters
    ----------
    curves : (n, T_s)
    g_high : (n,)

    >>> bands(np.array([[0.0], [1.0], [2.0]], np.float32), np.ones(3, bool))["G_high"][:, 0].tolist()
    [0.2, 0.5, 1.0, 1.5, 1.8]
    """
    return {
        name: np.percentile(curves[inside].astype(np.float64), BANDS, axis=0)
        for name, inside in (("G_high", g_high), ("G_low", ~g_high))
        if inside.any()
    }
