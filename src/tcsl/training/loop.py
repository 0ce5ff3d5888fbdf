"""The one training loop: ERM, both stages of Algorithm 1 and every baseline.

It owns devices, precision, feeding, recording, checkpoints and reporting. A method brings only what differs: how the
per-sample loss is formed (`objective`), how samples are weighted (`log_weights`), and what happens between epochs
(`after_epoch`). Inside an epoch nothing is copied to the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tcsl.config import TrainSettings
from tcsl.errors import InputError, NonFiniteLoss
from tcsl.seeds import derive
from tcsl.training.augment import augment, check_inputs, draw_keys
from tcsl.training.best import Watch
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.device import Hardware, all_finite, kept_state, peak_memory, reset_peak_memory, seed_numbers
from tcsl.training.engine import Captured, draws_numbers, engine_of, forward_of, own_stream
from tcsl.training.feed import Feed, Order, batch_sizes
from tcsl.training.objective import Batch, Measure, Objective, cross_entropy
from tcsl.training.recording import Recorder
from tcsl.training.turns import pass_on
from tcsl.training.views import evaluate_batches, view_logits
from tcsl.training.weights import batch_weights


@dataclass(frozen=True)
class Epoch:
    """What is reported after each epoch."""

    stage: str
    epoch: int  # 1, 2, ...
    epochs: int
    step: int
    steps: int
    loss: float  # weighted mean of what was minimised
    seconds: float
    views: dict[str, Any] = field(default_factory=dict)
    judged: float | None = None  # by what chooses the epoch (train.model_selection), where it looked
    separation: float | None = None  # of the two clusters of losses (scoring/separation.py), in stage 1
    memory: int | None = None  # peak bytes: of the stage on a CUDA device, else of the process so far


Report = Callable[[Epoch], None]


def steps_of(n: int, settings: TrainSettings, epochs: int | None = None) -> int:
    """Return the optimizer steps of training on n samples: T ceil(n / batch).

    >>> steps_of(10, TrainSettings(epochs=3, batch_size=4))
    9
    """
    return (settings.epochs if epochs is None else epochs) * settings.steps_an_epoch(n)


def fit(
    net: nn.Module,
    feed: Feed,
    settings: TrainSettings,
    *,
    stage: str,
    steps: int,
    seed: int,
    log_weights: Tensor | None = None,
    objective: Objective = cross_entropy,
    recorder: Recorder | None = None,
    measure: Measure | None = None,
    record: Literal["training", "evaluation"] = "training",
    separation: Callable[[int], Tensor] | None = None,
    after_epoch: Callable[[int], None] | None = None,
    order: Order | None = None,
    state: Mapping[str, Tensor] | None = None,
    lr_scales: Mapping[str, float] | None = None,
    takes_batch: bool = False,
    best: Watch | None = None,
    checkpoint: Checkpoint | None = None,
    report: Report | None = None,
) -> nn.Module:
    """Train `net` in place for exactly `steps` steps of SGD and return it, in evaluation mode.

    Parameters
    ----------
    feed : the samples
    stage : a name for messages and reports
    log_weights : (n,) logarithms of the sample weights, on the device; `after_epoch` may change them in place; by
        default equal
    objective : from logits and batch to per-sample losses
    recorder : where each sample's loss, or its measure, goes, once an epoch
    measure : from logits and batch to what is recorded, such as `margin`; by default the objective's recorded loss
    record : from the training step itself, or from a pass in evaluation mode after the epoch
    separation : from the epoch (0, 1, ...), when all is recorded, to a number on the device that is reported with it
    after_epoch : called with the epoch (0, 1, ...) after each whole epoch
    order : from the epoch's generator to the samples that it visits, (n,) indices; by default a permutation
    state : what the objective keeps between steps, changed in place; saved with every checkpoint
    lr_scales : what the learning rate of a submodule of the net is multiplied by, for each named
    takes_batch : in training the net is called with inputs, labels and indices, not with inputs alone
    best : looks at the net between epochs and keeps weights of it; the net itself is left as the last step did
    checkpoint : state is saved here after each epoch, and found again
    """
    hardware = feed.hardware
    check_inputs(settings.augment, feed.inputs)
    reset_peak_memory(hardware.device)
    net = hardware.place(net)
    optimizer = torch.optim.SGD(
        rates(net, settings.lr, lr_scales) if lr_scales else net.parameters(),
        lr=settings.lr,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        fused=hardware.device.type in ("cuda", "cpu"),
    )
    if log_weights is None:
        log_weights = torch.zeros(len(feed), device=hardware.device)
    tables = {"log_weights": log_weights, **(state or {}), **(best.tables if best else {})}
    if recorder is not None:
        tables["recorded"] = recorder.table
    step = checkpoint.restore(net, optimizer, tables) if checkpoint else 0
    sizes = batch_sizes(len(feed), settings.batch_size)
    norms = [module for module in net.modules() if isinstance(module, _BatchNorm)]
    statistics = [table for norm in norms for table in (norm.running_mean, norm.running_var) if table is not None]
    if min(sizes) == 1 and norms:
        alone = len(feed) == 1
        cure = "it is trained on one sample: use a larger select.ratio" if alone else "use a larger train.batch_size"
        raise InputError(f"a batch of stage {stage!r} has one sample, and BatchNorm needs two: {cure}")
    epochs = -(-steps // len(sizes))
    engine = engine_of(net, feed, steps)
    forward = forward_of(net, hardware, engine, size=sizes[0])
    clock = torch.zeros((), dtype=torch.int64, device=hardware.device)  # the epoch, where captured steps read it
    total = torch.zeros((), device=hardware.device)
    # An order may draw a sample several times in an epoch; each draw is augmented by a key of its own.
    keys = torch.zeros(len(feed), dtype=torch.int64, device=hardware.device) if order is not None else None
    drawn = torch.zeros_like(clock)  # how many the epoch has drawn before this step

    def train_step(batch: Batch) -> None:
        index = batch.indices
        if settings.augment != "none":
            key = index if keys is None else keys[drawn + torch.arange(len(index), device=hardware.device)]
            batch = batch._replace(inputs=augment(settings.augment, batch.inputs, key, seed=seed, epoch=clock))
            drawn.add_(len(index))
        logits = forward(*batch) if takes_batch else forward(batch.inputs)
        losses = objective(logits, batch)
        loss = losses.total
        if loss is None:
            loss = (batch_weights(log_weights[index]) * losses.minimised).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())
        if recorder is not None and record == "training":
            values = losses.recorded.detach() if measure is None else measure(logits.detach(), batch)
            recorder.record(clock, index, values)

    # Nets that draw random numbers share one generator, seeded anew each epoch: they pass on between epochs only.
    interleaved = not draws_numbers(net)
    captured = None if engine == "plain" else Captured(train_step, feed, stage=stage)

    def run_steps(visited: Tensor, sizes: list[int]) -> None:
        if captured is None:
            for batch in feed.batches(visited, sizes):
                train_step(batch)
                if interleaved:
                    pass_on()
        else:
            for index in visited[: sum(sizes)].to(hardware.device).split(sizes):
                captured(index)
                if interleaved:
                    pass_on()

    # A checkpoint is taken after an epoch, the last of which may be cut short.
    with own_stream(hardware.device), kept_state(hardware.device):
        for epoch in range(-(-step // len(sizes)), epochs):
            started = time.perf_counter()
            stream = derive(seed, stage, epoch)
            draw = torch.Generator().manual_seed(stream)
            visited = torch.randperm(len(feed), generator=draw) if order is None else order(draw)
            batches = sizes[: steps - step]
            clock.fill_(epoch)
            total.zero_()
            drawn.zero_()
            if keys is not None:
                keys.copy_(draw_keys(visited))
            net.train()
            seed_numbers(stream, hardware.device)  # for nets that draw random numbers
            run_steps(visited, batches)
            pass_on()
            step += len(batches)
            whole = len(batches) == len(sizes)
            if recorder is not None and record == "evaluation" and whole:
                for batch, logits in evaluate_batches(net, feed):
                    values = cross_entropy(logits, batch).recorded if measure is None else measure(logits, batch)
                    recorder.record(clock, batch.indices, values)
            numbers = [total, separation(epoch)] if separation is not None and whole else [total]
            summed, *apart = torch.stack(numbers).tolist()  # the one read of what is reported; it waits for the device
            mean_loss = summed / len(batches)
            last = epoch + 1 == epochs
            saving = checkpoint is not None and (last or checkpoint.due())
            checked = [total, *([recorder.table] if recorder else [])]
            if saving or last:  # of an epoch that is not saved, the next one's losses tell
                checked += [*net.parameters(), *statistics]
            if last:
                checked.append(_last_logits(net, feed, visited[: batches[0]]))
            if not all_finite(checked):
                raise NonFiniteLoss(_advice(stage, epoch, len(sizes), settings, hardware, checkpoint))
            if after_epoch is not None and whole:
                after_epoch(epoch)
            due = settings.views_every and (epoch + 1) % settings.views_every == 0
            views = view_logits(net, feed) if due else {}
            judged = None
            if best is not None and (step == steps or best.due(step, len(batches))):
                judged = best.look(epoch + 1, epochs)
            if report is not None:
                report(
                    Epoch(
                        stage,
                        epoch + 1,
                        epochs,
                        step,
                        steps,
                        mean_loss,
                        seconds=time.perf_counter() - started,
                        views=views,
                        judged=judged,
                        separation=apart[0] if apart else None,
                        memory=peak_memory(hardware.device),
                    )
                )
            if checkpoint is not None and saving:
                checkpoint.save(net, optimizer, tables, step=step)
    optimizer.zero_grad()  # what is returned carries no gradients
    return net.eval()


def rates(net: nn.Module, lr: float, scales: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the parameters with their learning rates, as an optimizer takes them: named submodules, then the rest.

    >>> net = nn.ModuleDict({"slow": nn.Linear(2, 2), "usual": nn.Linear(2, 2, bias=False)})
    >>> [(len(group["params"]), group["lr"]) for group in rates(net, 0.5, {"slow": 0.1})]
    [(2, 0.05), (1, 0.5)]
    """
    named = {name: list(net.get_submodule(name).parameters()) for name in scales}
    scaled = {id(parameter) for parameters in named.values() for parameter in parameters}
    groups = [{"params": parameters, "lr": lr * scales[name]} for name, parameters in named.items()]
    return [*groups, {"params": [p for p in net.parameters() if id(p) not in scaled], "lr": lr}]


@torch.inference_mode()
def _last_logits(net: nn.Module, feed: Feed, index: Tensor) -> Tensor:
    """Return what the finished net says of a batch: weights can be finite and still useless."""
    return feed.hardware.logits(net.eval(), feed.batch(index).inputs)


def _advice(
    stage: str,
    epoch: int,
    steps_an_epoch: int,
    settings: TrainSettings,
    hardware: Hardware,
    checkpoint: Checkpoint | None,
) -> str:
    saved = checkpoint.step // steps_an_epoch if checkpoint else 0
    kept = f" The state after epoch {saved} is kept in {checkpoint.path}." if checkpoint and saved else ""
    if settings.lr <= 1 < settings.lr * settings.weight_decay:
        cure = f"a smaller train.weight_decay: it is {settings.weight_decay:g}, and times train.lr it must be below 1"
    else:
        lower = min(settings.lr / 10, 0.01)
        cure = f"a lower learning rate (train.lr is {settings.lr:g}; {lower:g} is a good next try)"
        cure += " or device.precision=float32" * hardware.bfloat16
    return (
        f"the loss or the weights became infinite or NaN in epoch {epoch + 1} of stage {stage!r}.{kept} "
        f"Try {cure}, in a new run folder"
    )
