"""Scores and coresets as tables: one row a sample, stored as Parquet, the true groups never among them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcsl.errors import InputError
from tcsl.files import write_atomic
from tcsl.types import AnyArray, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl

SCHEMA = 1  # of the run folder and of every table in it
_READ = {"id", "label", "tcsl_c", "curve"}  # of a table of scores


@dataclass(frozen=True, eq=False)
class Scores:
    """What Algorithm 1 leaves behind; higher is harder.

    Attributes
    ----------
    ids, labels : (n,)
    tcsl_s, tcsl_c : (n,) mean loss of the biased and of the core model
    g_high : (n,) whether wKMeans, with the settings of the run, puts the sample into G_high
    curves : (n, T_s) the biased model's loss in each epoch
    facts : where they come from: dataset, fingerprint, class names, seed
    """

    ids: AnyArray
    labels: IntArray
    tcsl_s: FloatArray
    tcsl_c: FloatArray
    g_high: BoolArray
    curves: FloatArray
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return n."""
        return len(self.labels)

    def frame(self) -> pl.DataFrame:
        """Return a polars table: id, label, tcsl_s, tcsl_c, g_high, curve."""
        import polars as pl

        return pl.DataFrame(
            {
                "id": self.ids,
                "label": self.labels,
                "tcsl_s": self.tcsl_s,
                "tcsl_c": self.tcsl_c,
                "g_high": self.g_high,
                "curve": pl.Series(self.curves, dtype=pl.Array(pl.Float32, self.curves.shape[1])),
            }
        )

    def save(self, path: Path | str) -> None:
        """Write the table as Parquet."""
        save_table(self.frame(), Path(path), self.facts)

    @property
    def digest(self) -> str:
        """SHA-256 over what a selection reads: labels, TCSL_c and the curves."""
        return digest(self.labels, self.tcsl_c, self.curves)

    @classmethod
    def load(cls, path: Path | str) -> Scores:
        """Read a table that `save` wrote, or one from elsewhere with the columns id, label, tcsl_c and curve."""
        import polars as pl

        frame, facts = load_table(Path(path), _READ)
        if len(frame) == 0:
            raise InputError(f"{path}: there is no sample")
        if frame.null_count().sum_horizontal()[0]:
            raise InputError(f"{path}: there are empty cells; every sample needs an id, a label, TCSL_c and a curve")
        curves = curves_of(frame, path)
        try:
            labels = frame["label"].cast(pl.Int64).to_numpy()
            tcsl_c = frame["tcsl_c"].cast(pl.Float32).to_numpy()
        except (pl.exceptions.PolarsError, ValueError, TypeError) as error:
            raise InputError(f"{path}: label must be integers, tcsl_c numbers: {error}") from None
        if not (frame["label"].cast(pl.Float64).to_numpy() == labels).all():
            raise InputError(f"{path}: labels must be integers")
        if labels.min() < 0 or labels.max() >= len(labels):
            odd = labels.min() if labels.min() < 0 else labels.max()
            raise InputError(f"{path}: labels must be 0 .. classes - 1, got {odd} among {len(labels)} samples")
        from tcsl.selection.tcsl_cs import tcsl_s_of

        g_high = frame["g_high"].to_numpy() if "g_high" in frame.columns else np.zeros(len(frame), np.bool_)
        return cls(frame["id"].to_numpy(), labels, tcsl_s_of(curves), tcsl_c, g_high, curves, facts)


@dataclass(frozen=True, eq=False)
class Coreset:
    """The samples that are kept.

    Attributes
    ----------
    indices : (k,) positions in the dataset, ascending: `torch.utils.data.Subset(data, coreset.indices)`
    ids, labels : (k,)
    g_high : (k,) whether the sample was taken as a member of G_high
    facts : provenance: fingerprint of the data, digest of the scores, rule, settings, seed
    scores : (k,) what the rule went by, where that is one score
    """

    indices: IntArray
    ids: AnyArray
    labels: AnyArray
    g_high: BoolArray
    facts: Mapping[str, Any] = field(default_factory=dict)
    scores: AnyArray | None = None

    def __len__(self) -> int:
        """Return the number of samples kept."""
        return len(self.indices)

    def frame(self) -> pl.DataFrame:
        """Return a polars table: index, id, label, g_high, and score where there is one."""
        import polars as pl

        columns = {"index": self.indices, "id": self.ids, "label": self.labels, "g_high": self.g_high}
        return pl.DataFrame(columns if self.scores is None else {**columns, "score": self.scores})

    def mask(self, n: int) -> BoolArray:
        """Return whether each of the n samples that it was chosen from is kept."""
        kept = np.zeros(n, np.bool_)
        kept[self.indices] = True
        return kept

    @property
    def digest(self) -> str:
        """SHA-256 over the indices."""
        return digest(self.indices)

    def save(self, path: Path | str) -> None:
        """Write the table as Parquet."""
        save_table(self.frame(), Path(path), self.facts)

    @classmethod
    def load(cls, path: Path | str) -> Coreset:
        """Read a table that `save` wrote."""
        frame, facts = load_table(Path(path), {"index", "id", "label", "g_high"})
        indices, ids, labels, g_high = (frame[name].to_numpy() for name in ("index", "id", "label", "g_high"))
        return cls(indices, ids, labels, g_high, facts, frame["score"].to_numpy() if "score" in frame.columns else None)


