"""Feeding a device: the inputs lie there as they are (uint8 images stay uint8), or are streamed ahead of the step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tcsl.data.dataset import Dataset
from tcsl.training.device import Hardware, borrowed_stream, free_memory
from tcsl.training.objective import Batch
from tcsl.types import IntArray

Order: TypeAlias = Callable[[torch.Generator], Tensor]  # from an epoch's generator to the samples that it visits

_EVALUATION_BATCH = 256
_EVALUATION_VALUES = 16 * 3 * 224 * 224  # on a CPU, which is as fast on 16 such images as on 256, in less memory
_WORKERS = 4  # threads that gather batches; each waits for the disk most of its time
_AHEAD = 8  # batches that are gathered before they are needed


@dataclass(frozen=True, eq=False)
class Feed:
    """A dataset and the device it is fed to; subsets and views share what they can of its memory.

    Attributes
    ----------
    inputs : (n, ...) on the device where resident, else on the host, usually in a mapped file
    labels : (n,) on the device
    rows : where sample i's input lies, on the device of the inputs; None: at i
    """

    data: Dataset
    hardware: Hardware
    inputs: Tensor
    labels: Tensor
    resident: bool
    rows: Tensor | None = None

    @classmethod
    def of(cls, data: Dataset, hardware: Hardware, *, how: str = "auto") -> Feed:
        """Make a feed.

        Parameters
        ----------
        how : resident, stream, or auto: resident where the inputs take at most half of the device's free memory
        """
        resident = how == "resident" or (how == "auto" and data.inputs.nbytes <= free_memory(hardware.device) / 2)
        inputs = data.inputs.to(hardware.device) if resident else data.inputs
        return cls(data, hardware, inputs, data.labels.to(hardware.device), resident)

    def describe(self) -> str:
        """Say what is fed and how."""
        how = "resident on" if self.resident else "streamed to"
        size = self.data.inputs.nbytes / 1e6
        text = f"{size / 1e3:.1f} GB" if size >= 1e3 else f"{size:.1f} MB"
        return f"{self.data.name}: {len(self):,} inputs, {text}, {how} {self.hardware.device} (device.feed)"

    def facts(self) -> dict[str, str | None]:
        """Return what a run writes of the device and of how it is fed."""
        device = self.hardware.device
        return {
            "device": str(device),
            "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
            "precision": "bfloat16" if self.hardware.bfloat16 else "float32",
            "feed": "resident" if self.resident else "stream",
        }

    def subset(self, indices: IntArray) -> Feed:
        """Return a feed of the samples at these indices, numbered from 0; no input is copied."""
        index = torch.tensor(indices)
        rows = index.to(self.inputs.device)
        return replace(
            self,
            labels=self.labels[index.to(self.labels.device)],
            rows=rows if self.rows is None else self.rows[rows],
        )

    def view(self, name: str) -> Feed:
        """Return a feed of the same samples with another view's inputs."""
        inputs = self.data.views[name]
        return replace(self, inputs=inputs.to(self.hardware.device) if self.resident else inputs)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.labels)

    def batches(self, order: Tensor, sizes: Sequence[int]) -> Iterator[Batch]:
        """Yield the samples in this order (indices on the host), in batches of these sizes."""
        order = order[: sum(sizes)]
        if self.resident:
            for index in order.to(self.hardware.device).split(list(sizes)):
                yield self.gathered(index)
        else:
            yield from self._stream(order.split(list(sizes)))

    def gathered(self, index: Tensor) -> Batch:
        """Return the samples at these indices (on the device) of a resident feed."""
        return Batch(self.hardware.layout(self._gather(index)), self.labels[index], index)

    def batch(self, index: Tensor) -> Batch:
        """Return the samples at these indices (on the host)."""
        return next(self.batches(index, [len(index)]))

    def in_order(self) -> Iterator[Batch]:
        """Yield all samples in order, in batches for evaluation."""
        n, most = len(self), _EVALUATION_BATCH
        if self.hardware.device.type == "cpu":
            most = min(most, max(1, _EVALUATION_VALUES // self.inputs.shape[1:].numel()))
        sizes = [most] * (n // most) + [n % most] * (n % most > 0)
        yield from self.batches(torch.arange(n), sizes)

    def _gather(self, index: Tensor, *, pinned: bool = False) -> Tensor:
        """Return the inputs at these indices, as they lie in memory: decoded images have their channels last."""
        rows = index if self.rows is None else self.rows[index]
        if self.inputs.ndim == 4 and self.inputs.is_contiguous(memory_format=torch.channels_last):
            return _rows(self.inputs.permute(0, 2, 3, 1), rows, pinned).permute(0, 3, 1, 2)
        return _rows(self.inputs, rows, pinned)

    def _stream(self, indices: Sequence[Tensor]) -> Iterator[Batch]:
        """Gather batches in threads, and copy them to the device on a stream of its own, ahead of their use."""
        device = self.hardware.device
        with borrowed_stream(device) if device.type == "cuda" else nullcontext() as copies:
            yield from self._ahead(indices, copies)

    def _ahead(self, indices: Sequence[Tensor], copies: torch.cuda.Stream | None) -> Iterator[Batch]:
        device = self.hardware.device

        def prepare(index: Tensor) -> tuple[Tensor, Tensor, Any]:
            inputs = self._gather(index, pinned=copies is not None)
            if copies is None:
                return inputs.to(device), index.to(device), None
            with torch.cuda.stream(copies):
                there = inputs.to(device, non_blocking=True), index.pin_memory().to(device, non_blocking=True)
                arrived = torch.cuda.Event()
                arrived.record(copies)
            return *there, arrived

        def batch(prepared: Future[tuple[Tensor, Tensor, Any]]) -> Batch:
            inputs, index, arrived = prepared.result()
            if arrived is not None:
                now = torch.cuda.current_stream(device)
                now.wait_event(arrived)
                for tensor in (inputs, index):
                    tensor.record_stream(now)
            return Batch(self.hardware.layout(inputs), self.labels[index], index)

        with ThreadPoolExecutor(_WORKERS) as pool:
            ahead: deque[Future[tuple[Tensor, Tensor, Any]]] = deque()
            try:
                for index in indices:
                    ahead.append(pool.submit(prepare, index))
                    if len(ahead) > _AHEAD:
                        yield batch(ahead.popleft())
                while ahead:
                    yield batch(ahead.popleft())
            finally:
                for future in ahead:
                    future.cancel()


def _rows(inputs: Tensor, rows: Tensor, pinned: bool) -> Tensor:
    if not pinned:
        return inputs.index_select(0, rows)
    out = torch.empty((len(rows), *inputs.shape[1:]), dtype=inputs.dtype, pin_memory=True)
    return torch.index_select(inputs, 0, rows, out=out)


def batch_sizes(n: int, batch_size: int) -> list[int]:
    """Return the sizes of an epoch's ceil(n / batch) batches; the last, smaller one is never dropped.

    A last batch below a quarter of the others would pull as hard as they do, and BatchNorm knows too little of three
    samples or less: there the last two batches are made equal.

    >>> batch_sizes(10, 4), batch_sizes(9, 4), batch_sizes(66, 32)
    ([4, 3, 3], [4, 3, 2], [32, 17, 17])
    """
    whole, left = divmod(n, batch_size)
    if whole and 0 < left < max(min(4, batch_size), batch_size / 4):
        both = batch_size + left
        return [batch_size] * (whole - 1) + [-(-both // 2), both // 2]
    return [batch_size] * whole + [left] * (left > 0)
