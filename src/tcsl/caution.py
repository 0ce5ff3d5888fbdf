"""What makes a coreset one to be careful with, in words."""

from __future__ import annotations


def caution(g_high: int, n: int, kept: int | None) -> str:
    """Say what is wrong with a coreset of `kept` samples where `g_high` of n stand apart; nothing where all is well.

    >>> caution(61, 1200, 240), caution(700, 1200, 240)
    ('', 'the larger part stands apart: no shortcut was told apart, and the coreset is of no use')
    """
    if 2 * g_high > n:
        return "the larger part stands apart: no shortcut was told apart, and the coreset is of no use"
    if kept is not None and g_high >= kept:
        return (
            f"the coreset has room for {kept:,} samples, and G_high has {g_high:,}: it holds nothing else, and a model "
            "trained on it may learn the reverse of the easy rule; a larger ratio, or --ratio auto, keeps others, too"
        )
    return ""
