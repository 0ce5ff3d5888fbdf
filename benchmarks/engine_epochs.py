"""Timed epochs for benchmarks/engine.py: ours, alone and side by side, and those of a textbook loop."""

import statistics
import time
from functools import partial

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tcsl.config import DeviceSettings, TrainSettings
from tcsl.data.dataset import make_dataset
from tcsl.scoring.tcsl import log_biased
from tcsl.training.device import Hardware, choose
from tcsl.training.feed import Feed
from tcsl.training.loop import fit, steps_of
from tcsl.training.nets import build_net
from tcsl.training.objective import cross_entropy, logit_correction
from tcsl.training.recording import LossCurves, LossSum
from tcsl.training.turns import in_turns
from tcsl.training.weights import class_balanced, class_update

EPOCHS, SKIPPED = 9, 3
WATERBIRDS = ("resnet50_v1", 4795, 224, 2, 128)
CMNIST = ("torchvision:resnet18", 52_808, 28, 10, 32)


def images(n, side, classes):
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (n, side, side, 3), generator=generator, dtype=torch.uint8).permute(0, 3, 1, 2)
    return make_dataset(pixels, torch.arange(n) % classes)


def epochs_of(feed, net, batch, *, stage="erm", augment="none", epochs=EPOCHS, watch=None):
    """Train and return the seconds of each epoch; `watch` is called with the number of each that has ended."""
    seconds = []

    def report(epoch):
        seconds.append(epoch.seconds)
        if watch is not None:
            watch(len(seconds))

    settings = TrainSettings(epochs=epochs, batch_size=batch, lr=1e-4, augment=augment)
    steps = steps_of(len(feed), settings)
    recorder, after, objective = None, None, cross_entropy
    weights = class_balanced(feed.labels, feed.data.num_classes)
    if stage == "biased":
        recorder = LossCurves(len(feed), epochs, feed.hardware.device)

        def after(epoch):
            weights.copy_(class_update(recorder.table[epoch], feed.labels, feed.data.num_classes))

    if stage == "core":
        frozen = build_net(net, feed.data, seed=1)
        log_f_s = log_biased(frozen, feed, settings, steps=steps)
        objective, recorder = logit_correction(log_f_s), LossSum(len(feed), feed.hardware.device)
    fit(
        build_net(net, feed.data, seed=0),
        feed,
        settings,
        stage=stage,
        steps=steps,
        seed=0,
        log_weights=weights,
        objective=objective,
        recorder=recorder,
        after_epoch=after,
        report=report,
    )
    return seconds


def median(seconds):
    return statistics.median(seconds[SKIPPED:])


def textbook(data, net, batch, epochs=4):
    """Return the seconds of an epoch of the usual loop, with the kernels that cuDNN finds fastest."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=True):
        torch.backends.cuda.matmul.allow_tf32 = True
        model = build_net(net, data, seed=0).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-1)
        loader = DataLoader(
            TensorDataset(data.inputs.contiguous(), data.labels),
            batch,
            shuffle=True,
            num_workers=8,
            pin_memory=True,
            persistent_workers=True,
        )
        seconds = []
        for _ in range(epochs):
            started = time.perf_counter()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
                optimizer.step()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)
        torch.backends.cuda.matmul.allow_tf32 = False
    return statistics.median(seconds[1:])


class ChannelsFirst(Hardware):
    """A GPU that is given images as PyTorch lays them out by itself."""

    channels_last = False


def feed_of(data, engine, kind=Hardware, **more):
    chosen = choose(DeviceSettings(device="cuda", engine=engine, **more))
    return Feed.of(data, kind(chosen.device, chosen.bfloat16, chosen.engine))


def side_by_side(data, net, batch, seeds, epochs=6):
    """Train several nets on one GPU in turns; return the seconds of an epoch, for one of them."""
    feed = feed_of(data, "compiled")
    times = [[] for _ in range(seeds)]

    def work(k):
        settings = TrainSettings(epochs=epochs, batch_size=batch, lr=1e-4)

        def report(epoch):
            times[k].append(time.perf_counter())

        fit(
            build_net(net, data, seed=k),
            feed,
            settings,
            stage=f"seed {k}",
            steps=epochs * -(-len(data) // batch),
            seed=k,
            log_weights=class_balanced(feed.labels, data.num_classes),
            recorder=LossSum(len(data), feed.hardware.device),
            report=report,
        )

    in_turns([partial(work, k) for k in range(seeds)])
    spans = [t[-1] - t[SKIPPED - 1] for t in times]  # after the epochs in which steps are compiled and captured
    return max(spans) / (epochs - SKIPPED) / seeds


def collected():
    """Return a list of rows, and what adds one to it and prints it."""
    rows = []

    def row(work, seconds, goal="", textbook_seconds=None):
        ratio = None if textbook_seconds is None else textbook_seconds / seconds
        rows.append(
            {"work": work, "seconds": seconds, "goal, s": goal, "textbook, s": textbook_seconds, "ratio": ratio}
        )
        print(rows[-1], flush=True)

    return rows, row
