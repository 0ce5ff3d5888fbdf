"""A page that compares runs: their verdicts and accuracies side by side, and their maps with the same axes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from tcsl.errors import InputError
from tcsl.files import write_atomic
from tcsl.report.curves import bands
from tcsl.report.document import Blob, document
from tcsl.report.material import Material, read_material
from tcsl.report.outcome import outcome
from tcsl.report.pack import pack_columns, rounded
from tcsl.report.shown import by_importance
from tcsl.runs import seed_folders
from tcsl.types import AnyArray

_POINTS = 40_000  # of all maps together


def seeds_of(path: Path) -> list[Path]:
    """Return the run folders of a folder with several seeds, or the folder itself."""
    if not (path / "summary.json").is_file():
        return [path]
    return seed_folders(path)


def write_comparison(paths: Sequence[Path], place: Path) -> Path:
    """Write a page that compares runs, and return its place."""
    if not paths:
        raise InputError("there is no run to compare")
    write_atomic(place, comparison([read_material(path) for path in paths], place))
    return place


def comparison(materials: Sequence[Material], place: Path) -> str:
    """Return a page that compares runs; each is linked by its way from `place`, where it has a page of its own."""
    names = _names([material.path for material in materials])
    found = [outcome(material) for material in materials]
    columns: dict[str, AnyArray] = {}
    runs: list[dict[str, Any]] = []
    for k, (material, name) in enumerate(zip(materials, names, strict=True)):
        scores = material.scores
        high, room = scores.g_high, _POINTS // len(materials)
        nothing, seed = np.zeros(0, np.int64), material.settings.seed
        drawn = by_importance(nothing, scores.tcsl_s, scores.tcsl_c, high, room=room, seed=seed)[:room]
        columns |= {
            f"s{k}": rounded(scores.tcsl_s[drawn]),
            f"c{k}": rounded(scores.tcsl_c[drawn]),
            f"high{k}": high[drawn].astype(np.uint8),
        }
        runs.append(
            {
                "name": name,
                "n": len(scores),
                "drawn": len(drawn),
                "range": [float(scores.tcsl_s.max()), float(scores.tcsl_c.max())],
                "curves": {part: made.round(6).tolist() for part, made in bands(scores.curves, high).items()},
                "accuracy": found[k]["accuracy"] and found[k]["accuracy"]["rows"],
            }
        )
    about, packed = pack_columns(columns)
    rows = [
        {
            "name": name,
            "link": _link(material.path, place),
            "dataset": material.data["name"],
            "seed": material.settings.seed,
            "ratio": material.settings.select.ratio,
            "profile": material.settings.profile,
            **one,
        }
        for name, material, one in zip(names, materials, found, strict=True)
    ]
    return document("compare.html", facts={"runs": runs, "columns": about}, blobs=[Blob("columns", packed)], rows=rows)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return short names that tell the folders apart: the last parts of their paths.

    >>> _names([Path("a/seed-0"), Path("b/seed-0")]), _names([Path("runs/a"), Path("runs/b")])
    (['a/seed-0', 'b/seed-0'], ['a', 'b'])
    """
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts))):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _link(run: Path, place: Path) -> str | None:
    if not (run / "report.html").is_file():
        return None
    try:
        return quote(os.path.relpath(run / "report.html", place.parent).replace(os.sep, "/"))
    except ValueError:  # on another drive
        return None
