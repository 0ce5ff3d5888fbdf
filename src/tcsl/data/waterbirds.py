"""Waterbirds in the official layout: birds of CUB-200-2011 on backgrounds of Places, 95 % on the one they live in.

waterbirds_v1.0/metadata.csv has img_id, img_filename, y (0 landbird, 1 waterbird), split (0 train, 1 val, 2 test),
place (0 land, 1 water) and place_filename. Where views/core and views/spurious lie beside it (`tcsl data build
waterbirds` makes them), x^c and x^s are loaded, too.

The images are resized to 256 x 256 and cropped to 224 x 224, as in the literature; a copy whose images have one size
already (such as 224 x 224 crops) passes unchanged.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tcsl.data.bad import OnBad
from tcsl.data.download import Remote
from tcsl.data.images import files, missing_or_outside
from tcsl.data.known import Known, check_counts, data_root, need, read_rows
from tcsl.data.manifest import Column, Manifest, encode, read_splits

OFFICIAL = {
    f"{split} {group}": n
    for split, counts in {
        "train": (3498, 184, 56, 1057),
        "val": (467, 466, 133, 133),
        "test": (2255, 2255, 642, 642),
    }.items()
    for group, n in zip(
        ("landbird, land", "landbird, water", "waterbird, land", "waterbird, water"), counts, strict=True
    )
}
_COLUMNS = {"img_id": (), "img_filename": (), "y": ("0", "1"), "split": ("0", "1", "2"), "place": ("0", "1")}
_VIEWS = ("core", "spurious")


def read(*, root: str = "", on_bad: OnBad = "error", check: bool = True) -> Manifest:
    """List Waterbirds.

    Parameters
    ----------
    root : the folder that holds waterbirds_v1.0
    check : refuse a copy whose group counts are not the official ones
    """
    metadata = need(
        "waterbirds", data_root(root), "waterbirds_v1.0/metadata.csv", "waterbird_complete95_forest2water2/metadata.csv"
    )
    rows = read_rows("waterbirds", metadata, _COLUMNS)
    paths = [row["img_filename"] for row in rows]
    folder = metadata.parent
    views = {name: files(folder / "views" / name, paths) for name in _VIEWS if (folder / "views" / name).is_dir()}
    manifest = Manifest(
        name="waterbirds",
        inputs=files(folder, paths),
        labels=Column(encode([row["y"] for row in rows], ("0", "1")).codes, ("landbird", "waterbird")),
        ids=np.array([int(row["img_id"]) if row["img_id"].isdecimal() else row["img_id"] for row in rows]),
        rows=np.arange(len(rows)),
        where=lambda row: f"line {row + 2} of {metadata.name}",
        split=read_splits(encode([row["split"] for row in rows]))[0],
        group=Column(encode([row["place"] for row in rows], ("0", "1")).codes, ("land", "water")),
        views=views,
    )
    if check:
        check_counts("waterbirds", metadata, _counts(manifest), OFFICIAL)
    return manifest.without(missing_or_outside(folder, paths), on_bad)


def _counts(manifest: Manifest) -> dict[str, int]:
    """Return the size of every group of every split."""
    assert manifest.split is not None
    assert manifest.group is not None
    columns = (manifest.split, manifest.labels, manifest.group)
    names = ([column.names[code] for code in column.codes.tolist()] for column in columns)
    return dict(Counter(f"{split} {label}, {place}" for split, label, place in zip(*names, strict=True)))


DATASET = Known(
    title="birds on land or water; 4,795 training images, 5 % against the background",
    read=read,
    transform="resize:256,crop:224",
    markers=("waterbirds_v1.0/metadata.csv", "waterbird_complete95_forest2water2/metadata.csv"),
    remotes=(
        (
            # The publisher gives no checksum; the counts of metadata.csv are checked on loading.
            Remote(
                "https://worksheets.codalab.org/rest/bundles/0x505056d5cdea4e4eaa0e242cbfe2daa4/contents/blob/",
                "waterbirds_v1.0.tar.gz",
            ),
            "waterbirds_v1.0",
        ),
    ),
    by_hand="tcsl data build waterbirds --cub CUB_200_2011 --places PLACES makes it, and its views, from its sources",
)
