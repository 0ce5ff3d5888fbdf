"""Devices, precision and threads: decided once, here."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tcsl.config import DeviceSettings
from tcsl.errors import InputError
from tcsl.training.heap import kept_heap

# Streams to lend again: cuBLAS keeps 68 MB for every one that it has seen, and torch a pool of memory.
_IDLE: dict[torch.device, list[torch.cuda.Stream]] = {}


@dataclass(frozen=True)
class Hardware:
    """A device and the way it computes."""

    device: torch.device
    bfloat16: bool
    engine: str = "auto"

    @property
    def channels_last(self) -> bool:
        """Whether images are laid out channels-last, as convolutions on CUDA and on CPUs want them."""
        return self.device.type in ("cuda", "cpu")

    def logits(self, net: nn.Module, *inputs: Tensor) -> Tensor:
        """Run a forward pass in the precision of this hardware; the logits are float32."""
        context = torch.autocast(self.device.type, dtype=torch.bfloat16) if self.bfloat16 else nullcontext()
        with context:
            logits = net(*inputs)
        if not isinstance(logits, Tensor):
            raise InputError(
                f"the net returned {type(logits).__name__} where logits were expected: if it has auxiliary outputs in "
                "training, turn them off"
            )
        return logits.float()

    def place(self, net: nn.Module) -> nn.Module:
        """Move a net to the device."""
        net = net.to(self.device)
        if self.channels_last and all(p.ndim <= 4 for p in net.parameters()):
            return net.to(memory_format=torch.channels_last)
        return net

    def layout(self, inputs: Tensor) -> Tensor:
        """Lay out a batch as the net wants it."""
        if self.channels_last and inputs.ndim == 4:
            return inputs.contiguous(memory_format=torch.channels_last)
        return inputs


def choose(settings: DeviceSettings) -> Hardware:
    """Return the hardware that the settings ask for, or say why it cannot be had.

    >>> choose(DeviceSettings(device="cpu")).device.type
    'cpu'
    """
    name = settings.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise InputError(f"unknown device {name!r}; use auto, cpu, cuda, cuda:1 or mps")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {name!r} was asked for, but torch sees no CUDA GPU; use --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name!r} was asked for, but there are {torch.cuda.device_count()} GPUs, from cuda:0")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InputError("device 'mps' was asked for, but this machine has none; use --device cpu")
    if settings.precision == "bfloat16" and device.type != "cuda":
        raise InputError(f"bfloat16 is for CUDA devices, got {device.type}; use precision float32 or auto")
    bfloat16 = settings.precision != "float32" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    return Hardware(device, bfloat16, settings.engine)


def free_memory(device: torch.device) -> float:
    """Return the bytes of memory that are free on a device; infinite where the system does not tell."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo") as stream:
            return next(1024.0 * int(line.split()[1]) for line in stream if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")


def peak_memory(device: torch.device) -> int | None:
    """Return the most bytes that were in use: on a CUDA device since `reset_peak_memory`, else by the process so far.

    On a CUDA device it is what torch has allocated for all trainings of the process. None where the system does not
    tell.

    >>> peak_memory(torch.device("cpu")) > 10_000_000
    True
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def reset_peak_memory(device: torch.device) -> None:
    """Start anew with the peak of a CUDA device; that of a process cannot be."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


@contextmanager
def borrowed_stream(device: torch.device) -> Iterator[torch.cuda.Stream]:
    """Lend a CUDA stream that no one else uses meanwhile; those that come back are lent again."""
    idle = _IDLE.setdefault(torch.cuda.current_stream(device).device, [])
    stream = idle.pop() if idle else torch.cuda.Stream(device)
    try:
        yield stream
    finally:
        idle.append(stream)


@contextmanager
def settled(settings: DeviceSettings) -> Iterator[None]:
    """Run with the number of threads asked for, repeatable kernels and a kept heap; what was before is restored."""
    threads = torch.get_num_threads()
    cudnn = torch.backends.cudnn
    before = (cudnn.deterministic, cudnn.benchmark)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        with kept_heap():
            yield
    finally:
        torch.set_num_threads(threads)
        cudnn.deterministic, cudnn.benchmark = before


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Draw torch's random numbers from this seed, on CPU, GPUs that are in use and MPS; then they go on as before.

    >>> with drawing_from(3):
    ...     first = torch.rand(2)
    >>> with drawing_from(3):
    ...     again = torch.rand(2)
    >>> bool((first == again).all())
    True
    """
    # A GPU that nothing has used yet is left out: a seed that it is told now it would take when it starts.
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    devices = [torch.device("cuda", gpu) for gpu in gpus]
    if torch.backends.mps.is_available():
        devices.append(torch.device("mps"))
    with kept_state(*devices):
        for device in (torch.device("cpu"), *devices):
            seed_numbers(seed, device)
        yield


def seed_numbers(seed: int, device: torch.device) -> None:
    """Seed torch's random numbers on the CPU and on this device, and on no other."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


@contextmanager
def kept_state(*devices: torch.device) -> Iterator[None]:
    """Leave torch's random numbers as they were: those of the CPU and of these devices."""
    before = torch.mps.get_rng_state() if any(device.type == "mps" for device in devices) else None
    with torch.random.fork_rng([device for device in devices if device.type == "cuda"]):
        try:
            yield
        finally:
            if before is not None:
                torch.mps.set_rng_state(before)


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Tell whether no value is infinite or NaN; waits for the device once.

    >>> all_finite([torch.zeros(2), torch.tensor([1.0, torch.inf])])
    False
    """
    return bool(torch.stack([torch.isfinite(tensor.detach()).all() for tensor in tensors]).all())
