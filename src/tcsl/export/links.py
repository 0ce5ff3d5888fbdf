"""A folder of class folders with links to the images that are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from tcsl.config import Settings
from tcsl.data.images import Images
from tcsl.errors import InputError
from tcsl.export.marked import find
from tcsl.export.place import check_place
from tcsl.scores import Coreset
from tcsl.selection.classes import names_of


def export_links(coreset: Coreset, settings: Settings, folder: Path, *, class_names: Sequence[str]) -> Path:
    """Make FOLDER/CLASS/FILE, relative links to the images that are kept; return the folder that holds the images."""
    manifest, kept = find(coreset.ids.tolist(), names_of(coreset.labels, class_names), settings, whose="coreset")
    images = manifest.inputs
    if not isinstance(images, Images) or images.path is None:
        raise InputError(f"links are made to image files, but the inputs of {settings.data.name} are not files")
    check_place(folder)
    places = [folder / name for name in _folder_names(manifest.labels.names)]
    width = len(str(len(kept)))
    targets: list[str] = []
    try:
        for number, i in enumerate(kept.tolist()):
            target = os.path.abspath(images.path(int(images.rows[i])))
            targets.append(target)
            place = places[manifest.labels.codes[i]]
            place.mkdir(parents=True, exist_ok=True)
            link = place / os.path.basename(target)
            while link.is_symlink():  # two images of one name, from different folders
                link = link.with_name(f"{number:0{width}d}-{link.name}")
            link.symlink_to(os.path.relpath(target, place.resolve()))
    except OSError as error:
        raise InputError(f"{folder}: a link cannot be made: {error}") from None
    return Path(os.path.commonpath([os.path.dirname(os.path.realpath(target)) for target in targets]))


def _folder_names(classes: Sequence[str]) -> list[str]:
    """Return a name for the folder of each class: inside its place, not hidden, and no two the same.

    >>> _folder_names(["cat", "..", "a/b", "a_b", "A_b", ""])
    ['cat', '_.', 'a_b', 'a_b-2', 'A_b-3', '_']
    """
    names: list[str] = []
    taken: set[str] = set()
    for label in classes:
        printable = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in label)
        base = name = re.sub(r"^(\.|$)", "_", printable[:60])  # at most 240 of the 255 bytes that a name may have
        number = 2
        while name.lower() in taken:  # case alone does not tell folders apart on every disk
            name, number = f"{base}-{number}", number + 1
        taken.add(name.lower())
        names.append(name)
    return names
