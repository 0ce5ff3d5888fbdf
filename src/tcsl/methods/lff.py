"""LfF (Nam et al. 2020): a biased and a debiased model; what is hard for the first weighs more in the second."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from tcsl.config import Settings
from tcsl.methods.base import About, Method, Outcome
from tcsl.methods.options import URBANCARS, Options, Preset, options_of
from tcsl.pipeline import Job, train_model
from tcsl.training.loop import steps_of
from tcsl.training.objective import Batch, Losses, Objective, generalized_cross_entropy
from tcsl.training.pair import Pair


class LfFOptions(Options):
    """Options of LfF."""

    q: float = Field(0.7, gt=0, le=1, description="of the biased model's generalised cross entropy")
    memory: float = Field(0.7, ge=0, lt=1, description="of the moving averages of both losses")


def learning_from_failure(labels: Tensor, averages: Tensor, classes: int, *, q: float, memory: float) -> Objective:
    """Return LfF's objective on a pair's logits.

    The biased net has the mean generalised cross entropy, the debiased net the mean of its cross entropy times the
    sample's `relative_difficulty`.

    Parameters
    ----------
    labels : (n,) of all samples
    averages : (2, n) moving averages of both nets' cross entropies, biased then debiased, changed in place; 0 where a
        sample was not visited yet
    """

    def objective(logits: Tensor, batch: Batch) -> Losses:
        biased, debiased = logits[:, :classes], logits[:, classes:]
        hard = F.cross_entropy(debiased, batch.labels, reduction="none")
        with torch.no_grad():
            now = torch.stack([F.cross_entropy(biased, batch.labels, reduction="none"), hard])
            before = averages[:, batch.indices]
            averages[:, batch.indices] = torch.where(before > 0, memory * before + (1 - memory) * now, now)
            weight = relative_difficulty(averages, labels, classes, at=batch.indices)
        easy = generalized_cross_entropy(biased, batch.labels, q)
        return Losses(hard, hard.detach(), easy.mean() + (weight * hard).mean())

    return objective


def relative_difficulty(averages: Tensor, labels: Tensor, classes: int, at: Tensor | slice = slice(None)) -> Tensor:
    """Return L_b / (L_b + L_d) of each sample, or of those `at` indices; losses are divided by their class's largest.

    Parameters
    ----------
    averages : (2, n) losses of the biased and the debiased net
    labels : (n,)
    at : (batch,), by default all n

    >>> losses = torch.tensor([[1.0, 4.0, 3.0], [2.0, 2.0, 1.0]])
    >>> relative_difficulty(losses, torch.tensor([0, 0, 1]), 2)
    tensor([0.2000, 0.5000, 0.5000])
    """
    largest = averages.new_zeros(2, classes).scatter_reduce(1, labels.expand_as(averages), averages, "amax")
    share = averages[:, at] / largest[:, labels[at]].clamp_min(1e-8)
    return share[0] / share.sum(0).clamp_min(1e-8)


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "lff", LfFOptions)
    settings = options.training(job.settings.train)
    feed, classes = job.feed, job.data.num_classes
    averages = torch.zeros(2, len(feed), device=feed.labels.device)
    net = train_model(
        job,
        "lff",
        feed,
        train=settings,
        final=True,
        around=lambda net: Pair(job.fresh_net("lff-biased"), net),
        objective=learning_from_failure(feed.labels, averages, classes, q=options.q, memory=options.memory),
        state={"averages": averages},
    )
    return Outcome(net)


def _stages(settings: Settings, n: int) -> dict[str, int]:
    return {"lff": steps_of(n, options_of(settings, "lff", LfFOptions).training(settings.train))}


METHOD = Method(
    "LfF",
    "a biased and a debiased model; what is hard for the first weighs in the second",
    _run,
    _stages,
    options=LfFOptions,
    presets={
        "cmnist": Preset({"q": 0.7, "memory": 0.7}, "own code, for a perceptron and Adam"),
        "urbancars": Preset(
            {"epochs": 300, "batch_size": 128, "lr": 1e-3, "weight_decay": 1e-4, "q": 0.7, "memory": 0.7}, URBANCARS
        ),
    },
    about=About(
        idea=(
            "A biased model is trained with a loss that favours what is easy. A second one, beside it, weighs samples"
            " by how much harder they are for the first."
        ),
        formula=(
            "weight = L_b / (L_b + L_d), moving averages of both losses, each divided by its class's largest; f_b has"
            " (1 - p^q) / q"
        ),
        reference="Nam et al. 2020, Learning from Failure",
        differs=(
            "steps are SGD's, which grow short with the weights, theirs Adam's; the gradient of f_b is the paper's, "
            "p^q, which its published code multiplies by q once more"
        ),
    ),
)
