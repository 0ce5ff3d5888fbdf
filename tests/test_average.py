"""The mean of the weights in the last fifth of the epochs, as a final model."""

import numpy as np
import pytest
import torch
from torch import nn

import tcsl
from tcsl.config import DeviceSettings, TrainSettings, resolve
from tcsl.data.dataset import make_dataset
from tcsl.pipeline import train_final
from tcsl.running import opened_job
from tcsl.tables import said_of_model
from tcsl.training.average import Average
from tcsl.training.device import choose
from tcsl.training.feed import Feed

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)).astype(np.float32), np.arange(40) % 2
QUICK = {"train.epochs": 10, "train.batch_size": 10, "train.lr": 0.1, "device.device": "cpu", "device.threads": 1}
AVERAGE = QUICK | {"train.model_selection": "average"}


def weight(net):
    return next(net.parameters()).detach()


def weights_of(epochs):
    """The weights after so many epochs, by a run that takes the last."""
    settings = QUICK | {"train.epochs": epochs}
    return weight(tcsl.train((X, Y), settings=settings, net=lambda classes: nn.Linear(3, classes)))


def test_it_is_the_mean_of_what_runs_of_nine_and_of_ten_epochs_leave():
    model = tcsl.train((X, Y), settings=AVERAGE, net=lambda classes: nn.Linear(3, classes))
    torch.testing.assert_close(weight(model), (weights_of(9) + weights_of(10)) / 2)
    assert not torch.allclose(weight(model), weights_of(10))


def test_the_statistics_of_batchnorm_are_those_of_the_averaged_net():
    data = make_dataset(torch.from_numpy(X), torch.from_numpy(Y))
    feed = Feed.of(data, choose(DeviceSettings(device="cpu")))
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = Average(net, feed, TrainSettings(batch_size=40), every=1, seed=0)
    for epoch in range(1, 6):
        nn.init.constant_(net[0].weight, epoch)
        net[1].running_mean.fill_(100)
        average.look(epoch, 5)
    assert average.take()["averaged"] == 1
    outputs = net[0](torch.from_numpy(X)).detach()
    torch.testing.assert_close(net[1].running_mean, outputs.mean(0))
    torch.testing.assert_close(net[1].running_var, outputs.var(0))
    assert net[1].momentum == 0.1
    assert not net.training


def test_statistics_are_the_mean_over_samples_whatever_the_batches():
    data = make_dataset(torch.from_numpy(X), torch.from_numpy(Y))
    feed = Feed.of(data, choose(DeviceSettings(device="cpu")))
    net = nn.Sequential(nn.Identity(), nn.BatchNorm1d(3))
    average = Average(net, feed, TrainSettings(batch_size=15), every=1, seed=0)  # 15, 15, 10
    average.look(1, 1)
    average.take()
    torch.testing.assert_close(net[1].running_mean, torch.from_numpy(X).mean(0))


def test_statistics_are_of_the_order_and_of_the_augmentation_that_the_net_was_trained_with():
    """As the running ones of the last epoch are; a group-balanced order shows rare groups more often than they are."""
    images = torch.zeros(40, 1, 4, 4)
    images[:4] = 1  # the minority
    images[:, :, :, 0] += 10  # what a flip moves to the other side
    data = make_dataset(images, torch.from_numpy(Y))
    feed = Feed.of(data, choose(DeviceSettings(device="cpu")))
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16))

    def minority_only(draw):
        return torch.randint(4, (40,), generator=draw)

    average = Average(net, feed, TrainSettings(augment="flip"), every=1, seed=0, order=minority_only)
    average.look(1, 1)
    average.take()
    mean = net[1].running_mean.view(4, 4)
    torch.testing.assert_close(mean[:, 1:3], torch.ones(4, 2))
    torch.testing.assert_close(mean[:, 0] + mean[:, 3], torch.full((4,), 12.0))
    assert 3 < mean[0, 0] < 9  # each draw of a sample is flipped by itself


def test_a_net_that_drops_at_random_is_averaged_the_same_again_and_leaves_the_generator_alone():
    def trained():
        def net(classes):
            return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, classes))

        return tcsl.train((X, Y), settings=AVERAGE, net=net).state_dict()

    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = trained()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again = trained()
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_stopped_and_resumed_it_has_the_same_bytes(tmp_path):
    def debias(out, resume=False, report=None):
        return tcsl.debias(
            (X, Y), ratio=0.5, methods=["random"], settings=AVERAGE, out=tmp_path / out, resume=resume, report=report
        )

    def stop(epoch):
        if epoch.stage == "random" and epoch.step == 36:  # within the last fifth of 40 steps
            raise KeyboardInterrupt

    whole = debias("whole")
    with pytest.raises(KeyboardInterrupt):
        debias("parts", report=stop)
    parts = debias("parts", resume=True)
    for name, tensor in whole.models["random"].state_dict().items():
        assert torch.equal(tensor, parts.models["random"].state_dict()[name]), name
    assert whole.result["models"] == parts.result["models"] == {"random": {"by": "average", "looks": 2}}
    assert (
        said_of_model({"by": "average", "looks": 2}) == "mean of the weights in the last fifth of the epochs, 2 times"
    )


def test_a_net_that_a_method_looks_at_is_that_of_the_last_epoch():
    data = make_dataset(torch.from_numpy(X), torch.from_numpy(Y))

    def trained(overrides, last):
        settings = resolve(overrides={**overrides, "methods": []})
        with opened_job(data, settings, net=lambda classes: nn.Linear(3, classes), work={}, path=None) as job:
            return weight(train_final(job, "final", last=last))

    assert torch.equal(trained(AVERAGE, last=True), trained(QUICK, last=False))
    assert not torch.equal(trained(AVERAGE, last=False), trained(QUICK, last=False))


class Frozen(nn.Module):
    """A net that keeps the statistics of its BatchNorm."""

    def __init__(self, classes):
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(3), nn.Linear(3, classes)
        nn.init.constant_(self.norm.running_mean, 5)

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x):
        return self.last(self.norm(x))


def test_statistics_that_are_frozen_stay():
    model = tcsl.train((X, Y), net=Frozen, settings=AVERAGE)
    norm = next(module for module in model.modules() if isinstance(module, nn.BatchNorm1d))
    assert norm.running_mean.tolist() == [5, 5, 5]
