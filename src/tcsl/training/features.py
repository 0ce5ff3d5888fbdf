"""A net's last layer, and what goes into it: the features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tcsl.errors import InputError
from tcsl.training.feed import Feed
from tcsl.training.views import last_layer_batches


def last_linear(net: nn.Module) -> nn.Linear:
    """Return the last linear layer of a net.

    >>> last_linear(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)))
    Linear(in_features=8, out_features=2, bias=True)
    """
    found = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not found:
        raise InputError(
            f"the net must end in a torch.nn.Linear, and {_name(net)} has none; use another net (train.net)"
        )
    return found[-1]


def features_of(net: nn.Module, feed: Feed) -> Tensor:
    """Return the inputs of the net's last linear layer in evaluation mode, (n, d) float32, on the device.

    A net whose output is not that of its last linear layer is refused.
    """
    last_linear(net)
    features = []
    for _, logits, last in last_layer_batches(net, feed):
        if not torch.equal(last.outputs, logits):
            raise InputError(
                f"the net must end in a torch.nn.Linear, and what {_name(net)} returns is not the output of its last "
                "one; use another net (train.net)"
            )
        features.append(last.inputs)
    return torch.cat(features)


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


def _name(net: nn.Module) -> str:
    """Name a net by its own class: the outermost is only `Normalise` and the net in a row."""
    inner = net[-1] if isinstance(net, nn.Sequential) and len(net) else net
    return type(inner).__name__
