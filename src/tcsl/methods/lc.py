"""LC (Liu et al. 2023): logits corrected by how often a biased net takes a class for another, and mixup of groups."""

from __future__ import annotations

import warnings

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from tcsl.config import Settings
from tcsl.errors import TcslWarning
from tcsl.methods.base import About, Method, Outcome
from tcsl.methods.options import Options, Preset, options_of
from tcsl.pipeline import Job, watched
from tcsl.training.augment import MIXUP, uniform
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.feed import Feed
from tcsl.training.loop import fit, steps_of
from tcsl.training.objective import Batch, Losses, Objective, generalized_cross_entropy
from tcsl.training.views import logits_of

_FLOOR = 1e-4  # is added to the prior, whose logarithm would else be infinite for groups never seen
_RAMP = 6  # by default the mixup grows over T // 6 epochs: 50 of 300, as on Waterbirds


class LCOptions(Options):
    """Options of LC."""

    q: float = Field(0.8, gt=0, le=1, description="of the biased net's generalised cross entropy")
    biased_lr: float = Field(0.1, gt=0, description="the biased net's learning rate, as a part of the other's")
    temperature: float = Field(1.0, gt=0, description="of the biased net's probabilities")
    memory: float = Field(0.9, ge=0, lt=1, description="of the moving average of those; 0: the batch's alone")
    tau: float = Field(0.5, ge=0, le=0.5, description="a sample's share in a mix is U(1 - 2 tau, 1 - tau); 0: no mixup")
    ramp: int | None = Field(None, ge=0, description="epochs in which tau grows to its value; by default T // 6")


class MixingPair(nn.Module):
    """A biased net on the inputs, and a robust one on mixes of them that follow from what the first says.

    The pseudo-attribute of a sample is the class that the biased net predicts. A sample is mixed with one of its class
    in the batch whose pseudo-attribute is other than its label (`partners`).
    """

    epoch: Tensor

    def __init__(self, biased: nn.Module, robust: nn.Module, *, tau: float, ramp: int, seed: int) -> None:
        """Take both nets; `epoch` is a buffer, so that captured steps read it and a checkpoint keeps it."""
        super().__init__()
        self.biased, self.robust = biased, robust
        self.tau, self.ramp, self.seed = tau, ramp, seed
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs: Tensor, labels: Tensor | None = None, indices: Tensor | None = None) -> Tensor:
        """Return (batch, 3 classes): biased logits, robust logits, and shares of the pseudo-attributes in each mix.

        Without labels and indices, which only training has, it returns the robust logits of the inputs alone.
        """
        if labels is None or indices is None:
            plain: Tensor = self.robust(inputs)
            return plain
        biased = self.biased(inputs)
        pseudo = biased.detach().argmax(1)
        shares = F.one_hot(pseudo, biased.shape[1]).to(torch.float32)
        if self.tau > 0:
            which, how = (uniform(indices, self.seed, self.epoch, stream) for stream in MIXUP)
            partner = partners(labels, pseudo, which)
            own = own_share(how, grown(self.epoch, self.tau, self.ramp))
            inputs, shares = mixed(inputs, partner, own), mixed(shares, partner, own)
        return torch.cat([biased, self.robust(inputs), shares], 1)


def partners(labels: Tensor, pseudo: Tensor, u: Tensor) -> Tensor:
    """Return the position of each sample's partner: one of its class that the biased net takes for another class.

    A sample whose class has none in the batch is its own partner.

    Parameters
    ----------
    labels, pseudo : (batch,) classes, and pseudo-attributes
    u : (batch,) in [0, 1), draws among those that fit

    >>> labels, pseudo = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 1, 1])
    >>> partners(labels, pseudo, torch.tensor([0.4, 0.6, 0.9, 0.0, 0.5])).tolist()
    [1, 2, 2, 3, 4]
    """
    # Counting in a (batch, batch) table, and not a search, so that the host need not look.
    fits = (labels[:, None] == labels) & (pseudo != labels)
    place = fits.cumsum(1)
    count = place[:, -1]
    wanted = torch.minimum((u * count).long(), count - 1)
    found = (place <= wanted[:, None]).sum(1)
    return torch.where(count > 0, found, torch.arange(len(labels), device=labels.device))


