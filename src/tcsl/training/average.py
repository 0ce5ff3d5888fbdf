"""The mean of a net's weights over the end of its training: a constant learning rate leaves the last step to luck."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tcsl.config import TrainSettings
from tcsl.seeds import derive, generator
from tcsl.training.augment import augment, draw_keys
from tcsl.training.best import Watch, copied
from tcsl.training.checkpoint import with_prefix
from tcsl.training.feed import Feed, Order, batch_sizes

PART = 0.2  # of the epochs, at the end: their weights are averaged


class Average(Watch):
    """The mean of the weights after each look in the last fifth of the epochs.

    >>> from tcsl.config import DeviceSettings, TrainSettings
    >>> from tcsl.data.dataset import make_dataset
    >>> from tcsl.training.device import choose
    >>> feed = Feed.of(make_dataset(torch.zeros(4, 1), torch.arange(4) % 2), choose(DeviceSettings(device="cpu")))
    >>> net = nn.Linear(1, 1, bias=False)
    >>> average = Average(net, feed, TrainSettings(batch_size=2), every=1, seed=0)
    >>> for epoch in range(1, 11):
    ...     _ = nn.init.constant_(net.weight, epoch)
    ...     average.look(epoch, 10)
    >>> beside = average.take()  # of the epochs 9 and 10
    >>> net.weight.item(), beside["averaged"].item(), beside["last.weight"].item()
    (9.5, 2.0, 10.0)
    """

    def __init__(
        self, net: nn.Module, feed: Feed, settings: TrainSettings, *, every: int, seed: int, order: Order | None = None
    ) -> None:
        """Take a net on its device and the samples it is trained on.

        Parameters
        ----------
        settings : of the training: BatchNorm's statistics are taken anew from such batches, with such augmentations
            (but for what a method mixes itself)
        every : steps from one look to the next
        seed : of the training
        order : of the training, as in `fit`
        """
        super().__init__(net, every=every)
        self._feed, self._settings, self._seed, self._order = feed, settings, seed, order
        self._count = torch.zeros((), dtype=torch.float64)  # on the host

    def look(self, epoch: int, epochs: int) -> None:
        """Take the net as it is after this epoch (1, 2, ...) into the mean, where the end has come."""
        if epoch <= (1 - PART) * epochs:
            return
        self._count += 1
        for name, tensor in self._net.state_dict().items():
            mean = self._weights[name]
            if mean.is_floating_point():
                mean.lerp_(tensor, 1 / self._count.item())
            else:
                mean.copy_(tensor)

    @property
    def tables(self) -> dict[str, Tensor]:
        """What a checkpoint must hold, changed in place."""
        return {"averaged": self._count, **with_prefix("average.", self._weights)}

    def take(self) -> dict[str, Tensor]:
        """Put the mean into the net; return the number of looks in it, and the last epoch's weights.

        The statistics of BatchNorm are those of no mean of weights, and are taken anew.
        """
        beside = with_prefix("last.", copied(self._net))
        self._net.load_state_dict(self._weights)
        self._measure_norms()
        return {"averaged": self._count, **beside}

    @torch.no_grad()
    def _measure_norms(self) -> None:
        self._net.train()  # which leaves as they are those that the net has frozen
        norms = [module for module in self._net.modules() if isinstance(module, _BatchNorm) and module.training]
        self._net.eval()  # as it will be used: nothing is dropped at random
        if not norms:
            return
        kept = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.train()
        augmented = partial(augment, self._settings.augment, seed=self._seed, epoch=0)
        if self._order is None:
            visited = torch.from_numpy(generator(self._seed, "average").permutation(len(self._feed)))
        else:
            visited = self._order(torch.Generator().manual_seed(derive(self._seed, "average")))
        keys = draw_keys(visited).to(self._feed.labels.device)
        seen = 0
        for batch in self._feed.batches(visited, batch_sizes(len(self._feed), self._settings.batch_size)):
            before, seen = seen, seen + len(batch.indices)
            for norm in norms:
                norm.momentum = len(batch.indices) / seen  # the mean over all samples
            self._feed.hardware.logits(self._net, augmented(batch.inputs, keys[before:seen]))
        self._net.eval()
        for norm, momentum in zip(norms, kept, strict=True):
            norm.momentum = momentum
