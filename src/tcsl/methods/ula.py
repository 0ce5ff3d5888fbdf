"""ULA (Tsirigotis et al. 2023): a linear probe on self-supervised features stands for the shortcut."""

from __future__ import annotations

from functools import partial
from itertools import chain

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from tcsl.augmentations import check_augment
from tcsl.config import Settings, TrainSettings
from tcsl.data.dataset import make_dataset
from tcsl.embeddings import embed
from tcsl.errors import InputError
from tcsl.methods.base import About, Method, Outcome, check_features, check_last_layer
from tcsl.methods.first import few
from tcsl.methods.options import Options, Preset, options_of
from tcsl.pipeline import Job, train_model
from tcsl.training.device import drawing_from
from tcsl.training.features import WithFeatures
from tcsl.training.feed import Feed, batch_sizes
from tcsl.training.loop import fit, steps_of
from tcsl.training.nets import build_net
from tcsl.training.objective import Batch, Losses, Objective, logit_correction
from tcsl.training.views import logits_of
from tcsl.types import FloatArray

_PRETRAINING = "ula-pretraining"  # the stage
_FLOOR = 1e-6  # of P(y | b), whose logarithm would else be infinite for a short memory


class ULAOptions(Options):
    """Options of ULA."""

    tau: float = Field(1.0, ge=0, description="strength of the logit adjustment")
    memory: float = Field(0.999, ge=0, lt=1, description="of the moving average of P(y, b), a batch")
    pretraining: int | None = Field(None, ge=0, description="epochs of self-supervision; by default T // 2; 0: none")
    pretraining_lr: float | None = Field(None, gt=0, description="learning rate of self-supervision; by default lr")
    views: str = Field("crop+flip", description="augmentations of the two views of an image")
    probe: int | None = Field(None, ge=1, description="epochs of the linear probe; by default T // 10, at least 1")
    width: int = Field(128, ge=2, description="of the projection that the two views are compared in")
    redundancy: float = Field(0.005, ge=0, description="weight of the correlations between different features")


