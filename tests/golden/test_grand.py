"""GraNd: by hand, and against a backward pass for each sample."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tcsl.config import DeviceSettings
from tcsl.data.digits import load
from tcsl.errors import InputError
from tcsl.scoring.grand import gradient_norms, grand_of, last_layer_norms
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.nets import build_net

CPU = choose(DeviceSettings(device="cpu"))


def test_the_gradient_of_a_linear_layer_by_hand():
    # Zero weights: p = (1/2, 1/2), so p - y = (-1/2, 1/2). The gradient is its outer product with (3, 4, 1).
    net = nn.Linear(2, 2)
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    x, y = torch.tensor([[3.0, 4.0]]), torch.tensor([0])
    expected = math.sqrt(1 / 2) * math.sqrt(26)
    assert gradient_norms(net, x, y).item() == pytest.approx(expected)
    assert last_layer_norms(net(x), y, x).item() == pytest.approx(expected)
    assert last_layer_norms(net(x), y, x, bias=False).item() == pytest.approx(math.sqrt(1 / 2) * 5)


def with_batchnorm(classes):
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes, bias=False))


def autograd_norms(net, feed, parameters):
    """Return the norm of each sample's gradient, one backward pass a sample."""
    net.eval()
    norms = []
    for i in range(len(feed)):
        net.zero_grad()
        batch = feed.batch(torch.tensor([i]))
        F.cross_entropy(net(batch.inputs), batch.labels).backward()
        norms.append(torch.cat([p.grad.flatten() for p in parameters]).norm().item())
    return norms


@pytest.mark.parametrize(
    ("name", "chunk"),
    [
        *[(name, chunk) for name in ("mlp", with_batchnorm, "small_cnn") for chunk in (None, 1, 7)],
        ("torchvision:resnet18", 7),
    ],
)
def test_grand_against_a_backward_pass_a_sample(name, chunk, rows_feed):
    images = name in ("small_cnn", "torchvision:resnet18")
    feed = Feed.of(load(0, per_class=2).train, CPU) if images else rows_feed()
    net = CPU.place(build_net(name, feed.data, seed=0))
    for module in net.modules():  # statistics that are not those of the batch
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean += 0.1
    before = copy.deepcopy(net.state_dict())
    found = grand_of(net, feed, chunk=chunk)
    assert found.tolist() == pytest.approx(autograd_norms(net, feed, list(net.parameters())), rel=1e-3)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


@pytest.mark.parametrize("name", ["mlp", with_batchnorm, "small_cnn"])
def test_the_last_layers_grand_against_a_backward_pass_a_sample(name, rows_feed):
    feed = Feed.of(load(0, per_class=2).train, CPU) if name == "small_cnn" else rows_feed()
    net = CPU.place(build_net(name, feed.data, seed=0))
    last = [module for module in net.modules() if isinstance(module, nn.Linear)][-1]
    expected = autograd_norms(net, feed, list(last.parameters()))
    assert grand_of(net, feed, last_layer=True).tolist() == pytest.approx(expected, rel=1e-3)


def test_frozen_parameters_have_no_part_in_grand(rows_feed):
    feed = rows_feed()
    net = build_net("mlp", feed.data, seed=0)
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    for layer in layers[:-1]:
        layer.requires_grad_(False)
    torch.testing.assert_close(grand_of(net, feed), grand_of(net, feed, last_layer=True))


def test_gradients_are_held_for_a_chunk_at_a_time():
    """The widest thing that is made has one gradient a sample of the chunk."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        values = 0

        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            out = op(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                self.values = max(self.values, out.numel())
            return out

    net, x, y = nn.Linear(50, 40), torch.zeros(64, 50), torch.zeros(64, dtype=torch.int64)
    largest = {}
    for chunk in (1, 4, 64):
        with Largest() as seen:
            gradient_norms(net, x, y, chunk=chunk)
        largest[chunk] = seen.values
    assert largest[4] <= max(4 * 50 * 40, x.numel())
    assert largest[64] >= 64 * 50 * 40


# Bad input.


def test_a_net_that_ends_otherwise_has_no_last_layer_gradient(rows_feed):
    feed = rows_feed()
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    with pytest.raises(InputError, match=r"Linear layer that returns the logits; in Sequential something follows it"):
        grand_of(net, feed, last_layer=True)
    with pytest.raises(InputError, match="has no Linear layer"):
        grand_of(nn.Sequential(nn.Unflatten(1, (4, 1)), nn.Conv1d(4, 3, 1), nn.Flatten()), feed, last_layer=True)


def test_a_net_that_vmap_cannot_take_is_said(rows_feed):
    class Asking(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(x) * (2 if float(x.sum()) > 0 else 1)

    with pytest.raises(InputError, match=r"cannot be had from this net by torch.func.vmap.*last_layer=True"):
        grand_of(Asking(), rows_feed())


def test_a_net_without_parameters_and_an_empty_chunk_are_refused():
    with pytest.raises(InputError, match="Identity has none"):
        gradient_norms(nn.Identity(), torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(InputError, match="chunk must be 1 or more, got 0"):
        gradient_norms(nn.Linear(2, 2), torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64), chunk=0)
