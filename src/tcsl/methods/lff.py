"""LfF (Nam et al. 2020): a biased and a debiased model; what is hard for the first weighs more in the second."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from tcsl.config import Settings
from tcsl.methods.base import About, Method, Outcome
from tcsl.methods.options import Options, options_of
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

    The biased net has the mean generalised cross entropy. The debiased net's cross entropy is weighted by
    L_b / (L_b + L_d), moving averages of the two nets' cross entropies of a sample, each divided by its class's
    largest.

    Parameters
    ----------
    labels : (n,) of all samples
    averages : (2, n) the moving averages, biased then debiased, changed in place; they start at 0
    """

    def objective(logits: Tensor, batch: Batch) -> Losses:
        biased, debiased = logits[:, :classes], logits[:, classes:]
        hard = F.cross_entropy(debiased, batch.labels, reduction="none")
        with torch.no_grad():
            now = torch.stack([F.cross_entropy(biased, batch.labels, reduction="none"), hard])
            averages[:, batch.indices] = memory * averages[:, batch.indices] + (1 - memory) * now
            wide = labels.expand_as(averages)
            largest = averages.new_zeros(2, classes).scatter_reduce(1, wide, averages, "amax")
            share = averages[:, batch.indices] / largest[:, batch.labels].clamp_min(1e-8)
            weight = share[0] / (share[0] + share[1]).clamp_min(1e-8)
        easy = generalized_cross_entropy(biased, batch.labels, q)
        return Losses(hard, hard.detach(), easy.mean() + (weight * hard).mean())

    return objective


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "lff", LfFOptions)
    settings = options.training(job.settings.train)
    feed = job.feed

    device, classes = feed.labels.device, job.data.num_classes
    averages = torch.zeros(2, len(feed), device=device)
    net = train_model(
        job,
        "lff",
        feed,
        log_weights=torch.zeros(len(feed), device=device),
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
        differs="the gradient is the paper's, p^q; its published code multiplies it by q once more",
    ),
)
