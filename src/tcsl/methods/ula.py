"""ULA (Tsirigotis et al. 2023): a linear probe on self-supervised features stands for the shortcut."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from tcsl.augmentations import check_augment
from tcsl.config import Settings, TrainSettings
from tcsl.data.dataset import Dataset, make_dataset
from tcsl.embeddings import embed
from tcsl.errors import InputError
from tcsl.methods.base import About, Method, Outcome
from tcsl.methods.options import Options, options_of
from tcsl.pipeline import Job, train_model
from tcsl.scoring.early import a_tenth
from tcsl.training.features import WithFeatures
from tcsl.training.feed import Feed
from tcsl.training.loop import fit, steps_of
from tcsl.training.nets import build_net
from tcsl.training.objective import Batch, Losses, Objective, logit_correction
from tcsl.training.views import logits_of
from tcsl.types import FloatArray


class ULAOptions(Options):
    """Options of ULA."""

    tau: float = Field(1.0, ge=0, description="strength of the logit adjustment")
    pretraining: int | None = Field(None, ge=0, description="epochs of self-supervision; by default T // 2; 0: none")
    views: str = Field("crop+flip", description="augmentations of the two views of an image")
    probe: int | None = Field(None, ge=1, description="epochs of the linear probe; by default T // 10, at least 1")
    width: int = Field(128, ge=2, description="of the projection that the two views are compared in")
    redundancy: float = Field(0.005, ge=0, description="weight of the correlations between different features")


class Projected(nn.Module):
    """A net's features, through a small perceptron that is thrown away afterwards: (batch, width)."""

    def __init__(self, net: nn.Module, classes: int, width: int) -> None:
        """Take a net; it is trained in place."""
        super().__init__()
        self.features, self._classes = WithFeatures(net), classes
        inner = self.features.size
        self.head = nn.Sequential(nn.Linear(inner, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the projection of each input."""
        projected: Tensor = self.head(self.features(inputs)[:, self._classes :])
        return projected


def twins(redundancy: float) -> Objective:
    """Return the objective of Barlow Twins (Zbontar et al. 2021) on batches of two views of each sample, (2 b, width).

    With c the correlations, over the batch, of the features of one view with those of the other, it is
    sum_i (1 - c_ii)^2 + redundancy * sum of the other c_ij^2, divided by the width.

    >>> two = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]).repeat(2, 1)
    >>> batch = Batch(two, torch.zeros(8), torch.arange(8))
    >>> round(twins(0.5)(two, batch).total.item(), 4)  # the same in both views, and the two are uncorrelated
    0.0
    """

    def objective(projected: Tensor, batch: Batch) -> Losses:
        first, second = (
            (view - view.mean(0)) / view.std(0, correction=0).clamp_min(1e-4) for view in projected.chunk(2)
        )
        correlation = first.T @ second / len(first)
        own = correlation.diagonal()
        total = (1 - own).square().sum() + redundancy * (correlation.square().sum() - own.square().sum())
        none = projected.new_zeros(len(projected))
        return Losses(none, none, total / len(own))

    return objective


def paired_order(n: int, batch: int, draw: torch.Generator) -> Tensor:
    """Return an order of 2 n samples, of which i and i + n are one, so that both are in the same batch.

    >>> paired_order(4, 4, torch.Generator().manual_seed(0)).view(2, 2, 2).diff(dim=1).flatten().tolist()
    [4, 4, 4, 4]
    """
    parts = torch.randperm(n, generator=draw).split(batch // 2)
    return torch.cat([torch.cat([part, part + n]) for part in parts])


def log_prior(labels: Tensor, predicted: Tensor, classes: int) -> Tensor:
    """Return log P(y | the probe predicts b), (b, y), from the counts of the training set, one added to each.

    >>> log_prior(torch.tensor([0, 0, 1, 0]), torch.tensor([0, 0, 1, 1]), 2).exp().tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    counts = torch.bincount(predicted * classes + labels, minlength=classes**2).view(classes, classes) + 1.0
    return (counts / counts.sum(1, keepdim=True)).log()


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "ula", ULAOptions)
    settings = options.training(job.settings.train)
    feed, classes = job.feed, job.data.num_classes
    pretrained = _pretrained(job, options, settings)
    seen = embed(pretrained, feed) if feed.inputs.ndim == 4 else job.data.inputs.flatten(1).numpy()
    predicted = _probe(job, seen, options, settings).to(feed.labels.device)
    table = log_prior(feed.labels, predicted, classes)

    def from_pretrained(net: nn.Module) -> nn.Module:
        net.load_state_dict(pretrained.state_dict())
        return net

    net = train_model(
        job,
        "ula",
        feed,
        log_weights=torch.zeros(len(feed), device=feed.labels.device),
        train=settings,
        final=True,
        around=from_pretrained,
        objective=logit_correction(lambda batch: table[predicted[batch.indices]], options.tau),
    )
    return Outcome(net)


