"""Names that come from the data, as text that can be shown."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with a mark in place of what does not print: control characters, marks of direction.

    >>> printable("one\\ntwo")
    'one\ufffdtwo'
    """
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def shortened(text: str, most: int) -> str:
    """Return the text, or both its ends where it has more than `most` characters.

    >>> shortened("a very long name", 9)
    'a ve\u2026name'
    """
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\u2026{text[len(text) - (most - 1) // 2 :]}"
