"""A net's last layer, and what goes into it: the features."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tcsl.errors import InputError
from tcsl.training.feed import Feed
from tcsl.training.views import LastLayer, last_layer_batches


def last_linear(net: nn.Module, feed: Feed) -> nn.Linear:
    """Return the linear layer that runs last, whose output is what the net returns, by a pass with one sample.

    A net without one is refused. The order in which a net defines its layers says nothing.

    >>> from tcsl.config import DeviceSettings
    >>> from tcsl.data.convert import as_dataset
    >>> from tcsl.training.device import choose
    >>> feed = Feed.of(as_dataset((np.zeros((4, 3), np.float32), [0, 1, 0, 1])), choose(DeviceSettings(device="cpu")))
    >>> last_linear(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)), feed)
    Linear(in_features=8, out_features=2, bias=True)
    """
    if not any(isinstance(module, nn.Linear) for module in net.modules()):
        raise InputError(
            f"the net must end in a torch.nn.Linear, and {_name(net)} has none; use another net (train.net)"
        )
    (found,) = (_checked(net, logits, last) for _, logits, last in last_layer_batches(net, feed.subset(np.arange(1))))
    return found.layer


def features_of(net: nn.Module, feed: Feed) -> Tensor:
    """Return the inputs of the net's last linear layer in evaluation mode, (n, d) float32, on the device.

    A net whose output is not that of its last linear layer is refused.
    """
    return torch.cat([_checked(net, logits, last).inputs for _, logits, last in last_layer_batches(net, feed)])


class WithFeatures(nn.Module):
    """A net whose logits are followed by its features, the input of its last Linear layer: (batch, classes + d).

    In evaluation mode it returns the logits alone, and the net has no hook.
    """

    def __init__(self, net: nn.Module, feed: Feed) -> None:
        """Take a net, which is trained in place, and data on its device, by which its last layer is found."""
        super().__init__()
        last = last_linear(net, feed)
        self.net = net
        self.size = last.in_features
        self._last = [last]  # in a list, so that it is not a second part of this module
        self._seen: list[Tensor] = []
        self._hook: RemovableHandle | None = None
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Set the mode; features are noted while the net is trained."""
        if mode and self._hook is None:
            self._hook = self._last[0].register_forward_pre_hook(self._note)
        elif not mode and self._hook is not None:
            self._hook.remove()
            self._hook = None
        return super().train(mode)

    def _note(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._seen[:] = [inputs[0]]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits and features side by side; in evaluation mode, the logits."""
        logits: Tensor = self.net(inputs)
        return torch.cat([logits, self._seen.pop().to(logits.dtype)], 1) if self.training else logits


def _checked(net: nn.Module, logits: Tensor, last: LastLayer) -> LastLayer:
    if not torch.equal(last.outputs, logits):
        raise InputError(
            f"the net must end in a torch.nn.Linear, and what {_name(net)} returns is not the output of its last "
            "one; use another net (train.net)"
        )
    return last


def _name(net: nn.Module) -> str:
    """Name a net by its own class: the outermost is only `Normalise` and the net in a row."""
    inner = net[-1] if isinstance(net, nn.Sequential) and len(net) else net
    return type(inner).__name__
