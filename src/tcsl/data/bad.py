"""What is wrong with the input: one clear line, the first ten offenders and how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from tcsl.errors import InputError

OnBad = Literal["error", "skip"]
_SHOWN = 10


class Bad(NamedTuple):
    """One sample that cannot be used: where it is, and why."""

    where: str
    why: str


def settle(name: str, bad: Sequence[Bad], on_bad: OnBad) -> None:
    """Raise for bad samples, unless they are to be skipped.

    >>> settle("birds", [Bad("a.jpg", "is empty (0 bytes)")], "error")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tcsl.errors.InputError: birds: 1 bad sample: a.jpg is empty (0 bytes). Mend it, or leave it out with --on-bad ...
    """
    if bad and on_bad == "error":
        them = "it" if len(bad) == 1 else "them"
        cure = f"Mend {them}, or leave {them} out with --on-bad skip (tcsl data check lists all)"
        raise InputError(f"{name}: {describe(bad)}. {cure}")


def describe(bad: Sequence[Bad]) -> str:
    """Say what is bad: the count and the first ten.

    >>> describe([Bad("row 3", "has no label"), Bad("row 7", "has no label")])
    '2 bad samples: row 3 has no label; row 7 has no label'
    """
    listing = "; ".join(shown(f"{where} {why}") for where, why in bad[:_SHOWN])
    more = f"; and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
    return f"{len(bad):,} bad sample{'s' if len(bad) > 1 else ''}: {listing}{more}"


def shown(text: str, most: int = 500) -> str:
    r"""Return text as a message shows it: on one line, without control characters, cut where it is long.

    >>> print(shown("two\nlines and more", 9))
    two\nlines...
    """
    clean = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[:most])
    return clean + ("..." if len(text) > most else "")


def reasons(bad: Sequence[Bad]) -> dict[str, int]:
    """Return how often each reason occurs."""
    return dict(Counter(why for _, why in bad).most_common())
