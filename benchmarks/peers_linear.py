"""Linear nets from an array of their weights, and back: for both environments, so that torch is all that it needs."""

import torch


def linear_net(weights):
    """Return the net of weights (classes, inputs + 1), whose last column is the bias."""
    net = torch.nn.Linear(weights.shape[1] - 1, weights.shape[0])
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(weights[:, :-1]))
        net.bias.copy_(torch.from_numpy(weights[:, -1]))
    return net


def weights_of(net):
    return torch.cat([net.weight, net.bias[:, None]], 1).detach().numpy()
