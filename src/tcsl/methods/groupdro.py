"""GroupDRO (Sagawa et al. 2020): the worst group's loss, by weights on the groups that follow their losses."""

from __future__ import annotations

from functools import partial

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from tcsl.config import Settings
from tcsl.methods.base import About, Method, Outcome, check_every_group
from tcsl.methods.options import URBANCARS, Options, Preset, options_of
from tcsl.pipeline import Job, train_model
from tcsl.training.loop import steps_of
from tcsl.training.objective import Batch, Losses, Objective


class GroupDROOptions(Options):
    """Options of GroupDRO."""

    step: float = Field(0.01, gt=0, description="eta, of the groups' weights")
    adjustment: float = Field(0.0, ge=0, description="C: C / sqrt(n_g) is added to a group's loss")
    balanced: bool = Field(True, description="draw groups equally often in every epoch")


def group_dro(group: Tensor, weights: Tensor, *, step: float, adjustment: float = 0.0) -> Objective:
    """Return GroupDRO's objective: sum over groups of q_g times the mean loss of g in the batch.

    Before that, q_g is multiplied by exp(step * loss_g) and normalised; a group that the batch lacks has loss 0, and
    like all of them the adjustment, as in the authors' code.

    Parameters
    ----------
    group : (n,) the group of each sample, on the device
    weights : (groups,) q, changed in place; it starts as 1 / groups
    adjustment : C of the generalisation adjustment C / sqrt(n_g)

    >>> q = torch.full((2,), 0.5)
    >>> objective = group_dro(torch.tensor([0, 1]), q, step=1.0)
    >>> batch = Batch(torch.zeros(2, 1), torch.tensor([0, 0]), torch.tensor([0, 1]))
    >>> total = objective(torch.tensor([[0.0, 0.0], [0.0, 2.0]]), batch).total  # losses 0.6931 and 2.1269
    >>> [round(value, 4) for value in (*q.tolist(), total.item())]
    [0.1925, 0.8075, 1.8509]
    """
    counts = torch.bincount(group, minlength=len(weights)).clamp_min(1)
    more = adjustment / counts.sqrt()

    def objective(logits: Tensor, batch: Batch) -> Losses:
        losses = F.cross_entropy(logits, batch.labels, reduction="none")
        # A product and not index_add, whose sums on CUDA depend on which thread comes first.
        member = F.one_hot(group[batch.indices], len(weights)).to(losses.dtype)
        size = member.sum(0)
        mean = (losses @ member) / size.clamp_min(1) + more
        with torch.no_grad():
            weights.mul_((step * mean.detach()).exp())
            weights.div_(weights.sum())
        return Losses(losses, losses.detach(), (weights * mean).sum())

    return objective


def balanced_order(group: Tensor, groups: int, draw: torch.Generator) -> Tensor:
    """Return n samples, drawn with repeats so that every group is as likely."""
    share = 1 / torch.bincount(group, minlength=groups).clamp_min(1).double()
    return torch.multinomial(share[group], len(group), replacement=True, generator=draw)


def train_group_dro(job: Job, stage: str, group: Tensor, groups: int, options: GroupDROOptions) -> Outcome:
    """Train a final model by GroupDRO over any groups (n,), given on the host."""
    device = job.feed.labels.device
    weights = torch.full((groups,), 1 / groups, device=device)
    net = train_model(
        job,
        stage,
        job.feed,
        train=options.training(job.settings.train),
        final=True,
        objective=group_dro(group.to(device), weights, step=options.step, adjustment=options.adjustment),
        order=partial(balanced_order, group, groups) if options.balanced else None,
        state={"group_weights": weights},
    )
    return Outcome(net)


def _run(job: Job) -> Outcome:
    groups = job.data.groups
    assert groups is not None  # check_needs saw to it
    options = options_of(job.settings, "groupdro", GroupDROOptions)
    return train_group_dro(job, "groupdro", torch.from_numpy(groups.group), len(groups.names), options)


def _stages(settings: Settings, n: int) -> dict[str, int]:
    return {"groupdro": steps_of(n, options_of(settings, "groupdro", GroupDROOptions).training(settings.train))}


METHOD = Method(
    "GroupDRO",
    "training on the groups' losses, the worst weighted most; told the groups",
    _run,
    _stages,
    needs=("train groups",),
    check=check_every_group,
    options=GroupDROOptions,
    presets={
        "waterbirds": Preset(
            {"epochs": 300, "batch_size": 128, "lr": 1e-5, "weight_decay": 1.0, "step": 0.01, "adjustment": 2.0},
            "own paper: the strong penalty with adjusted groups, as other code repeats it",
        ),
        "urbancars": Preset(
            {"epochs": 300, "batch_size": 128, "lr": 1e-3, "weight_decay": 1e-4, "step": 0.01, "adjustment": 0.0},
            URBANCARS,
        ),
    },
    about=About(
        idea=(
            "The loss of the worst group is minimised, by weights on the groups that grow with their losses. The "
            "groups must be known."
        ),
        formula="q_g <- q_g exp(eta loss_g), normalised; minimised is sum_g q_g loss_g",
        reference="Sagawa et al. 2020, Distributionally Robust Neural Networks for Group Shifts",
    ),
)
