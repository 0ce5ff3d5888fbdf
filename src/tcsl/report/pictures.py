"""Samples as pictures: from the thumbnails of a run, or from the data."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcsl.report.thumbnails import Pixels, are_pictures, pixels_of
from tcsl.types import AnyArray, BoolArray

if TYPE_CHECKING:
    import polars as pl
    from torch import Tensor


class Pictures(NamedTuple):
    """Which samples have a picture, (n,), and a function from a sample to it."""

    there: BoolArray
    of: Pixels


def thumbnails_of(samples: pl.DataFrame) -> Pictures | None:
    """Return the pictures in samples.parquet of a run; None where there are none."""
    from PIL import Image

    webp = samples["webp"]
    there = webp.is_not_null().to_numpy()

    def picture(i: int) -> AnyArray:
        return np.asarray(Image.open(io.BytesIO(webp[i])).convert("RGB"))

    return Pictures(there, picture) if there.any() else None


def pictures_of(inputs: Tensor) -> Pictures | None:
    """Return the pictures that inputs are; None where they are none.

    >>> import torch
    >>> pictures_of(torch.zeros(2, 3, 8, 8)).of(1).shape, pictures_of(torch.zeros(2, 5))
    ((8, 8, 3), None)
    """
    return Pictures(np.ones(len(inputs), np.bool_), pixels_of(inputs)) if are_pictures(inputs) else None
