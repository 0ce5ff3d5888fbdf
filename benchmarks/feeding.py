"""Decoding and feeding 224-pixel JPEGs: ours against torchvision's ImageFolder with a DataLoader, same workers.

    python benchmarks/feeding.py [--images 20000] [--epochs 3]

Both hand over shuffled batches of 128 as float32, scaled to 0..1 and normalised with ImageNet's mean and deviation.
First epoch: from the files, nothing decoded yet; ours writes its cache. Later epochs alternate in one process.
"""

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from common import write
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from tcsl.config import DeviceSettings
from tcsl.data.load import load
from tcsl.training.device import choose
from tcsl.training.feed import Feed, batch_sizes
from tcsl.training.nets import Normalise

BATCH = 128
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def generate(folder, n):
    """Write n JPEGs with smooth shapes and some noise: about as large as photographs of that size."""

    def one(i):
        rng = np.random.default_rng(i)
        smooth = Image.fromarray(rng.integers(0, 256, (7, 7, 3), np.uint8)).resize((224, 224), Image.BICUBIC)
        noisy = np.asarray(smooth, np.int16) + rng.integers(-12, 13, (224, 224, 1), np.int16)
        path = folder / f"class{i % 2}" / f"{i:05d}.jpg"
        Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(path, quality=80)
        return path.stat().st_size

    for label in range(2):
        (folder / f"class{label}").mkdir()
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(one, range(n))) / n


def timed(function):
    started = time.perf_counter()
    seen = function()
    return seen / (time.perf_counter() - started)


def theirs(folder, workers, *, floats):
    """Return a function that runs one epoch of ImageFolder and DataLoader."""
    steps = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)] if floats else [transforms.PILToTensor()]
    dataset = ImageFolder(folder, transforms.Compose(steps))
    loader = DataLoader(dataset, BATCH, shuffle=True, num_workers=workers, persistent_workers=True)
    return lambda: sum(len(x) for x, _ in loader)


def ours(folder, how):
    """Return functions that run one epoch of our feed: with floats, and the uint8 hand-over alone."""
    data = load(folder, val_fraction=0).train
    feed = Feed.of(data, choose(DeviceSettings(device="cpu")), how=how)
    normalise = Normalise(torch.tensor(MEAN).view(-1, 1, 1), torch.tensor(STD).view(-1, 1, 1), 255.0)
    sizes = batch_sizes(len(feed), BATCH)
    floats = lambda: sum(len(normalise(b.inputs)) for b in feed.batches(torch.randperm(len(feed)), sizes))  # noqa: E731
    handed = lambda: sum(len(b.inputs) for b in feed.batches(torch.randperm(len(feed)), sizes))  # noqa: E731
    return floats, handed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=3, help="later epochs of each, alternating")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.workers)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "images"
        folder.mkdir()
        os.environ["TCSL_CACHE"] = str(Path(name) / "cache")
        size = generate(folder, options.images)
        loader = theirs(folder, options.workers, floats=True)
        first = {"theirs": timed(loader), "ours": timed(lambda: ours(folder, "resident")[0]())}
        loops = {
            "theirs": loader,
            "theirs, uint8": theirs(folder, options.workers, floats=False),
            "resident": ours(folder, "resident")[0],
            "resident, uint8": ours(folder, "resident")[1],
            "stream": ours(folder, "stream")[0],
            "stream, uint8": ours(folder, "stream")[1],
        }
        loops["theirs, uint8"]()  # its workers start in its first epoch
        speeds = {loop: [] for loop in loops}
        for _ in range(options.epochs):
            for loop, epoch in loops.items():
                speeds[loop].append(timed(epoch))
    later = {loop: statistics.median(values) for loop, values in speeds.items()}
    rows = [
        {
            "epoch": "first, float32",
            "feed": "resident",
            "ours, images / s": first["ours"],
            "ImageFolder + DataLoader, images / s": first["theirs"],
            "ours / theirs": first["ours"] / first["theirs"],
        }
    ]
    for kind, suffix in (("float32", ""), ("uint8 alone", ", uint8")):
        for feed in ("resident", "stream"):
            us, them = later[feed + suffix], later["theirs" + suffix]
            rows.append(
                {
                    "epoch": f"later, {kind}",
                    "feed": feed,
                    "ours, images / s": us,
                    "ImageFolder + DataLoader, images / s": them,
                    "ours / theirs": us / them,
                }
            )
    write("benchmark-feeding", rows, images=options.images, workers=options.workers, mean_bytes=size)


if __name__ == "__main__":
    main()
