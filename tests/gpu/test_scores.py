"""The scores of the coreset baselines on a GPU. Run with `pytest -m gpu` on a machine with CUDA."""

import pytest
import torch

from tcsl.config import DeviceSettings, resolve
from tcsl.data.digits import load
from tcsl.embeddings import embed
from tcsl.scoring.grand import grand_of
from tcsl.scoring.watched import train_watched
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed
from tcsl.training.nets import build_net
from tcsl.training.objective import margin


@pytest.fixture(autouse=True)
def repeatable(monkeypatch):
    """Kernels that repeat themselves, in IEEE float32: convolutions on TF32 would differ from a CPU's."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    with settled(DeviceSettings()):
        yield


SETTINGS = resolve(overrides={"train.epochs": 6, "train.batch_size": 32, "train.lr": 0.01})


def feed_on(device, **more):
    return Feed.of(load(0, per_class=42).train, choose(DeviceSettings(device=device, **more)))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_captured_steps_record_the_margins_of_plain_ones(precision):
    found = {}
    for engine in ("plain", "captured"):
        feed = feed_on("cuda", engine=engine, precision=precision)
        found[engine] = train_watched(build_net("small_cnn", feed.data, seed=0), feed, SETTINGS, "margins", seed=0)
    assert torch.equal(found["plain"], found["captured"])
    assert torch.isfinite(found["plain"]).all()


def test_recording_margins_waits_for_nothing(monkeypatch):
    """12 batches of 32 and two of 18 an epoch; from the first to the last, any synchronisation is an error."""
    feed = feed_on("cuda", engine="plain")
    batches = []

    def guarded(logits, batch):
        batches.append(len(batch.labels))
        torch.cuda.set_sync_debug_mode("error" if len(batches) % 14 else "default")
        return margin(logits, batch)

    monkeypatch.setattr("tcsl.scoring.watched.margin", guarded)
    try:
        train_watched(build_net("small_cnn", feed.data, seed=0), feed, SETTINGS, "margins", seed=0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(batches) == 6 * 14


@pytest.mark.parametrize("last_layer", [False, True])
def test_grand_and_embeddings_agree_with_a_cpu(last_layer):
    gpu, cpu = feed_on("cuda", precision="float32"), feed_on("cpu")
    norms, rows = [], []
    for feed in (gpu, cpu):
        net = feed.hardware.place(build_net("torchvision:resnet18", feed.data, seed=0))
        norms.append(grand_of(net, feed, last_layer=last_layer).cpu())
        rows.append(torch.tensor(embed(net, feed)))
    torch.testing.assert_close(*norms, rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(*rows, rtol=1e-2, atol=1e-3)
