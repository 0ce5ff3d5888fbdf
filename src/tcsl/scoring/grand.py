"""GraNd: the norm of each sample's own gradient in an early net (Paul et al. 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from tcsl.errors import InputError
from tcsl.scoring.el2n import el2n
from tcsl.training.feed import Feed
from tcsl.training.nets import Normalise
from tcsl.training.views import last_layer_batches

_GRADIENTS = 1 << 28  # float32 values of gradients that are held at once: 1 GiB


def gradient_norms(net: nn.Module, inputs: Tensor, labels: Tensor, *, chunk: int | None = None) -> Tensor:
    """Return the L2 norm of the gradient of each sample's cross entropy by all trainable parameters; high is hard.

    The net is put into evaluation mode: there BatchNorm does not mix samples, and each has a gradient of its own.

    Parameters
    ----------
    inputs : (n, ...) as the net takes them
    labels : (n,)
    chunk : samples whose gradients, each as large as the net, are held at once; by default as many as fill 1 GiB

    Returns
    -------
    (n,) float32

    >>> net = nn.Linear(2, 2)
    >>> _ = nn.init.zeros_(net.weight), nn.init.zeros_(net.bias)
    >>> gradient_norms(net, torch.tensor([[2.0, 2.0]]), torch.tensor([0])).tolist()  # |p - y| = 0.71, |(2, 2, 1)| = 3
    [2.12...]
    """
    net.eval()
    # Normalise has no weights to learn, and asks how its inputs lie in memory, which torch 2.6 cannot tell in vmap.
    if isinstance(net, nn.Sequential) and len(net) and isinstance(net[0], Normalise):
        with torch.no_grad():
            inputs = net[0](inputs)
        net = net[1:]
    weights = {name: weight.detach() for name, weight in net.named_parameters() if weight.requires_grad}
    if not weights:
        raise InputError(f"GraNd needs parameters that are trained, and {type(net).__name__} has none")
    if chunk is None:
        chunk = max(1, _GRADIENTS // sum(weight.numel() for weight in weights.values()))
    if chunk < 1:
        raise InputError(f"chunk must be 1 or more, got {chunk}: it is the number of samples taken at once")

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        # In float32 on every device: a gradient is a sum of many small numbers.
        return F.cross_entropy(functional_call(net, weights, (x[None],)), y[None])

    def norm(x: Tensor, y: Tensor) -> Tensor:
        gradients = grad(loss)(weights, x, y)
        return torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()

    try:
        norms: Tensor = vmap(norm, chunk_size=chunk)(inputs, labels)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        line = str(error).strip().split("\n")[0][:200]
        raise InputError(
            f"the gradients of single samples cannot be had from this net by torch.func.vmap ({line}); "
            "last_layer=True needs only its last layer"
        ) from None
    return norms


def last_layer_norms(logits: Tensor, labels: Tensor, features: Tensor, *, bias: bool = True) -> Tensor:
    """Return the norm of each sample's gradient by the last, linear layer alone; high is hard.

    The gradient is the outer product of p - y and [features, 1], and so is its norm: EL2N times the features' length.

    Parameters
    ----------
    logits : (n, classes)
    labels : (n,)
    features : (n, d) what the layer got
    bias : whether it has one

    Returns
    -------
    (n,)

    >>> last_layer_norms(torch.zeros(1, 2), torch.tensor([0]), torch.tensor([[2.0, 2.0]])).tolist()
    [2.12...]
    """
    return el2n(logits, labels) * (features.square().sum(1) + bias).sqrt()


def grand_of(net: nn.Module, feed: Feed, *, last_layer: bool = False, chunk: int | None = None) -> Tensor:
    """Return the GraNd of a trained net, (n,), by all its parameters or, much cheaper, by its last layer's alone."""
    if not last_layer:
        return torch.cat([gradient_norms(net, x, y, chunk=chunk) for x, y, _ in feed.in_order()])
    parts = []
    for batch, logits, last in last_layer_batches(net, feed):
        if not torch.equal(last.outputs, logits):
            raise InputError(
                "last_layer=True is for nets whose last module is a Linear layer that returns the logits; in "
                f"{type(net).__name__} something follows it: use last_layer=False"
            )
        parts.append(last_layer_norms(logits, batch.labels, last.inputs, bias=last.layer.bias is not None))
    return torch.cat(parts)
