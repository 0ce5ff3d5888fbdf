"""GEORGE (Sohoni et al. 2020): the features of a plain model are clustered in each class, then GroupDRO over them."""

from __future__ import annotations

import warnings
from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn import functional as F

from tcsl.config import Settings
from tcsl.embeddings import embed
from tcsl.errors import TcslWarning
from tcsl.methods.base import About, Method, Outcome, check_features
from tcsl.methods.clusters import SMALLEST, check_umap, george_clusters, pca, umap
from tcsl.methods.first import few, train_first
from tcsl.methods.groupdro import GroupDROOptions, train_group_dro
from tcsl.methods.options import Preset, options_of
from tcsl.pipeline import Job
from tcsl.statistics import log_odds
from tcsl.training.loop import steps_of
from tcsl.types import FloatArray


class GeorgeOptions(GroupDROOptions):
    """Options of GEORGE."""

    adjustment: float = Field(
        0.0, ge=0, description="C: C / sqrt(n_g) is added to a group's loss; the authors have 3 on CelebA"
    )
    erm: int | None = Field(None, ge=1, description="epochs of the first model; by default T")
    reduce: Literal["hardness", "none", "pca", "umap"] = Field(
        "hardness",
        description="what is clustered: log p_y / (1 - p_y), 1-d, as on Waterbirds; or the features by PCA, UMAP, or "
        "as they are (slow with more than some hundred)",
    )
    components: int = Field(2, ge=1, description="of PCA or UMAP")
    max_clusters: int = Field(10, ge=2, description="of a class, before clusters are split")
    split: int = Field(
        5, ge=1, description="F, into how many parts a cluster is split to see if any is harder; 1: none"
    )

    @field_validator("reduce")
    @classmethod
    def _there(cls, name: str) -> str:
        if name == "umap":
            check_umap()
        return name


def _run(job: Job) -> Outcome:
    options = options_of(job.settings, "george", GeorgeOptions)
    train = options.training(job.settings.train)
    erm, logits = train_first(job, "george-erm", few(train, options.erm or train.epochs))
    logits, labels = logits.cpu(), job.feed.labels.cpu()
    clusters = george_clusters(
        _points(erm, logits, job, options),
        labels.numpy(),
        losses=F.cross_entropy(logits, labels, reduction="none").numpy(),
        max_clusters=options.max_clusters,
        factor=options.split,
        seed=job.settings.seed,
    )
    group = torch.from_numpy(clusters)
    _tell_small(torch.bincount(group), options.adjustment)
    return train_group_dro(job, "george", group, int(group.max()) + 1, options)


def _tell_small(sizes: Tensor, adjustment: float) -> None:
    small = int((sizes < SMALLEST).sum())
    if small and adjustment:
        # On the digits, over three seeds: 23 % worst-group accuracy with C = 2, 46 % with 0.
        warnings.warn(
            f"GEORGE: {small} of {len(sizes)} clusters have fewer than {SMALLEST} samples, the smallest "
            f"{int(sizes.min())}; what {adjustment:g} / sqrt(n) adds to their losses can outweigh the losses. Nothing "
            "was done about it; method.george.adjustment=0 adds nothing, method.george.max_clusters makes fewer",
            TcslWarning,
            stacklevel=2,
        )


def _points(erm: nn.Module, logits: Tensor, job: Job, options: GeorgeOptions) -> FloatArray:
    """Return what is clustered, (n, d), of the first model and its logits, which are on the host."""
    labels = job.data.numpy_labels
    if options.reduce == "hardness":
        # The label's log-odds, high where a sample is easy; for nets without a last linear layer, too. With two classes
        # they are a multiple of the paper's component, the features' product with the last layer's w_1 - w_0, plus a
        # constant; with more, ours.
        return log_odds(logits.numpy(), labels)[:, None]
    features = embed(erm, job.feed)
    if options.reduce == "none":
        return features
    reduce = pca if options.reduce == "pca" else umap
    return reduce(features, labels, options.components, seed=job.settings.seed)


def _check(job: Job, net: nn.Module) -> None:
    if options_of(job.settings, "george", GeorgeOptions).reduce != "hardness":
        check_features(job, net)


def _stages(settings: Settings, n: int) -> dict[str, int]:
    options = options_of(settings, "george", GeorgeOptions)
    train = options.training(settings.train)
    return {"george-erm": steps_of(n, train, options.erm), "george": steps_of(n, train)}


METHOD = Method(
    "GEORGE",
    "a plain model's features are clustered in each class; GroupDRO over the clusters",
    _run,
    _stages,
    options=GeorgeOptions,
    presets={
        "waterbirds": Preset(
            {
                "epochs": 300,
                "batch_size": 128,
                "lr": 1e-5,
                "weight_decay": 1.0,
                "adjustment": 2.0,
                "balanced": True,
                "reduce": "hardness",
            },
            "own code",
        ),
    },
    check=_check,
    about=About(
        idea=(
            "Groups that a plain model treats differently show in its features. Each class is clustered there, and the "
            "clusters stand for groups."
        ),
        formula=(
            "Gaussian mixtures in each class, k by mean silhouette, clusters split where a part is harder; GroupDRO"
        ),
        reference="Sohoni et al. 2020, No Subclass Left Behind",
        differs=(
            "the 1-d hardness is clustered unless another space is asked for, and for more than two classes it is "
            "log p_y / (1 - p_y); silhouettes of at most 5,000 samples; no adjustment for the groups' sizes but in "
            "the preset for Waterbirds, which has theirs"
        ),
    ),
)
