"""Feeding a device: the data lie there as they are (uint8 images stay uint8), and batches are gathered by index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tcsl.data.dataset import Dataset
from tcsl.training.device import Hardware
from tcsl.training.objective import Batch
from tcsl.types import IntArray

_EVALUATION_BATCH = 256


@dataclass(frozen=True, eq=False)
class Feed:
    """A dataset on a device; subsets and views share what they can of its memory."""

    data: Dataset
    hardware: Hardware
    inputs: Tensor
    labels: Tensor
    rows: Tensor | None = None  # where sample i's input lies; None: at i

    @classmethod
    def of(cls, data: Dataset, hardware: Hardware) -> Feed:
        """Put a dataset on a device."""
        return cls(data, hardware, data.inputs.to(hardware.device), data.labels.to(hardware.device))

    def subset(self, indices: IntArray) -> Feed:
        """Return a feed of the samples at these indices, numbered from 0; no input is copied."""
        index = torch.tensor(indices, device=self.hardware.device)
        rows = index if self.rows is None else self.rows[index]
        return replace(self, labels=self.labels[index], rows=rows)

    def view(self, name: str) -> Feed:
        """Return a feed of the same samples with another view's inputs."""
        return replace(self, inputs=self.data.views[name].to(self.hardware.device))

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.labels)

    def batch(self, index: Tensor) -> Batch:
        """Gather the samples at these indices (on the device)."""
        rows = index if self.rows is None else self.rows[index]
        return Batch(self.hardware.layout(self.inputs[rows]), self.labels[index], index)

    def in_order(self) -> Iterator[Batch]:
        """Yield all samples in order, in batches for evaluation."""
        for index in torch.arange(len(self), device=self.hardware.device).split(_EVALUATION_BATCH):
            yield self.batch(index)


def batch_sizes(n: int, batch_size: int) -> list[int]:
    """Return the sizes of an epoch's ceil(n / batch) batches; the last, smaller one is never dropped.

    A last batch of one sample would break BatchNorm, so there the batch before gives it a second one.

    >>> batch_sizes(10, 4), batch_sizes(9, 4)
    ([4, 4, 2], [4, 3, 2])
    """
    sizes = [batch_size] * (n // batch_size) + ([n % batch_size] if n % batch_size else [])
    if len(sizes) > 1 and sizes[-1] == 1 and batch_size > 2:
        sizes[-2:] = [batch_size - 1, 2]
    return sizes
