"""Samples as pictures: from the thumbnails of a run, or from the data."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcsl.types import AnyArray, BoolArray

if TYPE_CHECKING:
    import polars as pl
    from torch import Tensor


class Pictures(NamedTuple):
    """Which samples have a picture, (n,), and a function from a sample to it: (height, width[, 3]) uint8."""

    there: BoolArray
    of: Callable[[int], AnyArray]


def thumbnails_of(samples: pl.DataFrame) -> Pictures | None:
    """Return the pictures in samples.parquet of a run; None where there are none."""
    from PIL import Image

    webp = samples["webp"]
    there = webp.is_not_null().to_numpy()

    def picture(i: int) -> AnyArray:
        return np.asarray(Image.open(io.BytesIO(webp[i])).convert("RGB"))

    return Pictures(there, picture) if there.any() else None


def pixels_of(inputs: Tensor) -> Pictures | None:
    """Return the pictures that inputs (n, 1 or 3, height, width) are; None where they are none.

    Floats in 0 .. 1 are from black to white, and of others the lowest to the highest are.

    >>> import torch
    >>> pixels_of(torch.zeros(2, 3, 8, 8)).of(1).shape, pixels_of(torch.zeros(2, 5))
    ((8, 8, 3), None)
    """
    if inputs.ndim != 4 or inputs.shape[1] not in (1, 3):
        return None
    low, high = 0.0, 255.0
    if inputs.is_floating_point():
        low, high = min(float(inputs.min()), 0.0), max(float(inputs.max()), 1.0)

    def picture(i: int) -> AnyArray:
        values = np.moveaxis(inputs[i].numpy(), 0, -1)
        values = values[..., 0] if values.shape[-1] == 1 else values
        return np.rint((values.astype(np.float64) - low) * (255 / (high - low))).astype(np.uint8)

    return Pictures(np.ones(len(inputs), np.bool_), picture)
