"""Per-sample losses, or what else is measured, over the epochs: all of them, or their running sum."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Recorder(Protocol):
    """Where the loop puts each sample's loss, or what else is measured, exactly once an epoch."""

    @property
    def table(self) -> Tensor:
        """The stored values, on the device; saved with every checkpoint."""

    def record(self, epoch: Tensor, index: Tensor, values: Tensor) -> None:
        """Store the values of these samples in this epoch: 0, 1, ..., on the device."""


class LossCurves:
    """Every loss: `epochs x n` float32 while training, so that one epoch is contiguous."""

    def __init__(self, n: int, epochs: int, device: torch.device) -> None:
        self.table = torch.zeros(epochs, n, device=device)

    def record(self, epoch: Tensor, index: Tensor, values: Tensor) -> None:
        """Store the values of these samples in this epoch."""
        # Not table[epoch, index], which would ask the device for the epoch.
        self.table.index_put_((epoch.expand_as(index), index), values)

    def curves(self) -> Tensor:
        """Return the losses as (n, epochs); a view."""
        return self.table.T


class LossSum:
    """The sum over epochs, n float32: what CSL and TCSL_c are the mean of."""

    def __init__(self, n: int, device: torch.device) -> None:
        self.table = torch.zeros(n, device=device)

    def record(self, epoch: Tensor, index: Tensor, values: Tensor) -> None:
        """Add the values of these samples."""
        self.table[index] += values

    def mean(self, epochs: int) -> Tensor:
        """Return the cumulative sample loss: the mean over `epochs`."""
        return self.table / epochs
