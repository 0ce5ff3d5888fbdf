"""Embeddings, one row a sample: what a net's last layer sees, or a file from elsewhere; `clip.py` has CLIP's."""

from __future__ import annotations

import logging
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcsl.data.arrays import as_float32
from tcsl.data.bad import Bad, describe, shown
from tcsl.errors import InputError
from tcsl.types import AnyArray, FloatArray

if TYPE_CHECKING:
    import polars as pl
    from torch import nn

    from tcsl.training.feed import Feed

KINDS = ".npy, .npz with one array, or .parquet"
_INDEX = ("__index_level_0__", "Unnamed: 0", "")  # row numbers that pandas writes beside a table

_log = logging.getLogger(__name__)


def embed(net: nn.Module, feed: Feed) -> FloatArray:
    """Return the input of the net's last Linear layer, (n, d) float32, in evaluation mode.

    >>> from tcsl.config import DeviceSettings
    >>> from tcsl.data.convert import as_dataset
    >>> from tcsl.training.device import choose
    >>> from tcsl.training.feed import Feed
    >>> from tcsl.training.nets import build_net
    >>> data = as_dataset((np.zeros((6, 4), np.float32), np.arange(6) % 2))
    >>> embed(build_net("mlp", data, seed=0), Feed.of(data, choose(DeviceSettings(device="cpu")))).shape
    (6, 64)
    """
    from tcsl.training.views import last_layer_batches

    net = feed.hardware.place(net)
    return np.concatenate([last.inputs.cpu().numpy() for _, _, last in last_layer_batches(net, feed)])


