"""How many samples: the exact quota, and its division among classes and bins."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from tcsl.errors import InputError
from tcsl.types import IntArray

Ratio: TypeAlias = float | Literal["auto"]  # r, or what `auto_size` says of G_high
AUTO = 3  # times G_high: within the noise of the best ratio that was tried (docs/choices.md)


def check_ratio(ratio: Ratio) -> None:
    """Refuse a ratio outside (0, 1]; `auto` is one."""
    if ratio == "auto":
        return
    if isinstance(ratio, str) or not isinstance(ratio, int | float | np.number):
        raise InputError(f"ratio must be a number in (0, 1] or 'auto', got {ratio!r}")
    if not 0 < ratio <= 1:
        percent = ratio / 100
        meant = f"{percent:.2f}" if percent == round(percent, 2) else f"{percent:g}"
        hint = f"; did you mean {meant}?" if 1 < ratio <= 100 else ""
        raise InputError(f"ratio must be in (0, 1], got {ratio:g}{hint}")


def read_ratio(text: str) -> Ratio:
    """Read a ratio as it is typed: a number, or auto.

    >>> read_ratio("0.1"), read_ratio("auto")
    (0.1, 'auto')
    """
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise InputError(f"ratio {text!r} is neither a number in (0, 1] nor auto") from None


def said(ratio: Ratio) -> str:
    """Return a ratio as it is written in tables and names of files.

    >>> said(1.0), said("auto")
    ('1', 'auto')
    """
    return ratio if ratio == "auto" else f"{ratio:g}"


def auto_size(high: int, n: int) -> int:
    """Return the size of a coreset of n samples where the ratio is `auto`: three times G_high, at most everything.

    >>> auto_size(50, 1000), auto_size(400, 1000)
    (150, 1000)
    """
    if high == 0:
        raise InputError("ratio 'auto' is three times G_high, and G_high is empty: give a number in (0, 1]")
    return min(n, AUTO * high)


def number(ratio: Ratio) -> float:
    """Return a ratio that is a number; `auto` is refused where there is no G_high that it could follow from."""
    if ratio == "auto":
        raise InputError(
            "ratio 'auto' follows from G_high, which only TCSL-CS finds: give a number in (0, 1], or leave the "
            "other coresets out"
        )
    return ratio


def quota(ratio: float, n: int) -> int:
    """Return floor(r n), with r read as the decimal number that it was written as.

    >>> quota(0.29, 100)  # in binary floating point, 0.29 * 100 is below 29
    29
    """
    check_ratio(ratio)
    if n == 0:
        raise InputError("there are no samples to select from")
    count = math.floor(exactly(ratio, n))
    if count == 0:
        least = min(1.0, 1.01 / n)  # rounded to three digits, still enough
        raise InputError(f"ratio {ratio:g} of {n} samples is no sample: use a ratio of {least:.3g} or more")
    return count


def exactly(part: float, n: int) -> Fraction:
    """Return a part of n, the part read as the decimal number that it was written as.

    >>> math.ceil(exactly(0.07, 100)), math.ceil(0.07 * 100)
    (7, 8)
    """
    return Fraction(repr(float(part))) * n


def check_quota(ratio: Ratio, n: int) -> None:
    """Refuse a ratio of n samples that is no sample; what `auto` comes to is not known before G_high is."""
    if ratio != "auto":
        quota(ratio, n)


def shares(total: int, sizes: IntArray, limits: IntArray) -> IntArray:
    """Divide `total` in proportion to `sizes`, none above its limit, by largest remainders.

    What a full part cannot take goes to the others, again in proportion; equal remainders go to the earlier part.

    >>> shares(10, np.array([60, 30, 10]), np.array([100, 2, 100])).tolist()
    [7, 2, 1]
    """
    if total > limits.sum():
        raise InputError(f"cannot divide {total} among parts that hold {int(limits.sum())}")
    out = np.zeros_like(limits)
    while (left := total - int(out.sum())) > 0:
        open_ = out < limits
        weight = np.where(open_, np.maximum(sizes, 1), 0)
        exact = left * weight
        step = exact // weight.sum()
        order = np.argsort(-(exact % weight.sum()), kind="stable")
        step[order[: left - int(step.sum())]] += 1
        out = np.minimum(out + step, limits)
    return out


def level(total: int, held: IntArray, limits: IntArray) -> IntArray:
    """Divide `total` among parts that hold some already: they end as equal as can be, none given above its limit.

    >>> level(5, np.array([4, 1, 2]), np.array([9, 9, 9])).tolist()
    [0, 3, 2]
    """
    if total > limits.sum():
        raise InputError(f"cannot divide {total} among parts that hold {int(limits.sum())}")
    given = np.zeros_like(limits)
    while (left := total - int(given.sum())) > 0:
        height, open_ = held + given, given < limits
        lowest = height[open_].min()
        low = np.flatnonzero(open_ & (height == lowest))
        higher = height[open_ & (height > lowest)]
        rise = min(left // len(low), int((limits - given)[low].min()), *(int(h - lowest) for h in higher))
        if rise:
            given[low] += rise
        else:
            given[low[:left]] += 1
    return given
