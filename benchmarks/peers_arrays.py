"""The arrays that ours and the peers' are run on: of nets trained on the digits, and generated ones."""

import numpy as np
import torch
from torch.nn import functional as F
from trials import DATA

from tcsl.config import resolve
from tcsl.embeddings import embed
from tcsl.methods.first import few
from tcsl.pipeline import train_model
from tcsl.running import opened_job
from tcsl.scoring.tcsl import train_biased
from tcsl.training.views import logits_of


def trained(name, seed):
    """Return what the ways of grouping look at: of a biased model, an early one, and one trained to the end."""
    train = DATA[name][0](seed).train
    overrides = {"seed": seed, "device.device": "cpu", "device.threads": 1}
    settings = resolve(profile="default", dataset="digits", overrides=overrides)
    with opened_job(train, settings, net=None, work={}, path=None) as whole:
        job = whole.hiding()
        curves = train_biased(job.fresh_net("biased"), job.feed, settings, seed=seed)
        early = train_model(job, "early", job.feed, train=few(settings.train), weights="eiil-reference")
        erm = train_model(job, "erm", job.feed, weights="george-erm")
        logits = logits_of(erm, job.feed).numpy()
        return {
            "labels": train.numpy_labels,
            "minority": train.groups.minority,
            "curves": np.ascontiguousarray(curves.numpy()),
            "early": logits_of(early, job.feed).numpy(),
            "logits": logits,
            "losses": losses_of(logits, train.numpy_labels),
            "features": embed(erm, job.feed),
        }


def losses_of(logits, labels):
    return F.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels), reduction="none").numpy()


def probabilities_of(logits):
    return torch.from_numpy(logits).softmax(1).numpy()


def generated(n, classes, sure=4.0):
    """Return logits of a model that took a shortcut, wrong on 5 % and as sure there as elsewhere; and labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    logits = rng.standard_normal((n, classes), dtype=np.float32)
    shortcut = np.where(rng.random(n) < 0.05, (labels + rng.integers(1, classes, n)) % classes, labels)
    logits[np.arange(n), shortcut] += sure
    return logits, labels


def curves(n, epochs=30):
    """Return loss curves of which 5 % are high."""
    out = np.random.default_rng(0).standard_exponential((n, epochs), dtype=np.float32)
    out *= np.where(np.arange(n) % 20 == 0, 2.5, 0.4).astype(np.float32)[:, None]
    return out


def dro_batches(batches=200, size=64, groups=8, classes=4):
    rng = np.random.default_rng(0)
    shape = (batches, size)
    return {
        "logits": 3 * rng.standard_normal((*shape, classes), dtype=np.float32),
        "labels": rng.integers(0, classes, shape),
        "groups": rng.integers(0, groups, shape),
        "count": groups,
        "step": 0.01,
    }


def lff_start():
    """Return the digits, and two linear nets to start from."""
    train = DATA["digits"][0](0).train
    inputs = train.inputs.flatten(1).numpy().astype(np.float32) / 255
    nets = 0.1 * np.random.default_rng(0).standard_normal((2, 10, inputs.shape[1] + 1), dtype=np.float32)
    start = {"biased": nets[0], "debiased": nets[1]}
    return {"inputs": inputs, "labels": train.numpy_labels, **start, "epochs": 20, "lr": 0.5}


def side_by_side():
    """Return three blobs side by side and one far away, of which only the first is harder than the three together."""
    blob = np.repeat([0, 1, 2, 3], [40, 60, 60, 100])
    x = np.array([0.0, 2.0, 4.0, 20.0])[blob] + 0.1 * np.random.default_rng(0).normal(size=len(blob))
    losses = np.array([1.0, 0.2, 0.1, 0.1], np.float32)[blob]
    points = x[:, None].astype(np.float32)
    return {"points": points, "labels": np.zeros(len(blob), int), "losses": losses, "most": 2, "factor": 3}


def two_shapes(first):
    """Return two classes of two clusters each, wide in class 0 and narrow in class 1; class `first` comes first."""
    rng = np.random.default_rng(0)
    cluster = np.repeat([0, 1], [80, 20])
    centres = np.array([[0.0, 0.0], [3.0, -3.0]])
    parts = {label: centres[cluster] + spread * rng.normal(size=(100, 2)) for label, spread in ((0, 1.2), (1, 0.05))}
    order = (first, 1 - first)
    return np.concatenate([parts[label] for label in order]).astype(np.float32), np.repeat(order, 100)
