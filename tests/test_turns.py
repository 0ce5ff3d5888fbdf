"""Several trainings in turns: one at a time, in order, and the first error stops all."""

import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
import timm
import torch
import torchvision
from timm.layers import DropPath
from torch import nn
from torchvision.ops import StochasticDepth

import tcsl
from tcsl.config import TrainSettings, resolve
from tcsl.data.convert import as_dataset
from tcsl.errors import RunFolderError
from tcsl.training.engine import draws_numbers
from tcsl.training.turns import in_turns, pass_on


def test_tasks_take_turns_in_order():
    seen = []

    def task(k):
        def work():
            for step in range(3):
                seen.append((step, k))
                pass_on()
            return k

        return work

    assert in_turns([task(k) for k in range(3)]) == [0, 1, 2]
    assert seen == [(step, k) for step in range(3) for k in range(3)]


def test_several_seeds_do_not_go_into_the_folder_of_one(tmp_path):
    from tcsl.bench.seeds import run_seeds

    settings = resolve(dataset="digits", overrides={"train.epochs": 1, "methods": ("cb_erm",), "device.device": "cpu"})
    (tmp_path / "config.toml").write_text("seed = 0\n")
    with pytest.raises(
        RunFolderError, match="holds a run of one seed; choose another place for several seeds with --out"
    ):
        run_seeds(settings, [0, 1], out=tmp_path, resume=True)


INTERRUPTED = """
import os, signal, threading, time, torch
from tcsl.training.turns import in_turns, pass_on

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
steps = [0, 0]
state = torch.random.get_rng_state()

def task(k):
    def work():
        while True:
            time.sleep(0.01)
            torch.rand(1)
            steps[k] += 1
            pass_on()
    return work

threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    in_turns([task(0), task(1)])
except KeyboardInterrupt:
    before = list(steps)
    time.sleep(0.3)
    print("stopped" if steps == before and min(steps) else f"went on from {before} to {steps}")
    print("numbers as before" if torch.equal(state, torch.random.get_rng_state()) else "numbers were drawn")
"""


def test_ctrl_c_waits_for_every_task_to_stop():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "stopped\nnumbers as before\n"), done.stderr


def by_chance(classes):
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), StochasticDepth(0.5, "row"), nn.Linear(8, classes))


def test_nets_that_draw_numbers_give_the_same_bytes_in_turns_and_change_between_epochs():
    data = (np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2)
    seen = []

    def one(seed):
        settings = {"train.epochs": 3, "train.batch_size": 8, "device.device": "cpu", "seed": seed}
        net = tcsl.train(data, net=by_chance, settings=settings, report=lambda epoch: seen.append(seed))
        return net.state_dict()

    alone = [one(seed) for seed in range(2)]
    seen.clear()
    together = in_turns([partial(one, seed) for seed in range(2)])
    assert sorted(seen) != seen
    for first, second in zip(alone, together, strict=True):
        assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    "module",
    [
        nn.Dropout(0.1),
        StochasticDepth(0.1, "row"),
        nn.MultiheadAttention(4, 2, dropout=0.1),
        nn.LSTM(2, 2, 2, dropout=0.1),
        nn.RReLU(),
        nn.FractionalMaxPool2d(2, output_size=2),
        DropPath(0.1),
        torchvision.models.swin_t(),
        torchvision.models.densenet121(drop_rate=0.1),
        timm.create_model("ghostnet_050"),
        torchvision.transforms.RandomHorizontalFlip(),
    ],
    ids=lambda module: type(module).__name__,
)
def test_what_draws_numbers_is_known(module):
    assert draws_numbers(module)
    assert not draws_numbers(nn.Sequential(nn.Dropout(0.0), StochasticDepth(0.0, "row"), nn.MultiheadAttention(4, 2)))


def test_a_task_that_ends_early_leaves_the_turns_to_the_others():
    seen = []

    def task(k, steps):
        def work():
            for _ in range(steps):
                seen.append(k)
                pass_on()

        return work

    in_turns([task(0, 1), task(1, 4), task(2, 2)])
    assert seen == [0, 1, 2, 1, 2, 1, 1]


def test_only_one_runs_at_a_time():
    running = threading.Lock()

    def work():
        for _ in range(200):
            assert running.acquire(blocking=False)
            running.release()
            pass_on()

    in_turns([work] * 4)


def test_the_first_error_stops_all_and_is_raised():
    steps = []

    def broken():
        pass_on()
        raise ValueError("broken")

    def long():
        for step in range(1000):
            steps.append(step)
            pass_on()

    with pytest.raises(ValueError, match="broken"):
        in_turns([long, broken])
    assert len(steps) < 10


def test_without_others_passing_on_does_nothing():
    pass_on()
    assert in_turns([lambda: pass_on()]) == [None]


def test_seeds_in_turns_end_as_they_do_in_processes(tmp_path):
    from tcsl.bench.seeds import _run_in_turns, _run_one, run_seeds

    settings = resolve(
        dataset="digits", overrides={"train.epochs": 2, "data.options.per_class": 12, "methods": ["cb_erm"]}
    )
    reported = []
    folders = {seed: tmp_path / f"turns-{seed}" for seed in (0, 1, 2)}
    found = _run_in_turns(_run_one, settings, folders, 2, lambda seed, epoch: reported.append((seed, epoch.epoch)))
    run_seeds(settings, [0, 1, 2], out=tmp_path / "processes", jobs=1)
    assert reported == [(0, 1), (1, 1), (0, 2), (1, 2), (2, 1), (2, 2)]
    for seed in (0, 1, 2):
        one, other = folders[seed], tmp_path / "processes" / f"seed-{seed}"
        name = "checkpoints/cb_erm.safetensors"
        assert (one / name).read_bytes() == (other / name).read_bytes()
        assert found[seed]["seed"] == seed


def test_an_error_in_turns_names_its_seed(tmp_path):
    from tcsl.bench.seeds import _run_in_turns, _run_one
    from tcsl.errors import InputError

    settings = resolve(dataset="digits", overrides={"data.options.per_class": 1000})
    with pytest.raises(InputError, match="seed 3: per_class must be in"):
        _run_in_turns(_run_one, settings, {3: tmp_path / "run"}, 2, None)


def test_trainings_in_turns_end_as_they_do_alone(fit_plainly):
    """Different seeds side by side: the same bytes as one after the other."""
    import torch

    from tcsl.config import DeviceSettings
    from tcsl.training.device import choose
    from tcsl.training.feed import Feed
    from tcsl.training.nets import build_net

    generator = torch.Generator().manual_seed(0)
    data = as_dataset((torch.randn(60, 5, generator=generator), torch.arange(60) % 3))
    feed = Feed.of(data, choose(DeviceSettings(device="cpu")))
    settings = TrainSettings(epochs=3, batch_size=16)

    def training(seed):
        def work():
            net = fit_plainly(build_net("mlp", data, seed=seed), feed, settings, seed=seed)
            return torch.cat([p.detach().flatten() for p in net.parameters()])

        return work

    together = in_turns([training(seed) for seed in range(3)])
    alone = [training(seed)() for seed in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(together, alone, strict=True))
