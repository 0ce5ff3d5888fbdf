"""WebDataset shards: tar files in which the members KEY.jpg and KEY.cls (or KEY.json) make one sample."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tcsl.data.bad import Bad, OnBad, settle
from tcsl.data.columns import ALIASES
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest, encode, read_splits
from tcsl.errors import InputError

_IMAGES = ("jpg", "jpeg", "png", "webp", "bmp", "gif", "ppm", "tif", "tiff")
_NO_LABEL = "has no label (neither .cls nor a label in .json; name it with --columns label=NAME)"


class _Member(NamedTuple):
    shard: Path
    offset: int
    size: int


def read_shards(shards: Sequence[Path], columns: Mapping[str, str], *, name: str, on_bad: OnBad) -> Manifest:
    """List the samples of tar shards.

    A sample is an image and its label: KEY.cls with the class, or KEY.json with a field for the label and, if there
    are any, for split, group and id. Shards named train-*, val-*, test-* are those splits. The id is the key.
    """
    samples: dict[str, dict[str, _Member]] = {}
    split_of: dict[str, str] = {}
    for shard in shards:
        word = shard.name.split("-")[0].split("_")[0].split(".")[0].lower()
        for member in _members(shard):
            key, dot, suffix = member.name.rpartition("/")[2].partition(".")
            full = member.name[: len(member.name) - len(dot + suffix)]
            samples.setdefault(full, {})[suffix.lower()] = _Member(shard, member.offset_data, member.size)
            split_of[full] = word
    rows: list[dict[str, Any]] = []
    bad: list[Bad] = []
    for key, parts in samples.items():
        image = next((parts[suffix] for suffix in parts if suffix.rpartition(".")[2] in _IMAGES), None)
        try:
            if image is None:
                raise ValueError(f"has no image ({', '.join(sorted(parts)[:5])})")
            rows.append({"id": key, "split": split_of[key], "image": image, **_described(parts, columns)})
        except ValueError as error:
            bad.append(Bad(f"sample {key}", str(error)))
    settle(name, bad, on_bad)
    if not rows:
        raise InputError(f"{name}: there is no sample with an image and a label (KEY.jpg with KEY.cls or KEY.json)")
    ids = [str(row["id"]) for row in rows]
    split, unknown = read_splits(encode([row["split"] for row in rows]))
    grouped = all("group" in row for row in rows)
    return Manifest(
        name=name,
        inputs=_images([row["image"] for row in rows], ids),
        labels=encode([row["label"] for row in rows]),
        ids=np.array(ids, object),
        rows=np.arange(len(rows)),
        where=lambda row: f"sample {ids[row]}",
        split=None if unknown else split,
        group=encode([row["group"] for row in rows]) if grouped else None,
        skipped=tuple(bad),
    )


def _members(shard: Path) -> list[tarfile.TarInfo]:
    try:
        with tarfile.open(shard, "r:") as tar:
            return [member for member in tar if member.isfile()]
    except tarfile.ReadError as error:
        raise InputError(f"{shard} is not an uncompressed tar file, or it is damaged: {error}") from None
    except (OSError, ValueError, tarfile.TarError) as error:
        raise InputError(f"{shard} cannot be read: {error}") from None


def _described(parts: Mapping[str, _Member], columns: Mapping[str, str]) -> dict[str, Any]:
    """Return label, and split, group and id where they are said; raises ValueError with what is wrong."""
    if "cls" in parts:
        label = _content(parts["cls"]).decode("utf-8", "replace").strip()
        if not label:
            raise ValueError("has an empty .cls")
        return {"label": label}
    if "json" not in parts:
        raise ValueError(_NO_LABEL)
    try:
        fields = json.loads(_content(parts["json"]))
    except (ValueError, RecursionError):
        raise ValueError("has a JSON file that is not valid") from None
    out: dict[str, Any] = {}
    for role in ("label", "split", "group", "id"):
        names = [columns[role]] if role in columns else ALIASES[role]
        value = next((fields[name] for name in names if isinstance(fields, dict) and name in fields), None)
        if value is not None:
            out[role] = str(value)
    if "label" not in out:
        raise ValueError(_NO_LABEL)
    return out


def _content(member: _Member) -> bytes:
    with open(member.shard, "rb") as stream:
        stream.seek(member.offset)
        return stream.read(member.size)


def _images(members: Sequence[_Member], names: Sequence[str]) -> Images:
    changed = {shard: os.stat(shard).st_mtime_ns for shard in {member.shard for member in members}}

    def stamp(row: int) -> str:
        member = members[row]
        return f"{member.shard.name} {member.offset} {member.size} {changed[member.shard]}"

    return Images(np.array(names, object), lambda row: _content(members[row]), stamp, np.arange(len(members)))