def grown(epoch: Tensor, tau: float, ramp: int) -> Tensor:
    """Return tau exp(-5 (1 - e / ramp)^2), from epoch `ramp` on tau itself: at first the biased net knows nothing.

    >>> [round(grown(torch.tensor(epoch), 0.5, 10).item(), 4) for epoch in (0, 5, 10, 20)]
    [0.0034, 0.1433, 0.5, 0.5]
    """
    left = 1 - (epoch.float() / max(ramp, 1)).clamp_max(1) if ramp else torch.zeros_like(epoch, dtype=torch.float32)
    return tau * (-5 * left.square()).exp()


def own_share(u: Tensor, tau: Tensor) -> Tensor:
    """Return lambda ~ U(1 - 2 tau, 1 - tau) from u ~ U(0, 1).

    >>> own_share(torch.tensor([0.0, 0.5, 1.0]), torch.tensor(0.5)).tolist()
    [0.0, 0.25, 0.5]
    """
    return 1 - 2 * tau + tau * u


def mixed(values: Tensor, partner: Tensor, own: Tensor) -> Tensor:
    """Return own values + (1 - own) those of the partners; values (batch, ...), own and partner (batch,).

    >>> mixed(torch.tensor([[0, 8], [4, 4]]), torch.tensor([1, 1]), torch.tensor([0.75, 0.75])).tolist()
    [[1.0, 7.0], [4.0, 4.0]]
    """
    own = own.view(-1, *[1] * (values.ndim - 1))
    return own * values + (1 - own) * values[partner]


def averaged(table: Tensor, p: Tensor, labels: Tensor, pseudo: Tensor, memory: float) -> Tensor:
    """Return the moving average (classes, classes) of p for each label (row) and pseudo-attribute (column).

    A cell that the batch lacks stays; one that is seen for the first time, still 0, takes the batch's mean. Without
    memory the table is the batch's alone, 0 in the cells that it lacks.

    Parameters
    ----------
    table : (classes, classes) what it was
    p : (batch,) the biased net's probability of the label

    >>> p, labels, pseudo = torch.tensor([0.75, 0.25, 0.5]), torch.tensor([0, 0, 1]), torch.tensor([0, 0, 0])
    >>> averaged(torch.tensor([[0.0, 0.25], [1.0, 0.0]]), p, labels, pseudo, 0.5).tolist()
    [[0.5, 0.25], [0.75, 0.0]]
    """
    # Products and not index_add, whose sums on CUDA depend on which thread comes first.
    rows, columns = (F.one_hot(part, len(table)).to(p.dtype) for part in (labels, pseudo))
    count = rows.T @ columns
    mean = (rows * p[:, None]).T @ columns / count.clamp_min(1)
    if memory == 0:
        return mean
    moved = torch.where(table > 0, memory * table + (1 - memory) * mean, mean)
    return torch.where(count > 0, moved, table)


def prior_of(table: Tensor) -> Tensor:
    """Return the prior of the labels (rows) for each pseudo-attribute (columns), whose sums are 1.

    >>> prior_of(torch.tensor([[0.75, 0.5], [0.25, 0.5]]) * 2).tolist()
    [[0.75, 0.5], [0.25, 0.5]]
    """
    return table / table.sum(0).clamp_min(1e-8)


