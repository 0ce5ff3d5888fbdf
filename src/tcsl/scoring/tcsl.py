"""Algorithm 1: the biased model, the core model, and the two scores they leave behind."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tcsl.config import Settings, TrainSettings
from tcsl.scoring.separation import separation
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.engine import engine_of, forward_of
from tcsl.training.feed import Feed, batch_sizes
from tcsl.training.loop import Report, fit, steps_of
from tcsl.training.objective import Batch, biased_by, cross_entropy, logit_correction
from tcsl.training.recording import LossCurves, LossSum
from tcsl.training.views import evaluate_batches
from tcsl.training.weights import class_balanced, class_update, literal_update


def train_biased(
    net: nn.Module,
    feed: Feed,
    settings: Settings,
    *,
    seed: int,
    stage: str = "biased",
    gce: float = 0.0,
    checkpoint: Checkpoint | None = None,
    report: Report | None = None,
) -> Tensor:
    """Stage 1: train `net` in place into the biased model f_s and return its loss curves, (n, T_s).

    After each epoch the samples of lowest loss gain weight, so that what is learned first, the shortcut, is learned
    alone. With `gce`, the q of a generalised cross entropy, the loss itself does that, and weights stay as they were:
    the biased model of the ablation. `stage` names the training in reports, and its order.
    """
    classes = feed.data.num_classes
    epochs = settings.biased_epochs_on(len(feed))
    log_weights = class_balanced(feed.labels, classes)
    curves = LossCurves(len(feed), epochs, feed.hardware.device)

    def reweight(epoch: int) -> None:
        if gce:
            return
        losses = curves.table[epoch]
        if settings.score.weight_update == "literal":
            log_weights.copy_(literal_update(losses))
        elif settings.score.weight_update == "class":
            log_weights.copy_(class_update(losses, feed.labels, classes))

    fit(
        net,
        feed,
        settings.train,
        stage=stage,
        steps=steps_of(len(feed), settings.train, epochs),
        seed=seed,
        log_weights=log_weights,
        objective=biased_by(gce) if gce else cross_entropy,
        recorder=curves,
        record=settings.score.record,
        separation=lambda epoch: separation(curves.table[epoch]),
        after_epoch=reweight,
        checkpoint=checkpoint,
        report=report,
    )
    return curves.curves()


def train_core(
    net: nn.Module,
    biased: nn.Module,
    feed: Feed,
    settings: Settings,
    *,
    seed: int,
    stage: str = "core",
    checkpoint: Checkpoint | None = None,
    report: Report | None = None,
    watch: Callable[[int, Tensor], None] | None = None,
) -> Tensor:
    """Stage 2: train `net` in place into the core model f_c and return TCSL_c, (n,).

    Weights start afresh from 1 / n_y. What is minimised is corrected by the frozen biased model (equation 2); what is
    recorded is the loss of f_c's own logits. `watch` is called after each epoch (1, 2, ...) with TCSL_c so far.
    """
    epochs = settings.core_epochs
    steps = steps_of(len(feed), settings.train, epochs)
    total = LossSum(len(feed), feed.hardware.device)
    fit(
        net,
        feed,
        settings.train,
        stage=stage,
        steps=steps,
        seed=seed,
        log_weights=class_balanced(feed.labels, feed.data.num_classes),
        objective=logit_correction(log_biased(biased, feed, settings.train, steps=steps), settings.score.correction),
        recorder=total,
        record=settings.score.record,
        after_epoch=None if watch is None else lambda epoch: watch(epoch + 1, total.mean(epoch + 1)),
        checkpoint=checkpoint,
        report=report,
    )
    return total.mean(epochs)


def log_biased(biased: nn.Module, feed: Feed, settings: TrainSettings, *, steps: int) -> Callable[[Batch], Tensor]:
    """Return the frozen biased model's log-probabilities as a function of the batch, (batch, classes), in log space.

    Where inputs repeat in every epoch they are computed once, n x classes floats; else on each batch's own inputs.
    """
    hardware = feed.hardware
    frozen = hardware.place(biased).eval()
    if settings.augment == "none":
        table = torch.empty(len(feed), feed.data.num_classes, device=hardware.device)
        for batch, logits in evaluate_batches(frozen, feed):
            table[batch.indices] = logits.log_softmax(1)
        return lambda batch: table[batch.indices]

    size = batch_sizes(len(feed), settings.batch_size)[0]
    forward = forward_of(frozen, hardware, engine_of(frozen, feed, steps), size=size)

    def on_own_inputs(batch: Batch) -> Tensor:
        with torch.no_grad():
            return forward(batch.inputs).log_softmax(1)

    return on_own_inputs
