"""EL2N: how far an early net's probabilities are from the label (Paul et al. 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tcsl.training.feed import Feed
from tcsl.training.views import evaluate_batches


def el2n(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the L2 norm, not squared, of softmax minus one-hot; higher is harder.

    Parameters
    ----------
    logits : (n, classes)
    labels : (n,)

    Returns
    -------
    (n,) from 0 (right and certain) to the square root of 2 (wrong and certain)

    >>> logits = torch.tensor([[0.0, 0.0], [0.0, 9.0]])
    >>> [round(score, 4) for score in el2n(logits, torch.tensor([0, 0])).tolist()]
    [0.7071, 1.414]
    """
    return (logits.softmax(1) - F.one_hot(labels, logits.shape[1])).square().sum(1).sqrt()


def el2n_of(net: nn.Module, feed: Feed) -> Tensor:
    """Return the EL2N of a trained net, (n,), in evaluation mode on inputs that are not augmented."""
    return torch.cat([el2n(logits, batch.labels) for batch, logits in evaluate_batches(net, feed)])