def _pretrained(job: Job, options: ULAOptions, settings: TrainSettings) -> nn.Module:
    """Return the net after self-supervision on the training images; rows have no views, so theirs is untrained."""
    feed, n = job.feed, len(job.feed)
    epochs = _pretraining(options, settings.epochs)
    if feed.inputs.ndim != 4 or epochs == 0:
        return feed.hardware.place(job.fresh_net("final")).eval()
    even = settings.batch_size + settings.batch_size % 2
    # The projection is normalised, so weight decay would shrink the net without end.
    given = {"augment": options.views, "epochs": epochs, "batch_size": even, "weight_decay": 0.0}
    views = settings.model_copy(update=given)
    twice = feed.subset(np.tile(np.arange(n), 2))

    def projected(net: nn.Module) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.settings.seed)
            return Projected(net, job.data.num_classes, options.width)

    return train_model(
        job,
        "ula-pretraining",
        twice,
        log_weights=torch.zeros(2 * n, device=feed.labels.device),
        train=views,
        around=projected,
        objective=twins(options.redundancy),
        order=partial(paired_order, n, even),
    )


def _probe(job: Job, seen: FloatArray, options: ULAOptions, settings: TrainSettings) -> Tensor:
    """Return what a linear probe on standardised features predicts, (n,)."""
    scaled = (seen - seen.mean(0)) / np.maximum(seen.std(0), 1e-6)
    data = make_dataset(torch.from_numpy(scaled.astype(np.float32)), job.data.labels, class_names=job.data.class_names)
    feed = Feed.of(data, job.feed.hardware)
    plain = settings.model_copy(update={"augment": "none", "epochs": options.probe or a_tenth(settings.epochs)})
    probe = fit(
        build_net("linear", data, seed=job.settings.seed),
        feed,
        plain,
        stage="ula-probe",
        steps=steps_of(len(feed), plain),
        seed=job.settings.seed,
        log_weights=torch.zeros(len(feed), device=feed.labels.device),
        report=job.report,
    )
    return logits_of(probe, feed).argmax(1)


def _pretraining(options: ULAOptions, epochs: int) -> int:
    return epochs // 2 if options.pretraining is None else options.pretraining


def _check(settings: Settings, train: Dataset, val: Dataset | None) -> None:
    views = options_of(settings, "ula", ULAOptions).views
    if check_augment(views) == "none":
        raise InputError("method.ula.views = 'none': the two views of an image must differ; use crop+flip")


def _stages(settings: Settings, n: int) -> dict[str, int]:
    options = options_of(settings, "ula", ULAOptions)
    train = options.training(settings.train)
    probe = options.probe or a_tenth(train.epochs)
    return {
        "ula-pretraining": steps_of(2 * n, train, _pretraining(options, train.epochs)),
        "ula-probe": steps_of(n, train, probe),
        "ula": steps_of(n, train),
    }


METHOD = Method(
    "ULA",
    "a linear probe on self-supervised features stands for the shortcut, and logits are adjusted by it",
    _run,
    _stages,
    options=ULAOptions,
    check=_check,
    about=About(
        idea=(
            "A net that has seen no label learns what is easy to see; what a linear probe on it predicts is taken for "
            "the shortcut. A second training adds the log-probability of the label given that prediction to its logits."
        ),
        formula="minimised is the cross entropy of f(x) + tau log P(y | b(x)), b the probe's prediction",
        reference="Tsirigotis et al. 2023, Group Robust Classification Without Any Group Information",
        differs=(
            "self-supervision is Barlow Twins; P(y | b) is counted on the training set once, where theirs is a moving "
            "average over batches; rows, which have no views, are probed as they are"
        ),
    ),
)
