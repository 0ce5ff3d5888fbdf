"""Checkpoints and models as safetensors: no pickle is written or read."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from tcsl.errors import RunFolderError
from tcsl.files import write_atomic


def save_tensors(path: Path, tensors: dict[str, Tensor], **facts: str | int) -> None:
    """Write tensors and a few facts about them, atomically."""
    plain = {  # one copy of each, in the usual layout, whose memory no other shares
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    write_atomic(path, save(plain, {"tcsl": json.dumps(facts, sort_keys=True)}))


def load_tensors(path: Path, *, only: str | None = None) -> tuple[dict[str, Tensor], dict[str, str | int]]:
    """Read what `save_tensors` wrote; `only` the tensor of this name, where it is given and there."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys() if only in (None, name)}  # noqa: SIM118
            facts = json.loads((file.metadata() or {}).get("tcsl", "{}"))
    except FileNotFoundError:
        raise RunFolderError(f"{path} does not exist") from None
    except SafetensorError as error:
        raise RunFolderError(f"{path} is not a safetensors file: {error}") from None
    return tensors, facts


def with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors under names that begin with `prefix`, so that several sets share a file."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def under_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `prefix`, under the rest of their names.

    >>> under_prefix("net.", with_prefix("net.", {"a": torch.ones(1)}) | {"b": torch.ones(1)})
    {'a': tensor([1.])}
    """
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@dataclass
class Checkpoint:
    """Where one training stage saves its state after an epoch, and finds it again.

    Attributes
    ----------
    share : of the time that saving may take; where epochs are short beside a saving, not every one is saved
    step : of what is saved, 0 where nothing is
    """

    path: Path
    share: float = 0.05
    step: int = 0
    _due: float = 0.0

    def due(self) -> bool:
        """Tell whether enough time has passed since the last saving."""
        return time.perf_counter() >= self._due

    def save(self, net: nn.Module, optimizer: torch.optim.Optimizer, tables: dict[str, Tensor], *, step: int) -> None:
        """Write the net, the optimizer's momentum, the per-sample tables and the step."""
        started = time.perf_counter()
        momentum = {
            str(i): optimizer.state[p]["momentum_buffer"]
            for i, p in enumerate(_parameters(optimizer))
            if optimizer.state[p].get("momentum_buffer") is not None
        }
        sets = {"net.": net.state_dict(), "momentum.": momentum, "table.": tables}
        named = {k: v for prefix, tensors in sets.items() for k, v in with_prefix(prefix, tensors).items()}
        save_tensors(self.path, named, step=step)
        now = time.perf_counter()
        self._due = now + (now - started) / self.share
        self.step = step

    def restore(self, net: nn.Module, optimizer: torch.optim.Optimizer, tables: dict[str, Tensor]) -> int:
        """Read the state back in place and return the step; 0 where there is no checkpoint."""
        if not self.path.exists():
            return 0
        tensors, facts = load_tensors(self.path)
        net.load_state_dict(under_prefix("net.", tensors))
        for i, parameter in enumerate(_parameters(optimizer)):
            if (buffer := tensors.get(f"momentum.{i}")) is not None:
                # In the parameter's own memory layout (channels-last, say), as the fused step wants it.
                optimizer.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).detach().copy_(buffer)
        for name, table in tables.items():
            table.copy_(tensors[f"table.{name}"])
        self.step = int(facts["step"])
        return self.step

    def remove(self) -> None:
        """Delete the file: the stage is finished and its result is written."""
        self.path.unlink(missing_ok=True)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return what is trained, of all learning rates, in the order of the optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
