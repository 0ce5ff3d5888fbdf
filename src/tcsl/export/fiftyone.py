"""FiftyOne's own dataset format on disk (`fiftyone.types.FiftyOneDataset`): metadata.json, samples.json and data/.

The two files hold, as JSON, what FiftyOne keeps in its database; its `FiftyOneDatasetImporter` reads them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from tcsl.data.images import Images
from tcsl.data.manifest import Manifest
from tcsl.errors import InputError
from tcsl.export.marked import Marked
from tcsl.export.pixels import ending, image_files
from tcsl.export.place import check_place
from tcsl.files import write_folder
from tcsl.registry import unknown

ImageFiles = Literal["copy", "link"]

_VERSION = "1.0.0"  # of FiftyOne; a later one brings what it reads up to date, an earlier one refuses it


def export_fiftyone(samples: Marked, folder: Path | str, *, images: ImageFiles = "copy") -> None:
    """Write the samples so that `fiftyone.Dataset.from_dir` opens them; the package itself is not needed here.

    A sample has its class as `ground_truth`, the tags `g_high`, `coreset` and `marked` where they apply, `tcsl_s`,
    `tcsl_c`, and its id as `tcsl_id`: FiftyOne's `id` is one of its own.

    Parameters
    ----------
    images : "copy" puts them into data/, inputs that are not files as PNG; "link" names the files where they lie
    """
    if images not in get_args(ImageFiles):
        raise unknown("images", str(images), get_args(ImageFiles))
    source = samples.source
    path_of = (_copied if images == "copy" else _where_they_lie)(source)
    target = Path(folder)
    check_place(target)

    def fill(place: Path) -> None:
        (place / "data").mkdir()
        (place / "metadata.json").write_text(json.dumps(_dataset(samples)))
        with open(place / "samples.json", "w") as stream:
            stream.write('{"samples": [')
            for i, row in enumerate(samples.table.iter_rows(named=True)):
                document = _sample(row, path_of(i, place), samples.fingerprint)
                stream.write((",\n" if i else "\n") + json.dumps(document))
            stream.write("\n]}\n")

    write_folder(target, fill)


def _copied(source: Manifest) -> Callable[[int, Path], str]:
    """Return a function that writes image i into a folder and returns its path there."""
    read, width = image_files(source), len(str(len(source)))

    def write(i: int, place: Path) -> str:
        content = read(i)
        path = f"data/{i:0{width}d}{ending(content, source.where(int(source.rows[i])))}"
        (place / path).write_bytes(content)
        return path

    return write


def _where_they_lie(source: Manifest) -> Callable[[int, Path], str]:
    """Return a function from i to the full path of an image file."""
    inputs = source.inputs
    if not isinstance(inputs, Images) or inputs.path is None:
        raise InputError(f"the inputs of {source.name} are not image files that could be linked: use --images copy")
    path = inputs.path
    return lambda i, _: os.path.abspath(path(int(inputs.rows[i])))


def _sample(row: Mapping[str, Any], path: str, fingerprint: str) -> dict[str, Any]:
    """Return the document of a sample; the same data have the same ids in every export."""
    name = hashlib.sha256(f"{fingerprint} {row['id']}".encode()).hexdigest()
    tags = [tag for tag, mark in (("g_high", "g_high"), ("coreset", "chosen"), ("marked", "marked")) if row.get(mark)]
    return {
        "_id": {"$oid": name[:24]},
        "filepath": path,
        "tags": tags,
        "_media_type": "image",
        "_rand": 0.999 + 0.001 * int(name[48:], 16) / 16**16,  # what FiftyOne shuffles by, in its range
        "ground_truth": {
            "_id": {"$oid": name[24:48]},
            "_cls": "Classification",
            "tags": [],
            "label": row["label"],
        },
        "tcsl_id": str(row["id"]),
        **{score: row[score] for score in ("tcsl_s", "tcsl_c") if score in row},
    }


def _dataset(samples: Marked) -> dict[str, Any]:
    """Return the document of the dataset: its fields, and what it was made from."""
    scores = [
        _field(name, "Float", description=f"mean loss of the {model} model")
        for name, model in (("tcsl_s", "biased"), ("tcsl_c", "core"))
        if name in samples.table.columns
    ]
    return {
        "_id": {"$oid": samples.fingerprint[:24]},
        "name": "tcsl",  # FiftyOne gives another one
        "version": _VERSION,
        "sample_collection_name": "samples",
        "persistent": False,
        "media_type": "image",
        "group_media_types": {},
        "tags": [],
        "info": {"data": samples.source.name, "fingerprint": samples.fingerprint},
        "app_config": {
            "media_fields": ["filepath"],
            "grid_media_field": "filepath",
            "modal_media_field": "filepath",
            "plugins": {},
        },
        "classes": {"ground_truth": list(samples.source.labels.names)},
        "default_classes": [],
        "mask_targets": {},
        "default_mask_targets": {},
        "skeletons": {},
        "sample_fields": [
            _field("id", "ObjectId", db_field="_id"),
            _field("filepath", "String"),
            _field("tags", "List", subfield=_kind("String")),
            _field("metadata", "EmbeddedDocument", embedded_doc_type="fiftyone.core.metadata.ImageMetadata"),
            _field("_media_type", "String"),
            _field("_rand", "Float"),
            _field("_dataset_id", "ObjectId"),
            _field("created_at", "DateTime", read_only=True),
            _field("last_modified_at", "DateTime", read_only=True),
            _field(
                "ground_truth",
                "EmbeddedDocument",
                embedded_doc_type="fiftyone.core.labels.Classification",
                fields=[
                    _field("id", "ObjectId", db_field="_id"),
                    _field("tags", "List", subfield=_kind("String")),
                    _field("label", "String"),
                    _field("confidence", "Float"),
                    _field("logits", "Vector"),
                ],
            ),
            _field("tcsl_id", "String", description="the sample's id in the run"),
            *scores,
        ],
        "frame_fields": [],
        "saved_views": [],
        "workspaces": [],
        "annotation_runs": {},
        "brain_methods": {},
        "evaluations": {},
        "runs": {},
    }


def _field(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """Return how FiftyOne describes a field."""
    return {
        "name": name,
        "ftype": _kind(kind),
        "embedded_doc_type": None,
        "subfield": None,
        "fields": [],
        "db_field": name,
        "description": None,
        "info": None,
        "read_only": False,
        **more,
    }


def _kind(kind: str) -> str:
    return f"fiftyone.core.fields.{kind}Field"