def save_predictions(
    path: Path, ids: AnyArray, labels: IntArray, predictions: Mapping[str, AnyArray], facts: Mapping[str, Any]
) -> None:
    """Write what each model predicts of the held-out samples as Parquet: id, label, and a column for each of it."""
    import polars as pl

    save_table(pl.DataFrame({"id": ids, "label": labels, **predictions}), path, facts)


def is_scores(path: Path) -> bool:
    """Tell whether a file is one that `Scores.load` reads."""
    import polars as pl

    try:
        return path.is_file() and set(pl.read_parquet_schema(path)) >= _READ
    except (pl.exceptions.PolarsError, OSError):
        return False


def curve_columns(columns: Collection[str]) -> list[str]:
    """Return the columns that hold the loss curves: `curve`, or loss_1, loss_2, ... as `tcsl export` has them in CSV.

    >>> curve_columns(["id", "loss_2", "loss_1"]), curve_columns(["id", "loss"])
    (['loss_1', 'loss_2'], [])
    """
    epochs = (f"loss_{epoch}" for epoch in range(1, len(columns) + 1))
    return ["curve"] if "curve" in columns else list(takewhile(columns.__contains__, epochs))


def curves_of(frame: pl.DataFrame, path: Path | str) -> FloatArray:
    """Return the loss curves of a table that has `curve_columns`, (n, T_s).

    >>> import polars as pl
    >>> curves_of(pl.DataFrame({"loss_1": [1, 2], "loss_2": [3, 4]}), "scores.csv").tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    import polars as pl

    columns = curve_columns(frame.columns)
    if columns == ["curve"]:
        curve = frame["curve"]
    else:
        curve = frame.select(pl.concat_list(pl.col(columns).cast(pl.Float32, strict=False))).to_series()
    if isinstance(curve.dtype, pl.List):
        lengths = curve.list.len().unique()
        if len(lengths) != 1:
            raise InputError(f"{path}: the curves must have one length, got {sorted(lengths.to_list())}")
        curve = curve.list.to_array(int(lengths[0]))
    try:
        return np.ascontiguousarray(curve.to_numpy(), np.float32)
    except (pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise InputError(f"{path}: the curves must be lists of numbers: {error}") from None


def read_facts(path: Path) -> dict[str, Any]:
    """Return where a Parquet table of ours comes from; nothing for one from elsewhere."""
    import polars as pl

    try:
        facts: dict[str, Any] = json.loads(pl.read_parquet_metadata(path).get("tcsl", "{}"))
    except ValueError as error:
        raise InputError(f"{path}: its metadata is damaged: {error}") from None
    if facts.get("schema", SCHEMA) > SCHEMA:
        raise InputError(f"{path} was written by a newer tcsl (schema {facts['schema']}, this one reads {SCHEMA})")
    return facts


def digest(*arrays: AnyArray) -> str:
    """Return the SHA-256 over the bytes of arrays."""
    made = hashlib.sha256()
    for array in arrays:
        made.update(np.ascontiguousarray(array).view(np.uint8).data)
    return made.hexdigest()


def save_table(frame: pl.DataFrame, path: Path, facts: Mapping[str, Any]) -> None:
    """Write a table of a run as Parquet, with where it comes from in its metadata."""
    import polars as pl

    text = json.dumps({"schema": SCHEMA, **facts}, sort_keys=True)

    def write(place: Path) -> None:
        try:
            frame.write_parquet(place, metadata={"tcsl": text})
        except pl.exceptions.PolarsError as error:  # a full disk comes as one of these
            raise OSError(str(error)) from error

    write_atomic(path, write)


def load_table(path: Path, columns: set[str]) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Read a Parquet table that has these columns, and where it comes from."""
    import polars as pl

    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file")
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        form = "" if path.suffix == ".parquet" else ", the only form that is read here"
        raise InputError(f"{path} is not a Parquet file{form}: {error}") from None
    facts = read_facts(path)
    missing = columns - set(frame.columns)
    if missing:
        raise InputError(f"{path} has no column {', '.join(sorted(missing))}; it has {', '.join(frame.columns)}")
    return frame, facts
