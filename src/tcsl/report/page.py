"""The page of one run: one HTML file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tcsl.files import write_atomic
from tcsl.report.document import Blob, document
from tcsl.report.how import how
from tcsl.report.material import Material, read_material
from tcsl.report.outcome import outcome
from tcsl.report.pack import pack_columns, pack_ids, rounded, squeeze
from tcsl.report.room import MOST_ROWS, rows_with_room
from tcsl.report.shown import by_importance, choose_shown, ease
from tcsl.report.why import why
from tcsl.types import AnyArray, IntArray

POINTS = 50_000  # samples up to which the map draws every one
_DRAWN = 5_000  # points over the density, where there are more: few enough to see it
_BINS = 200  # of the density, along each axis


@dataclass(frozen=True)
class Served:
    """What a server that shows the page offers beside it; a page in a file has none of this.

    Attributes
    ----------
    image : the address of a full-size image, with {index} for the sample's index
    marks : the address where marks of samples are read and saved
    token : what the server wants to see when marks are saved
    note : what the reader should know, such as why there are no full-size images
    nonce : where there is one, only scripts that carry it run
    script, style : more JavaScript, which finds the page's `window.tcsl`, and CSS
    """

    image: str = ""
    marks: str = ""
    token: str = ""
    note: str = ""
    nonce: str = ""
    script: str = ""
    style: str = ""


def write_page(path: Path, out: Path | None = None) -> Path:
    """Write the page of a finished run and return its place: report.html in the run folder, unless told otherwise."""
    place = path / "report.html" if out is None else out
    write_atomic(place, page(read_material(path)))
    return place


def page(material: Material, served: Served | None = None) -> str:
    """Return the page of a run as HTML."""
    found = outcome(material)
    facts, blobs = _facts(material)
    told = served or Served()
    addresses = {"image": told.image, "marks": told.marks, "token": told.token, "note": told.note}
    return document(
        "page.html",
        facts={**facts, "accuracy": found["accuracy"], "why": why(material)},
        blobs=blobs,
        served=addresses if served else None,
        nonce=told.nonce,
        script=told.script,
        style=told.style,
        name=material.path.resolve().name,
        dataset=material.data["name"],
        classes=material.class_names,
        found=found,
        how=how(material),
        ratio=material.settings.select.ratio,
        seed=material.settings.seed,
    )


def words_of(verdict: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what the two clusters and the gallery's views are called: of a shortcut only where one was found.

    >>> words_of({"found": True})["high"], words_of(None)["high"]
    ('G_high: contradict', 'G_high: stand apart')
    """
    if verdict and verdict["found"]:
        return {
            "high": "G_high: contradict",
            "low": "G_low: agree",
            "apart": "Contradict the shortcut",
            "glance": "Of each class, what the shortcut makes easy, and what contradicts it.",
        }
    return {
        "high": "G_high: stand apart",
        "low": "G_low: the others",
        "apart": "Stand apart",
        "glance": "Of each class, what is easy, and what stands apart: the biased model is wrong about it for longest.",
    }


