"""EIIL (Creager et al. 2021): an early model splits the samples into two environments, then GroupDRO over them."""

from __future__ import annotations

import warnings

import torch
from pydantic import Field
from torch import Tensor

from tcsl.config import Settings
from tcsl.errors import InputError, TcslWarning
from tcsl.methods.base import About, Method, Outcome
from tcsl.methods.environments import infer_environments
from tcsl.methods.first import few, train_first
from tcsl.methods.groupdro import GroupDROOptions, train_group_dro
from tcsl.methods.options import URBANCARS, Preset, options_of
from tcsl.pipeline import Job
from tcsl.training.loop import steps_of


class EIILOptions(GroupDROOptions):
    """Options of EIIL."""

    reference: int | None = Field(
        None, ge=1, description="epochs of the reference model; by default T // 10, at least 1"
    )
    environment_steps: int = Field(10_000, ge=1, description="of Adam on the assignments")
    environment_lr: float = Field(1e-3, gt=0, description="of Adam on the assignments")


def environment_groups(labels: Tensor, environments: Tensor) -> tuple[Tensor, int]:
    """Return each sample's group (class, environment), numbered without gaps, and how many there are.

    A class that lies in one environment is one group.

    >>> environment_groups(torch.tensor([0, 0, 1, 1]), torch.tensor([1, 0, 1, 1]))
    (tensor([1, 0, 2, 2]), 3)
    """
    found, group = (2 * labels + environments).unique(return_inverse=True)
    return group, len(found)


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "eiil", EIILOptions)
    early = few(options.training(job.settings.train), options.reference)
    _, logits = train_first(job, "eiil-reference", early)
    labels = job.feed.labels.cpu()
    environments = infer_environments(
        logits,
        job.feed.labels,
        steps=options.environment_steps,
        lr=options.environment_lr,
        seed=job.settings.seed,
    ).cpu()
    sizes = torch.bincount(environments, minlength=2).tolist()
    if min(sizes) == 0:
        raise InputError(
            f"EIIL: after {early.epochs} epochs of the reference model all {len(labels)} training samples are in one "
            "environment, so there is nothing to be invariant to; use another number (method.eiil.reference), a lower "
            "learning rate (method.eiil.lr) or more weight decay (method.eiil.weight_decay)"
        )
    _tell_whole_classes(labels, environments, job.data.class_names)
    return train_group_dro(job, "eiil", *environment_groups(labels, environments), options)


def _tell_whole_classes(labels: Tensor, environments: Tensor, names: tuple[str, ...]) -> None:
    counts = torch.bincount(2 * labels + environments, minlength=2 * len(names)).view(-1, 2)
    whole = [name for name, (first, second) in zip(names, counts.tolist(), strict=True) if (first > 0) != (second > 0)]
    if whole:
        warnings.warn(
            f"EIIL: all samples of {', '.join(whole)} are in one environment; the class is one group",
            TcslWarning,
            stacklevel=2,
        )


def _stages(settings: Settings, n: int) -> dict[str, int]:
    options = options_of(settings, "eiil", EIILOptions)
    train = options.training(settings.train)
    return {"eiil-reference": steps_of(n, few(train, options.reference)), "eiil": steps_of(n, train)}


METHOD = Method(
    "EIIL",
    "an early model splits the samples into two environments; GroupDRO over class and environment",
    _run,
    _stages,
    options=EIILOptions,
    presets={
        "waterbirds": Preset({"reference": 1, "environment_steps": 10_000, "environment_lr": 1e-3}, "own paper"),
        "urbancars": Preset(
            {
                "epochs": 300,
                "batch_size": 128,
                "lr": 1e-3,
                "weight_decay": 1e-4,
                "step": 0.01,
                "reference": 1,
                "environment_steps": 10_000,
                "environment_lr": 1e-3,
            },
            URBANCARS,
        ),
    },
    about=About(
        idea=(
            "The two environments between which an early model is least invariant are those where its shortcut holds "
            "and where it fails. They stand for groups, in each class."
        ),
        formula="q maximises the IRMv1 penalty of a fixed model; GroupDRO over class x environment",
        reference="Creager et al. 2021, Environment Inference for Invariant Learning",
        differs=(
            "more than two classes by the softmax; the early model has a tenth of the epochs; the penalty is not "
            "divided by n^2, as its authors' is: there, by Adam's epsilon, samples that are fitted well stay where "
            "they were drawn, so that environments differ"
        ),
    ),
)
