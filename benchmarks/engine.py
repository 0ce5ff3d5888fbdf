"""The GPU engine: epochs of ResNet50 on Waterbirds' shapes and of ResNet18 on cMNIST's, against a textbook loop.

    python benchmarks/engine.py [waterbirds cmnist profile disk memory agreement] --root DATA --weights FILE
    python benchmarks/engine.py cpu

Inputs are random bytes of the real sizes: what is in a picture does not change the time of a step. Medians over epochs
after the first three, in which steps are compiled and captured. The textbook loop has a DataLoader with eight workers,
float32 with TF32, cuDNN free to choose its kernels, and the same batches; it records nothing. `profile`: the kernels of
a step, by what they do. `disk`: a fresh process goes from the real Waterbirds' files to the coreset, profile `fast`.
`cpu`: the selection and the loop on two cores. Each part has a record of its own.
"""

import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial

import numpy as np
import torch
from common import write
from loop import compare
from scipy.stats import spearmanr
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

from tcsl.api import score
from tcsl.config import DeviceSettings, TrainSettings, resolve
from tcsl.data.dataset import make_dataset
from tcsl.data.digits import load as load_digits
from tcsl.scoring.tcsl import log_biased
from tcsl.selection.tcsl_cs import select_tcsl_cs
from tcsl.training.device import Hardware, choose, settled
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


def epochs_of(feed, net, batch, *, stage="erm", augment="none", engine="compiled", epochs=EPOCHS, watch=None):
    """Train and return the seconds of each epoch; `watch` is called with the number of each that has ended."""
    seconds = []

    def report(epoch):
        seconds.append(epoch.seconds)
        if watch is not None:
            watch(len(seconds))

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


FROM_DISK = """
import json, sys, time
started = time.perf_counter()
from tcsl import load, score, select
root, weights, net, engine = sys.argv[1:]
settings = {"train.weights": weights, "train.pretrained": False, "train.net": net}
imported = time.perf_counter()
train = load("waterbirds", root=root, only_train=True).train
loaded = time.perf_counter()
ends = []
def report(epoch):
    ends.append(time.perf_counter())
scores = score(train, profile="fast", settings={**PRESET, **settings, "device.engine": engine}, report=report)
scored = time.perf_counter()
kept = select(scores, ratio=0.1)
done = time.perf_counter()
print(json.dumps({"imports": imported - started, "decoding": loaded - imported, "scores": scored - loaded,
                  "scores, until the first epoch's end": ends[0] - loaded,
                  "selection": done - scored}))
"""


def from_disk(root, weights, engine="auto"):
    """Return the seconds of a fresh process from Waterbirds' files to the coreset, and those of its parts."""
    preset = {f"train.{k}": v for k, v in resolve(dataset="waterbirds").train.model_dump().items() if k != "net"}
    with tempfile.TemporaryDirectory() as cache:
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", FROM_DISK.replace("PRESET", repr(preset)), root, weights, WATERBIRDS[0], engine],
            env={**os.environ, "TCSL_CACHE": cache},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return time.perf_counter() - started, json.loads(done.stdout.splitlines()[-1])


def memory_rows(options):
    """Return what the stages keep on the GPU beyond plain training, beside the analysis, in floats a sample."""
    n, classes, epochs = 4795, 2, 30
    before = torch.cuda.memory_allocated()
    data = images(n, 224, classes)
    feed = feed_of(data, "plain")
    copies = (torch.cuda.memory_allocated() - before) / (n * 3 * 224 * 224)
    del feed
    feed = feed_of(images(n, 16, classes), "plain")
    frozen = sum(tensor.numel() for tensor in build_net("small_cnn", feed.data, seed=0).state_dict().values())
    kept = {}
    for stage in ("core", "erm", "biased", "core"):  # once before it counts: libraries keep memory of their own
        gc.collect()
        before = torch.cuda.memory_allocated()
        allocated = []
        watch = partial(lambda seen, epoch: seen.append(torch.cuda.memory_allocated()), allocated)
        epochs_of(feed, "small_cnn", 128, stage=stage, engine="plain", epochs=epochs, watch=watch)
        kept[stage] = (allocated[-1] - before) / 4
    return [
        {"what": "images, as bytes: copies on the GPU", "measured": copies, "analysis": 1.0},
        {
            "what": f"stage 1, floats a sample: T_s = {epochs}",
            "measured": (kept["biased"] - kept["erm"]) / n,
            "analysis": float(epochs),
        },
        {
            "what": "stage 2, floats a sample: 1 and C = 2; f_s itself not counted",
            "measured": (kept["core"] - kept["erm"] - frozen) / n,
            "analysis": 1.0 + classes,
        },
    ]


