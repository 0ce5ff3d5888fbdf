"""Small pictures of samples, as WebP: as large as a number of bytes allows."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tcsl.data.parallel import in_order
from tcsl.types import AnyArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

_SIZES = ((160, 80), (128, 75), (112, 70), (96, 65), (80, 60), (72, 52), (64, 45), (56, 38), (48, 30), (40, 20))
_TRIED = 64  # pictures by which a size is judged
_BLOCK = 32  # pictures that one thread makes at a time
_SMALL = 32  # pictures of this side or less are kept without loss, and shown with their pixels

Pixels: TypeAlias = Callable[[int], AnyArray]


def are_pictures(inputs: Tensor) -> bool:
    """Tell whether inputs are pictures: (n, 1 or 3, height, width) or (n, height, width).

    >>> import torch
    >>> are_pictures(torch.zeros(2, 3, 8, 8)), are_pictures(torch.zeros(2, 8))
    (True, False)
    """
    return (inputs.ndim == 4 and inputs.shape[1] in (1, 3)) or (inputs.ndim == 3 and min(inputs.shape[1:]) > 1)


def pixels_of(inputs: Tensor) -> Pixels:
    """Return a function from a sample to its pixels, (height, width) or (height, width, 3) uint8.

    Floats in 0 .. 1 or 0 .. 255 are taken for that; others are stretched from their lowest to their highest value.

    >>> import torch
    >>> pixels_of(torch.tensor([[[-1.0, 0.0], [0.0, 1.0]]]))(0).tolist()
    [[0, 128], [128, 255]]
    """
    import torch

    scale, low = 1.0, 0.0
    if inputs.dtype != torch.uint8:
        low, high = float(inputs.min()), float(inputs.max())
        if low >= 0 and high <= 255:
            scale, low = (255.0 if high <= 1 else 1.0), 0.0
        else:
            scale = 255.0 / ((high - low) or 1.0)

    def one(i: int) -> AnyArray:
        picture = inputs[i]
        if picture.ndim == 3:
            picture = picture[0] if len(picture) == 1 else picture.permute(1, 2, 0)
        values = picture.numpy()
        return values if values.dtype == np.uint8 else ((values - low) * scale).round().clip(0, 255).astype(np.uint8)

    return one


def thumbnails(pixels: Pixels, wanted: IntArray, room: int) -> dict[int, bytes]:
    """Return WebP pictures of the wanted samples that take at most `room` bytes together.

    The largest size is taken at which all of them are expected to fit, by a look at some; where they then do not fit,
    or not even the smallest does, those at the end of `wanted` are left out.

    >>> made = thumbnails(lambda i: np.full((64, 64, 3), i, np.uint8), np.arange(10), room=100_000)
    >>> len(made), made[3][:4], made[3][8:12]
    (10, b'RIFF', b'WEBP')
    """
    if not len(wanted):
        return {}
    tried = wanted[:: -(-len(wanted) // _TRIED)]
    side, quality = _SIZES[-1]
    for side, quality in _SIZES:
        mean = sum(len(made) for made in _encode_all(pixels, tried, side, quality)) / len(tried)
        if mean * len(wanted) * 1.05 <= room:
            break
    out: dict[int, bytes] = {}
    for i, made in zip(wanted.tolist(), _encode_all(pixels, wanted, side, quality), strict=True):
        room -= len(made)
        if room < 0:
            break
        out[i] = made
    return out


def _encode_all(pixels: Pixels, samples: IntArray, side: int, quality: int) -> Sequence[bytes]:
    def block(start: int) -> list[bytes]:
        return [_encode(pixels(int(i)), side, quality) for i in samples[start : start + _BLOCK]]

    return [made for part in in_order(block, range(0, len(samples), _BLOCK)) for made in part]


def _encode(values: AnyArray, side: int, quality: int) -> bytes:
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(values)).convert("RGB")
    longest = max(image.size)
    if longest > side:
        image.thumbnail((side, side), Image.Resampling.BOX if longest >= 4 * side else Image.Resampling.LANCZOS)
    out = io.BytesIO()
    image.save(out, "WEBP", quality=quality, lossless=longest <= _SMALL, method=4)
    return out.getvalue()


def row_text(values: AnyArray, most: int = 24) -> str:
    """Return a row's values as text; of long rows the first.

    >>> row_text(np.array([1.0, -0.25, 1e-7]), most=2)
    '1, -0.25, … (3 values)'
    """
    flat = values.reshape(-1)
    text = ", ".join(f"{value:.4g}" for value in flat[:most].tolist())
    return text if len(flat) <= most else f"{text}, … ({len(flat):,} values)"
