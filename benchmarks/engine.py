"""The GPU engine: epochs of ResNet50 on Waterbirds' shapes and of ResNet18 on cMNIST's, against a textbook loop.

    python benchmarks/engine.py [waterbirds cmnist profile disk memory agreement] --root DATA --weights FILE
    python benchmarks/engine.py cpu heap

Inputs are random bytes of the real sizes: what is in a picture does not change the time of a step. Medians over epochs
after the first three, in which steps are compiled and captured. The textbook loop has a DataLoader with eight workers,
float32 with TF32, cuDNN free to choose its kernels, and the same batches; it records nothing. `profile`: the kernels of
a step, by what they do. `disk`: a fresh process goes from the real Waterbirds' files to the coreset, profile `fast`.
`cpu`: the selection, training and evaluation on two cores. `heap`: what keeping freed memory brings there. Each part
has a record of its own.
"""

import argparse
import statistics
import time
from contextlib import nullcontext

import numpy as np
from common import write
from engine_agreement import agreement_rows
from engine_cpu import compare
from engine_disk import disk_rows
from engine_epochs import (
    CMNIST,
    WATERBIRDS,
    ChannelsFirst,
    collected,
    epochs_of,
    feed_of,
    images,
    median,
    side_by_side,
    textbook,
)
from engine_heap import heap_rows
from engine_memory import memory_rows
from engine_profile import profile_rows

from tcsl.config import DeviceSettings, resolve
from tcsl.selection.tcsl_cs import select_tcsl_cs
from tcsl.training.device import settled


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


def cpu_rows(options):
    """Return the loop on two cores, beside the better textbook loop of the same run, and the selection."""
    rows, row = collected()
    for work, seconds, usual in compare(epochs=7):
        row(work, seconds, usual, usual)
    row("wKMeans (10 restarts) and Algorithm 2, Waterbirds", selection(), 0.02)
    return rows


def waterbirds_rows(options):
    rows, row = collected()
    net, n, side, classes, batch = WATERBIRDS
    data = images(n, side, classes)
    usual = textbook(data, net, batch)
    feeds = {engine: feed_of(data, engine) for engine in ("plain", "captured", "compiled")}
    erm = median(epochs_of(feeds["compiled"], net, batch))
    row("Waterbirds, ResNet50: ERM epoch", erm, 0.80, usual)
    for engine in ("plain", "captured"):
        row(f"the same, {engine}", median(epochs_of(feeds[engine], net, batch)), "", usual)
    for named, feed in (
        ("channels first", feed_of(data, "compiled", ChannelsFirst)),
        ("float32 with TF32", feed_of(data, "compiled", precision="float32")),
    ):
        row(f"the same, compiled, {named}", median(epochs_of(feed, net, batch)), "", usual)
    del feed
    stage1 = median(epochs_of(feeds["compiled"], net, batch, stage="biased"))
    row("stage 1: recording and new weights", stage1, 1.01 * erm, usual)
    stage2 = median(epochs_of(feeds["compiled"], net, batch, stage="core"))
    row("stage 2: correction and recording", stage2, 1.03 * erm, usual)
    augment = "crop+flip"
    base = median(epochs_of(feeds["compiled"], net, batch, augment=augment))
    row("ERM epoch with crop and flip", base, "", usual)
    stage2 = median(epochs_of(feeds["compiled"], net, batch, stage="core", augment=augment))
    row("stage 2 with crop and flip", stage2, 1.36 * base, usual)
    row("Waterbirds, ResNet50: ERM epoch, a seed, two side by side", side_by_side(data, net, batch, 2), "", usual)
    row("wKMeans (10 restarts) and Algorithm 2, Waterbirds", selection(), 0.02)
    return rows


def cmnist_rows(options):
    rows, row = collected()
    net, n, side, classes, batch = CMNIST
    data = images(n, side, classes)
    usual = textbook(data, net, batch, epochs=3)
    feed = feed_of(data, "compiled")
    alone = median(epochs_of(feed, net, batch))
    row("cMNIST, ResNet18: ERM epoch, alone", alone, "", usual)
    stage1 = median(epochs_of(feed, net, batch, stage="biased"))
    row("stage 1, alone: recording and new weights", stage1, 1.01 * alone, usual)
    stage2 = median(epochs_of(feed, net, batch, stage="core"))
    row("stage 2, alone: correction and recording", stage2, 1.03 * alone, usual)
    row("ERM epoch, a seed, three side by side", side_by_side(data, net, batch, 3), 1.0, usual)
    return rows


PARTS = {
    "waterbirds": waterbirds_rows,
    "cmnist": cmnist_rows,
    "profile": profile_rows,
    "disk": disk_rows,
    "memory": memory_rows,
    "agreement": agreement_rows,
    "cpu": cpu_rows,
    "heap": heap_rows,
}
ON_CPU = ("cpu", "heap")


def part(name):
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"{name!r} is no part; there are {', '.join(PARTS)}")
    return name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [name for name in PARTS if name not in ON_CPU]
    parser.add_argument(
        "parts", nargs="*", type=part, default=usual, help=f"{', '.join(PARTS)}; all of the GPU if none"
    )
    parser.add_argument("--root", default="", help="of the real Waterbirds, for the part disk")
    parser.add_argument("--weights", default="", help="a file for its ResNet50")
    options = parser.parse_args()
    if "disk" in options.parts and not options.root:
        parser.error("the part disk needs --root, where the real Waterbirds is")
    for name in options.parts:
        with settled(DeviceSettings()) if name not in ON_CPU else nullcontext():  # there, ours alone
            write(f"benchmark-engine-{name}", PARTS[name](options))


if __name__ == "__main__":
    main()
