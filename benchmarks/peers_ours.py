"""The same tasks as in peers_theirs.py, by this package."""

import numpy as np
import torch
from peers_linear import linear_net, weights_of
from serving import serve

from tcsl.config import DeviceSettings, SelectSettings, TrainSettings
from tcsl.data.convert import as_dataset
from tcsl.methods.clusters import george_clusters
from tcsl.methods.eiil import environment_groups
from tcsl.methods.environments import infer_environments
from tcsl.methods.groupdro import group_dro
from tcsl.methods.jtt import up_sampled
from tcsl.methods.lff import learning_from_failure
from tcsl.scoring.aum import aum
from tcsl.scoring.el2n import el2n
from tcsl.selection.tcsl_cs import identify, tcsl_s_of
from tcsl.statistics import log_odds
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.loop import fit
from tcsl.training.objective import Batch, margin
from tcsl.training.pair import Pair


def eiil(logits, labels, steps):
    environments = infer_environments(torch.from_numpy(logits), torch.from_numpy(labels), steps=int(steps))
    group, _ = environment_groups(torch.from_numpy(labels), environments)
    return {"group": group.numpy(), "environment": environments.numpy()}


def jtt(predicted, labels):
    return {"wrong": np.bincount(up_sampled(predicted != labels, 2)) == 2}


def george(points, labels, losses, most=10, factor=5, start=0):
    found = george_clusters(points, labels, losses=losses, max_clusters=int(most), factor=int(factor), seed=int(start))
    return {"group": found}


def george_whole(features, logits, labels, losses):
    return {"group": george_clusters(log_odds(logits, labels), labels, losses=losses)}


def grouping(curves):
    return {"group": identify(curves, tcsl_s_of(curves), SelectSettings(), seed=0).astype(int)}


def groupdro(logits, labels, groups, count, step):
    weights = torch.full((int(count),), 1 / int(count))
    # The samples of all batches one after the other: batch b has the indices b m .. b m + m - 1.
    batches, size = labels.shape
    objective = group_dro(torch.from_numpy(groups).flatten(), weights, step=float(step))
    totals, kept = [], []
    for b in range(batches):
        z = torch.from_numpy(logits[b]).requires_grad_()
        batch = Batch(z, torch.from_numpy(labels[b]), torch.arange(b * size, b * size + size))
        total = objective(z, batch).total
        total.backward()
        totals.append(total.item())
        kept.append(weights.numpy().copy())
    return {"totals": np.array(totals), "weights": np.array(kept)}


def lff(inputs, labels, biased, debiased, epochs, lr):
    data = as_dataset((inputs, labels))
    feed = Feed.of(data, choose(DeviceSettings(device="cpu")))
    nets = [linear_net(weights) for weights in (biased, debiased)]
    averages = torch.zeros(2, len(labels))
    fit(
        Pair(*nets),
        feed,
        TrainSettings(epochs=int(epochs), batch_size=len(labels), lr=float(lr), momentum=0.0, weight_decay=0.0),
        stage="lff",
        steps=int(epochs),
        seed=0,
        objective=learning_from_failure(feed.labels, averages, data.num_classes, q=0.7, memory=0.7),
        state={"averages": averages},
    )
    return {"biased": weights_of(nets[0]), "debiased": weights_of(nets[1])}


def batch_of(labels):
    return Batch(torch.empty(len(labels), 0), torch.from_numpy(labels), torch.arange(len(labels)))


def confidence(probabilities, labels):
    """With two classes, EL2N is the square root of 2 times 1 minus the probability of the label."""
    score = el2n(torch.from_numpy(probabilities).log(), torch.from_numpy(labels))
    return {"score": 1 - score.numpy() / np.sqrt(2)}


def normalised_margin(probabilities, labels):
    return {"score": ((margin(torch.from_numpy(probabilities), batch_of(labels)) + 1) / 2).numpy()}


def area_under_margin(logits, labels):
    batch = batch_of(labels)
    margins = torch.stack([margin(epoch, batch) for epoch in torch.from_numpy(logits)], 1)
    return {"score": -aum(margins).numpy()}


TASKS = {
    task.__name__: task
    for task in (
        eiil,
        jtt,
        george,
        george_whole,
        grouping,
        groupdro,
        lff,
        confidence,
        normalised_margin,
        area_under_margin,
    )
}

if __name__ == "__main__":
    serve(TASKS)
