"""CNC (Zhang et al. 2022): features of a class that an early model predicts differently are pulled together."""

from __future__ import annotations

import warnings
from functools import partial

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from tcsl.config import Settings
from tcsl.errors import TcslWarning
from tcsl.methods.base import About, Method, Outcome, check_last_layer
from tcsl.methods.first import few, mistakes
from tcsl.methods.groupdro import balanced_order
from tcsl.methods.options import Options, Preset, options_of
from tcsl.pipeline import Job, train_model
from tcsl.training.features import WithFeatures
from tcsl.training.loop import steps_of
from tcsl.training.objective import Batch, Losses, Objective


class CNCOptions(Options):
    """Options of CNC."""

    early: int | None = Field(None, ge=1, description="epochs of the first model; by default T // 10, at least 1")
    share: float = Field(0.75, ge=0, le=1, description="of the contrastive loss; the rest is the cross entropy's")
    temperature: float = Field(0.1, gt=0)


def contrast(features: Tensor, labels: Tensor, predicted: Tensor, temperature: float) -> Tensor:
    """Return the contrastive loss of a batch, the mean over its anchors; 0 where it has none.

    An anchor is predicted rightly by the first model. Its positives have its label and another prediction; its
    negatives have another label and its prediction. With s the cosine similarity over the temperature, its loss is the
    mean over positives p of -log(exp(s_p) / (sum over positives and negatives of exp(s))).

    Parameters
    ----------
    features : (batch, d)
    labels, predicted : (batch,) the first model's predictions

    >>> x = torch.eye(3)
    >>> round(contrast(x, torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), 1.0).item(), 4)  # log 2
    0.6931
    """
    unit = F.normalize(features.float(), dim=1)
    similarity = unit @ unit.T / temperature
    same, alike = labels[:, None] == labels, predicted[:, None] == predicted
    positive, negative = same & ~alike, ~same & alike
    anchor = (predicted == labels) & positive.any(1) & negative.any(1)
    either = (similarity.masked_fill(~(positive | negative), -torch.inf)).where(anchor[:, None], 0.0).logsumexp(1)
    mean = (similarity * positive).sum(1) / positive.sum(1).clamp_min(1)
    return ((either - mean) * anchor).sum() / anchor.sum().clamp_min(1)


def correct_and_contrast(predicted: Tensor, classes: int, *, share: float, temperature: float) -> Objective:
    """Return CNC's objective on logits and features: `share` of the contrast, the rest of the cross entropy."""

    def objective(outputs: Tensor, batch: Batch) -> Losses:
        logits, features = outputs[:, :classes], outputs[:, classes:]
        losses = F.cross_entropy(logits, batch.labels, reduction="none")
        pulled = contrast(features, batch.labels, predicted[batch.indices], temperature)
        return Losses(losses, losses.detach(), share * pulled + (1 - share) * losses.mean())

    return objective


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "cnc", CNCOptions)
    settings = options.training(job.settings.train)
    feed, classes = job.feed, job.data.num_classes
    predicted, wrong = mistakes(job, "cnc", few(settings, options.early), lacking="are no positives to pull together")
    _tell_right_classes(feed.labels, wrong, job.data.class_names)
    # Anchors, positives and negatives meet in a batch where right and wrong samples of every class are as frequent.
    cell = (2 * feed.labels + wrong).cpu()

    net = train_model(
        job,
        "cnc",
        feed,
        train=settings,
        final=True,
        around=partial(WithFeatures, feed=feed),
        objective=correct_and_contrast(predicted, classes, share=options.share, temperature=options.temperature),
        order=partial(balanced_order, cell, 2 * classes),
    )
    return Outcome(net)


def _tell_right_classes(labels: Tensor, wrong: Tensor, names: tuple[str, ...]) -> None:
    """Warn of classes that the first model gets all right: their anchors have no positives."""
    counts = torch.bincount(2 * labels + wrong, minlength=2 * len(names)).view(-1, 2)
    right = [name for name, (rights, wrongs) in zip(names, counts.tolist(), strict=True) if rights > 0 and wrongs == 0]
    if right:
        warnings.warn(
            f"CNC: the first model gets no sample of {', '.join(right)} wrong, so such a class has no positives, and "
            "nothing of it is pulled together",
            TcslWarning,
            stacklevel=2,
        )


def _stages(settings: Settings, n: int) -> dict[str, int]:
    options = options_of(settings, "cnc", CNCOptions)
    train = options.training(settings.train)
    return {"cnc-early": steps_of(n, few(train, options.early)), "cnc": steps_of(n, train)}


METHOD = Method(
    "CNC",
    "features of a class are pulled together across what an early model predicts",
    _run,
    _stages,
    options=CNCOptions,
    presets={
        "waterbirds": Preset(
            {"lr": 1e-4, "weight_decay": 1e-3, "share": 0.75, "temperature": 0.1},
            "own code; its epochs and batches are counted by anchors, and its first model's settings are not there",
        ),
        "cmnist": Preset(
            {"early": 5, "share": 0.75, "temperature": 0.05},
            "own code, for a small net on five classes of two digits each",
        ),
    },
    check=check_last_layer,
    about=About(
        idea=(
            "Samples of one class that an early model predicts differently should look alike to a robust one. They are "
            "pulled together, and pushed away from other classes that the early model predicts alike."
        ),
        formula="share * contrast(anchors, positives, negatives) + (1 - share) * cross entropy, cosine / temperature",
        reference="Zhang et al. 2022, Correct-N-Contrast",
        differs=(
            "anchors, positives and negatives are those that meet in a batch, drawn equally from label x (right or "
            "wrong early); its paper draws them around each anchor"
        ),
    ),
)
