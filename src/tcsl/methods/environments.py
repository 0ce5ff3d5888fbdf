"""Environment inference (Creager et al. 2021, EIIL): the split of the samples that a fixed model fits worst."""

from __future__ import annotations

import torch
from torch import Tensor

from tcsl.errors import InputError
from tcsl.seeds import derive


def scale_gradient(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the derivative of each sample's cross entropy by a multiplier of its logits, at 1.

    It is the sum over classes of p_c (z_c - z_y): below 0 where the model could be surer of the label, above where
    it is too sure of another. The original is for two classes and one logit; this is the same with the softmax.

    Parameters
    ----------
    logits : (n, classes)
    labels : (n,)

    Returns
    -------
    (n,)

    >>> scale_gradient(torch.tensor([[0.0, 2.0], [0.0, 2.0]]), torch.tensor([1, 0]))
    tensor([-0.2384,  1.7616])
    """
    # The differences first: no digits are lost where the model is sure.
    return (logits.softmax(1) * (logits - logits.gather(1, labels[:, None]))).sum(1)


def irm_penalty(gradient: Tensor, share: Tensor) -> Tensor:
    """Return the IRMv1 penalty of two environments: the sum of mean(q g)^2 and mean((1 - q) g)^2.

    As in the paper, an environment's loss is the sum of q_i loss_i over n, and not over the sum of q.

    Parameters
    ----------
    gradient : (n,) g, of `scale_gradient`
    share : (n,) q, how much of a sample is in the second environment

    >>> irm_penalty(torch.tensor([-1.0, 3.0]), torch.tensor([0.0, 1.0]))
    tensor(2.5000)
    """
    return (share * gradient).mean().square() + ((1 - share) * gradient).mean().square()


def ascent(gradient: Tensor, share: Tensor) -> Tensor:
    """Return n^2 / 2 times the derivative of `irm_penalty` by w, where q = sigmoid(w).

    Parameters
    ----------
    gradient : (n,) g, of `scale_gradient`
    share : (n,) q

    Returns
    -------
    (n,)

    >>> ascent(torch.tensor([-1.0, 3.0]), torch.tensor([0.5, 0.75]))  # sum (2 q - 1) g = 1.5
    tensor([-0.3750,  0.8438])
    """
    return ((2 * share - 1) * gradient).sum() * gradient * share * (1 - share)


@torch.no_grad()
def infer_environments(
    logits: Tensor, labels: Tensor, *, steps: int = 10_000, lr: float = 1e-3, seed: int = 0
) -> Tensor:
    """Split samples into the two environments between which a fixed reference model is least invariant.

    Soft assignments q = sigmoid(w), w from a standard normal, go up the IRMv1 penalty by Adam, and are then rounded.

    Parameters
    ----------
    logits : (n, classes) of the reference model, on any device
    labels : (n,) on the same device
    steps, lr : of Adam; the paper's

    Returns
    -------
    (n,) 0 or 1, on that device; 1 is the environment that the model is wrong on. All may be in one

    Notes
    -----
    The penalty is convex in q, so its highest points are corners: one environment has the samples with a gradient
    above 0, the other those below. Adam gets there from nearly every start; which environment has which name then is
    chance, so we fix it. Adam divides by the size of a sample's gradient, so a common factor changes nothing but for
    its epsilon, which in large sets would leave well-fitted samples where they were drawn: we leave out the 1 / n.

    >>> logits = torch.tensor([[3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 3.0]])
    >>> infer_environments(logits, torch.tensor([0, 0, 1, 0])).tolist()
    [0, 0, 0, 1]
    """
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or len(labels) == 0:
        raise InputError(
            f"logits must have shape (samples, classes) and labels (samples,), got {tuple(logits.shape)} and "
            f"{tuple(labels.shape)}"
        )
    gradient = scale_gradient(logits.float(), labels)
    largest = float(gradient.abs().max())
    if not 0 < largest < float("inf"):
        raise InputError(
            f"the reference model's logits give no environments: the largest gradient by their scale is {largest:g}, "
            "not a positive number. It has learned nothing, or diverged; train it longer, or at a lower learning rate"
        )
    gradient = gradient / largest
    # Drawn on the host, so that every device has the same start.
    draw = torch.Generator().manual_seed(derive(seed, "environments"))
    w = torch.randn(len(labels), generator=draw).to(logits.device)
    optimizer = torch.optim.Adam([w], lr=lr, maximize=True, fused=w.device.type in ("cuda", "cpu"))
    for _ in range(steps):
        w.grad = ascent(gradient, w.sigmoid())  # no graph: 0.2 ms a step for 10,000 samples on one core
        optimizer.step()
    second = w > 0
    if bool((torch.where(second, gradient, -gradient)).sum() < 0):
        second = ~second
    return second.long()
