"""A Hugging Face dataset on disk, for `datasets.load_from_disk`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from tcsl.data.images import Images
from tcsl.data.manifest import Manifest
from tcsl.errors import InputError
from tcsl.export.marked import Marked
from tcsl.export.pixels import has_pixels, image_files
from tcsl.export.place import check_place
from tcsl.files import write_folder


def export_hub(samples: Marked, folder: Path | str) -> None:
    """Save the samples with the columns image (or inputs, where they are no images), label, id and the marks.

    The rows of a Hugging Face dataset stay whole, their columns under their own names, and the marks come beside them.
    """
    try:
        import datasets
    except ImportError:
        raise InputError("Hugging Face datasets need the package `datasets`: pip install 'tcsl[hub]'") from None
    source = samples.source
    target = Path(folder)
    check_place(target)
    columns = {name: samples.table[name].to_numpy() for name in samples.table.columns if name not in ("id", "label")}
    marks = datasets.Dataset.from_dict(
        {"label": source.labels.codes.tolist(), "id": samples.table["id"].to_list(), **columns}
    ).cast_column("label", datasets.ClassLabel(names=list(source.labels.names)))

    def fill(place: Path) -> None:
        (place / "rows").mkdir()  # what is too large for memory, until it is saved
        rows = (_own_rows if source.name.startswith("hf:") else _inputs)(source, place / "rows" / "rows.arrow")
        beside = marks.remove_columns([name for name in ("id", "label") if name in rows.column_names])
        twice = sorted(set(rows.column_names) & set(beside.column_names))
        if twice:
            raise InputError(f"{source.name} has a column {twice[0]} of its own, as the marks have: rename it")
        datasets.concatenate_datasets([rows, beside], axis=1).save_to_disk(place)
        shutil.rmtree(place / "rows")

    write_folder(target, fill)


def _own_rows(source: Manifest, file: Path) -> Any:
    """Return the samples' rows of the dataset that they come from."""
    import datasets

    from tcsl.data.hub import open_hub

    whole = datasets.concatenate_datasets(list(open_hub(source.name.removeprefix("hf:")).values()))
    return whole.select(source.rows.tolist()).flatten_indices(cache_file_name=str(file))  # not beside its own files


def _inputs(source: Manifest, file: Path) -> Any:
    """Return a dataset of one column: images, written to the file one after another, or lists of numbers."""
    import datasets
    from datasets.arrow_writer import ArrowWriter

    inputs = source.inputs
    if not isinstance(inputs, Images) and not (inputs.dtype == np.uint8 and has_pixels(inputs)):
        return datasets.Dataset.from_dict({"inputs": list(inputs)})
    read = image_files(source)
    with ArrowWriter(features=datasets.Features({"image": datasets.Image()}), path=str(file)) as writer:
        for i in range(len(source)):
            writer.write({"image": {"path": None, "bytes": read(i)}})
        writer.finalize()
    return datasets.Dataset.from_file(str(file))
