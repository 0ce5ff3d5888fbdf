"""Sample weights, kept as logarithms.

Weights matter only after they are normalised to sum to one in each batch, and that normalisation is a softmax of their
logarithms. So nothing underflows: a batch of samples whose losses are all a thousand medians large still has the
weights that the formula gives it, where exp(-1000) would be 0 / 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

# A median below this counts as this: loss / median stays finite in float32, and the formula keeps its limit, in which
# only the samples of lowest loss in a batch count.
_LEAST_MEDIAN = 1e-30


def class_balanced(labels: Tensor, num_classes: int) -> Tensor:
    """Return log(1 / n_y) for each sample: the start of both stages of Algorithm 1, and CB ERM.

    >>> class_balanced(torch.tensor([0, 0, 1]), 2).exp().tolist()
    [0.5, 0.5, 1.0]
    """
    return -class_counts(labels, num_classes).clamp_min(1).float().log()[labels]


def literal_update(losses: Tensor) -> Tensor:
    """Return the log of Algorithm 1's new weights, exp(-loss / median of all losses).

    >>> literal_update(torch.tensor([1.0, 2.0, 6.0])).tolist()
    [-0.5, -1.0, -3.0]
    """
    return -losses / _median(losses.sort().values, 0, len(losses)).clamp_min(_LEAST_MEDIAN)


def class_update(losses: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return the log of the class-preserving weights: exp(-loss / median of the class), summing to 1 in each class.

    The literal form forgets the 1 / n_y that it started from: a class that is learned late loses its weight, and the
    biased model learns the class prior instead of the shortcut. Here each class keeps the total that 1 / n_y gave it.

    Parameters
    ----------
    losses : (n,) of the epoch just finished
    labels : (n,)

    Returns
    -------
    (n,) log weights; stays on the device, waits for nothing

    >>> class_update(torch.tensor([1.0, 1.0, 9.0]), torch.tensor([0, 0, 1]), 2).exp().tolist()
    [0.5, 0.5, 1.0]
    """
    by_loss = losses.argsort(stable=True)
    order = by_loss[labels[by_loss].argsort(stable=True)]  # by class, then by loss
    ascending = losses[order]
    counts = class_counts(labels, num_classes)
    ends = counts.cumsum(0)
    starts = ends - counts
    median = _median(ascending, starts, counts.clamp_min(1)).clamp_min(_LEAST_MEDIAN)
    logs = -losses / median[labels]
    largest = torch.full_like(median, -torch.inf).scatter_reduce(0, labels, logs, "amax")
    total = sum_by_class((logs - largest[labels]).exp(), labels, num_classes)
    return logs - (largest + total.log())[labels]


def class_counts(labels: Tensor, num_classes: int) -> Tensor:
    """Return the number of samples of each class; stays on the device, where bincount would wait to know its size.

    >>> class_counts(torch.tensor([0, 2, 0]), 3).tolist()
    [2, 0, 1]
    """
    return labels.new_zeros(num_classes).index_add(0, labels, torch.ones_like(labels))


def sum_by_class(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Sum values (n, ...) by class, with the same bytes every time.

    CUDA's usual way depends on which thread comes first.

    >>> sum_by_class(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 2, 0]), 3).tolist()
    [5.0, 0.0, 2.0]
    """
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        return values.new_zeros(num_classes, *values.shape[1:]).index_add(0, labels, values)
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _median(ascending: Tensor, start: Tensor | int, count: Tensor | int) -> Tensor:
    """Return the median of `count` sorted values from `start` on: the mean of the middle two where even."""
    last = len(ascending) - 1
    low = torch.as_tensor(start + (count - 1) // 2, device=ascending.device).clamp(max=last)
    high = torch.as_tensor(start + count // 2, device=ascending.device).clamp(max=last)
    return (ascending[low] + ascending[high]) / 2


def batch_weights(log_weights: Tensor) -> Tensor:
    """Return the weights of a batch, summing to one; a batch whose weights are all zero gets zeros, so no gradient.

    >>> batch_weights(torch.tensor([0.0, -1000.0])).tolist(), batch_weights(torch.tensor([-9e9, -9e9])).tolist()
    ([1.0, 0.0], [0.5, 0.5])
    >>> batch_weights(torch.tensor([-torch.inf, -torch.inf])).tolist()
    [0.0, 0.0]
    """
    lowest = torch.finfo(log_weights.dtype).min
    relative = (log_weights - log_weights.max().clamp_min(lowest)).exp()
    return relative / relative.sum().clamp_min(torch.finfo(log_weights.dtype).tiny)
