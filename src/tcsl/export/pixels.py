"""Samples as image files: the files that they are, or their pixels as PNG."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import numpy as np
from PIL import Image

from tcsl.data.bad import shown
from tcsl.data.image import BadImage, open_image
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest
from tcsl.errors import InputError, TcslWarning
from tcsl.types import AnyArray

CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}


def image_files(manifest: Manifest) -> Callable[[int], bytes]:
    """Return a function from a sample's position to the bytes of an image file."""
    inputs = manifest.inputs
    if isinstance(inputs, Images):
        return lambda i: _content(inputs, i)
    if not has_pixels(inputs):
        raise InputError(
            f"the inputs of {manifest.name} are no images but have shape {inputs.shape[1:]}; export them as --csv or "
            "--hub"
        )
    if inputs.dtype == np.uint8:
        return lambda i: png(inputs[i])
    low, high = float(inputs.min()), float(inputs.max())
    if low < 0 or high > 1:
        warnings.warn(
            f"the pixels of {manifest.name} go from {low:.4g} to {high:.4g}; in the PNG files, that is black to white",
            TcslWarning,
            stacklevel=2,
        )
    else:
        low, high = 0.0, 1.0
    return lambda i: png(np.rint((inputs[i] - low) * (255 / (high - low))).astype(np.uint8))


def _content(images: Images, i: int) -> bytes:
    try:
        return images.content(i)
    except OSError as error:
        raise InputError(f"{shown(str(images.names[i]))} cannot be read: {error.strerror or error}") from None


def has_pixels(inputs: AnyArray) -> bool:
    """Tell whether inputs are (n, channels, height, width) with channels that an image file can have."""
    return inputs.ndim == 4 and inputs.shape[1] in CHANNELS


def png(pixels: AnyArray) -> bytes:
    """Return (channels, height, width) bytes as a PNG file.

    >>> decoded = Image.open(io.BytesIO(png(np.full((1, 2, 3), 7, np.uint8))))
    >>> decoded.mode, decoded.size, decoded.getpixel((2, 1))
    ('L', (3, 2), 7)
    """
    stream = io.BytesIO()
    planes = [Image.fromarray(np.ascontiguousarray(plane)) for plane in pixels]
    Image.merge(CHANNELS[len(planes)], planes).save(stream, "png")
    return stream.getvalue()


def ending(content: bytes, name: str) -> str:
    """Return what the name of an image file should end in, by its content: names from the data are not relied on.

    >>> ending(png(np.zeros((3, 1, 1), np.uint8)), "sample 7")
    '.png'
    """
    try:
        kind = (open_image(content).format or "").lower()
    except BadImage as reason:
        raise InputError(f"{shown(name)} {reason}") from None
    return {"jpeg": ".jpg", "mpo": ".jpg", "tiff": ".tif"}.get(kind, f".{kind}")
