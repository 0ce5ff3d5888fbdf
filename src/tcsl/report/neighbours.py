"""The chosen samples that are nearest to some that were left out, of the same class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tcsl.report.thumbnails import are_pictures
from tcsl.types import AnyArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

_MOST = 10_000  # chosen samples that are looked at
_BLOCK = 256


def near_by(inputs: Tensor, chosen: IntArray) -> str:
    """Say what is near.

    >>> import torch
    >>> near_by(torch.zeros(4, 2), np.arange(2))
    "the distance of the rows' standardised values"
    """
    by = (
        "the pictures, shrunk to 8 x 8 pixels and standardised"
        if are_pictures(inputs)
        else "the rows' standardised values"
    )
    some = f", among {len(_some(chosen)):,} of the {len(chosen):,} that were kept" if len(chosen) > _MOST else ""
    return f"the distance of {by}{some}"


def _some(chosen: IntArray) -> IntArray:
    return chosen[:: -(-len(chosen) // _MOST)] if len(chosen) else chosen


def looks(inputs: Tensor, samples: IntArray) -> AnyArray:
    """Return what samples are compared by, (k, d): a picture as 8 x 8 means of its pixels, or a row's values."""
    import torch

    pictures = are_pictures(inputs)

    def one(block: IntArray) -> AnyArray:
        part = inputs[torch.tensor(block)].float()
        if pictures:
            part = part.unsqueeze(1) if part.ndim == 3 else part
            part = torch.nn.functional.adaptive_avg_pool2d(part, (min(8, part.shape[2]), min(8, part.shape[3])))
        return np.asarray(part.flatten(1).numpy(), np.float64)

    return np.concatenate([one(samples[start : start + _BLOCK]) for start in range(0, len(samples), _BLOCK)])


def nearest_chosen(
    inputs: Tensor, labels: IntArray, chosen: IntArray, left_out: IntArray, k: int = 3
) -> list[IntArray]:
    """Return, for each sample of `left_out`, the k chosen ones of its class that look most like it, or all if fewer.

    Parameters
    ----------
    chosen : positions of the coreset

    >>> import torch
    >>> rows = torch.tensor([[0.0], [1.0], [5.0], [6.0]])
    >>> [near.tolist() for near in nearest_chosen(rows, np.zeros(4, int), np.array([0, 3]), np.array([1, 2]), k=1)]
    [[0], [3]]
    """
    if not len(left_out) or not len(chosen):
        return [np.zeros(0, np.int64) for _ in left_out]
    chosen = _some(chosen)
    there, here = looks(inputs, chosen), looks(inputs, left_out)
    mean, sd = there.mean(0), there.std(0)
    sd[sd == 0] = 1.0
    there, here = (there - mean) / sd, (here - mean) / sd
    out = []
    for i, look in zip(left_out, here, strict=True):
        same = np.flatnonzero(labels[chosen] == labels[i])
        distance = ((there[same] - look) ** 2).sum(1)
        out.append(np.asarray(chosen[same[np.argsort(distance, kind="stable")[:k]]], np.int64))
    return out
