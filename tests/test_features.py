"""A net's features beside its logits: of the layer that runs last, in training alone, and without a hook left."""

import numpy as np
import pytest
import torch
from torch import nn

from tcsl.config import DeviceSettings
from tcsl.data.convert import as_dataset
from tcsl.errors import InputError
from tcsl.training.device import choose
from tcsl.training.features import WithFeatures, features_of, last_linear
from tcsl.training.feed import Feed

CPU = choose(DeviceSettings(device="cpu"))


class HeadFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(7, 2)
        self.body = nn.Linear(4, 7)

    def forward(self, x):
        return self.head(self.body(x).relu())


class Shortened(HeadFirst):
    """A net that cuts what its last layer to run says."""

    def forward(self, x):
        return self.body(x)[:, :2]


def rows_feed(n=20):
    return Feed.of(as_dataset((np.random.default_rng(0).normal(size=(n, 4)), np.arange(n) % 2)), CPU)


def hooks_of(net):
    return [hook for part in net.modules() for hook in (*part._forward_hooks, *part._forward_pre_hooks)]


def test_features_of_a_net_whose_head_is_defined_first():
    feed, net = rows_feed(), HeadFirst()
    assert last_linear(net, feed) is net.head
    both = WithFeatures(net, feed)
    assert both.size == 7
    with torch.no_grad():
        features = net.body(feed.inputs).relu()
        torch.testing.assert_close(both(feed.inputs), torch.cat([net(feed.inputs), features], 1))
        torch.testing.assert_close(features_of(net, feed), features)


def test_in_evaluation_mode_there_are_logits_alone_and_no_hook():
    feed, net = rows_feed(), HeadFirst()
    both = WithFeatures(net, feed)
    for _ in range(2):
        assert both.train()(feed.inputs).shape == (20, 9)
        assert len(hooks_of(net)) == 1
        assert torch.equal(both.eval()(feed.inputs), net(feed.inputs))
        assert not hooks_of(net)
    assert [name for name, _ in both.named_parameters()] == [f"net.{name}" for name, _ in net.named_parameters()]


def test_a_net_whose_last_layer_does_not_return_the_logits():
    net = Shortened()
    with pytest.raises(InputError, match="what Shortened returns is not the output of its last one"):
        WithFeatures(net, rows_feed())
    assert not hooks_of(net)
