"""What is in a dataset and what is wrong with it, before anything is trained."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from tcsl.data.bad import reasons
from tcsl.data.cache import in_order
from tcsl.data.image import BadImage, decode_image, open_image, quiet
from tcsl.data.images import Images
from tcsl.data.manifest import Manifest, check_rows
from tcsl.types import Progress

_BLOCK = 64
_SHOWN = 10


class _Seen(NamedTuple):
    """One input, looked at."""

    size: tuple[int, int] | None
    mode: str
    digest: bytes | None
    why: str  # it cannot be used; empty where it can


def check_manifest(manifest: Manifest, *, look: bool = True, progress: Progress | None = None) -> dict[str, Any]:
    """Return what is in a dataset, as plain values for JSON.

    Parameters
    ----------
    manifest : read with `on_bad="skip"`, so that all that is wrong is told at once
    look : open every image; else sizes, modes, unreadable files and duplicates are not known
    """
    listed = len(manifest) + len(manifest.skipped)
    manifest = check_rows(manifest, "skip")
    seen = _look(manifest, progress) if look else []
    bad = [*manifest.skipped, *(manifest.bad(i, one.why) for i, one in enumerate(seen) if one.why)]
    classes = _counts(manifest.labels.codes, manifest.labels.names)
    report: dict[str, Any] = {
        "source": manifest.name,
        "samples": len(manifest),
        "listed": listed,
        "classes": classes,
        "imbalance": max(classes.values()) / min(classes.values()),
        "splits": {split: int(manifest.part(split).sum()) for split in ("train", "val", "test")}
        if manifest.split is not None
        else {"train": len(manifest)},
        "groups": _group_counts(manifest),
        "bad": {"count": len(bad), "reasons": reasons(bad), "first": [list(one) for one in bad[:_SHOWN]]},
    }
    if seen:
        report["duplicates"] = _duplicates(manifest, seen)
        if isinstance(manifest.inputs, Images):
            good = [one for one in seen if not one.why]
            sizes = Counter(f"{one.size[0]} x {one.size[1]}" for one in good if one.size)
            report["sizes"] = {"distinct": len(sizes), "most": dict(sizes.most_common(5))}
            report["modes"] = dict(Counter(one.mode for one in good).most_common())
    if isinstance(manifest.inputs, Tensor):
        report["shape"] = list(manifest.inputs.shape[1:])
    return report


def problems(report: Mapping[str, Any]) -> bool:
    """Tell whether there is anything that a run would refuse, or that makes its result doubtful."""
    copies = report.get("duplicates", {})
    return bool(report["bad"]["count"] or copies.get("across_splits") or copies.get("across_labels"))


def _look(manifest: Manifest, progress: Progress | None) -> list[_Seen]:
    """Read every input on all cores."""
    inputs, n = manifest.inputs, len(manifest)

    def one(i: int) -> _Seen:
        if isinstance(inputs, Tensor):
            return _Seen(None, "", hashlib.sha256(inputs[i].numpy().tobytes()).digest(), "")
        try:
            content = inputs.content(i)
            found = open_image(content)
            size, mode = found.size, found.mode
            decode_image(content)
            return _Seen(size, mode, hashlib.sha256(content).digest(), "")
        except BadImage as reason:
            return _Seen(None, "", None, str(reason))
        except OSError as error:
            return _Seen(None, "", None, f"cannot be read ({error.strerror or error})")

    def block(start: int) -> list[_Seen]:
        return [one(i) for i in range(start, min(start + _BLOCK, n))]

    seen: list[_Seen] = []
    with quiet():
        for part in in_order(block, range(0, n, _BLOCK)):
            seen += part
            if progress is not None:
                progress(f"looking at {manifest.name}", len(seen), n)
    return seen


def _duplicates(manifest: Manifest, seen: Sequence[_Seen]) -> dict[str, Any]:
    """Return how many inputs are exact copies of an earlier one, and how many of these lie across splits or labels."""
    copies: dict[bytes, list[int]] = defaultdict(list)
    for i, one in enumerate(seen):
        if one.digest is not None:
            copies[one.digest].append(i)
    several = [members for members in copies.values() if len(members) > 1]
    splits, labels = manifest.split, manifest.labels

    def differ(codes: Any, members: list[int]) -> bool:
        return len({int(codes[i]) for i in members}) > 1

    def name(i: int) -> str:
        inputs = manifest.inputs
        return str(inputs.names[i]) if isinstance(inputs, Images) else manifest.where(int(manifest.rows[i]))

    across_splits = [members for members in several if splits is not None and differ(splits.codes, members)]
    across_labels = [members for members in several if differ(labels.codes, members)]
    worst = [*across_labels, *across_splits, *several]
    return {
        "copies": sum(len(members) - 1 for members in several),
        "across_splits": len(across_splits),
        "across_labels": len(across_labels),
        "first": [[name(i) for i in members[:_SHOWN]] for members in worst[:_SHOWN]],
    }


def _counts(codes: Any, names: Sequence[str]) -> dict[str, int]:
    return dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))


def _group_counts(manifest: Manifest) -> dict[str, int]:
    """Return the size of every class x attribute, of the training split."""
    if manifest.group is None:
        return {}
    training = manifest.training()
    labels, group = manifest.labels, manifest.group
    table = np.zeros((len(labels.names), len(group.names)), np.int64)
    np.add.at(table, (labels.codes[training], group.codes[training]), 1)
    return {
        f"{label}, {attribute}": int(table[i, j])
        for i, label in enumerate(labels.names)
        for j, attribute in enumerate(group.names)
    }
