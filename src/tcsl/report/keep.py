"""What a page needs of the data, kept in the run folder while the data are there: samples.parquet, groups.parquet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tcsl.data.dataset import Dataset
from tcsl.data.groups import Groups
from tcsl.report.neighbours import near_by, nearest_chosen
from tcsl.report.room import thumbnails_room, thumbnails_wanted
from tcsl.report.shown import by_importance, choose_shown
from tcsl.report.thumbnails import are_pictures, pixels_of, row_text, thumbnails
from tcsl.scores import Coreset, Scores, save_table
from tcsl.types import FloatArray

if TYPE_CHECKING:
    from tcsl.pipeline import Job


def keep_samples(data: Dataset, path: Path, *, seed: int, el2n: Mapping[str, FloatArray] | None = None) -> None:
    """Write samples.parquet: index, id, webp or text, the nearest chosen neighbours, and EL2N where it is given.

    All samples have a row. Pictures and texts are those of `by_importance`, as many as a page has room for.

    Parameters
    ----------
    path : a run folder with scores.parquet and coreset.parquet
    seed : of the order in which samples are given room
    el2n : by its column, as `el2n_of_run` returns it
    """
    scores = Scores.load(path / "scores.parquet")
    coreset = Coreset.load(path / "coreset.parquet")
    shown = choose_shown(scores.tcsl_s, scores.tcsl_c, scores.labels, coreset.mask(len(data)))
    near = nearest_chosen(data.inputs, scores.labels, coreset.indices, shown.left_out)
    first = np.concatenate([shown.extremes, shown.left_out, *near])
    wanted = thumbnails_wanted(len(data))
    order = by_importance(first, scores.tcsl_s, scores.tcsl_c, scores.g_high, room=wanted, seed=seed)[:wanted]
    webp: dict[int, bytes] = {}
    text: dict[int, str] = {}
    if are_pictures(data.inputs):
        webp = thumbnails(pixels_of(data.inputs), order, thumbnails_room(data.ids))
    else:
        text = {int(i): row_text(data.inputs[int(i)].numpy()) for i in order}
    beside = dict(zip(shown.left_out.tolist(), near, strict=True))
    everyone = range(len(data))
    columns = {
        "index": pl.Series(np.arange(len(data))),
        "id": pl.Series(data.ids),
        "webp": pl.Series([webp.get(i) for i in everyone], dtype=pl.Binary),
        "text": pl.Series([text.get(i) for i in everyone], dtype=pl.String),
        "near": pl.Series([beside[i].tolist() if i in beside else None for i in everyone], dtype=pl.List(pl.Int64)),
    }
    columns |= {name: pl.Series(values) for name, values in (el2n or {}).items()}
    facts = {"fingerprint": data.fingerprint, "near_by": near_by(data.inputs, coreset.indices)}
    save_table(pl.DataFrame(columns), path / "samples.parquet", facts)


def keep_groups(groups: Groups, path: Path) -> None:
    """Write groups.parquet for the page: index, group, minority; the groups' names are in its metadata."""
    frame = pl.DataFrame(
        {"index": np.arange(len(groups.group)), "group": groups.group, "minority": groups.minority},
    )
    save_table(frame, path / "groups.parquet", {"names": list(groups.names)})


def el2n_of_run(job: Job) -> dict[str, FloatArray]:
    """Return EL2N by its column in samples.parquet: of the nets that the run has; nothing is trained for it here.

    `el2n` is that of early nets, where a method of the run trained them; else `el2n_biased` is that of the biased model
    after its T_s epochs. Where the run folder has neither any more, there is none.
    """
    from tcsl.methods.sources import Wanted, score_of
    from tcsl.pipeline import biased_stage
    from tcsl.scoring.el2n import el2n_of

    assert job.folder is not None
    blind, checkpoints = job.hiding(), job.folder.path / "checkpoints"
    seeds = 0
    while (checkpoints / f"early-{seeds + 1}.safetensors").is_file():
        seeds += 1
    if seeds:
        return {"el2n": score_of(blind, Wanted("el2n", seeds))}
    if not (checkpoints / "biased.safetensors").is_file():
        return {}
    biased, _ = biased_stage(blind)
    return {"el2n_biased": el2n_of(biased, blind.feed).cpu().numpy()}
