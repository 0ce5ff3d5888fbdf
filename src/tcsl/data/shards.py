"""WebDataset shards: tar files in which the members KEY.jpg and KEY.cls (or KEY.json) make one sample."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tcsl.data.bad import Bad, OnBad, settle
from tcsl.data.columns import ALIASES
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest, encode, read_splits, split_in_name
from tcsl.errors import InputError

_IMAGES = ("jpg", "jpeg", "png", "webp", "bmp", "gif", "ppm", "tif", "tiff")
_NO_LABEL = "has no label (neither .cls nor a label in .json; name it with --columns label=NAME)"
_BLOCK = 512  # bytes of a tar header


class _Member(NamedTuple):
    shard: Path
    offset: int
    size: int


def read_shards(shards: Sequence[Path], columns: Mapping[str, str], *, name: str, on_bad: OnBad) -> Manifest:
    """List the samples of tar shards.

    A sample is an image and its label: KEY.cls with the class, or KEY.json with a field for the label and, if there
    are any, for split, group, unit and id. Shards named train-*, val-*, test-* are those splits. The id is the key.
    """
    split_of = _splits(shards)
    rows: list[dict[str, Any]] = []
    bad: list[Bad] = []
    for shard in shards:
        samples: dict[str, dict[str, _Member]] = {}
        for member in _members(shard):
            folder, slash, last = member.name.rpartition("/")
            key, _, suffix = last.partition(".")
            if key:  # hidden files are nobody's samples
                place = _Member(shard, member.offset_data, member.size)
                samples.setdefault(folder + slash + key, {})[suffix.lower()] = place
        for key, parts in samples.items():
            where = f"sample {key} of {shard.name}"
            try:
                described = _described(key, parts, columns)
                rows.append({"where": where, "id": key, "split": split_of[shard], **described})
            except ValueError as error:
                bad.append(Bad(where, str(error)))
            except OSError as error:
                bad.append(Bad(where, f"cannot be read ({error.strerror or error})"))
    for role in ("split", "unit"):
        if role in columns or any(row.get(role) for row in rows):
            bad += [Bad(row["where"], f"has no {role}") for row in rows if not row.get(role)]
            rows = [row for row in rows if row.get(role)]
    settle(name, bad, on_bad)
    if not rows:
        raise InputError(f"{name}: there is no sample with an image and a label (KEY.jpg with KEY.cls or KEY.json)")
    places = [str(row["where"]) for row in rows]
    splits = encode([row["split"] for row in rows])
    split, unknown = read_splits(splits) if any(splits.names) else (None, {})
    manifest = Manifest(
        name=name,
        inputs=_images([row["image"] for row in rows], places),
        labels=encode([row["label"] for row in rows]),
        ids=np.array([row["id"] for row in rows], object),
        rows=np.arange(len(rows)),
        where=lambda row: places[row],
        split=split,
        group=encode([row.get("group", "") for row in rows]) if any("group" in row for row in rows) else None,
        unit=encode([row["unit"] for row in rows]) if "unit" in rows[0] else None,
        skipped=tuple(bad),
    )
    return manifest.without(manifest.of_values(splits, unknown), on_bad)


def _splits(shards: Sequence[Path]) -> dict[Path, str]:
    """Return the split in each shard's name, "" for all where no name has one."""
    found = {}
    for shard in shards:
        words = [split_in_name(word) for word in re.split(r"[-_.]", shard.name)]
        found[shard] = next(filter(None, words), "")
    unnamed = [shard.name for shard, split in found.items() if not split]
    if 0 < len(unnamed) < len(found):
        raise InputError(
            f"{unnamed[0]} lies beside shards that are named after splits: which split is it? Name all of them "
            "train-*, val-*, test-*, or none"
        )
    return found


def _members(shard: Path) -> list[tarfile.TarInfo]:
    try:
        with tarfile.open(shard, "r:") as tar:
            found = [member for member in tar if member.isfile()]
            end = tar.offset
        with open(shard, "rb") as stream:  # a damaged header ends the list as the true end does
            stream.seek(end)
            if stream.read(_BLOCK) != bytes(_BLOCK):
                raise tarfile.ReadError(f"it breaks off after {end:,} bytes")
    except tarfile.ReadError as error:
        raise InputError(f"{shard} is not an uncompressed tar file, or it is damaged: {error}") from None
    except Exception as error:  # tarfile raises a dozen kinds on damaged bytes
        raise InputError(f"{shard} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return found


def _described(key: str, parts: Mapping[str, _Member], columns: Mapping[str, str]) -> dict[str, Any]:
    """Return image and label, and the other roles where they are said; raises ValueError with what is wrong."""
    _check_text(key, "name")
    image = next((parts[suffix] for suffix in parts if suffix.rpartition(".")[2] in _IMAGES), None)
    if image is None:
        raise ValueError(f"has no image ({', '.join(sorted(parts)[:5])})")
    fields: Any = {}
    if "json" in parts:
        try:
            fields = json.loads(_content(parts["json"]))
        except (ValueError, RecursionError):
            raise ValueError("has a JSON file that is not valid") from None
    fields = fields if isinstance(fields, dict) else {}
    out: dict[str, Any] = {"image": image}
    for role in ("label", "split", "group", "unit", "id"):
        value = _field(fields, role, columns)
        if value:
            out[role] = value
    if "cls" in parts and "label" not in columns:
        try:
            out["label"] = _content(parts["cls"]).decode().strip()
        except UnicodeDecodeError:
            raise ValueError("has a .cls that is not UTF-8 text") from None
        _check_text(out["label"], ".cls")
        if not out["label"]:
            raise ValueError("has an empty .cls")
    if "label" not in out:
        raise ValueError(_NO_LABEL)
    return out


def _field(fields: Mapping[str, Any], role: str, columns: Mapping[str, str]) -> str:
    """Return the text of a role, "" where it is not there; a group may be several fields, joined by +."""
    given = columns.get(role)
    if given is None:  # what was named for one role is not guessed to have another
        taken = {name.strip() for value in columns.values() for name in (value, *value.split("+"))}
        names = [name for name in ALIASES[role] if name in fields and name not in taken][:1]
    else:
        names = [given] if given in fields or role != "group" else [name.strip() for name in given.split("+")]
        missing = [name for name in names if fields.get(name) is None]
        if missing and role == "group":  # a sample without a group is a sample all the same
            return ""
        if missing:
            raise ValueError(f"has no {missing[0]!r} in its .json, which --columns names for {role}")
    values = [fields[name] for name in names if fields[name] is not None]
    for value in values:
        if isinstance(value, dict | list) or value != value:
            raise ValueError(f"has a {role} that is neither a name nor a number")
    text = ", ".join(str(value) for value in values).strip()
    _check_text(text, role)
    return text


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"has a {what} that is not UTF-8 text") from None
    if "\0" in text:
        raise ValueError(f"has a zero byte in its {what}")


def _content(member: _Member) -> bytes:
    with open(member.shard, "rb") as stream:
        stream.seek(member.offset)
        return stream.read(member.size)


def _images(members: Sequence[_Member], names: Sequence[str]) -> Images:
    changed = {shard: os.stat(shard).st_mtime_ns for shard in {member.shard for member in members}}

    def stamp(row: int) -> str:
        member = members[row]
        return f"{member.shard.absolute()} {member.offset} {member.size} {changed[member.shard]}"

    return Images(np.array(names, object), lambda row: _content(members[row]), stamp, np.arange(len(members)))
