"""What is minimised and what is recorded of each sample, from one forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F


class Batch(NamedTuple):
    """One batch, on the device: raw inputs (after augmentation), labels, and the samples' indices."""

    inputs: Tensor
    labels: Tensor
    indices: Tensor


class Losses(NamedTuple):
    """Per-sample losses: the one that is minimised, and the one that is recorded.

    `total` is what is minimised where that is not the weighted mean over the batch.
    """

    minimised: Tensor
    recorded: Tensor
    total: Tensor | None = None


Objective: TypeAlias = Callable[[Tensor, Batch], Losses]
Measure: TypeAlias = Callable[[Tensor, Batch], Tensor]  # one number a sample, recorded in place of the loss


def cross_entropy(logits: Tensor, batch: Batch) -> Losses:
    """Return the cross entropy of each sample, minimised and recorded.

    >>> batch = Batch(torch.zeros(1, 1), torch.tensor([0]), torch.tensor([0]))
    >>> round(cross_entropy(torch.zeros(1, 2), batch).recorded.item(), 4)
    0.6931
    """
    losses = F.cross_entropy(logits, batch.labels, reduction="none")
    return Losses(losses, losses)


def logit_correction(log_biased: Callable[[Batch], Tensor], strength: float = 1.0) -> Objective:
    """Return the core model's objective, equation (2).

    Minimised is the cross entropy of f_c(x) + log f_s(x); recorded is that of f_c(x) alone, from the same logits.

    Parameters
    ----------
    log_biased : from a batch to the frozen biased model's log-probabilities (batch, classes)
    strength : what they are multiplied by; 0 leaves plain training

    >>> batch = Batch(torch.zeros(1, 1), torch.tensor([0]), torch.tensor([0]))
    >>> losses = logit_correction(lambda batch: torch.tensor([[0.9, 0.1]]).log())(torch.zeros(1, 2), batch)
    >>> round(losses.minimised.item(), 4), round(losses.recorded.item(), 4)
    (0.1054, 0.6931)
    """

    def objective(logits: Tensor, batch: Batch) -> Losses:
        corrected = F.cross_entropy(logits + strength * log_biased(batch), batch.labels, reduction="none")
        return Losses(corrected, F.cross_entropy(logits.detach(), batch.labels, reduction="none"))

    return objective


def generalized_cross_entropy(logits: Tensor, labels: Tensor, q: float) -> Tensor:
    """Return (1 - p^q) / q for each sample, p the probability of its label (Zhang and Sabuncu 2018).

    Its gradient is p^q times that of the cross entropy: what is fitted already counts more.

    >>> round(generalized_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), 0.5).item(), 4)
    0.5858
    """
    log_p = logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
    return -(q * log_p).expm1() / q


def margin(logits: Tensor, batch: Batch) -> Tensor:
    """Return the logit of the label minus the largest other one, (batch,): above 0 where the prediction is right.

    >>> batch = Batch(torch.zeros(2, 1), torch.tensor([0, 2]), torch.tensor([0, 1]))
    >>> margin(torch.tensor([[3.0, 1.0, -1.0], [2.0, 5.0, 4.0]]), batch).tolist()
    [2.0, -1.0]
    """
    at = batch.labels[:, None]
    others = logits.scatter(1, at, -torch.inf)
    return logits.gather(1, at)[:, 0] - others.amax(1)


def biased_by(q: float) -> Objective:
    """Return the objective of a biased model that favours what it fits; recorded is the usual cross entropy.

    >>> batch = Batch(torch.zeros(1, 1), torch.tensor([0]), torch.tensor([0]))
    >>> losses = biased_by(0.5)(torch.zeros(1, 2), batch)
    >>> round(losses.minimised.item(), 4), round(losses.recorded.item(), 4)
    (0.5858, 0.6931)
    """

    def objective(logits: Tensor, batch: Batch) -> Losses:
        usual = F.cross_entropy(logits.detach(), batch.labels, reduction="none")
        return Losses(generalized_cross_entropy(logits, batch.labels, q), usual)

    return objective
