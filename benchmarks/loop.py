"""The training loop, recording every loss, against a textbook PyTorch loop with a DataLoader that records nothing.

    python benchmarks/loop.py [--epochs 7]

Same net, same data, same optimizer, same batches; epochs of both alternate in one process, and medians are compared.
"""

import argparse
import statistics
import time

import torch
from common import write
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tcsl.config import DeviceSettings, TrainSettings
from tcsl.data.convert import as_dataset
from tcsl.data.digits import load
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.loop import fit, steps_of
from tcsl.training.nets import build_net
from tcsl.training.recording import LossSum
from tcsl.training.weights import class_balanced


def digits():
    return load(0).train


def larger():
    """5,000 generated images, 28 x 28, as many pixels as MNIST's."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (5000, 3, 28, 28), generator=generator, dtype=torch.uint8)
    return as_dataset((images, torch.arange(5000) % 10))


def ours(data, settings):
    """Return a function that trains one more epoch with recording."""
    feed = Feed.of(data, choose(DeviceSettings(device="cpu")))
    net = build_net("small_cnn", data, seed=0)
    total = LossSum(len(feed), torch.device("cpu"))
    weights = class_balanced(feed.labels, data.num_classes)
    one = settings.model_copy(update={"epochs": 1})

    def epoch():
        fit(net, feed, one, stage="x", steps=steps_of(len(feed), one), seed=0, log_weights=weights, recorder=total)

    return epoch


def textbook(data, settings, workers):
    """Return a function that trains one more epoch the usual way; class weights, no per-sample record."""
    net = build_net("small_cnn", data, seed=0)
    images = data.inputs.float() / 255
    mean, std = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    dataset = TensorDataset((images - mean) / std, data.labels)
    loader = DataLoader(dataset, settings.batch_size, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    body = net[1]  # inputs are normalised already
    optimizer = torch.optim.SGD(
        body.parameters(), lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    class_weights = 1 / torch.bincount(data.labels).float()

    def epoch():
        body.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(body(x), y, weight=class_weights).backward()
            optimizer.step()

    return epoch


def compare(epochs):
    """Return a row for each dataset and number of threads."""
    rows = []
    for name, data, batch in (("digits 8 x 8", digits(), 32), ("28 x 28", larger(), 128)):
        for threads in (1, 2):
            torch.set_num_threads(threads)
            settings = TrainSettings(epochs=1, batch_size=batch, lr=0.01)
            loops = {"ours": ours(data, settings)}
            loops |= {f"textbook, {w} workers": textbook(data, settings, w) for w in (0, 2)}
            seconds = {loop: [] for loop in loops}
            for _ in range(epochs):
                for loop, epoch in loops.items():
                    started = time.perf_counter()
                    epoch()
                    seconds[loop].append(time.perf_counter() - started)
            median = {loop: statistics.median(values[1:]) for loop, values in seconds.items()}
            best = min(value for loop, value in median.items() if loop != "ours")
            rows.append(
                {"data": name, "n": len(data), "batch": batch, "threads": threads}
                | {f"{loop}, s / epoch": value for loop, value in median.items()}
                | {"best textbook / ours": best / median["ours"]}
            )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=7, help="of each, alternating; the first is not counted")
    epochs = parser.parse_args().epochs
    write("benchmark-loop", compare(epochs), epochs=epochs)


if __name__ == "__main__":
    main()
