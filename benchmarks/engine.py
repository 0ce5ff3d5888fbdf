"""The GPU engine: epochs of ResNet50 on Waterbirds' shapes and of ResNet18 on cMNIST's, against a textbook loop.

    python benchmarks/engine.py [--cpu]

Inputs are random bytes of the real sizes: what is in a picture does not change the time of a step. Medians over epochs
after the first three, in which steps are compiled and captured. The textbook loop has a DataLoader with eight workers,
float32 with TF32 and the same batches; it records nothing. With --cpu only the selection is measured; the loop on two
cores is in benchmarks/loop.py.
"""

import argparse
import statistics
import time
from functools import partial

import numpy as np
import torch
from common import write
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tcsl.config import DeviceSettings, TrainSettings, resolve
from tcsl.data.dataset import make_dataset
from tcsl.scoring.tcsl import log_biased
from tcsl.selection.tcsl_cs import select_tcsl_cs
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed
from tcsl.training.loop import fit
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


def epochs_of(feed, net, batch, *, stage="erm", augment="none", engine="compiled", epochs=EPOCHS):
    """Train and return the seconds of each epoch."""
    seconds = []
    settings = TrainSettings(epochs=epochs, batch_size=batch, lr=1e-4, augment=augment)
    recorder, after, objective = None, None, cross_entropy
    weights = class_balanced(feed.labels, feed.data.num_classes)
    if stage == "biased":
        recorder = LossCurves(len(feed), epochs, feed.hardware.device)

        def after(epoch):
            weights.copy_(class_update(recorder.table[epoch], feed.labels, feed.data.num_classes))

    if stage == "core":
        frozen = build_net(net, feed.data, seed=1)
        table = log_biased(frozen, feed, inputs_repeat=augment == "none", engine=engine)
        objective, recorder = logit_correction(table), LossSum(len(feed), feed.hardware.device)
    fit(
        build_net(net, feed.data, seed=0),
        feed,
        settings,
        stage=stage,
        steps=epochs * -(-len(feed) // batch),
        seed=0,
        log_weights=weights,
        objective=objective,
        recorder=recorder,
        after_epoch=after,
        report=lambda epoch: seconds.append(epoch.seconds),
    )
    return seconds


def median(seconds):
    return statistics.median(seconds[SKIPPED:])


def textbook(data, net, batch, epochs=3):
    """Return the seconds of an epoch of the usual loop."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
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
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return statistics.median(seconds[1:])


def feed_of(data, engine):
    return Feed.of(data, choose(DeviceSettings(device="cuda", engine=engine)))


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


def selection():
    """Return the seconds of wKMeans (10 restarts) and Algorithm 2 on curves like those of Waterbirds, warm."""
    rng = np.random.default_rng(0)
    labels = (rng.random(4795) < 0.23).astype(np.int64)
    high = rng.random(4795) < 0.05
    curves = np.where(high[:, None], rng.gamma(2, 1, (4795, 30)), rng.gamma(1, 0.1, (4795, 30))).astype(np.float32)
    tcsl_c = rng.gamma(1, 0.5, 4795).astype(np.float32)
    settings = resolve().select
    seconds = []
    for _ in range(7):
        started = time.perf_counter()
        select_tcsl_cs(curves, tcsl_c, labels, settings, seed=0)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def gpu_rows(only):
    rows = []

    def row(work, seconds, goal, textbook_seconds=None):
        ratio = None if textbook_seconds is None else textbook_seconds / seconds
        rows.append(
            {"work": work, "seconds": seconds, "goal, s": goal, "textbook, s": textbook_seconds, "ratio": ratio}
        )
        print(rows[-1], flush=True)

    if only in ("", "waterbirds"):
        waterbirds_rows(row)
    if only in ("", "cmnist"):
        cmnist_rows(row)
    return rows


def waterbirds_rows(row):
    net, n, side, classes, batch = WATERBIRDS
    data = images(n, side, classes)
    usual = textbook(data, net, batch)
    feeds = {engine: feed_of(data, engine) for engine in ("plain", "captured", "compiled")}
    erm = median(epochs_of(feeds["compiled"], net, batch))
    row("Waterbirds, ResNet50: ERM epoch", erm, 0.80, usual)
    for engine in ("plain", "captured"):
        row(f"the same, {engine}", median(epochs_of(feeds[engine], net, batch)), "", usual)
    row(
        "stage 1: recording and new weights",
        median(epochs_of(feeds["compiled"], net, batch, stage="biased")),
        1.01 * erm,
    )
    row("stage 2: correction and recording", median(epochs_of(feeds["compiled"], net, batch, stage="core")), 1.03 * erm)
    augment = "crop+flip"
    base = median(epochs_of(feeds["compiled"], net, batch, augment=augment))
    row("ERM epoch with crop and flip", base, "")
    stage2 = median(epochs_of(feeds["compiled"], net, batch, stage="core", augment=augment))
    row("stage 2 with crop and flip", stage2, 1.36 * base)


def cmnist_rows(row):
    net, n, side, classes, batch = CMNIST
    data = images(n, side, classes)
    usual = textbook(data, net, batch, epochs=2)
    row(
        "cMNIST, ResNet18: ERM epoch, alone",
        median(epochs_of(feed_of(data, "compiled"), net, batch, epochs=5)),
        "",
        usual,
    )
    row("the same, a seed, three side by side", side_by_side(data, net, batch, 3), 1.0, usual)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", default="", help="waterbirds or cmnist")
    options = parser.parse_args()
    with settled(DeviceSettings()):
        rows = [] if options.cpu else gpu_rows(options.only)
    rows.append(
        {
            "work": "wKMeans (10 restarts) and Algorithm 2, Waterbirds",
            "seconds": selection(),
            "goal, s": 0.02,
            "textbook, s": None,
            "ratio": None,
        }
    )
    write("benchmark-engine-cpu" if options.cpu else "benchmark-engine", rows, epochs=EPOCHS)


if __name__ == "__main__":
    main()
