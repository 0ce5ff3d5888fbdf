"""Where the coreset baselines' scores and embeddings come from: stages of the job, shared by all that need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from tcsl.config import Settings
from tcsl.data.dataset import Dataset
from tcsl.embeddings import embed, load_embedding
from tcsl.errors import InputError
from tcsl.methods.base import check_features
from tcsl.methods.first import few
from tcsl.pipeline import Job, train_final, train_model
from tcsl.registry import METHODS, NETS, unknown
from tcsl.runs import RunFolder
from tcsl.scoring.aum import aum
from tcsl.scoring.el2n import el2n_of
from tcsl.scoring.forgetting import forgetting
from tcsl.scoring.grand import grand_of
from tcsl.scoring.selfsup import selfsup
from tcsl.scoring.watched import train_watched
from tcsl.seeds import generator
from tcsl.selection.neighbours import embedding_rows
from tcsl.training.checkpoint import Checkpoint, under_prefix
from tcsl.training.feed import Feed
from tcsl.training.loop import steps_of
from tcsl.training.nets import NoWeights, build_net
from tcsl.training.weights import class_balanced
from tcsl.types import FloatArray

ScoreName: TypeAlias = Literal["el2n", "selfsup", "csl", "forgetting", "aum", "grand"]

# What each score reads of a coreset's options; `selection.by_rule.TAKES` says it of the rules.
SCORE_TAKES: dict[str, tuple[str, ...]] = {
    "el2n": ("seeds",),
    "selfsup": ("embedding", "metric"),
    "csl": (),
    "forgetting": (),
    "aum": (),
    "grand": ("seeds",),
}
_SOURCES = "erm, net, torchvision:NAME, timm:NAME, clip:MODEL:WEIGHTS, run:FOLDER:MODEL"


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
        scores = [of(early_net(job, stage), job.feed) for stage in early_stages(wanted.seeds)]
        return np.asarray(torch.stack(scores).mean(0).cpu().numpy(), np.float32)
    kept = _watched(job, wanted.score)
    if wanted.score != "csl":
        kept = forgetting(kept) if wanted.score == "forgetting" else aum(kept)
    return np.asarray(kept.cpu().numpy(), np.float32)


def embedding_of(job: Job, name: str) -> FloatArray:
    """Return an embedding of every sample, (n, d); the methods of a run share it.

    Parameters
    ----------
    name : erm (CB ERM on this data), net (the run's net with the weights that it starts from), torchvision:NAME or
        timm:NAME (with published weights), clip:MODEL:WEIGHTS, run:FOLDER:MODEL (a final model), or a file
    """
    made = _loaded(job, name)
    if callable(made):
        made = job.embeddings[name] = made(job.feed)
    return made


def check_embedding(job: Job, net: nn.Module, wanted: Wanted) -> None:
    """Refuse an embedding that cannot be had of these data, before any training; what it loads is kept for the run."""
    name, train = wanted.embedding, job.settings.train
    if name in ("erm", "net"):
        if name == "net" and not (callable(job.net) or train.pretrained or train.weights):
            raise InputError(
                f"embedding 'net' is what {job.net} sees with the weights that it starts from, and these are random; "
                "set train.pretrained=true or train.weights=FILE, or use embedding 'erm'"
            )
        check_features(job, net)
        return
    made = _loaded(job, name)
    if callable(made):
        made(job.feed.subset(np.arange(2)))
    else:
        embedding_rows(made, wanted.metric)


def _loaded(job: Job, name: str) -> FloatArray | Callable[[Feed], FloatArray]:
    """Return an embedding that the run has already or that a file has, else what makes one of a feed."""
    if name not in job.embeddings:
        job.embeddings[name] = _load(job, name)
    return job.embeddings[name]


def _load(job: Job, name: str) -> FloatArray | Callable[[Feed], FloatArray]:
    if name == "erm":
        return partial(embed, train_final(job, "cb_erm", last=True))
    if name == "net":
        return partial(embed, job.fresh_net("final"))
    if name.startswith("clip:"):
        from tcsl.clip import check_images, embed_clip, load_clip

        model, weights = clip_parts(name)
        check_images(job.data.inputs)
        return partial(embed_clip, load_clip(model, weights))
    if (net := _other_net(name, job.data)) is not None:
        return partial(embed, net)
    if not Path(name).is_file():
        raise InputError(
            f"embedding {name!r} is none of {_SOURCES}, and no file of this name exists; "
            "give an embedding as .npy, .npz or .parquet"
        )
    return load_embedding(name, len(job.data), ids=job.data.ids if name.endswith(".parquet") else None)


def _other_net(name: str, data: Dataset) -> nn.Module | None:
    """Return the net of torchvision:NAME, timm:NAME or run:FOLDER:MODEL; None where the name is none of these."""
    if name.startswith("run:"):
        folder, model = _run_parts(name)
        if not (folder and model):
            raise InputError(
                f"the embedding of a run is named run:FOLDER:MODEL, such as run:runs/a:cb_erm, got {name!r}"
            )
        return _net_of_run(RunFolder.find(Path(folder)), model, data)
    if not _of_library(name):
        return None
    try:
        return build_net(name, data, seed=0, pretrained=True)
    except NoWeights as error:
        raise InputError(
            f"embedding {name!r} needs the net's published weights, which cannot be had: {error.why}. They need a "
            "network or a filled cache; or make the embedding elsewhere and give it as .npy or .parquet"
        ) from None


def _net_of_run(folder: RunFolder, model: str, data: Dataset) -> nn.Module:
    """Return a final model of a run, as it was in its last epoch: the validation set had no part in it."""
    path, settings, made = folder.path, folder.settings(), folder.data()
    models = {"run": settings.methods, "train": ("final",)}.get(made["work"], ())
    if model not in models:
        raise unknown(f"final model of {path}", model, models)
    if needs := METHODS.get(model).needs if model in METHODS else ():
        raise InputError(
            f"{model} of {path} was told {' and '.join(needs)}, and a coreset by its embedding would be, too; use a "
            "model that was not, such as cb_erm"
        )
    shape = tuple(data.inputs.shape[1:])
    if tuple(made["input_shape"]) != shape:
        raise InputError(
            f"{model} of {path} takes inputs of shape {tuple(made['input_shape'])}, and {data.name} has {shape}; use a "
            "run on inputs like these"
        )
    stored = folder.load_stage(model)
    if stored is None:
        raise InputError(f"{path} has no model {model!r} yet: the run is not finished, go on with --resume")
    train = settings.train
    from_python = InputError(
        f"the net of {path}, {train.net}, came from Python and cannot be made again; embed the samples there "
        "(tcsl.embeddings.embed), and give the embedding as .npy"
    )
    if not _by_name(train.net):
        raise from_python
    like = replace(data, class_names=tuple(made["class_names"]))
    net = build_net(train.net, like, seed=0, pretrained=train.pretrained, weights=train.weights, start=False)
    try:
        net.load_state_dict(under_prefix("last.", stored) or under_prefix("net.", stored))
    except RuntimeError:  # a factory that has the name of one of our nets
        raise from_python from None
    return net


def _of_library(net: str) -> bool:
    return net.startswith(("torchvision:", "timm:"))


def _by_name(net: str) -> bool:
    """Tell whether `train.net` is a net's name; else it is a factory's, which the caller passed."""
    return _of_library(net) or net == "auto" or net in NETS


def file_of(name: str) -> str:
    """Return the file that an embedding of this name is read from; of others, no file has what is returned.

    >>> file_of("run:runs/a:cb_erm"), file_of("clip:ViT-B-32:mine.pt"), file_of("seen.npy")
    ('runs/a/checkpoints/cb_erm.safetensors', 'mine.pt', 'seen.npy')
    """
    if name.startswith("run:"):
        folder, model = _run_parts(name)
        return RunFolder(Path(folder)).stage_path(model).as_posix()
    return clip_parts(name)[1] if name.startswith("clip:") else name


def _run_parts(name: str) -> tuple[str, str]:
    """Return folder and model of run:FOLDER:MODEL, empty where they are missing."""
    folder, _, model = name.removeprefix("run:").rpartition(":")
    return folder, model


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
        steps = steps_of(n, few(settings.train))
        stages |= dict.fromkeys(early_stages(wanted.seeds), steps)
    elif wanted.score != "selfsup":
        stages["csl" if wanted.score == "csl" else "margins"] = steps_of(n, settings.train)
    if wanted.embedding == "erm" and (embedded or wanted.score == "selfsup"):
        stages["cb_erm"] = steps_of(n, settings.train)
    return stages


def early_stages(seeds: int) -> list[str]:
    """Return the stages' names: of their weights, their order and their reports. More seeds keep the first ones.

    >>> early_stages(2)
    ['early-1', 'early-2']
    """
    if seeds < 1:
        raise InputError(f"seeds must be 1 or more, got {seeds}: it is the number of trainings that are averaged")
    return [f"early-{k}" for k in range(1, seeds + 1)]


def early_net(job: Job, stage: str) -> nn.Module:
    """Return a net after a tenth of CB ERM: what EL2N and GraNd look at."""
    weights = class_balanced(job.feed.labels, job.data.num_classes)
    return train_model(job, stage, job.feed, log_weights=weights, train=few(job.settings.train), weights=stage)


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
