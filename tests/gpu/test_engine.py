"""Captured and compiled steps do what plain ones do. Run with `pytest -m gpu` on a machine with CUDA."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch._dynamo.utils import counters

from tcsl.api import debias, score
from tcsl.config import DeviceSettings, TrainSettings, resolve
from tcsl.data.digits import load
from tcsl.errors import TcslWarning
from tcsl.methods.groupdro import balanced_order
from tcsl.selection.coreset import coreset_from_scores
from tcsl.training.device import choose
from tcsl.training.engine import COMPILE_PAYS, engine_of
from tcsl.training.feed import Feed
from tcsl.training.nets import build_net
from tcsl.training.recording import LossCurves
from tcsl.training.turns import in_turns

SMALL = {"train.epochs": 10, "score.biased_epochs": 4, "train.lr": 0.01, "train.batch_size": 32, "select.ratio": 0.2}


@pytest.fixture
def replays(monkeypatch):
    """Return what counts the graphs' replays."""
    counted, replay = [], torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: (counted.append(1), replay(graph))[1])
    return counted


def scored(engine, profile="default", **more):
    named = {k.replace("__", "."): v for k, v in more.items()}
    overrides = {**SMALL, "device.device": "cuda", "device.engine": engine, **named}
    settings = resolve(profile=profile, overrides=overrides)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*cannot be captured")
        found = score(load(0, per_class=42).train, settings=settings)  # 12 batches of 32, two of 18
    return found, coreset_from_scores(found, settings)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"train__augment": "crop+flip"},
        {"train__augment": "resized_crop+flip+jitter"},
        {"train__net": "torchvision:resnet18"},
        {"score__record": "evaluation"},
        {"profile": "paper"},
    ],
    ids=str,
)
def test_captured_steps_give_the_bytes_of_plain_ones(precision, options, replays):
    """Losses of both stages, and so the coreset."""
    plain, kept = scored("plain", device__precision=precision, **options)
    assert not replays
    captured, kept_too = scored("captured", device__precision=precision, **options)
    steps = 14 * (SMALL["score.biased_epochs"] + SMALL["train.epochs"])
    assert len(replays) == steps - 2 * 6  # in each stage three steps of both sizes come before
    assert np.array_equal(plain.curves, captured.curves)
    assert np.array_equal(plain.tcsl_c, captured.tcsl_c)
    assert np.array_equal(kept.indices, kept_too.indices)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("augment", ["none", "crop+flip"])
def test_compiled_steps_give_the_same_scores_up_to_rounding(augment, precision, replays):
    plain, kept = scored("plain", device__precision=precision, train__augment=augment)
    torch.compiler.reset()  # else what other tests have compiled would be used again
    counters.clear()
    compiled, kept_too = scored("compiled", device__precision=precision, train__augment=augment)
    assert counters["stats"]["unique_graphs"]
    assert replays
    assert spearmanr(plain.tcsl_s, compiled.tcsl_s)[0] > 0.98
    assert spearmanr(plain.tcsl_c, compiled.tcsl_c)[0] > 0.98
    assert len(np.intersect1d(kept.indices, kept_too.indices)) >= 0.9 * len(kept)


@pytest.mark.parametrize("engine", ["captured", "compiled"])
def test_the_same_seed_gives_the_same_bytes(engine):
    (first, _), (second, _) = scored(engine), scored(engine)
    assert first.digest == second.digest


@pytest.fixture
def losses_of(fit_plainly):
    """Return a function from a net and a feed to the losses of its training."""

    def train(net, feed, **how):
        curves = LossCurves(len(feed), 6, feed.hardware.device)
        fit_plainly(net, feed, TrainSettings(epochs=6, batch_size=32, lr=0.01), recorder=curves, **how)
        return curves.table

    return train


def test_captured_steps_augment_a_sample_that_is_drawn_again_as_plain_ones_do(fit_plainly, replays):
    data = load(0, per_class=42).train
    order = partial(balanced_order, torch.from_numpy(data.groups.group), len(data.groups.names))
    settings = TrainSettings(epochs=6, batch_size=32, lr=0.01, augment="crop+flip")
    nets = []
    for engine in ("plain", "captured"):
        assert not replays
        feed = Feed.of(data, choose(DeviceSettings(device="cuda", engine=engine)))
        nets.append(fit_plainly(build_net("small_cnn", data, seed=0), feed, settings, order=order))
    assert replays
    assert all(map(torch.equal, *(net.parameters() for net in nets)))


@pytest.mark.parametrize("engine", ["captured", "compiled"])
def test_resume_ends_with_the_same_bytes(engine, losses_of, stopped_and_resumed):
    feed = Feed.of(load(0, per_class=42).train, choose(DeviceSettings(device="cuda", engine=engine)))

    def train(seed, **how):
        return losses_of(build_net("torchvision:resnet18", feed.data, seed=seed), feed, **how)

    assert torch.equal(train(0), stopped_and_resumed(train, stop_in=4))


