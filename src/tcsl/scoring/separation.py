"""How far a stage's losses have fallen apart into two clusters: one number an epoch, to look at while training."""

from __future__ import annotations

import torch
from torch import Tensor


def separation(losses: Tensor) -> Tensor:
    """Return the share of variance that lies between the two clusters of 1 - exp(-loss): eta squared, from 0 to 1.

    The clusters are those of two-means, which on a line is a cut; all n - 1 cuts are tried. 1 is two points, 0 is one;
    a uniform distribution has 3/4 and a normal one 2/pi, so that less than that says nothing.

    Parameters
    ----------
    losses : (n,) of one epoch, on any device

    Returns
    -------
    a scalar on the device, of the losses' type; nothing waits for it

    >>> round(float(separation(-torch.log1p(-torch.tensor([0.0, 0.1, 0.9, 1.0 - 1e-7])))), 4)
    0.9878
    >>> float(separation(torch.ones(5)))
    0.0
    """
    exact = torch.float32 if losses.device.type == "mps" else torch.float64  # MPS has no float64
    values = (-torch.expm1(-losses.to(exact))).sort().values
    values = values - values.mean()
    n = len(values)
    below = torch.arange(1, n, device=losses.device)  # samples left of a cut; what they sum to, those right of it lack
    between = values.cumsum(0)[:-1].square() * n / (below * (n - below))
    total = values.square().sum()
    # Values that are equal but for rounding are one cluster.
    some = total > n * torch.finfo(torch.float32).eps ** 2
    share = torch.where(some, between.amax() / total, 0.0).clamp(0, 1) if n > 1 else total
    return share.to(losses.dtype)
