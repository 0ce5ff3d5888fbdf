"""How a score is spread: the one estimate of its density, which the page and the figures draw."""

from __future__ import annotations

import numpy as np

from tcsl.types import AnyArray, DoubleArray

FEW = 20  # of fewer samples, each is drawn: a density would show what is not there
_CELLS = 10  # for each point of a density


def positive(values: AnyArray) -> DoubleArray:
    """Return scores for a logarithmic axis: a score of zero stands where the smallest other one does.

    >>> positive(np.array([0.0, 0.5, 2.0])).tolist()
    [0.5, 0.5, 2.0]
    """
    least = float(values.min(where=values > 0, initial=np.inf))
    return np.maximum(np.asarray(values, np.float64), least if np.isfinite(least) else 1.0)


def density(values: DoubleArray, points: int = 200) -> tuple[DoubleArray, DoubleArray]:
    """Estimate the density of a score on a logarithmic axis.

    The scores' logarithms (base 10) are smoothed by Gaussian kernels of Silverman's width, 0.9 n^(-1/5) times the
    smaller of their standard deviation and their interquartile range / 1.349, and at least 0.01: equal values are a
    narrow peak. Nothing is reflected, since a logarithm has no edge at zero. Samples are counted in cells, and the
    counts smoothed, which takes the same time for any number of them.

    Parameters
    ----------
    values : (n,) positive

    Returns
    -------
    at : (points,) scores, equally far apart on a logarithmic axis, to where the density ends
    height : (points,) of area one over log10(at)

    >>> at, height = density(np.array([1.0, 10.0, 100.0]))
    >>> round(float(height.sum() * np.log10(at[1] / at[0])), 3)
    1.0
    """
    from scipy.ndimage import gaussian_filter1d

    logs = np.log10(values)
    quarters = np.subtract(*np.percentile(logs, [75, 25])) / 1.349
    spread = min(float(logs.std()), float(quarters)) or float(logs.std())
    width = max(0.9 * spread * len(logs) ** -0.2, 0.01)
    ends = float(logs.min()) - 4 * width, float(logs.max()) + 4 * width
    counts, edges = np.histogram(logs, bins=_CELLS * points, range=ends)
    step = (ends[1] - ends[0]) / (_CELLS * points)
    smooth = gaussian_filter1d(counts / (len(logs) * step), width / step, mode="constant")
    shown = slice(_CELLS // 2, None, _CELLS)
    return 10 ** ((edges[:-1] + edges[1:]) / 2)[shown], np.asarray(smooth[shown], np.float64)
