"""Augmentation on the device, a batch at once.

What happens to a sample depends on the seed, the epoch and its index, not on the batch it is in: the random numbers
are a hash of these three, so nothing is stored and a resumed or re-batched run repeats them.
"""

from __future__ import annotations

import torch
from torch import Tensor

_PAD = 8  # crops move by up to 1/8 of the side


def augment(name: str, images: Tensor, index: Tensor, *, seed: int, epoch: int) -> Tensor:
    """Return augmented images.

    Parameters
    ----------
    name : none, flip (left to right, half of the samples), crop (shifted by up to an eighth of the side, edges
        repeated), crop_flip
    images : (batch, channels, height, width)
    index : (batch,) the samples' indices
    """
    if "crop" in name:
        images = _shift(images, uniform(index, seed, epoch, 0), uniform(index, seed, epoch, 1))
    if "flip" in name:
        flipped = uniform(index, seed, epoch, 2) < 0.5
        images = torch.where(flipped[:, None, None, None], images.flip(3), images)
    return images


def uniform(index: Tensor, seed: int, epoch: int, stream: int) -> Tensor:
    """Return one number in [0, 1) for each sample, by integer hashing; float32, the same on every device."""
    key = (seed * 1_000_003 + epoch * 31 + stream) & 0x7FFFFFFF
    h = (index * 0x9E3779B1 + key * 0x85EBCA77) & 0xFFFFFFFF
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97), (15, 1)):
        h = ((h ^ (h >> shift)) * factor) & 0xFFFFFFFF
    return (h >> 8).float() / 2**24


def _shift(images: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Move each image by up to 1/8 of its side in both directions; pixels from outside repeat the edge."""
    batch, channels, height, width = images.shape

    def positions(side: int, move: Tensor) -> Tensor:
        reach = max(1, side // _PAD)
        offset = (move * (2 * reach + 1)).long() - reach
        return (torch.arange(side, device=images.device) + offset[:, None]).clamp(0, side - 1)

    rows, columns = positions(height, u), positions(width, v)
    moved = images.gather(2, rows[:, None, :, None].expand(batch, channels, height, width))
    return moved.gather(3, columns[:, None, None, :].expand(batch, channels, height, width))
