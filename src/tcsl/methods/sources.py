"""Where the coreset baselines' scores and embeddings come from: stages of the job, shared by all that need them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from tcsl.config import Settings
from tcsl.embeddings import embed, load_embedding
from tcsl.errors import InputError
from tcsl.pipeline import Job, train_final
from tcsl.scoring.aum import aum
from tcsl.scoring.early import early_epochs, early_stages, train_early
from tcsl.scoring.el2n import el2n_of
from tcsl.scoring.forgetting import forgetting
from tcsl.scoring.grand import grand_of
from tcsl.scoring.selfsup import selfsup
from tcsl.scoring.watched import train_watched
from tcsl.seeds import generator
from tcsl.training.checkpoint import Checkpoint
from tcsl.training.loop import steps_of
from tcsl.types import FloatArray

ScoreName: TypeAlias = Literal["el2n", "selfsup", "csl", "forgetting", "aum", "grand"]


class Wanted(NamedTuple):
    """Which score, averaged over how many early nets, and which embedding."""

    score: ScoreName
    seeds: int = 1
    embedding: str = "erm"
    metric: Literal["euclidean", "cosine"] = "euclidean"


def score_of(job: Job, wanted: Wanted) -> FloatArray:
    """Return the score of every sample, (n,) float32; higher is harder."""
    if wanted.score == "selfsup":
        rng = generator(job.settings.seed, "selfsup")
        return selfsup(embedding_of(job, wanted.embedding), k=job.data.num_classes, metric=wanted.metric, rng=rng)
    if wanted.score in ("el2n", "grand"):
        of = el2n_of if wanted.score == "el2n" else grand_of
        scores = [of(_early(job, stage), job.feed) for stage in early_stages(wanted.seeds)]
        return np.asarray(torch.stack(scores).mean(0).cpu().numpy(), np.float32)
    kept = _watched(job, wanted.score)
    if wanted.score != "csl":
        kept = forgetting(kept) if wanted.score == "forgetting" else aum(kept)
    return np.asarray(kept.cpu().numpy(), np.float32)


def embedding_of(job: Job, name: str) -> FloatArray:
    """Return an embedding of every sample, (n, d).

    Parameters
    ----------
    name : erm (CB ERM on this data), net (the untrained net, with its published weights where it has them),
        clip:MODEL:WEIGHTS, or a file
    """
    if name == "erm":
        return embed(train_final(job, "cb_erm", last=True), job.feed)
    if name == "net":
        return embed(job.fresh_net("final"), job.feed)
    if name.startswith("clip:"):
        from tcsl.clip import embed_clip

        model, weights = clip_parts(name)
        return embed_clip(job.feed, model, weights)
    return load_embedding(name, len(job.data), ids=job.data.ids if name.endswith(".parquet") else None)


def check_embedding(name: str) -> None:
    """Refuse an embedding that cannot be had, before any training."""
    if name in ("erm", "net"):
        return
    if name.startswith("clip:"):
        from tcsl.clip import load_clip

        load_clip(*clip_parts(name))
    elif not Path(name).is_file():
        raise InputError(
            f"embedding {name!r} is none of erm, net, clip:MODEL:WEIGHTS, and no file of this name exists; "
            "give an embedding as .npy, .npz or .parquet"
        )


def clip_parts(name: str) -> tuple[str, str]:
    """Return model and weights of clip:MODEL:WEIGHTS.

    >>> clip_parts("clip:ViT-B-32:laion2b_s34b_b79k")
    ('ViT-B-32', 'laion2b_s34b_b79k')
    """
    parts = name.split(":", 2)
    if len(parts) != 3 or not all(parts):
        raise InputError(f"a CLIP embedding is named clip:MODEL:WEIGHTS, such as clip:ViT-B-32:openai, got {name!r}")
    return parts[1], parts[2]


def stages_of(settings: Settings, n: int, wanted: Wanted, *, embedded: bool) -> dict[str, int]:
    """Return the stages that a score goes through, and an embedding where it is needed, with their steps."""
    stages: dict[str, int] = {}
    if wanted.score in ("el2n", "grand"):
        steps = steps_of(n, settings.train, early_epochs(settings))
        stages |= dict.fromkeys(early_stages(wanted.seeds), steps)
    elif wanted.score != "selfsup":
        stages["csl" if wanted.score == "csl" else "margins"] = steps_of(n, settings.train)
    if wanted.embedding == "erm" and (embedded or wanted.score == "selfsup"):
        stages["cb_erm"] = steps_of(n, settings.train)
    return stages


def _early(job: Job, stage: str) -> nn.Module:
    """Return a net after a tenth of plain training."""

    def train(net: nn.Module, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
        seed = job.settings.seed
        train_early(net, job.feed, job.settings, stage=stage, seed=seed, checkpoint=checkpoint, report=job.report)
        return {}

    return job.stage(stage, stage, train)[0]


def _watched(job: Job, score: str) -> Tensor:
    """Return what a whole training leaves of each sample: its mean loss (csl), or all its margins."""
    stage: Literal["csl", "margins"] = "csl" if score == "csl" else "margins"

    def train(net: nn.Module, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
        seed = job.settings.seed
        return {
            stage: train_watched(
                net, job.feed, job.settings, stage, seed=seed, checkpoint=checkpoint, report=job.report
            )
        }

    return job.stage(stage, "final", train)[1][stage]
