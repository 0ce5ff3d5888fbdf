"""What looks at a net between epochs and keeps weights beside it; the best epoch of a training, as a judge says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from tcsl.training.checkpoint import with_prefix

Judge: TypeAlias = Callable[[nn.Module], float]  # how good a net is; higher is better


class Watch:
    """Looks at a net once for every so many steps, and keeps weights of it on its device."""

    def __init__(self, net: nn.Module, *, every: int) -> None:
        self.every = every
        self._net = net
        self._weights = copied(net)

    def due(self, step: int, made: int) -> bool:
        """Tell whether the last `made` steps of these were to reach the next look.

        >>> watch = Watch(nn.Linear(1, 1), every=5)
        >>> [step for step in range(3, 18, 3) if watch.due(step, 3)]  # epochs of three steps
        [6, 12, 15]
        """
        return step // self.every > (step - made) // self.every

    def look(self, epoch: int, epochs: int) -> float | None:
        """Look at the net as it is after this epoch (1, 2, ...); return how it was judged, where it was."""
        raise NotImplementedError

    @property
    def tables(self) -> dict[str, Tensor]:
        """What a checkpoint must hold, changed in place."""
        raise NotImplementedError

    def take(self) -> dict[str, Tensor]:
        """Put the kept weights into the net; return what is stored beside them, `last.NAME` where they are others."""
        raise NotImplementedError


class Best(Watch):
    """The weights of a net after the best epoch so far; of equally good epochs it is the earlier one.

    >>> net = nn.Linear(1, 1, bias=False)
    >>> best = Best(net, lambda net: -abs(net.weight.item() - 2), every=1)
    >>> for epoch, weight in enumerate([0.0, 3.0, 1.0, 4.0], start=1):
    ...     _ = nn.init.constant_(net.weight, weight)
    ...     _ = best.look(epoch, 4)
    >>> beside = best.take()  # 3 and 1 are as far from 2
    >>> net.weight.item(), beside["chosen"].tolist(), beside["last.weight"].item()
    (3.0, [2.0, 4.0, -1.0], 4.0)
    """

    def __init__(self, net: nn.Module, judge: Judge, *, every: int) -> None:
        """Take a net on its device; it may be a part of what is trained.

        Parameters
        ----------
        every : steps from one look to the next, which is at the end of the epoch in which they are made
        """
        super().__init__(net, every=every)
        self._judge = judge
        self._chosen = torch.tensor([0.0, 0.0, -torch.inf], dtype=torch.float64)  # on the host

    def look(self, epoch: int, epochs: int) -> float:
        """Judge the net as it is after this epoch (1, 2, ...); keep its weights where it is better than before."""
        value = self._judge(self._net)
        if value > self._chosen[2]:
            self._chosen.copy_(torch.tensor([epoch, epochs, value], dtype=torch.float64))
            for name, tensor in self._net.state_dict().items():
                self._weights[name].copy_(tensor)
        return value

    @property
    def tables(self) -> dict[str, Tensor]:
        """What a checkpoint must hold, changed in place."""
        return {"chosen": self._chosen, **with_prefix("best.", self._weights)}

    def take(self) -> dict[str, Tensor]:
        """Put the best epoch's weights into the net; return what is stored beside them.

        Returns
        -------
        chosen : the epoch, of how many, and its judgement
        last.NAME : the last epoch's weights, where another one is chosen
        """
        epoch, epochs, _ = self._chosen.tolist()
        beside = {} if epoch == epochs else with_prefix("last.", copied(self._net))
        self._net.load_state_dict(self._weights)
        return {"chosen": self._chosen, **beside}


def copied(net: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a net's weights and buffers."""
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}
