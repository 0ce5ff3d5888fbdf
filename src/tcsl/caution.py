"""What makes a coreset, or the model trained on it, one to be careful with, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tcsl.selection.classes import lost_classes
from tcsl.selection.quota import auto_size
from tcsl.text import printable, shortened
from tcsl.types import AnyArray, BoolArray, IntArray

_MOST = 0.75  # of a coreset that G_high may be
_WORSE = 0.05  # of an accuracy
_NAMED = 5  # classes that a sentence names


def caution(found: Mapping[str, Any], coreset: Mapping[str, Any] | None) -> str:
    """Say what is wrong with a coreset; nothing where all is well, or where there is none.

    Parameters
    ----------
    found : the data's samples, `n`, and how many of them are in G_high, `g_high`
    coreset : the same of its samples, and what `missed_classes` says of its classes, by their names

    >>> caution({"n": 1200, "g_high": 61}, {"n": 240, "g_high": 61})
    ''
    >>> caution({"n": 1200, "g_high": 700}, {"n": 240, "g_high": 120})
    'the larger part stands apart: no shortcut was told apart, and the coreset is of no use'
    >>> caution({"n": 1200, "g_high": 61}, {"n": 240, "g_high": 61, "one_sided": ["landbird"]})[:49]
    'all that is kept of class landbird is of G_high; '
    >>> caution({"n": 1200, "g_high": 61}, {"n": 240, "g_high": 61, "lost": ["owl", "gull"]})[:41]
    'nothing is kept of class owl, gull: its m'
    >>> caution({"n": 540, "g_high": 49}, {"n": 54, "g_high": 49})[:44]
    "49 of the coreset's 54 samples are of G_high"
    >>> caution({"n": 540, "g_high": 49}, {"n": 54, "g_high": 27})
    'the coreset has places for 27 of the 49 in G_high; a larger ratio, or --ratio auto, keeps more of them'
    >>> caution({"n": 1200, "g_high": 61}, {"n": 240, "g_high": 33})
    'the coreset has places for 33 of the 61 in G_high; a larger ratio keeps more of them'
    """
    g_high = found["g_high"]
    if 2 * g_high > found["n"]:
        return "the larger part stands apart: no shortcut was told apart, and the coreset is of no use"
    if coreset is None:
        return ""
    kept, held = coreset["n"], coreset["g_high"]
    larger = "a larger ratio" + ", or --ratio auto," * bool(g_high and auto_size(g_high, found["n"]) > kept)
    fear = "a model trained on it may learn the reverse of the easy rule"
    if lost := coreset.get("lost"):  # runs of before do not tell; nor of the next
        return f"nothing is kept of class {_listed(lost)}: its model cannot predict that; a larger ratio keeps some"
    if one_sided := coreset.get("one_sided"):
        return f"all that is kept of class {_listed(one_sided)} is of G_high; {fear} there; a larger ratio keeps more"
    if held > _MOST * kept:
        return f"{held:,} of the coreset's {kept:,} samples are of G_high, and {fear}; {larger} keeps others, too"
    if held < g_high:
        return f"the coreset has places for {held:,} of the {g_high:,} in G_high; {larger} keeps more of them"
    return ""


def _listed(classes: Sequence[Any]) -> str:
    named = ", ".join(shortened(printable(str(name)), 40) for name in classes[:_NAMED])
    return named + " and others" * (len(classes) > _NAMED)


def one_sided_classes(labels: AnyArray, kept: AnyArray, g_high: BoolArray) -> list[Any]:
    """Return the classes of which a coreset keeps G_high and nothing else, though the data has more of them.

    Parameters
    ----------
    labels : (n,) of the data
    kept, g_high : (m,) labels of the coreset's samples, and which of them are in G_high

    >>> import numpy as np
    >>> one_sided_classes(np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 1, 2]), np.array([True, True, False, True]))
    [0]
    """
    there, held, high = (Counter(part.tolist()) for part in (labels, kept, kept[g_high]))
    return [label for label in sorted(held) if high[label] == held[label] < there[label]]


def missed_classes(labels: AnyArray, chosen: IntArray, g_high: BoolArray) -> dict[str, list[Any]]:
    """Return the classes that a coreset has none of, `lost`, and those of which it has G_high alone, `one_sided`.

    Parameters
    ----------
    labels : (n,) of the data
    chosen, g_high : (m,) positions of the coreset's samples, and which of them are in G_high

    >>> import numpy as np
    >>> missed_classes(np.array([0, 0, 1, 1, 2]), np.array([0, 3]), np.array([False, True]))
    {'lost': [2], 'one_sided': [1]}
    """
    return {"lost": lost_classes(labels, chosen), "one_sided": one_sided_classes(labels, labels[chosen], g_high)}


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