def _facts(material: Material) -> tuple[dict[str, Any], list[Blob]]:
    """Return what the scripts read: facts as JSON, and samples as columns, ids, thumbnails or texts."""
    scores, groups = material.scores, material.groups
    n = len(scores)
    shown = choose_shown(scores.tcsl_s, scores.tcsl_c, scores.labels, material.chosen)
    first = np.concatenate([shown.extremes, _near(material)])

    def order(room: int) -> IntArray:
        high, seed = scores.g_high, material.settings.seed
        return by_importance(first, scores.tcsl_s, scores.tcsl_c, high, room=room, seed=seed)

    rows = np.arange(n) if n <= POINTS else rows_with_room(order(MOST_ROWS), scores.ids)
    columns: dict[str, AnyArray] = {
        "s": rounded(scores.tcsl_s[rows]),
        "c": rounded(scores.tcsl_c[rows]),
        "ease": (ease(scores.tcsl_s, scores.tcsl_c)[rows] * 65535).round().astype(np.uint16),
        "label": _numbers(scores.labels[rows]),
        "high": scores.g_high[rows].astype(np.uint8),
        "chosen": material.chosen[rows].astype(np.uint8),
    }
    if groups is not None:
        columns["group"] = _numbers(groups.group[rows])
    if len(rows) < n:
        columns["index"] = rows.astype(np.uint32)
    facts: dict[str, Any] = {
        "n": n,
        "classes": material.class_names,
        "groups": None if groups is None else list(groups.names),
        "near": {},
        "nearBy": material.near_by,
        "density": None,
        "words": words_of(material.result.get("verdict")),
    }
    if n > POINTS:
        position = np.full(n, -1)
        position[rows] = np.arange(len(rows))
        drawn = position[order(_DRAWN)[:_DRAWN]]
        columns["drawn"] = drawn[drawn >= 0].astype(np.uint32)
        columns["counts"], facts["density"] = _density(scores.tcsl_s, scores.tcsl_c)
    blobs = [Blob("ids", pack_ids(scores.ids[rows]))]
    if material.samples is not None:
        samples = material.samples[rows]
        facts["near"] = _near_of(samples, rows)
        columns, more = _looks(samples, columns)
        blobs += more
    facts["columns"], packed = pack_columns(columns)
    return facts, [Blob("columns", packed), *blobs]


def _numbers(values: IntArray) -> AnyArray:
    """Return classes or groups in two bytes each, or four where they are many."""
    return values.astype(np.uint16 if values.max() < 1 << 16 else np.uint32)


def _near(material: Material) -> IntArray:
    """Return the samples of which neighbours are shown, and the neighbours."""
    if material.samples is None:
        return np.zeros(0, np.int64)
    with_near = material.samples.filter(pl.col("near").is_not_null())
    near = with_near["near"].explode().drop_nulls().to_numpy()
    return np.concatenate([with_near["index"].to_numpy(), near]).astype(np.int64)


def _near_of(samples: pl.DataFrame, rows: IntArray) -> dict[str, list[int]]:
    """Return neighbours by positions in the page."""
    with_near = samples.with_row_index("at").filter(pl.col("near").is_not_null())
    return {
        str(at): np.searchsorted(rows, near).tolist()
        for at, near in zip(with_near["at"].to_list(), with_near["near"].to_list(), strict=True)
        if near
    }


def _looks(samples: pl.DataFrame, columns: dict[str, AnyArray]) -> tuple[dict[str, AnyArray], list[Blob]]:
    """Return the columns with where thumbnails begin, and the thumbnails; or texts, where the samples are rows."""
    for kind in ("webp", "text"):
        with_it = samples.with_row_index("at").filter(pl.col(kind).is_not_null())
        if len(with_it):
            columns = {**columns, "shown": with_it["at"].to_numpy().astype(np.uint32)}
            if kind == "text":
                texts = json.dumps(with_it["text"].to_list(), ensure_ascii=True, separators=(",", ":"))
                return columns, [Blob("texts", squeeze(texts.encode()))]
            pictures = with_it["webp"].to_list()
            columns["ends"] = np.cumsum([len(picture) for picture in pictures]).astype(np.uint32)
            return columns, [Blob("thumbnails", b"".join(pictures))]
    return columns, []


def _density(tcsl_s: AnyArray, tcsl_c: AnyArray) -> tuple[AnyArray, dict[str, Any]]:
    """Return how many samples lie in each cell of a grid, row by row of TCSL_c, and where the grid is."""
    ranges = [(float(score.min()), float(score.max()) or 1.0) for score in (tcsl_c, tcsl_s)]
    counts, _, _ = np.histogram2d(tcsl_c, tcsl_s, bins=_BINS, range=ranges)
    return counts.astype(np.uint32).ravel(), {"bins": _BINS, "c": ranges[0], "s": ranges[1]}
