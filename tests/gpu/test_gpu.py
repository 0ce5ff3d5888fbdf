"""What only a GPU can show. Run with `pytest -m gpu` on a machine with CUDA."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from tcsl.api import score
from tcsl.config import DeviceSettings, TrainSettings, resolve
from tcsl.data.digits import load
from tcsl.errors import InputError
from tcsl.scoring.separation import separation
from tcsl.training.device import borrowed_stream, choose, drawing_from
from tcsl.training.feed import Feed
from tcsl.training.nets import build_net
from tcsl.training.objective import cross_entropy
from tcsl.training.recording import LossCurves
from tcsl.training.weights import class_update

SMALL = {"train.epochs": 10, "score.biased_epochs": 4, "train.lr": 0.01, "train.batch_size": 32}


def scores_on(device, **more):
    overrides = {**SMALL, "device.device": device, **{k.replace("__", "."): v for k, v in more.items()}}
    return score(load(0, per_class=40).train, settings=resolve(overrides=overrides))


def test_a_gpu_and_a_cpu_agree_in_float32():
    gpu, cpu = scores_on("cuda", device__precision="float32"), scores_on("cpu")
    assert spearmanr(gpu.tcsl_s, cpu.tcsl_s)[0] > 0.98
    assert spearmanr(gpu.tcsl_c, cpu.tcsl_c)[0] > 0.98


def test_bfloat16_keeps_losses_in_float32():
    found = scores_on("cuda", device__precision="bfloat16")
    assert found.curves.dtype == np.float32
    assert np.isfinite(found.curves).all()
    assert spearmanr(found.tcsl_s, scores_on("cpu").tcsl_s)[0] > 0.9


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_same_seed_gives_the_same_bytes(precision):
    first, second = (scores_on("cuda", device__precision=precision) for _ in range(2))
    assert first.digest == second.digest


def test_the_weight_update_gives_the_same_bytes_every_time():
    generator = torch.Generator().manual_seed(0)
    losses = torch.empty(100_000).exponential_(generator=generator).cuda()
    labels = torch.randint(0, 3, (100_000,), generator=generator).cuda()
    first = class_update(losses, labels, 3)
    assert all(torch.equal(first, class_update(losses, labels, 3)) for _ in range(20))


@pytest.fixture
def train(fit_plainly):
    """Return a function that trains a net on a feed and returns it with its losses."""

    def run(feed, seed=0, **how):
        settings = TrainSettings(epochs=3, batch_size=32, lr=0.01, augment="crop+flip")
        curves = LossCurves(len(feed), 3, feed.hardware.device)
        net = fit_plainly(build_net("small_cnn", feed.data, seed=seed), feed, settings, recorder=curves, **how)
        return net, curves.table

    return run


def test_nothing_waits_for_the_device_inside_an_epoch(train):
    feed = Feed.of(load(0, per_class=40).train, choose(DeviceSettings(device="cuda", engine="plain")))
    assert feed.inputs.dtype == torch.uint8
    batches = []

    def guarded(logits, batch):
        """From the first batch's loss to the last one's, any synchronisation is an error."""
        batches.append(len(batch.labels))
        torch.cuda.set_sync_debug_mode("error" if len(batches) % 13 else "default")
        return cross_entropy(logits, batch)

    try:
        train(feed, objective=guarded)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(batches) == 39


def test_the_separation_waits_for_nothing_and_is_that_of_the_cpu():
    losses = torch.empty(4795).exponential_(generator=torch.Generator().manual_seed(0))
    there = losses.cuda()
    separation(there)  # the first call loads kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = separation(there)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert float(found) == pytest.approx(float(separation(losses)), abs=1e-6)


def test_the_peak_memory_is_that_of_the_stage(train):
    feed, events = Feed.of(load(0, per_class=40).train, choose(DeviceSettings(device="cuda"))), []
    before = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")  # 1 GB, gone before the stage begins
    del before
    train(feed, report=events.append)
    assert all(0 < event.memory < 1 << 30 for event in events)


def test_resume_on_a_gpu_ends_with_the_same_bytes(train, stopped_and_resumed):
    feed = Feed.of(load(0, per_class=40).train, choose(DeviceSettings(device="cuda")))
    whole, curves = train(feed)
    resumed, again = stopped_and_resumed(partial(train, feed), stop_in=3)
    assert torch.equal(curves, again)
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_seed_gives_a_gpu_its_numbers_and_the_callers_are_left_as_they_were():
    torch.cuda.init()
    before = torch.cuda.get_rng_state()
    drawn = []
    for _ in range(2):
        with drawing_from(3):
            drawn.append(torch.rand(4, device="cuda"))
    assert torch.equal(*drawn)
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_a_stream_is_lent_to_one_at_a_time_and_then_again():
    gpu = torch.device("cuda")
    with borrowed_stream(gpu) as first, borrowed_stream(gpu) as second:
        assert first != second
    with borrowed_stream(gpu) as again:
        assert again in (first, second)


def test_a_gpu_that_is_not_there_is_said():
    with pytest.raises(InputError, match="from cuda:0"):
        choose(DeviceSettings(device="cuda:99"))
