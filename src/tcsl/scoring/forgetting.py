"""Forgetting events: how often a sample that was right is wrong at its next visit (Toneva et al. 2019)."""

from __future__ import annotations

import torch
from torch import Tensor


def forgetting(margins: Tensor) -> Tensor:
    """Return the number of forgetting events; higher is harder.

    A sample is right where its margin is above 0: a tie is not right. One that was never right has no event and is
    the hardest: it gets T, which is above any count, since every event needs two epochs. (The authors say infinity.)

    Parameters
    ----------
    margins : (n, T) in the order of the epochs

    Returns
    -------
    (n,) float32 whole numbers

    >>> forgetting(torch.tensor([[1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, 0.0, -1.0]])).tolist()
    [2.0, 0.0, 4.0]
    """
    right = margins > 0
    events = (right[:, :-1] & ~right[:, 1:]).sum(1)
    return torch.where(right.any(1), events, margins.shape[1]).float()
