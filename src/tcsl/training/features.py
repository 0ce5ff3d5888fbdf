"""What a net's last layer sees."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tcsl.errors import InputError


def last_linear(net: nn.Module) -> nn.Linear:
    """Return the net's last Linear layer, the one that gives the logits.

    >>> last_linear(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))).in_features
    3
    """
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise InputError(
            f"{type(net).__name__} has no Linear layer, whose inputs are the features: end the net with one"
        )
    return layers[-1]


class WithFeatures(nn.Module):
    """A net whose logits are followed by its features, the input of its last Linear layer: (batch, classes + d)."""

    def __init__(self, net: nn.Module) -> None:
        """Take a net; it is trained in place."""
        super().__init__()
        self.net = net
        self.size = last_linear(net).in_features
        self._seen: list[Tensor] = []
        last_linear(net).register_forward_pre_hook(self._note)

    def _note(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._seen[:] = [inputs[0]]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits and features side by side."""
        logits = self.net(inputs)
        return torch.cat([logits, self._seen.pop().flatten(1).to(logits.dtype)], 1)
