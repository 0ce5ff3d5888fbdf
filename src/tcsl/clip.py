"""CLIP's embedding of images, by open_clip: `pip install 'tcsl[clip]'`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tcsl.data.bad import shown
from tcsl.errors import InputError
from tcsl.registry import unknown
from tcsl.text import shortened
from tcsl.training.feed import Feed
from tcsl.training.views import logits_of
from tcsl.types import FloatArray


def embed_clip(net: ClipImages, feed: Feed) -> FloatArray:
    """Return CLIP's embedding of the images, (n, d) float32, as the model gives it: rows are not scaled to length 1."""
    return np.asarray(logits_of(feed.hardware.place(net), feed).cpu().numpy(), np.float32)


def load_clip(name: str, weights: str) -> ClipImages:
    """Return a CLIP model with its weights, on the CPU.

    Parameters
    ----------
    name : a model of open_clip, such as ViT-B-32
    weights : one of its published sets, such as laion2b_s34b_b79k, or a file that has been downloaded
    """
    try:
        import open_clip
    except ImportError:
        raise InputError("CLIP embeddings need the package `open_clip_torch`: pip install 'tcsl[clip]'") from None
    if name not in open_clip.list_models():
        raise unknown("CLIP model", name, open_clip.list_models())
    tags = open_clip.list_pretrained_tags_by_model(name)
    if weights not in tags and not Path(weights).is_file():
        raise InputError(
            f"CLIP model {name!r} needs weights: one of {', '.join(tags) or 'no published set'}, or a file that "
            f"exists; got {weights!r}"
        )
    try:
        with _silent():
            model = open_clip.create_model(name, pretrained=str(weights))
    except Exception as error:  # the library raises many kinds: networks, damaged files, weights of another model
        line = shown(shortened(str(error).strip().split("\n")[0], 160)).rstrip(".") or type(error).__name__
        raise InputError(
            f"CLIP model {name!r} with weights {weights!r} cannot be had: {line}. Where the network is out of reach, "
            "download the weights elsewhere (huggingface.co has them) and give the file's path as weights; or make the "
            "embedding elsewhere and give it as .npy or .parquet"
        ) from None
    return ClipImages(model)


@contextmanager
def _silent() -> Iterator[None]:
    """Keep libraries from logging each of their attempts to reach the network; what comes of it is said once."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


class ClipImages(nn.Module):
    """Raw images to embeddings: scaled to the model's own size on the device, normalised as it was trained."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: Any) -> None:
        """Take a model of open_clip, which knows its size and normalisation."""
        super().__init__()
        self.model = model
        cfg: Mapping[str, Any] = model.visual.preprocess_cfg
        size = cfg["size"]
        self.size: tuple[int, int] = (size, size) if isinstance(size, int) else (size[0], size[1])
        self.mode = str(cfg.get("interpolation", "bicubic"))
        self.resize = str(cfg.get("resize_mode", "shortest"))
        if self.resize not in ("shortest", "squash"):
            raise InputError(f"CLIP models that resize images by {self.resize!r} cannot be used; choose another")
        self.register_buffer("mean", torch.tensor(cfg["mean"]).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(cfg["std"]).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return (batch, d) from (batch, 1 or 3, height, width), bytes or floats from 0 to 1."""
        out: Tensor = self.model.encode_image(self.prepared(images))
        return out

    def prepared(self, images: Tensor) -> Tensor:
        """Return the images as the model takes them, (batch, 3, height, width) float32."""
        x = images.float() / 255 if images.dtype == torch.uint8 else images
        height, width = self.size
        scaled = self.size if self.resize == "squash" else _cover(x.shape[2:], self.size)
        if tuple(x.shape[2:]) != scaled:
            mode = "bilinear" if self.mode == "bilinear" else "bicubic"
            x = F.interpolate(x, scaled, mode=mode, antialias=True).clamp(0, 1)
        top, left = round((scaled[0] - height) / 2), round((scaled[1] - width) / 2)
        x = x[:, :, top : top + height, left : left + width].expand(-1, 3, -1, -1)
        return (x - self.mean) / self.std


def _cover(shape: torch.Size, size: tuple[int, int]) -> tuple[int, int]:
    """Return the size, in the image's own shape, that just covers the model's.

    >>> _cover(torch.Size([100, 300]), (224, 224)), _cover(torch.Size([30, 20]), (10, 10))
    ((224, 672), (15, 10))
    """
    (height, width), (rows, columns) = shape, size
    if rows * width >= columns * height:
        return rows, width * rows // height
    return height * columns // width, columns


def check_images(inputs: Tensor) -> None:
    """Refuse inputs, (n, ...), that are not images as CLIP takes them.

    >>> check_images(torch.zeros(4, 6))
    Traceback (most recent call last):
    tcsl.errors.InputError: CLIP takes images (1 or 3 channels, height, width), got inputs of shape (6,)
    """
    if inputs.ndim != 4 or inputs.shape[1] not in (1, 3):
        raise InputError(
            f"CLIP takes images (1 or 3 channels, height, width), got inputs of shape {tuple(inputs.shape[1:])}"
        )
    if inputs.dtype != torch.uint8 and not (float(inputs.min()) >= 0 and float(inputs.max()) <= 1):
        low, high = float(inputs.min()), float(inputs.max())
        raise InputError(f"CLIP takes bytes or floats from 0 to 1, got floats from {low:g} to {high:g}; scale them")
