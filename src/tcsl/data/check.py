"""What is in a dataset and what is wrong with it, before anything is trained."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tcsl.data.bad import Bad, reasons
from tcsl.data.groups import check_group_count
from tcsl.data.image import BadImage, decode_image, open_image, quiet
from tcsl.data.images import Images
from tcsl.data.manifest import Column, Manifest, check_rows, divided_units
from tcsl.data.parallel import in_order
from tcsl.types import AnyArray, Progress

if TYPE_CHECKING:
    from tcsl.data.dataset import Dataset

_BLOCK = 64
_SHOWN = 10


class _Seen(NamedTuple):
    """One image, looked at."""

    size: tuple[int, int] | None
    mode: str
    digest: bytes
    why: str  # it cannot be used; empty where it can


def check_manifest(
    manifest: Manifest, *, look: bool = True, transform: str = "auto", progress: Progress | None = None
) -> dict[str, Any]:
    """Return what is in a dataset, as plain values for JSON; counts are of the samples that can be used.

    Parameters
    ----------
    manifest : read with `on_bad="skip"`, so that all that is wrong is told at once
    transform : what a run would do; with `none`, images of another size than the first are bad
    look : open every image; else sizes, modes, unreadable files and duplicates of images are not known
    """
    if manifest.group is not None:
        check_group_count(manifest.labels.names, manifest.group.names, manifest.name)
    listed = len(manifest) + len(manifest.skipped)
    manifest = check_rows(manifest, "skip")
    looked: dict[str, Any] = {}
    if not isinstance(manifest.inputs, Images):
        shape = list(manifest.inputs.shape[1:])
        looked = {"duplicates": _duplicates(manifest, _digests(manifest.inputs))}
        looked |= {"shape": shape, "dtype": str(manifest.inputs.dtype)}
    elif look:
        seen = dict(zip(manifest.rows.tolist(), _look(manifest.inputs, manifest.name, progress), strict=True))
        first = next((one.size for one in seen.values() if one.size), None)
        if transform == "none":
            odd = "has another size than the first image (choose a data.transform such as short:256,crop:224)"
            seen = {row: one._replace(why=one.why or odd * (one.size != first)) for row, one in seen.items()}
        bad = {i: Bad(_called(manifest, i), one.why) for i, one in enumerate(seen.values()) if one.why}
        manifest = check_rows(manifest.without(bad, "skip"), "skip")
        good = [seen[row] for row in manifest.rows.tolist()]
        sizes = Counter(one.size for one in good if one.size)
        looked = {
            "sizes": {
                "distinct": len(sizes),
                "most": {f"{width} x {height}": n for (width, height), n in sizes.most_common(5)},
            },
            "modes": dict(Counter(one.mode for one in good).most_common()),
            "duplicates": _duplicates(manifest, [one.digest for one in good]),
        }
    skipped = manifest.skipped
    training = _counts(manifest.labels.take(np.flatnonzero(manifest.training())))
    return {
        "source": manifest.name,
        "samples": len(manifest),
        "listed": listed,
        "classes": _counts(manifest.labels),
        "imbalance": max(training.values()) / min(training.values()),
        "splits": {"train": len(manifest)}
        if manifest.split is None
        else {split: int(manifest.part(split).sum()) for split in ("train", "val", "test")},
        **_groups(manifest),
        "units": None
        if manifest.unit is None
        else {"distinct": len(manifest.unit.compact().names), "divided": divided_units(manifest)},
        "bad": {
            "count": len(skipped),
            "reasons": dict(islice(reasons(skipped).items(), _SHOWN)),
            "first": [list(one) for one in skipped[:_SHOWN]],
        },
        **looked,
    }


def problems(report: Mapping[str, Any]) -> bool:
    """Tell whether there is anything that a run would refuse, or that makes its result doubtful."""
    copies = report.get("duplicates", {})
    units = report["units"] or {}
    return bool(
        report["bad"]["count"] or copies.get("across_splits") or copies.get("across_labels") or units.get("divided")
    )


def manifest_of(sets: Mapping[str, Dataset], name: str) -> Manifest:
    """Return the samples of a dataset that is made, not read, as a reader would list them.

    Parameters
    ----------
    sets : by split; ids of several have the split before them, since an id need not be unique over all
    """
    parts = list(sets.values())
    ids = parts[0].ids
    if len(parts) > 1:
        ids = np.concatenate([np.char.add(f"{split} ", data.ids.astype(str)) for split, data in sets.items()])
    return Manifest(
        name=name,
        inputs=np.concatenate([data.inputs.numpy() for data in parts]),
        labels=Column(np.concatenate([data.numpy_labels for data in parts]), parts[0].class_names),
        ids=ids,
        rows=np.arange(len(ids)),
        where=lambda row: f"sample {ids[row]}",
        split=Column(np.repeat(np.arange(len(parts)), [len(data) for data in parts]), tuple(sets)),
        group=_attribute(parts),
    )


def _attribute(sets: Sequence[Dataset]) -> Column | None:
    """Return the attribute of each sample, where it is known."""
    known = [data.groups for data in sets if data.groups is not None]
    if len(known) < len(sets):
        return None
    names = known[0].attribute_names
    cells = [groups.group if groups.cell is None else groups.cell for groups in known]  # class x attribute
    return Column(np.concatenate(cells) % len(names), names)


def _look(images: Images, name: str, progress: Progress | None) -> list[_Seen]:
    """Read and decode every image."""

    def one(i: int) -> _Seen:
        try:
            content = images.content(i)
            found = open_image(content)
            size, mode = found.size, found.mode
            decode_image(content)
            return _Seen(size, mode, hashlib.sha256(content).digest(), "")
        except BadImage as reason:
            return _Seen(None, "", b"", str(reason))
        except OSError as error:
            return _Seen(None, "", b"", f"cannot be read ({error.strerror or error})")

    def block(start: int) -> list[_Seen]:
        return [one(i) for i in range(start, min(start + _BLOCK, len(images)))]

    seen: list[_Seen] = []
    with quiet():
        for part in in_order(block, range(0, len(images), _BLOCK)):
            seen += part
            if progress is not None:
                progress(f"looking at {name}", len(seen), len(images))
    return seen


def _digests(inputs: AnyArray) -> list[bytes]:
    """Return a hash of the values of each input."""

    def block(start: int) -> list[bytes]:
        values = inputs[start : start + _BLOCK]
        values = values if values.dtype == np.uint8 else values + 0.0  # -0.0 is 0.0
        return [hashlib.sha256(value.tobytes()).digest() for value in values]

    return [digest for part in in_order(block, range(0, len(inputs), _BLOCK)) for digest in part]


def _called(manifest: Manifest, i: int) -> str:
    """Return what messages call image i: its place in the source, and its file where that is not the same."""
    assert isinstance(manifest.inputs, Images)
    where, name = manifest.where(int(manifest.rows[i])), str(manifest.inputs.names[i])
    return where if name in where else f"{where}: {name}"


def _duplicates(manifest: Manifest, digests: Sequence[bytes]) -> dict[str, Any]:
    """Return how many inputs are exact copies of an earlier one, and how many sets of copies differ in split or label.

    The first sets are named, those that differ before the others.
    """
    first: dict[bytes, int] = {}
    copies: dict[int, list[int]] = {}
    for i, digest in enumerate(digests):
        earliest = first.setdefault(digest, i)
        if earliest != i:
            copies.setdefault(earliest, [earliest]).append(i)
    labels, split, inputs = manifest.labels, manifest.split, manifest.inputs

    def differ(column: Column | None, members: Sequence[int]) -> bool:
        return column is not None and len({int(column.codes[i]) for i in members}) > 1

    def described(i: int) -> dict[str, str]:
        name = str(inputs.names[i]) if isinstance(inputs, Images) else manifest.where(int(manifest.rows[i]))
        said = {"name": name, "label": labels.names[labels.codes[i]]}
        return said if split is None else {**said, "split": split.names[split.codes[i]]}

    sets = list(copies.values())
    across_labels, across_splits = ([differ(column, members) for members in sets] for column in (labels, split))
    worst = sorted(range(len(sets)), key=lambda k: (not across_labels[k], not across_splits[k], k))
    return {
        "copies": len(digests) - len(first),
        "across_splits": sum(across_splits),
        "across_labels": sum(across_labels),
        "first": [[described(i) for i in sets[k][:_SHOWN]] for k in worst[:_SHOWN]],
    }


def _counts(column: Column) -> dict[str, int]:
    return dict(zip(column.names, np.bincount(column.codes, minlength=len(column.names)).tolist(), strict=True))


def _groups(manifest: Manifest) -> dict[str, Any]:
    """Return the size of every class x attribute that the training split has, and how many others it could have."""
    if manifest.group is None:
        return {"groups": {}, "empty_groups": 0}
    labels, group = manifest.labels, manifest.group.compact()
    group = replace(group, names=tuple(name or "not given" for name in group.names))
    cells = (labels.codes * len(group.names) + group.codes)[manifest.training()]
    found, counts = np.unique(cells, return_counts=True)  # not a table: a column of many names has few of the cells
    names = [f"{labels.names[cell // len(group.names)]}, {group.names[cell % len(group.names)]}" for cell in found]
    return {
        "groups": dict(zip(names, counts.tolist(), strict=True)),
        "empty_groups": len(labels.names) * len(group.names) - len(found),
    }