def load_embedding(path: Path | str, n: int, *, ids: AnyArray | None = None) -> FloatArray:
    """Read an embedding of n samples, (n, d) float32; no pickle is read and torch is not needed.

    Parameters
    ----------
    path : .npy or .npz (one array), rows in the order of the samples; or Parquet: one column of lists, or every column
        of numbers. Where it has a column `id`, rows are put into the order of `ids`
    ids : (n,) the samples' ids, as `Dataset.ids`

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/seen.npy", np.ones((3, 2)))
    ...     load_embedding(f"{folder}/seen.npy", 3).shape
    (3, 2)
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file; give an embedding as {KINDS}")
    if ids is not None and len(ids) != n:
        raise InputError(f"there are {n} samples but {len(ids)} ids; there must be one a sample")
    kind = path.suffix.lower()
    if kind in (".npy", ".npz"):
        array, order = _load_array(path), None
    elif kind == ".parquet":
        array, order = _load_parquet(path, n, ids)
    else:
        raise InputError(f"{path} is of no kind that can be read; give an embedding as {KINDS}")
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "iuf":
        raise InputError(
            f"{path}: an embedding must be numbers of shape (samples, features), got {array.dtype} of shape "
            f"{array.shape}"
        )
    if len(array) != n:
        raise _wrong_rows(path, len(array), n)
    rows: FloatArray = as_float32(array)
    if (odd := np.flatnonzero(~np.isfinite(rows).all(1))).size:
        bad = [Bad(f"row {i} of {path.name}", "has values that are NaN or infinite") for i in odd]
        raise InputError(f"{path}: {describe(bad)}; make the embedding again")
    return rows if order is None else rows[order]


def _wrong_rows(path: Path, came: int, n: int) -> InputError:
    return InputError(
        f"{path} has {came} rows, but there are {n} samples; there must be one a sample, in their order or with a "
        "column id (Parquet)"
    )


def _load_array(path: Path) -> AnyArray:
    try:
        if path.suffix.lower() == ".npz":
            zipfile.ZipFile(path).close()  # numpy takes what is not a zip file for a pickle
        stored: Any = np.load(path, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            return stored
        with stored:
            arrays = {name: np.asarray(stored[name]) for name in stored.files}
    except Exception as error:  # zipfile and numpy raise a dozen kinds on damaged bytes
        why = f"is not a {path.suffix} file, or it is damaged: {shown(str(error)) or type(error).__name__}"
        if "pickle" in str(error).lower():
            why = "holds Python objects, or is damaged; only arrays of numbers are read"
        raise InputError(f"{path} {why}") from None
    if len(arrays) != 1:
        names = shown(", ".join(f"{name} {array.shape}" for name, array in arrays.items())) or "none"
        raise InputError(f"{path}: an embedding is one array, got {names}; save it alone")
    [array] = arrays.values()
    return array


def _load_parquet(path: Path, n: int, ids: AnyArray | None) -> tuple[AnyArray, AnyArray | None]:
    """Return the rows as they are stored and, where the table has ids, the order that puts them beside `ids`."""
    from tcsl.data.frame import ROW, read_frame

    frame = read_frame(path, "error")[0].drop(ROW)
    if len(frame) != n:
        raise _wrong_rows(path, len(frame), n)
    order = None
    if "id" in frame.columns:
        if ids is None:
            raise InputError(f"{path} has a column id: give the samples' ids, in their order, or leave the column out")
        order = _order(frame["id"], ids, path)
        frame = frame.drop("id")
    return _matrix(frame, path), order


def _order(stored: pl.Series, ids: AnyArray, path: Path) -> AnyArray:
    """Return where each of `ids` is stored; numbers and text are compared as text."""
    import polars as pl

    place = {name: i for i, name in enumerate(stored.cast(pl.String).to_list())}
    wanted = [str(name) for name in ids.tolist()]
    if len(place) < len(stored):
        raise InputError(f"{path}: ids must be unique; it has {len(stored)} rows with {len(place)} ids")
    if missing := [name for name in wanted if name not in place]:
        raise InputError(
            f"{path}: {len(missing)} of the {len(wanted)} samples have no row there, such as id "
            f"{shown(missing[0], 80)!r}; its first id is {shown(str(next(iter(place))), 80)!r}"
        )
    return np.array([place[name] for name in wanted], np.int64)


def _matrix(frame: pl.DataFrame, path: Path) -> AnyArray:
    """Return the only column of lists, else all columns of numbers side by side; what is left out is logged."""
    import polars as pl

    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List | pl.Array)]
    if len(lists) > 1:
        raise InputError(f"{path}: which column is the embedding? {shown(', '.join(lists))} all hold lists; keep one")
    numbers = [name for name, dtype in frame.schema.items() if dtype.is_numeric() and name not in _INDEX]
    chosen = lists or numbers
    if not chosen:
        raise InputError(
            f"{path} has no column of lists or numbers; it has {shown(', '.join(frame.columns)) or 'none'}"
        )
    left_out = [name for name in frame.columns if name not in chosen]
    also = f"; left out: {shown(', '.join(left_out[:10]))}" if left_out else ""
    _log.info(f"{path}: the embedding is {shown(', '.join(chosen[:10]))} ({len(chosen)} columns){also}")
    empty = frame.select(pl.any_horizontal(pl.col(chosen).is_null())).to_series()
    if empty.any():
        raise InputError(f"{path}: row {empty.arg_true()[0]} has no embedding: {int(empty.sum())} rows are empty")
    if not lists:
        return frame.select(pl.col(numbers).cast(pl.Float64)).to_numpy()
    column = frame[lists[0]]
    if isinstance(column.dtype, pl.List):
        lengths = column.list.len()
        if (odd := (lengths != lengths[0]).arg_true()).len():
            raise InputError(
                f"{path}: column {lists[0]!r} must hold lists of one length: row 0 has {lengths[0]} values, row "
                f"{odd[0]} has {lengths[odd[0]]}"
            )
        column = column.list.to_array(int(lengths[0]))
    if not column.dtype.inner.is_numeric():  # type: ignore[attr-defined]
        raise InputError(f"{path}: column {lists[0]!r} must hold lists of numbers, got {column.dtype}")
    return column.to_numpy()
