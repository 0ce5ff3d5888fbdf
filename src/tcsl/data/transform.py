"""Evaluation transforms, by name: what makes images of one size of images of many.

A transform is a list of steps: `resize:256` (to 256 x 256), `short:256` (the shorter side to 256), `crop:224` (the
middle 224 x 224). They are torchvision's Resize (bilinear with antialiasing) and CenterCrop on 8-bit images.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from PIL import Image

from tcsl.data.image import MAX_PIXELS, BadImage
from tcsl.errors import InputError

Step: TypeAlias = Callable[[Image.Image], Image.Image]
_FORM = re.compile(r"(resize|short|crop):([1-9][0-9]{0,4})")


def parse_transform(text: str) -> Step:
    """Return the transform with this name; `none` leaves images as they are.

    >>> parse_transform("short:8,crop:6")(Image.new("RGB", (20, 10))).size
    (6, 6)
    """
    steps: list[Step] = []
    for part in [] if text == "none" else text.split(","):
        form = _FORM.fullmatch(part.strip())
        if form is None:
            raise InputError(
                f"unknown transform {part.strip()!r} in data.transform={text!r}; it is auto, none, or steps such as "
                "resize:256,crop:224 (to 256 x 256, then the middle 224 x 224) or short:256,crop:224 (shorter side)"
            )
        steps.append(_step(form[1], int(form[2])))

    def apply(image: Image.Image) -> Image.Image:
        for step in steps:
            image = step(image)
        return image

    return apply


def _step(kind: str, side: int) -> Step:
    if kind == "resize":
        return lambda image: _resized(image, (side, side))
    if kind == "short":

        def short(image: Image.Image) -> Image.Image:
            width, height = image.size
            long = int(side * max(width, height) / min(width, height))
            return _resized(image, (side, long) if width <= height else (long, side))

        return short

    def crop(image: Image.Image) -> Image.Image:
        width, height = image.size
        left, top = _margin(width, side), _margin(height, side)
        return image.crop((left, top, left + side, top + side))

    return crop


def _margin(length: int, side: int) -> int:
    """Return where the middle begins; before 0 in an image that is too small, around which all is black."""
    return round((length - side) / 2.0) if length >= side else -((side - length) // 2)


def _resized(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    if size[0] * size[1] > MAX_PIXELS:
        raise BadImage(
            f"has {image.width} x {image.height} pixels, which data.transform makes {size[0]} x {size[1]}, more than "
            f"{MAX_PIXELS:,}"
        )
    return image if image.size == size else image.resize(size, Image.Resampling.BILINEAR)
