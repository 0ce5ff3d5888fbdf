"""The samples of a run at full size: the image files that they are, or their pixels, from the data loaded again."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from PIL import Image

from tcsl.config import Settings, flat, from_flat
from tcsl.data.image import BadImage, decode_image, open_image
from tcsl.data.images import Images
from tcsl.data.source import source_name
from tcsl.errors import InputError
from tcsl.registry import DATASETS
from tcsl.report.thumbnails import are_pictures, pixels_of
from tcsl.runs import RunFolder
from tcsl.scores import Scores
from tcsl.types import Progress

# What every browser shows; an image of another format is sent as PNG.
_KINDS = {"JPEG": "image/jpeg", "MPO": "image/jpeg", "PNG": "image/png", "GIF": "image/gif", "WEBP": "image/webp"}


class Original(NamedTuple):
    """An image file and its media type."""

    content: bytes
    kind: str


Originals: TypeAlias = Callable[[int], Original]


def settings_at(settings: Settings, source: str | None, root: Path | None) -> Settings:
    """Return the settings of a run for data that have moved: where the dataset is now, and its root.

    The options of a known dataset's loader are not for another source.
    """
    moved = {"data.name": source and source_name(source), "data.root": root and os.fspath(root)}
    before = flat(settings)
    if moved["data.name"] not in (None, settings.data.name):
        before = {name: value for name, value in before.items() if not name.startswith("data.options.")}
    return from_flat({**before, **{name: value for name, value in moved.items() if value is not None}})


def open_originals(
    folder: RunFolder, scores: Scores, settings: Settings, progress: Progress | None = None
) -> Originals | None:
    """Load the data of a run again; data that are gone, or others than the run's, are refused.

    Parameters
    ----------
    settings : of the run, with what has moved since; see `settings_at`

    Returns
    -------
    original : from a sample's index to its image, which raises InputError where the file cannot be shown any more; None
        where the samples are rows of numbers
    """
    from tcsl.export.marked import find
    from tcsl.export.pixels import image_files
    from tcsl.running import load_training_set
    from tcsl.selection.classes import names_of

    if not settings.data.name:
        raise InputError("the data came from Python, and only the caller has them")
    data = load_training_set(folder, settings, progress)
    if not are_pictures(data.inputs):
        return None
    if settings.data.name not in DATASETS or DATASETS.get(settings.data.name).read is not None:
        names = names_of(scores.labels, folder.data()["class_names"])
        manifest, kept = find(scores.ids.tolist(), names, settings, whose="run")
        listed = manifest.take(kept)
        if isinstance(listed.inputs, Images):
            place = {name: k for k, name in enumerate(listed.ids.tolist())}
            read = image_files(listed)
            return lambda i: _of_file(read(place[scores.ids[i]]))
    pixels = pixels_of(data.inputs)
    return lambda i: _png(Image.fromarray(np.ascontiguousarray(pixels(i))))


def _of_file(content: bytes) -> Original:
    """Return an image file as it is, where a browser shows it."""
    try:
        kind = _KINDS.get(open_image(content).format or "")
        return Original(content, kind) if kind else _png(decode_image(content)[0])
    except BadImage as reason:
        raise InputError(f"the image file {reason}") from None


def _png(image: Image.Image) -> Original:
    stream = io.BytesIO()
    image.save(stream, "png")
    return Original(stream.getvalue(), "image/png")
