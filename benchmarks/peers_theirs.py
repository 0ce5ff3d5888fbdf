"""What the peers do, each called as its own examples call it; runs in their environment and needs nothing of ours.

pip install spuco wandb cleanlab aum    (spuco's LfF imports wandb, which spuco does not ask for)
"""

import importlib.metadata
import tempfile
from functools import partial
from unittest import mock

import numpy as np
import torch
from aum import AUMCalculator
from cleanlab.rank import get_normalized_margin_for_each_label, get_self_confidence_for_each_label
from peers_linear import linear_net, weights_of
from serving import serve
from spuco.end2end.lff import LFF
from spuco.group_inference import EIIL, GeorgeInference, JTTInference, SpareInference
from spuco.group_inference.cluster import ClusterAlg
from spuco.group_inference.george_utils.cluster import OverclusterModel
from spuco.robust_train import GroupWeightedLoss, SpareTrain
from spuco.utils import set_seed
from torch.utils.data import DataLoader, Dataset

set_seed(0)
PACKAGES = ("spuco", "cleanlab", "aum", "torch", "numpy", "scikit-learn", "umap-learn")


def versions():
    return {name: np.array(importlib.metadata.version(name)) for name in PACKAGES}


def numbered(partition, n):
    """Return each sample's group from spuco's dict of (class, group) to indices."""
    out = np.full(n, -1)
    for number, key in enumerate(sorted(partition)):
        out[partition[key]] = number
    return out


def eiil(logits, labels, steps, epsilon=1e-8):
    """`epsilon` is that of Adam; 1e-8 is what they use."""
    adam = partial(torch.optim.Adam, eps=float(epsilon))
    with mock.patch("torch.optim.Adam", adam):
        found = EIIL(torch.from_numpy(logits), labels.tolist(), num_steps=int(steps), lr=1e-3).infer_groups()
    return {"group": numbered(found, len(labels)), "environment": numbered(found, len(labels))}


def jtt(predicted, labels):
    found = JTTInference(predicted.tolist(), labels.tolist()).infer_groups()
    return {"wrong": numbered(found, len(labels)) == 1}


def george(points, labels, losses, most=10, factor=5, start=0):
    """The clustering of GeorgeInference.infer_groups, which takes no losses, on points that are reduced already."""
    out = np.empty(len(labels), np.int64)
    found = 0
    for label in np.unique(labels):
        at = np.flatnonzero(labels == label)
        model = OverclusterModel("gmm", max_k=int(most), oc_fac=int(factor), seed=int(start)).fit(points[at])
        out[at] = found + model.predict(points[at])
        found += model.n_clusters
    return {"group": out}


def george_whole(features, logits, labels, losses):
    found = GeorgeInference(torch.from_numpy(features), labels.tolist(), max_clusters=10).infer_groups()
    return {"group": numbered(found, len(labels))}


def george_kmeans(features, labels):
    found = GeorgeInference(
        torch.from_numpy(features), labels.tolist(), cluster_alg=ClusterAlg.KMEANS, max_clusters=10
    ).infer_groups()
    return {"group": numbered(found, len(labels))}


def spare(logits, labels, clusters):
    """Clusters in each class: so many, or, with 0, by their silhouette."""
    number = {"num_clusters": int(clusters)} if clusters else {"max_clusters": 10}
    found = SpareInference(torch.from_numpy(logits), labels.tolist(), **number).infer_groups()
    return {"group": numbered(found, len(labels))}


def spare_shares(logits, labels):
    """The chance of each sample to be drawn, from both halves of SPARE."""
    inference = SpareInference(torch.from_numpy(logits), labels.tolist(), num_clusters=2)
    groups = inference.infer_groups()
    data = Samples(torch.from_numpy(logits), labels)
    data.group_partition = groups
    net = torch.nn.Linear(logits.shape[1], 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    training = SpareTrain(net, data, groups, inference.sampling_powers, len(labels), optimizer, 1)
    share = np.empty(len(labels))
    share[training.base_indices] = training.sampling_weights
    return {"share": share / share.sum()}


def groupdro(logits, labels, groups, count, step):
    loss = GroupWeightedLoss(
        torch.nn.CrossEntropyLoss(reduction="none"), num_groups=int(count), group_weight_lr=float(step)
    )
    totals, weights = [], []
    for z, y, g in zip(*map(torch.from_numpy, (logits, labels, groups)), strict=True):
        z.requires_grad_()
        total = loss(z, y, g)
        total.backward()
        totals.append(total.item())
        weights.append(loss.group_weights.numpy().copy())
    return {"totals": np.array(totals), "weights": np.array(weights)}


class Samples(Dataset):
    """Inputs and labels as spuco's trainers ask for them."""

    def __init__(self, inputs, labels):
        self.inputs, self.labels, self.num_classes = inputs, labels.tolist(), int(labels.max()) + 1

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.inputs[i], self.labels[i]


def lff(inputs, labels, biased, debiased, epochs, lr, workers=4, evaluator=None):
    """Linear nets from the given weights, every epoch one step on all samples: their order does not matter.

    `workers` is the number of loading processes; 4 is what they use, started anew in every epoch.
    """
    nets = [linear_net(weights) for weights in (biased, debiased)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=float(lr)) for net in nets]
    trainer = LFF(
        Samples(torch.from_numpy(inputs), labels), *nets, len(labels), *optimizers, int(epochs), val_evaluator=evaluator
    )
    if workers != 4:
        every = trainer.trainloader.dataset
        trainer.trainloader = DataLoader(every, len(labels), shuffle=True, num_workers=int(workers))
    trainer.train()
    return {"biased": weights_of(nets[0]), "debiased": weights_of(nets[1])}


def lff_with_validation(**arrays):
    class Evaluator:
        worst_group_accuracy, average_accuracy, accuracies = ((0, 0), 50.0), 50.0, {}

        def evaluate(self):
            pass

    return lff(**arrays, evaluator=Evaluator())


def confidence(probabilities, labels):
    return {"score": get_self_confidence_for_each_label(labels, probabilities)}


def normalised_margin(probabilities, labels):
    return {"score": get_normalized_margin_for_each_label(labels, probabilities)}


def area_under_margin(logits, labels):
    y, ids = torch.from_numpy(labels), list(range(len(labels)))
    with tempfile.TemporaryDirectory() as folder:
        calculator = AUMCalculator(folder)
        for epoch in torch.from_numpy(logits):
            records = calculator.update(epoch, y, ids)
    return {"score": np.array([records[i].aum for i in ids])}


TASKS = {
    task.__name__: task
    for task in (
        versions,
        eiil,
        jtt,
        george,
        george_whole,
        george_kmeans,
        spare,
        spare_shares,
        groupdro,
        lff,
        lff_with_validation,
        confidence,
        normalised_margin,
        area_under_margin,
    )
}

if __name__ == "__main__":
    serve(TASKS)
