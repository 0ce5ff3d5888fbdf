"""What makes a coreset, or the model trained on it, one to be careful with, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST = 0.75  # of a coreset that G_high may be; it was 0.72 on Waterbirds at r = 0.1, whose model gained
_WORSE = 0.05  # of an accuracy


def caution(g_high: int, n: int, kept: int | None) -> str:
    """Say what is wrong with a coreset of `kept` samples where `g_high` of n stand apart; nothing where all is well.

    >>> caution(61, 1200, 240), caution(700, 1200, 240)
    ('', 'the larger part stands apart: no shortcut was told apart, and the coreset is of no use')
    >>> caution(49, 540, 54)[:44]
    "49 of the coreset's 54 samples are of G_high"
    """
    if 2 * g_high > n:
        return "the larger part stands apart: no shortcut was told apart, and the coreset is of no use"
    cure = (
        "a model trained on it may learn the reverse of the easy rule; a larger ratio, or --ratio auto, keeps others, "
        "too"
    )
    if kept is not None and g_high >= kept:
        return (
            f"the coreset has room for {kept:,} samples, and G_high has {g_high:,}: it holds nothing else, and {cure}"
        )
    if kept is not None and g_high > _MOST * kept:
        return f"{g_high:,} of the coreset's {kept:,} samples are of G_high, and {cure}"
    return ""


def worse(methods: Mapping[str, Mapping[str, Any]]) -> str:
    """Say so where the coreset's model is behind plain training in its worst group or, without groups, worst class.

    Parameters
    ----------
    methods : the accuracies of each, by the names of a run's result

    >>> worse({"cb_erm": {"wga": 0.376}, "tcsl_cs": {"wga": 0.038}})[:47]
    "the coreset's model is worse than plain trainin"
    >>> worse({"cb_erm": {"wga": None, "worst_class": 0.6}, "tcsl_cs": {"wga": None, "worst_class": 0.7}})
    ''
    """
    for metric, part in (("wga", "worst group"), ("worst_class", "worst class")):
        one, other = (methods.get(name, {}).get(metric) for name in ("cb_erm", "tcsl_cs"))
        if one is not None and other is not None:
            if one - other <= _WORSE:
                return ""
            return (
                f"the coreset's model is worse than plain training, {100 * other:.1f} % in its {part} and not "
                f"{100 * one:.1f} %: do not use it as it is; another ratio, such as --ratio auto, may do better"
            )
    return ""
