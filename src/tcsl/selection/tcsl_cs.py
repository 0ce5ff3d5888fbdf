"""Algorithm 2: TCSL-guided coreset selection."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np

from tcsl.config import SelectSettings
from tcsl.errors import InputError, TcslWarning
from tcsl.seeds import generator
from tcsl.selection.classes import class_codes, samples_by_class
from tcsl.selection.fill import select_bottom, select_histogram, select_weighted
from tcsl.selection.quota import auto_size, check_quota, exactly, level, quota, shares
from tcsl.selection.wkmeans import wkmeans
from tcsl.types import BoolArray, FloatArray, IntArray


class Selection(NamedTuple):
    """The coreset's indices, ascending, and for every sample of the data whether it is in G_high."""

    indices: IntArray
    g_high: BoolArray


def identify(curves: FloatArray, tcsl_s: FloatArray, settings: SelectSettings, *, seed: int) -> BoolArray:
    """Stage 1: return which samples are in G_high, the cluster of higher mean TCSL_s.

    Parameters
    ----------
    curves : (n, T_s) the biased model's loss of each sample in each epoch
    tcsl_s : (n,) their mean, which is also the weight of each sample

    Returns
    -------
    (n,) bool; all False, with a warning, where all curves are equal; a warning, too, where it is the larger part

    >>> curves = np.array([[0.1, 0.1], [0.2, 0.1], [3.0, 4.0], [0.1, 0.3]], np.float32)
    >>> identify(curves, curves.mean(1), SelectSettings(), seed=0).tolist()
    [False, False, True, False]
    """
    clusters = wkmeans(
        curves,
        tcsl_s,
        rng=generator(seed, "wkmeans"),
        losses=settings.losses,
        restarts=settings.restarts,
        max_iterations=settings.max_iterations,
    )
    if clusters is None:
        warnings.warn(
            "all samples have the same loss curve: G_high is empty, and the whole quota is filled by TCSL_c",
            TcslWarning,
            stacklevel=2,
        )
        return np.zeros(len(curves), np.bool_)
    second = clusters.second
    second_is_high = tcsl_s[second].mean(dtype=np.float64) > tcsl_s[~second].mean(dtype=np.float64)
    g_high = second if second_is_high else ~second
    if 2 * g_high.sum() > len(g_high):
        warnings.warn(
            f"G_high has {int(g_high.sum())} of {len(g_high)} samples; it should be the smaller part. The biased model "
            "has not learned a shortcut that most samples follow: train it longer (score.biased_epochs), with a "
            "lower learning rate, or there is no shortcut",
            TcslWarning,
            stacklevel=2,
        )
    return g_high


def select_coreset(
    g_high: BoolArray, tcsl_s: FloatArray, tcsl_c: FloatArray, labels: IntArray, settings: SelectSettings, *, seed: int
) -> IntArray:
    """Stage 2: return the indices of exactly floor(r n) samples, or of three times G_high (`auto`), ascending.

    Each class has its places: as many as the others, by its share in the data, or all classes have them in common. Of
    these G_high takes what it has, at most `high_share` where G_low can fill the rest: were most of a class what
    contradicts the shortcut, its reverse would be one. Of a larger G_high those are kept that contradict it most, or a
    sample. The rest is filled from G_low by TCSL_c: the lowest (r >= tau) or one of each bin in turn (r < tau).
    Bins are visited from the easy end, as the appendix's loop does: where fewer than B places are to be filled, the
    hardest bins are not reached.

    >>> g_high, tcsl_c = np.array([False, False, True, False]), np.array([0.3, 0.2, 0.1, 0.4], np.float32)
    >>> tcsl_s, labels = np.array([0.1, 0.2, 3.0, 0.1], np.float32), np.array([0, 1, 0, 1])
    >>> lowest = SelectSettings(ratio=0.5, tau=0.0, fill="global")
    >>> select_coreset(g_high, tcsl_s, tcsl_c, labels, lowest, seed=0).tolist()
    [1, 2]
    """
    n = len(labels)
    rng = generator(seed, "select")
    total = auto_size(int(g_high.sum()), n) if settings.ratio == "auto" else quota(settings.ratio, n)
    bottom = total / n >= settings.tau if settings.ratio == "auto" else settings.ratio >= settings.tau

    def of_high(part: IntArray, k: int) -> IntArray:
        if k == len(part):
            return part
        if settings.exceeding == "uniform":
            return rng.choice(part, k, replace=False)
        if settings.exceeding == "weighted":
            return part[select_weighted(tcsl_s[part], k, rng=rng)]
        return part[select_bottom(-tcsl_s[part], k)]

    def of_low(part: IntArray, k: int) -> IntArray:
        if bottom:
            return part[select_bottom(tcsl_c[part], k)]
        return part[select_histogram(tcsl_c[part], k, bins=settings.bins, rng=rng)]

    codes = np.zeros(n, np.int64) if settings.fill == "global" else class_codes(labels)
    sizes = np.bincount(codes)
    places = shares(total, sizes, sizes) if settings.fill == "class" else level(total, np.zeros_like(sizes), sizes)
    chosen = []
    for k, part in samples_by_class(codes).items():
        count, high, low = int(places[k]), part[g_high[part]], part[~g_high[part]]
        most = max(math.ceil(exactly(settings.high_share, count)), count - len(low))
        rare = min(len(high), most)
        chosen += [of_high(high, rare), of_low(low, count - rare)]
    return np.sort(np.concatenate(chosen))


def select_tcsl_cs(
    curves: FloatArray,
    tcsl_c: FloatArray,
    labels: IntArray,
    settings: SelectSettings,
    *,
    seed: int,
    g_high: BoolArray | None = None,
) -> Selection:
    """Run both stages on plain arrays: loss curves (n, T_s), TCSL_c (n,), labels (n,).

    `g_high` (n,) spares the first stage where it is known, from an earlier call or, as an ablation, from the groups.

    >>> curves = np.array([[0.1, 0.1], [0.2, 0.1], [3.0, 4.0], [0.1, 0.3]], np.float32)
    >>> settings = SelectSettings(ratio=0.5, tau=0.0, fill="global")
    >>> select_tcsl_cs(curves, np.float32([3, 1, 2, 4]), np.array([0, 1, 0, 1]), settings, seed=0).indices.tolist()
    [1, 2]
    """
    for name, array in (("curves", curves), ("tcsl_c", tcsl_c)):
        if len(array) != len(labels):
            raise InputError(f"{len(labels)} labels but {len(array)} rows of {name}; there must be one a sample")
        if not np.isfinite(array.sum(dtype=np.float64)):
            raise InputError(f"{name} has NaN or infinite values: the run that made them did not finish well")
    check_quota(settings.ratio, len(labels))
    tcsl_s = tcsl_s_of(curves)
    if g_high is None:
        g_high = identify(curves, tcsl_s, settings, seed=seed)
    return Selection(select_coreset(g_high, tcsl_s, tcsl_c, labels, settings, seed=seed), g_high)


def tcsl_s_of(curves: FloatArray) -> FloatArray:
    """Return TCSL_s, the mean of each sample's stored curve, (n,) float32.

    >>> tcsl_s_of(np.float32([[1, 2], [0, 4]])).tolist()
    [1.5, 2.0]
    """
    return np.asarray(curves.mean(1, dtype=np.float64), np.float32)
