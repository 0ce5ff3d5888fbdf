"""One image: from bytes to 8-bit RGB, or the reason why not."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

MAX_PIXELS = 89_478_485  # a quarter of a gigabyte as RGB; Pillow's own limit of suspicion
_ORIENTATION = 0x0112  # the EXIF tag


class BadImage(Exception):
    """An image that cannot be used; the text continues a sentence that begins with its name."""


def open_image(content: bytes) -> Image.Image:
    """Return the image, its header read and nothing decoded yet; raises BadImage."""
    if not content:
        raise BadImage("is empty (0 bytes)")
    try:
        image = Image.open(io.BytesIO(content))
    except UnidentifiedImageError:
        raise BadImage("is not an image") from None
    except Image.DecompressionBombError:
        raise BadImage(f"has more than {MAX_PIXELS:,} pixels (a decompression bomb?)") from None
    except Exception as error:  # a decoder may raise anything on damaged bytes
        raise BadImage(f"has a damaged header ({_short(error)})") from None
    if image.format == "EPS":  # Pillow would run Ghostscript on it, whatever the file is called
        raise BadImage("is PostScript, which is not decoded; save it as PNG or JPEG")
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise BadImage(f"has {width} x {height} pixels, more than {MAX_PIXELS:,} (a decompression bomb?)")
    return image


def decode_image(content: bytes) -> tuple[Image.Image, str]:
    """Return an upright 8-bit RGB image, and what had to be done for it ("" where nothing); raises BadImage.

    Greyscale, palette and CMYK images are converted, 16-bit ones scaled to 8 bits, transparent ones laid on white,
    and the rotation that a camera noted (EXIF) is carried out. Of an animation the first frame is taken.

    >>> stream = io.BytesIO()
    >>> Image.new("L", (4, 3), 200).save(stream, "png")
    >>> image, note = decode_image(stream.getvalue())
    >>> image.mode, image.size, note
    ('RGB', (4, 3), 'greyscale')
    """
    image = open_image(content)
    try:
        image.load()
        rotated = image.getexif().get(_ORIENTATION) in range(2, 9)
        rgb, note = to_rgb(ImageOps.exif_transpose(image) if rotated else image)
    except (BadImage, MemoryError):
        raise
    except Exception as error:  # a decoder may raise anything on damaged bytes
        raise BadImage(f"is truncated or damaged ({_short(error)})") from None
    return rgb, ", ".join(filter(None, (note, "rotated" if rotated else "")))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Pillow's warnings of odd files to itself: what is wrong is said by us. Not for use inside threads."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        yield


def to_rgb(image: Image.Image) -> tuple[Image.Image, str]:
    """Return an 8-bit RGB image, and what had to be done for it; raises BadImage."""
    mode = image.mode
    if mode == "RGB" and "transparency" not in image.info:
        return image, ""
    if mode.startswith("I;16") or mode == "I":
        values = np.asarray(image)
        if values.size and (values.min() < 0 or values.max() > 65535):
            raise BadImage(f"has values {values.min()} .. {values.max()}, more than 16 bits; save it with 8 or 16")
        return Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8)).convert("RGB"), "16-bit"
    if mode == "F":
        raise BadImage("has floating-point pixels, whose range is unknown; save it with 8 or 16 bits")
    if mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layered = image.convert("RGBA")
        white = Image.new("RGBA", layered.size, "white")
        return Image.alpha_composite(white, layered).convert("RGB"), "transparent"
    name = {"1": "bilevel", "L": "greyscale", "P": "palette", "CMYK": "CMYK"}.get(mode, mode)
    return image.convert("RGB"), name


def _short(error: Any) -> str:
    text = str(error).split("\n")[0].strip()
    return text[:80] or type(error).__name__