@pytest.mark.parametrize("engine", ["plain", "captured", "compiled"])
def test_a_chosen_epoch_is_what_training_to_it_gives(engine, tmp_path):
    """Judging between epochs changes no step, whichever way steps are run; and what is chosen survives a stop."""
    splits = load(0, per_class=42, val_per_class=30)
    named = {"device.device": "cuda", "device.engine": engine, "train.net": "torchvision:resnet18"}
    settings = {**SMALL, **named, "train.epochs": 6, "methods": ["cb_erm"], "train.model_selection": "worst_group"}

    def stop(epoch):
        if epoch.epoch == 5:
            raise KeyboardInterrupt

    whole = debias(splits, settings=settings, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        debias(splits, settings=settings, out=tmp_path / "stopped", report=stop)
    again = debias(splits, settings=settings, out=tmp_path / "stopped", resume=True)
    assert again.result["models"] == whole.result["models"]
    name = "checkpoints/cb_erm.safetensors"
    assert (whole.path / name).read_bytes() == (again.path / name).read_bytes()
    model = whole.result["models"]["cb_erm"]
    to_it = {**settings, "train.epochs": model["epoch"], "train.model_selection": "last"}
    expected = debias(splits, settings=to_it, out=tmp_path / "to it").models["cb_erm"]
    for kept, other in zip(whole.models["cb_erm"].parameters(), expected.parameters(), strict=True):
        assert torch.equal(kept, other)


@pytest.mark.parametrize("engine", ["captured", "compiled"])
def test_an_average_of_weights_survives_a_stop(engine, tmp_path):
    """The same bytes, and where steps are captured those of plain steps."""
    splits = load(0, per_class=42)
    named = {"device.device": "cuda", "device.engine": engine, "train.net": "torchvision:resnet18"}
    settings = {**SMALL, **named, "methods": ["cb_erm"], "train.model_selection": "average"}

    def stop(epoch):
        if epoch.epoch == 10:  # the ninth is in the mean already
            raise KeyboardInterrupt

    name = "checkpoints/cb_erm.safetensors"
    whole = (debias(splits, settings=settings, out=tmp_path / "whole").path / name).read_bytes()
    with pytest.raises(KeyboardInterrupt):
        debias(splits, settings=settings, out=tmp_path / "stopped", report=stop)
    assert (debias(splits, settings=settings, out=tmp_path / "stopped", resume=True).path / name).read_bytes() == whole
    if engine == "captured":
        plain = debias(splits, settings={**settings, "device.engine": "plain"}, out=tmp_path / "plain")
        assert (plain.path / name).read_bytes() == whole


def test_as_many_nets_are_compiled_as_there_are(losses_of):
    """By itself, torch goes on uncompiled after eight."""
    feed = Feed.of(load(0, per_class=42).train, choose(DeviceSettings(device="cuda", engine="compiled")))
    torch.compiler.reset()
    counters.clear()
    for width in range(2, 14):
        factory = partial(
            lambda classes, width: torch.nn.Sequential(
                torch.nn.Flatten(), torch.nn.Linear(192, width), torch.nn.ReLU(), torch.nn.Linear(width, classes)
            ),
            width=width,
        )
        losses_of(build_net(factory, feed.data, seed=0), feed)
    assert counters["stats"]["unique_graphs"] == 12


@pytest.mark.parametrize("engine", ["plain", "captured", "compiled"])
@pytest.mark.parametrize("net", ["torchvision:resnet18", "drops"])
def test_seeds_in_turns_are_what_each_is_alone(engine, net, losses_of):
    def drops(classes):
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(192, classes))

    feed = Feed.of(load(0, per_class=42).train, choose(DeviceSettings(device="cuda", engine=engine)))

    def train(seed):
        return losses_of(build_net(drops if net == "drops" else net, feed.data, seed=seed), feed, seed=seed)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "device.engine=.* has no effect: the net draws random numbers")
        alone = [train(seed) for seed in range(3)]
        together = in_turns([partial(train, seed) for seed in range(3)])
    assert all(map(torch.equal, alone, together))
    assert not torch.equal(alone[0], alone[1])


def test_a_net_that_asks_the_host_is_run_step_by_step_and_that_is_said(losses_of):
    class Asking(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(192, 10)

        def forward(self, x):
            return self.layer(x.flatten(1)) * (2 if float(x.sum()) > 0 else 1)

    feed = Feed.of(load(0, per_class=42).train, choose(DeviceSettings(device="cuda", engine="captured")))
    plain = Feed.of(load(0, per_class=42).train, choose(DeviceSettings(device="cuda", engine="plain")))
    expected = losses_of(build_net(lambda classes: Asking(), plain.data, seed=0), plain)
    with pytest.warns(TcslWarning, match=r"cannot be captured as a CUDA graph.*device.engine=plain"):
        found = losses_of(build_net(lambda classes: Asking(), feed.data, seed=0), feed)
    assert torch.equal(expected, found)


def test_a_net_with_dropout_is_run_step_by_step(losses_of, replays):
    """Its random numbers are drawn anew in every step, and the same seed draws the same ones."""

    def factory(classes):
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(192, classes))

    def train(engine):
        feed = Feed.of(load(0, per_class=42).train, choose(DeviceSettings(device="cuda", engine=engine)))
        return losses_of(build_net(factory, feed.data, seed=0), feed)

    plain = train("plain")
    with pytest.warns(TcslWarning, match="device.engine=captured has no effect: the net draws random numbers"):
        assert torch.equal(train("captured"), plain)
    assert not replays


def test_auto_compiles_long_trainings_and_captures_short_ones():
    hardware = choose(DeviceSettings(device="cuda"))
    data = load(0, per_class=42).train
    feed = Feed.of(data, hardware)
    net = build_net("small_cnn", data, seed=0)
    assert engine_of(net, feed, COMPILE_PAYS - 1) == "captured"
    assert engine_of(net, feed, COMPILE_PAYS) == "compiled"
    assert engine_of(net, Feed.of(data, hardware, how="stream"), COMPILE_PAYS) == "plain"
