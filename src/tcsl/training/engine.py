"""How steps are run on a GPU: captured once as a graph and replayed, with the net compiled where that pays.

A step is hundreds of small kernels, and launching them one by one from Python takes longer than running them (ResNet18,
28 x 28, batch 32). Captured, they are launched at once. Compiled, BatchNorm, ReLU and the additions between the
convolutions are fused, which spares memory traffic. One epoch on an H200 (`python benchmarks/engine.py`):

    Waterbirds, ResNet50, batch 128    one by one 1.08 s   captured 1.04 s   captured and compiled 0.72 s
    cMNIST, ResNet18, batch 32                                               captured and compiled 1.56 s
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tcsl.errors import TcslWarning
from tcsl.training.device import Hardware, borrowed_stream
from tcsl.training.feed import Feed
from tcsl.training.objective import Batch

COMPILE_PAYS = 2000  # steps of a training from which on the seconds of compiling are won back
_VARIANTS = 256  # nets, batch sizes and modes that one process compiles; after eight torch would go on uncompiled
_WARM_UP = 3  # steps of each batch size before it is captured: libraries set themselves up in them


def engine_of(net: nn.Module, feed: Feed, steps: int) -> str:
    """Return how this training is run: plain, captured or compiled.

    Plain where inputs are streamed, and for nets that draw random numbers, which a graph would draw otherwise than
    plain steps do. What a net of the caller's does cannot be known: it is run plainly unless `device.engine` says
    otherwise.
    """
    hardware = feed.hardware
    obstacles = {
        f"the device is {hardware.device.type}, not cuda": hardware.device.type != "cuda",
        "inputs are streamed": not feed.resident,
        "the net draws random numbers": any(map(_drops, net.modules())),
    }
    if any(obstacles.values()):
        if hardware.engine not in ("auto", "plain"):
            why = " and ".join(reason for reason, holds in obstacles.items() if holds)
            warnings.warn(f"device.engine={hardware.engine} has no effect: {why}", TcslWarning, stacklevel=3)
        return "plain"
    if hardware.engine != "auto":
        return hardware.engine
    if draws_numbers(net):
        return "plain"
    return "compiled" if steps >= COMPILE_PAYS else "captured"


def forward_of(net: nn.Module, hardware: Hardware, engine: str, *, size: int) -> Callable[..., Tensor]:
    """Return the net's forward pass in the hardware's precision, compiled for batches of this size where that is asked.

    A batch of another size is run plainly: there are one or two in an epoch, and each size would be compiled anew.
    """

    def forward(*inputs: Tensor) -> Tensor:
        return hardware.logits(net, *inputs)

    if engine != "compiled":
        return forward
    config = torch._dynamo.config
    config.cache_size_limit = max(config.cache_size_limit, _VARIANTS)  # the name that every version knows
    compiled = torch.compile(forward, dynamic=False)

    def by_size(*inputs: Tensor) -> Tensor:
        run: Callable[..., Tensor] = compiled if len(inputs[0]) == size else forward
        return run(*inputs)

    return by_size


def draws_numbers(net: nn.Module) -> bool:
    """Tell whether a net draws random numbers while it is trained; a net of the caller's may.

    >>> draws_numbers(nn.Sequential(nn.Linear(2, 2), nn.ReLU())), draws_numbers(nn.Dropout(0.1))
    (False, True)
    """

    def known(module: nn.Module) -> bool:
        return type(module).__module__.partition(".")[0] in ("torch", "torchvision", "timm", "tcsl")

    return any(_drops(module) or not known(module) for module in net.modules())


def _drops(module: nn.Module) -> bool:
    """Tell whether a module is some dropout with a chance to drop, or draws numbers otherwise."""
    if isinstance(module, nn.RReLU | nn.FractionalMaxPool2d | nn.FractionalMaxPool3d):
        return True
    if type(module).__module__.startswith("torchvision.transforms"):
        return True  # many decide on the host what they do, and a graph would do the same in every step
    name = type(module).__name__.lower()
    words = ["drop_prob", "drop_rate", "dropout", "attention_dropout", "prob"]
    words += ["p"] * ("drop" in name or "stochastic" in name)
    chances = (getattr(module, word, 0.0) for word in words)
    return any(isinstance(chance, int | float) and chance > 0 for chance in chances)


@dataclass
class _Size:
    """What is known of one batch size."""

    index: Tensor
    seen: int = 0
    graph: torch.cuda.CUDAGraph | None = None


class Captured:
    """Runs a step on batches of a resident feed; after the first few of each size they are replayed from a graph."""

    def __init__(self, step: Callable[[Batch], None], feed: Feed, *, stage: str) -> None:
        """Take a step that changes only tensors that outlive it, in place, and asks nothing of the host."""
        self._step = step
        self._feed = feed
        self._stage = stage
        self._sizes: dict[int, _Size] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._works = True

    def __call__(self, index: Tensor) -> None:
        """Run the step on the samples at these indices (on the device)."""
        size = self._sizes.setdefault(len(index), _Size(torch.empty_like(index)))
        if size.graph is None:
            size.seen += 1
            if size.seen <= _WARM_UP or not self._works or not self._capture(size):
                self._step(self._feed.gathered(index))
                return
        assert size.graph is not None
        size.index.copy_(index)
        size.graph.replay()

    def _capture(self, size: _Size) -> bool:
        """Record the step, without running it; a net that cannot be recorded is run step by step, and that is said."""
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads may be training other seeds on this GPU meanwhile.
            with torch.cuda.graph(
                graph, pool=self._pool, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"
            ):
                self._step(self._feed.gathered(size.index))
        except RuntimeError as error:
            self._works = False
            _end_of_capture(self._feed.hardware.device)
            reason = str(error).strip().split("\n")[0][:200]
            warnings.warn(
                f"stage {self._stage!r}: the net's steps cannot be captured as a CUDA graph, so they are run one by "
                f"one, which is slower ({reason}); device.engine=plain chooses that without trying",
                TcslWarning,
                stacklevel=2,
            )
            return False
        size.graph = graph
        return True


def _end_of_capture(device: torch.device) -> None:
    """Let the device's random numbers know that a capture that failed is over; torch tells them only of others."""
    generator = torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    generator.graphsafe_set_state(generator.clone_state())


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Run on a CUDA stream of one's own: graphs are captured there, and several trainings share a GPU."""
    if device.type != "cuda":
        yield
        return
    outer = torch.cuda.current_stream(device)
    with borrowed_stream(device) as inner:
        inner.wait_stream(outer)
        try:
            with torch.cuda.stream(inner):
                yield
        finally:
            outer.wait_stream(inner)
