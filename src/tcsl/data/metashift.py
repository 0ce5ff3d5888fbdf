"""MetaShift: cats and dogs, indoor and outdoor.

`metashift` is the split of the original release: MetaShift-subpopulation-shift/train and val_out_of_domain (the test
set) with cat/ID.jpg and dog/ID.jpg, and the group of each image in groups.csv (ours) or imageID_to_group.pkl (the
original's, read by a parser that runs nothing). 750 + 750 training images are cats indoor and dogs outdoor, 100 + 100
the other way round; 144 test images in each of the four groups; no validation split.

`metashift_subpopbench` is SubpopBench's larger split: metashift/metadata_metashift.csv with filename, y (1 cat),
a (1 indoor) and split.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from tcsl.data.bad import OnBad
from tcsl.data.download import Remote
from tcsl.data.images import files, missing_or_outside
from tcsl.data.known import Known, check_counts, data_root, need, read_rows
from tcsl.data.manifest import Manifest, encode, read_splits
from tcsl.data.plain_pickle import read_plain_pickle
from tcsl.errors import InputError

_CLASSES, _PLACES = ("cat", "dog"), ("indoor", "outdoor")
_FOLDERS = {"train": "train", "test": "val_out_of_domain"}
OFFICIAL = {
    "train": {"cat(indoor)": 750, "cat(outdoor)": 100, "dog(indoor)": 100, "dog(outdoor)": 750},
    "test": {"cat(indoor)": 144, "cat(outdoor)": 144, "dog(indoor)": 144, "dog(outdoor)": 144},
}
SUBPOPBENCH = {"train": 2276, "val": 349, "test": 874}
_TREE = "MetaShift-Cat-Dog-indoor-outdoor"


def read(*, root: str = "", on_bad: OnBad = "error", check: bool = True) -> Manifest:
    """List the original split.

    Parameters
    ----------
    root : the folder that holds MetaShift-subpopulation-shift
    check : refuse a copy whose group counts are not the official ones
    """
    place = need("metashift", data_root(root), "MetaShift-subpopulation-shift")
    need_here = partial(need, "metashift", data_root(root), within=place)
    table = need_here("groups.csv", "imageID_to_group.pkl")
    group_of = _read_groups(table)
    paths, labels, splits, groups = [], [], [], []
    for split, folder in _FOLDERS.items():
        for label in _CLASSES:
            for path in sorted(need_here(f"{folder}/{label}").glob("*.jpg")):
                if path.stem not in group_of:
                    raise InputError(f"metashift: image {path} is not in {table}")
                if not group_of[path.stem].startswith(label):
                    raise InputError(f"metashift: image {path} is in group {group_of[path.stem]} of {table}")
                paths.append(str(path.relative_to(place)))
                labels.append(label)
                splits.append(split)
                groups.append(group_of[path.stem])
        found = Counter(group for group, where in zip(groups, splits, strict=True) if where == split)
        if check:
            check_counts("metashift", place / folder, found, OFFICIAL[split])
    manifest = Manifest(
        name="metashift",
        inputs=files(place, paths),
        labels=encode(labels, _CLASSES),
        ids=np.array(paths),
        rows=np.arange(len(paths)),
        where=lambda row: paths[row],
        split=read_splits(encode(splits))[0],
        group=encode([group.partition("(")[2].rstrip(")") for group in groups], _PLACES),
    )
    # The release consists of links to Visual Genome's images, wherever these are.
    return manifest.without(missing_or_outside(place, paths, bounds=Path("/")), on_bad)


def _read_groups(table: Path) -> dict[str, str]:
    """Return the group, such as cat(indoor), of each image id."""
    if table.suffix == ".csv":
        found = {row["image_id"]: row["group"] for row in read_rows("metashift", table, {"image_id": (), "group": ()})}
    else:
        stored = read_plain_pickle(table)
        if not isinstance(stored, dict):
            raise InputError(
                f"metashift: {table} must hold a dict from image ids to groups, got {type(stored).__name__}"
            )
        found = {str(k): v[0] if isinstance(v, list | tuple) and v else v for k, v in stored.items()}
    for image, group in found.items():
        if group not in tuple(OFFICIAL["train"]):
            raise InputError(
                f"metashift: {table} has group {group!r} for image {image!r}; groups are {', '.join(OFFICIAL['train'])}"
            )
    return found


def read_subpopbench(*, root: str = "", on_bad: OnBad = "error", check: bool = True) -> Manifest:
    """List SubpopBench's split.

    Parameters
    ----------
    root : the folder that holds metashift
    check : refuse a copy whose split sizes are not the official ones
    """
    name = "metashift_subpopbench"
    table = need(name, data_root(root), "metashift/metadata_metashift.csv")
    rows = read_rows(name, table, {"filename": (), "y": ("0", "1"), "a": ("0", "1"), "split": ("0", "1", "2")})
    # The file names are absolute ones of the machine that wrote them; what follows the tree's name holds here, too.
    paths = ["".join(row["filename"].rpartition(_TREE)[1:]) for row in rows]
    manifest = Manifest(
        name=name,
        inputs=files(table.parent, paths),
        labels=encode([_CLASSES[row["y"] == "0"] for row in rows], _CLASSES),
        ids=np.array(paths),
        rows=np.arange(len(rows)),
        where=lambda row: f"line {row + 2} of {table.name}",
        split=read_splits(encode([row["split"] for row in rows]))[0],
        group=encode([_PLACES[row["a"] == "0"] for row in rows], _PLACES),
    )
    if check:
        found = {split: int(manifest.part(split).sum()) for split in SUBPOPBENCH}
        check_counts(name, table, found, SUBPOPBENCH)
    return manifest.without(missing_or_outside(table.parent, paths), on_bad)


DATASET = Known(
    title="cats and dogs indoor and outdoor; 1,700 training images, 12 % against the place",
    read=read,
    markers=("MetaShift-subpopulation-shift/groups.csv", "MetaShift-subpopulation-shift/imageID_to_group.pkl"),
    by_hand=(
        "make it from Visual Genome's images (https://nlp.stanford.edu/data/gqa/images.zip, 20 GB) and MetaShift's "
        "full-candidate-subsets.pkl (in dataset/meta_data of Weixin-Liang/MetaShift): "
        "tcsl data build metashift --images allImages/images --metadata full-candidate-subsets.pkl"
    ),
)
DATASET_SUBPOPBENCH = Known(
    title="SubpopBench's split of MetaShift; 2,276 training images",
    read=read_subpopbench,
    markers=("metashift/metadata_metashift.csv",),
    remotes=(
        (Remote("https://www.dropbox.com/s/a7k65rlj4ownyr2/metashift.tar.gz?dl=1", "metashift.tar.gz"), "metashift"),
    ),
    by_hand="metadata_metashift.csv is written by SubpopBench's own `python -m subpopbench.scripts.download`",
)
