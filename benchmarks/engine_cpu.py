"""Training, recording every loss, and evaluation on a CPU, against textbook loops, for benchmarks/engine.py.

Same net, same data, same optimizer, same batches; the textbook loop records nothing. Epochs of all loops alternate in
one process, and medians are compared.
"""

import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tcsl.config import DeviceSettings, TrainSettings
from tcsl.data.convert import as_dataset
from tcsl.data.digits import load
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed
from tcsl.training.loop import fit, steps_of
from tcsl.training.nets import build_net
from tcsl.training.recording import LossSum
from tcsl.training.views import predicted
from tcsl.training.weights import class_balanced


def digits():
    return load(0).train


def generated(n, side):
    """Return images of random bytes, of ten classes."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n, 3, side, side), generator=generator, dtype=torch.uint8)
    return as_dataset((images, torch.arange(n) % 10))


def ours(data, name, settings):
    """Return functions that train one more epoch with recording, and that predict all classes."""
    feed = Feed.of(data, choose(DeviceSettings(device="cpu")))
    net = build_net(name, data, seed=0)
    total = LossSum(len(feed), torch.device("cpu"))
    weights = class_balanced(feed.labels, data.num_classes)
    steps = steps_of(len(feed), settings)

    def epoch():
        with settled(DeviceSettings()):
            fit(net, feed, settings, stage="x", steps=steps, seed=0, log_weights=weights, recorder=total)

    def evaluation():
        with settled(DeviceSettings()):
            predicted(net, feed)

    return {"epoch with every loss recorded": epoch, "evaluation": evaluation}


def textbook(data, name, settings, workers):
    """Return functions that do the same the usual way; class weights, no per-sample record."""
    net = build_net(name, data, seed=0)
    images = data.inputs.float() / 255
    mean, std = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    dataset = TensorDataset((images - mean) / std, data.labels)
    how = {"num_workers": workers, "persistent_workers": workers > 0}
    loader = DataLoader(dataset, settings.batch_size, shuffle=True, **how)
    in_order = DataLoader(dataset, settings.batch_size, **how)
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

    @torch.no_grad()
    def evaluation():
        body.eval()
        torch.cat([body(x).argmax(1) for x, _ in in_order])

    return {"epoch with every loss recorded": epoch, "evaluation": evaluation}


def compare(epochs):
    """Yield each work, our seconds, and those of the faster textbook loop."""
    cases = (
        ("digits 8 x 8", digits(), "small_cnn", 32),
        ("28 x 28", generated(5000, 28), "small_cnn", 128),
        ("224 x 224", generated(128, 224), "torchvision:resnet18", 32),
    )
    for name, data, net, batch in cases:
        settings = TrainSettings(epochs=1, batch_size=batch, lr=0.01)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            loops = [ours(data, net, settings), *(textbook(data, net, settings, workers) for workers in (0, 2))]
            for work in loops[0]:
                own, *others = alternating([works[work] for works in loops], epochs)
                yield f"{name}, {net.rpartition(':')[2]}, {threads} threads: {work}", own, min(others)


def alternating(works, times):
    """Return the median seconds of each work, the first time left out; they take turns."""
    seconds = [[] for _ in works]
    for _ in range(times):
        for work, taken in zip(works, seconds, strict=True):
            started = time.perf_counter()
            work()
            taken.append(time.perf_counter() - started)
    return [statistics.median(taken[1:]) for taken in seconds]