def group_correction(table: Tensor, *, q: float, memory: float, temperature: float = 1.0) -> Objective:
    """Return LC's objective on what a `MixingPair` gives.

    The biased net has the mean generalised cross entropy, the robust net the mean cross entropy of its logits plus
    log prior. The prior of a mix is the mix of the priors.

    Parameters
    ----------
    table : (classes, classes) the moving average of `averaged`, changed in place; it starts at 0
    """

    def objective(logits: Tensor, batch: Batch) -> Losses:
        biased, robust, shares = logits.split(len(table), 1)
        with torch.no_grad():
            p = (biased / temperature).softmax(1).gather(1, batch.labels[:, None])[:, 0]
            table.copy_(averaged(table, p, batch.labels, biased.argmax(1), memory))
            correction = (shares @ prior_of(table).T + _FLOOR).log()
        hard = F.cross_entropy(robust + correction, batch.labels, reduction="none")
        easy = generalized_cross_entropy(biased, batch.labels, q)
        plain = F.cross_entropy(robust.detach(), batch.labels, reduction="none")
        return Losses(hard, plain, easy.mean() + hard.mean())

    return objective


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "lc", LCOptions)
    settings = options.training(job.settings.train)
    feed, classes = job.feed, job.data.num_classes

    def train(net: nn.Module, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
        table = torch.zeros(classes, classes, device=feed.labels.device)
        ramp = settings.epochs // _RAMP if options.ramp is None else options.ramp
        pair = MixingPair(job.fresh_net("lc-biased"), net, tau=options.tau, ramp=ramp, seed=job.settings.seed)
        best = watched(job, net, feed, settings)

        def count_epochs(epoch: int) -> None:
            pair.epoch.fill_(epoch + 1)

        fit(
            pair,
            feed,
            settings,
            stage="lc",
            steps=steps_of(len(feed), settings),
            seed=job.settings.seed,
            objective=group_correction(table, q=options.q, memory=options.memory, temperature=options.temperature),
            after_epoch=count_epochs,
            state={"table": table},
            lr_scales={"biased": options.biased_lr},
            takes_batch=True,
            best=best,
            checkpoint=checkpoint,
            report=job.report,
        )
        _check_biased(pair.biased, feed, classes, settings.lr * options.biased_lr)
        return {"prior": prior_of(table), **(best.take() if best else {})}

    return Outcome(job.stage("lc", "final", train)[0])


def _check_biased(biased: nn.Module, feed: Feed, classes: int, lr: float) -> None:
    """Warn of a biased net that has learnt next to nothing: all that LC does follows from what it says."""
    right = F.one_hot(feed.labels, classes)[logits_of(biased, feed).argmax(1) == feed.labels].sum(0)
    accuracy = float((right / torch.bincount(feed.labels, minlength=classes).clamp_min(1)).mean())
    if accuracy < (1 + 1 / classes) / 2:
        warnings.warn(
            f"LC: the biased net is right on {accuracy:.0%} of the training set (mean over classes), less than half "
            f"way up from chance, so that its corrections mean little; its learning rate is {lr:g}: raise "
            "method.lc.biased_lr (1 is the other net's), or train for more epochs",
            TcslWarning,
            stacklevel=2,
        )


def _stages(settings: Settings, n: int) -> dict[str, int]:
    return {"lc": steps_of(n, options_of(settings, "lc", LCOptions).training(settings.train))}


METHOD = Method(
    "LC",
    "logits corrected by how often a biased model takes a class for another, and mixup of its groups",
    _run,
    _stages,
    options=LCOptions,
    presets={
        "waterbirds": Preset(
            {
                "epochs": 300,
                "batch_size": 32,
                "lr": 1e-3,
                "weight_decay": 1e-4,
                "momentum": 0.0,
                "q": 0.8,
                "biased_lr": 0.16,
                "temperature": 0.1,
                "memory": 0.0,
                "tau": 0.5,
                "ramp": 50,
            },
            "own code, where rates fall to a tenth every 50 epochs; biased_lr is its 0.1 times 2 q of its loss",
        ),
        "digits": Preset(
            {"biased_lr": 0.3},
            # Of 0.1, 0.3 and 1, five seeds, criterion without groups: 82.6, 88.0, 84.9 (docs/results/choices-lc.json).
            # 0.1 is for nets that start from published weights: here it learns little in all epochs.
            "chosen here, among 0.1, 0.3 and 1, on validation data without groups",
        ),
    },
    about=About(
        idea=(
            "A biased model tells how often each class comes with its shortcut; logits are corrected by that prior. "
            "Samples are mixed with those of their class that lack the shortcut."
        ),
        formula="cross entropy of f(x) + log prior(y, a(x)), a the biased model's prediction; mixup within classes",
        reference="Liu et al. 2023, Avoiding Spurious Correlations via Logit Correction",
        differs=(
            "lambda is drawn for each sample; a class without a minority in the batch is not mixed; the biased net has "
            "the run's weight decay, its authors' none, and the digits' biased_lr was chosen with it"
        ),
    ),
)
