"""Which column is what: named by the user, or found by the names that people use."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from tcsl.data.bad import shown
from tcsl.errors import InputError
from tcsl.registry import unknown

_log = logging.getLogger("tcsl")

ALIASES = {
    "path": ("path", "file", "filename", "file_name", "filepath", "image", "img", "image_path", "img_filename"),
    "inputs": ("inputs", "x", "features", "embedding", "embeddings", "vector", "images", "data"),
    "label": ("label", "labels", "y", "target", "targets", "class", "category"),
    "split": ("split", "splits", "partition"),
    "group": ("group", "groups", "attribute", "place", "background"),
    "unit": (),  # named or nothing: a column that is called unit may be of millimetres
    "id": ("id", "ids", "img_id", "image_id", "sample_id", "uid"),
}


def parse_columns(text: str) -> dict[str, str]:
    """Read `label=y,group=place` as roles and columns.

    >>> parse_columns("label=y, group=place+time")
    {'label': 'y', 'group': 'place+time'}
    """
    out: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            raise InputError(f"--columns looks like label=y,group=place, got {part!r}")
        if role not in ALIASES:
            raise unknown("kind of column", role, ALIASES)
        if role in out:
            raise InputError(
                f"--columns names {role} twice, {out[role]!r} and {column!r}; join columns with +, as in A+B"
            )
        out[role] = column
    return out


def find_columns(
    source: str, present: Iterable[str], named: Mapping[str, str], *, how: str = "--columns label=NAME"
) -> dict[str, list[str]]:
    """Return, for each role that is there, its columns; a role is named, or has one of its usual names.

    Parameters
    ----------
    named : roles and columns; several columns of one role are joined by +
    how : what names the label, for the message where there is none

    >>> find_columns("birds.csv", ["file", "Y", "place"], {"group": "place"})
    {'path': ['file'], 'label': ['Y'], 'group': ['place']}
    """
    columns = list(present)
    asked = {role: _asked(source, role, given, columns) for role, given in named.items()}
    found: dict[str, list[str]] = {}
    for role, aliases in ALIASES.items():
        if role in asked:
            found[role] = asked[role]
            continue
        # What was named for one role is not guessed to have another, but an id may be the path too.
        others = [names for other, names in asked.items() if {role, other} != {"id", "path"}]
        free = {column.lower(): column for column in reversed(columns) if not any(column in names for names in others)}
        hits = [free[alias] for alias in aliases if alias in free]
        if hits:
            found[role] = hits[:1]
    if "label" not in found:
        present = shown(", ".join(columns[:20])) or "none"
        raise InputError(f"{source}: which column is the label? It has {present}; name it with {how}")
    return found


def tell_guesses(source: str, found: Mapping[str, list[str]], named: Mapping[str, str]) -> None:
    """Say which columns were found by their names, where those are not the roles' own."""
    guessed = [f"{role}={names[0]}" for role, names in found.items() if role not in named and role not in names]
    if guessed:
        _log.info(f"{source}: columns that were not named: {shown(', '.join(guessed))}")


def _asked(source: str, role: str, given: str, columns: list[str]) -> list[str]:
    """Return the columns that were named for a role."""
    if role not in ALIASES:
        raise unknown("kind of column", role, ALIASES)
    asked = [given] if given in columns else [column.strip() for column in given.split("+")]
    for column in asked:
        if column not in columns:
            raise unknown(f"column of {source} for {role!r}", column, columns)
    if len(asked) > 1 and role not in ("group", "inputs"):
        raise InputError(f"{source}: {role} is one column, got {given!r}")
    return asked
