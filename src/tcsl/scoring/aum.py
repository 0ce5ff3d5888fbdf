"""AUM: the area under the margin, here with its sign turned (Pleiss et al. 2020)."""

from __future__ import annotations

from torch import Tensor


def aum(margins: Tensor) -> Tensor:
    """Return minus the mean margin over the epochs; higher is harder.

    The authors' AUM is high for easy samples. Here, as for every score in the package, high is hard: it is negated.

    Parameters
    ----------
    margins : (n, T)

    Returns
    -------
    (n,)

    >>> import torch
    >>> aum(torch.tensor([[1.0, 3.0], [-2.0, 1.0]])).tolist()
    [-2.0, 0.5]
    """
    return -margins.mean(1)