def agreement_rows(options):
    """Return how alike the scores of one seed are on different hardware: rank correlations with one CPU thread."""
    float32 = {"device.device": "cuda", "device.precision": "float32"}
    ways = {
        "CPU, two threads": {"device.device": "cpu", "device.threads": 2},
        "GPU, float32": float32,
        "GPU, float32, convolutions in TF32 as torch does by itself": float32,
        "GPU, bfloat16": {"device.device": "cuda", "device.precision": "bfloat16"},
    }
    rows = []
    for name, epochs, biased, per_class in (("400 digits, T = 10", 10, 4, 40), ("1,200 digits, T = 40", 40, 4, 120)):
        data = load_digits(0, per_class=per_class).train
        small = {"train.epochs": epochs, "score.biased_epochs": biased, "train.lr": 0.01, "train.weight_decay": 5e-3}
        first = score(data, settings={**small, "device.device": "cpu", "device.threads": 1})
        for way, device in ways.items():
            torch.backends.cudnn.allow_tf32 = "TF32" in way
            other = score(data, settings={**small, **device})
            rows.append(
                {
                    "data": name,
                    "way": way,
                    "TCSL_s": float(spearmanr(first.tcsl_s, other.tcsl_s)[0]),
                    "TCSL_c": float(spearmanr(first.tcsl_c, other.tcsl_c)[0]),
                }
            )
            print(rows[-1], flush=True)
    return rows


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


def disk_rows(options):
    rows, row = collected()
    for engine in ("auto", "compiled"):
        seconds, parts = from_disk(options.root, options.weights, engine)
        work = "Waterbirds: from files to the coreset, profile fast"
        row(work if engine == "auto" else f"the same, {engine}", seconds, 60 if engine == "auto" else "")
        for part, took in parts.items():
            row(f"of it: {part}", took)
    return rows


def cpu_rows(options):
    """Return the loop on two cores, beside the better textbook loop of the same run, and the selection."""
    rows, row = collected()
    for found in compare(epochs=7):
        usual = found["ours, s / epoch"] * found["best textbook / ours"]
        work = f"{found['data']}, small_cnn, {found['threads']} threads: epoch with every loss recorded"
        row(work, found["ours, s / epoch"], usual, usual)
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


KERNELS = {  # by what is in a kernel's name; the first that fits
    "fused by the compiler: BatchNorm, ReLU, additions": r"^triton_",
    "copies": r"Memcpy|Memset|copy_kernel",
    "BatchNorm": r"batch_?norm|bn_(fw|bw)",
    "optimizer": r"multi_tensor|fused_sgd",
    "convolutions and matrix products": r"conv|gemm|xmma|cutlass|cudnn|nvjet|sm\d\d_|grad_engine",
    "elementwise and reductions": r"elementwise|vectorized|reduce|pool|softmax|index|gather|cat|fill",
}


def kind_of(kernel):
    return next((kind for kind, pattern in KERNELS.items() if re.search(pattern, kernel, re.IGNORECASE)), "others")


def profile_rows(options):
    """Return where the time of a step goes, for each way of running it: kernels by kind, and no kernel at all."""
    net, n, side, classes, batch = WATERBIRDS
    data, rows = images(n, side, classes), []
    for engine in ("plain", "captured", "compiled"):
        profiler, spans = profile(activities=[ProfilerActivity.CUDA]), []

        def watch(epoch, profiler=profiler, spans=spans):
            torch.cuda.synchronize()
            if epoch == 4:
                profiler.start()
            spans.append(time.perf_counter())
            if epoch == 5:
                profiler.stop()

        epochs_of(feed_of(data, engine), net, batch, epochs=5, watch=watch)
        took, steps = spans[-1] - spans[-2], -(-n // batch)
        spent = defaultdict(float)
        for event in profiler.key_averages():
            spent[kind_of(event.key)] += event.self_device_time_total / 1e6
        spent["no kernel"] = max(0.0, took - sum(spent.values()))
        for kind, seconds in sorted(spent.items(), key=lambda item: -item[1]):
            rows.append({"steps": engine, "kernels": kind, "ms a step": 1e3 * seconds / steps, "share": seconds / took})
            print(rows[-1], flush=True)
    return rows


PARTS = {
    "waterbirds": waterbirds_rows,
    "cmnist": cmnist_rows,
    "profile": profile_rows,
    "disk": disk_rows,
    "memory": memory_rows,
    "agreement": agreement_rows,
    "cpu": cpu_rows,
}


def part(name):
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"{name!r} is no part; there are {', '.join(PARTS)}")
    return name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [name for name in PARTS if name != "cpu"]
    parser.add_argument("parts", nargs="*", type=part, default=usual, help=f"{', '.join(PARTS)}; all but cpu if none")
    parser.add_argument("--root", default="", help="of the real Waterbirds, for the part disk")
    parser.add_argument("--weights", default="", help="a file for its ResNet50")
    options = parser.parse_args()
    if "disk" in options.parts and not options.root:
        parser.error("the part disk needs --root, where the real Waterbirds is")
    with settled(DeviceSettings()):
        for name in options.parts:
            write(f"benchmark-engine-{name}", PARTS[name](options))


if __name__ == "__main__":
    main()