class Projected(nn.Module):
    """A net's features, through a small perceptron that is thrown away afterwards: (batch, width).

    In evaluation mode it is the net alone.
    """

    def __init__(self, features: WithFeatures, classes: int, width: int) -> None:
        """Take a net with its features; it is trained in place."""
        super().__init__()
        self.features, self._classes = features, classes
        inner = self.features.size
        self.head = nn.Sequential(nn.Linear(inner, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the projection of each input; in evaluation mode, the net's logits."""
        outputs: Tensor = self.features(inputs)
        return self.head(outputs[:, self._classes :]) if self.training else outputs


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
    """Return an order of 2 n samples, of which i and i + n are one: each batch has first views, then the second ones.

    >>> paired_order(4, 4, torch.Generator().manual_seed(0)).view(2, 2, 2).diff(dim=1).flatten().tolist()
    [4, 4, 4, 4]
    """
    halves = [size // 2 for size in batch_sizes(2 * n, batch)]
    parts = torch.randperm(n, generator=draw).split(halves)
    return torch.cat([torch.cat([part, part + n]) for part in parts])


def paired_batch(n: int, batch: int) -> int:
    """Return the largest batch, of at most `batch`, by which an epoch of 2 n samples has even batches only.

    Of one pair there is no correlation: a batch has at least two, if need be more than asked for.

    >>> paired_batch(48, 32), paired_batch(49, 32)  # 98 would be 32, 32, 17 and 17; now 30, 30, 30 and 8
    (32, 30)
    >>> batch_sizes(82, paired_batch(41, 4))
    [6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 4]
    """
    sizes = chain(range(batch - batch % 2, 3, -2), range(max(4, batch + batch % 2), 2 * n, 2))
    return next((size for size in sizes if not any(one % 2 for one in batch_sizes(2 * n, size))), 2 * n)


def logit_adjustment(joint: Tensor, proxy: Tensor, *, tau: float, memory: float) -> Objective:
    """Return ULA's objective: the cross entropy of f(x) + tau log P(y | b), b what the probe predicts of x.

    P is a moving average over batches of how likely the probe takes each b where the label is y.

    Parameters
    ----------
    joint : (classes, classes) that average, b by y, changed in place; it starts as `uniform_joint`
    proxy : (n, classes) the probe's probabilities for all samples

    >>> joint, proxy = uniform_joint(2), torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    >>> batch = Batch(torch.zeros(2, 1), torch.tensor([0, 1]), torch.tensor([0, 1]))
    >>> losses = logit_adjustment(joint, proxy, tau=1.0, memory=0.5)(torch.zeros(2, 2), batch)
    >>> joint, losses.minimised.neg().exp()  # 0.375 / (0.375 + 0.25), and 1 minus it
    (tensor([[0.3750, 0.2500],
            [0.1250, 0.2500]]), tensor([0.6000, 0.4000]))
    """

    def log_prior(batch: Batch) -> Tensor:
        biased = proxy[batch.indices]
        # A product and not index_add, whose sums on CUDA depend on which thread comes first.
        now = biased.T @ F.one_hot(batch.labels, proxy.shape[1]).to(biased.dtype) / len(biased)
        joint.mul_(memory).add_(now, alpha=1 - memory)
        return (joint / joint.sum(1, keepdim=True)).clamp_min(_FLOOR).log()[biased.argmax(1)]

    return logit_correction(log_prior, tau)


def uniform_joint(classes: int) -> Tensor:
    """Return (classes, classes) equal probabilities: where the average starts, so that the adjustment grows from none.

    >>> uniform_joint(2).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    return torch.full((classes, classes), classes**-2.0)


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "ula", ULAOptions)
    settings = options.training(job.settings.train)
    feed, classes = job.feed, job.data.num_classes
    pretrained = _pretrained(job, options, settings)
    seen = embed(pretrained, feed) if feed.inputs.ndim == 4 else job.data.inputs.flatten(1).numpy()
    proxy = _probe(job, seen, options, settings).to(feed.labels.device)
    joint = uniform_joint(classes).to(feed.labels.device)

    def from_pretrained(net: nn.Module) -> nn.Module:
        net.load_state_dict(pretrained.state_dict())
        return net

    net = train_model(
        job,
        "ula",
        feed,
        train=settings,
        final=True,
        around=from_pretrained,
        objective=logit_adjustment(joint, proxy, tau=options.tau, memory=options.memory),
        state={"joint": joint},
    )
    return Outcome(net)


def _pretrained(job: Job, options: ULAOptions, settings: TrainSettings) -> nn.Module:
    """Return the net after self-supervision on the training images; rows have no views, so theirs is untrained."""
    feed, n = job.feed, len(job.feed)
    epochs = _pretraining(options, settings.epochs)
    if feed.inputs.ndim != 4 or epochs == 0:
        return feed.hardware.place(job.fresh_net("final")).eval()
    batch = paired_batch(n, settings.batch_size)
    # The projection is normalised, so weight decay would shrink the net without end.
    given = {"augment": options.views, "epochs": epochs, "batch_size": batch, "weight_decay": 0.0}
    if options.pretraining_lr is not None:
        given["lr"] = options.pretraining_lr
    views = settings.model_copy(update=given)
    twice = feed.subset(np.tile(np.arange(n), 2))

    def projected(net: nn.Module) -> nn.Module:
        with drawing_from(job.settings.seed):
            return Projected(WithFeatures(net, feed), job.data.num_classes, options.width)

    return train_model(
        job,
        _PRETRAINING,
        twice,
        train=views,
        around=projected,
        objective=twins(options.redundancy),
        order=partial(paired_order, n, batch),
    )


def _probe(job: Job, seen: FloatArray, options: ULAOptions, settings: TrainSettings) -> Tensor:
    """Return the probabilities of a linear probe on standardised features, (n, classes)."""
    scaled = (seen - seen.mean(0)) / np.maximum(seen.std(0), 1e-6)
    data = make_dataset(torch.from_numpy(scaled.astype(np.float32)), job.data.labels, class_names=job.data.class_names)
    feed = Feed.of(data, job.feed.hardware)
    plain = few(settings, options.probe).model_copy(update={"augment": "none"})
    probe = fit(
        build_net("linear", data, seed=job.settings.seed),
        feed,
        plain,
        stage="ula-probe",
        steps=steps_of(len(feed), plain),
        seed=job.settings.seed,
        report=job.report,
    )
    return logits_of(probe, feed).softmax(1)


def _pretraining(options: ULAOptions, epochs: int) -> int:
    return epochs // 2 if options.pretraining is None else options.pretraining


def _check(job: Job, net: nn.Module) -> None:
    options = options_of(job.settings, "ula", ULAOptions)
    if check_augment(options.views) == "none":
        raise InputError("method.ula.views = 'none': the two views of an image must differ; use crop+flip")
    if job.feed.inputs.ndim == 4:
        pretrained = _pretraining(options, options.training(job.settings.train).epochs) > 0
        (check_last_layer if pretrained else check_features)(job, net)


def _stages(settings: Settings, n: int) -> dict[str, int]:
    options = options_of(settings, "ula", ULAOptions)
    train = options.training(settings.train)
    pairs = train.model_copy(update={"batch_size": paired_batch(n, train.batch_size)})
    return {
        _PRETRAINING: steps_of(2 * n, pairs, _pretraining(options, train.epochs)),
        "ula-probe": steps_of(n, few(train, options.probe)),
        "ula": steps_of(n, train),
    }


METHOD = Method(
    "ULA",
    "a linear probe on self-supervised features stands for the shortcut, and logits are adjusted by it",
    _run,
    _stages,
    images_only=(_PRETRAINING,),
    options=ULAOptions,
    presets={
        "waterbirds": Preset(
            {
                "epochs": 200,
                "batch_size": 64,
                "lr": 1e-4,
                "weight_decay": 0.0,
                "tau": 1.0,
                "memory": 0.999,
                "pretraining": 100,
                "probe": 50,
                "views": "resized_crop+flip+jitter",
            },
            "own code, whose script has one learning rate and penalty for all datasets",
        ),
        "cmnist": Preset(
            {"tau": 1.0, "memory": 0.999, "pretraining": 100, "probe": 10, "views": "crop"},
            "own code, for a perceptron and AdamW; digits are not mirrored",
        ),
    },
    check=_check,
    about=About(
        idea=(
            "A net that has seen no label learns what is easy to see; what a linear probe on it predicts is taken for "
            "the shortcut. A second training adds the log-probability of the label given that prediction to its logits."
        ),
        formula="minimised is the cross entropy of f(x) + tau log P(y | b(x)), b the probe's prediction",
        reference="Tsirigotis et al. 2023, Group Robust Classification Without Any Group Information",
        differs=(
            "self-supervision is Barlow Twins, theirs MoCo; the average of P(y, b) starts uniform, theirs as the first "
            "batch's; one learning rate serves self-supervision, unless pretraining_lr is given, the probe and the "
            "final training; the probe sees standardised features; rows, which have no views, are probed as they are; "
            "the authors choose an epoch by accuracy balanced over (label, the probe's prediction), "
            "`train.model_selection` = balanced_by_bias has our biased model in the probe's place"
        ),
    ),
)
