"""UrbanCars in the layout that Whac-A-Mole's generator makes: urban and country cars, backgrounds and things beside.

    urbancars/bg-0.95_co_occur_obj-0.95/train/obj-urban_bg-country_co_occur_obj-urban/000.jpg
    urbancars/bg-0.5_co_occur_obj-0.5/{val,test}/...

`urbancars` is the original with two spurious attributes: its attribute is the pair of background and co-occurring
object, a sample contradicts the shortcut where either disagrees with the car, and there are eight groups.

`urbancars_b` (UrbanCars-B of the paper) has the background as its only spurious attribute: 7,600 training samples on
their own background and 400 on the other. The generator makes it with `--co_occur_obj_ratio 0.5`, so that the object
says nothing: its training folder is bg-0.95_co_occur_obj-0.5. Groups are car x background.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from tcsl.data.bad import OnBad
from tcsl.data.images import files, missing_or_outside
from tcsl.data.known import Known, check_counts, data_root, need
from tcsl.data.manifest import Column, Manifest, encode, read_splits
from tcsl.errors import InputError

_NAMES = ("urban", "country")
_EVEN = "bg-0.5_co_occur_obj-0.5"


def read(*, name: str, root: str = "", on_bad: OnBad = "error", check: bool = True) -> Manifest:
    """List UrbanCars, or UrbanCars-B.

    Parameters
    ----------
    name : urbancars or urbancars_b
    root : the folder that holds urbancars
    check : refuse a copy whose group counts are not the generator's
    """
    both = name == "urbancars"
    train = f"bg-0.95_co_occur_obj-{'0.95' if both else '0.5'}"
    place = data_root(root) / "urbancars"
    inside = {"train": f"{train}/train", "val": f"{_EVEN}/val", "test": f"{_EVEN}/test"}
    folders = {split: need(name, data_root(root), path, within=place) for split, path in inside.items()}
    paths, cars, backgrounds, objects, splits = [], [], [], [], []
    for split, folder in folders.items():
        for car in _NAMES:
            for background in _NAMES:
                for thing in _NAMES:
                    found = sorted((folder / f"obj-{car}_bg-{background}_co_occur_obj-{thing}").glob("*.jpg"))
                    paths += [str(path.relative_to(place)) for path in found]
                    n = len(found)
                    cars += [car] * n
                    backgrounds += [background] * n
                    objects += [thing] * n
                    splits += [split] * n
        if split not in splits:
            raise InputError(f"{name}: {folder} has no folder such as obj-urban_bg-urban_co_occur_obj-urban with *.jpg")
    attribute = [f"{b} background, {o} object" for b, o in zip(backgrounds, objects, strict=True)]
    names = tuple(f"{b} background, {o} object" for b in _NAMES for o in _NAMES)
    manifest = Manifest(
        name=name,
        inputs=files(place, paths),
        labels=encode(cars, _NAMES),
        ids=np.array(paths),
        rows=np.arange(len(paths)),
        where=lambda row: paths[row],
        split=read_splits(encode(splits))[0],
        group=encode(attribute, names)
        if both
        else Column(encode(backgrounds, _NAMES).codes, tuple(f"{b} background" for b in _NAMES)),
    )
    if check:
        for split, folder in folders.items():
            found_counts = Counter(
                f"{car} car on {b} with {o} object"
                for car, b, o, where in zip(cars, backgrounds, objects, splits, strict=True)
                if where == split
            )
            check_counts(name, folder, found_counts, _official(split, both))
    return manifest.without(missing_or_outside(place, paths), on_bad)


def _official(split: str, both: bool) -> dict[str, int]:
    """Return the generator's counts: int(ratio * n) at each branch, 4,000 and 500 samples a class."""
    n, on_own, with_own = (4000, 0.95, 0.95 if both else 0.5) if split == "train" else (500, 0.5, 0.5)
    counts = {}
    for car in _NAMES:
        for background in _NAMES:
            for thing in _NAMES:
                share = (on_own if background == car else 1 - on_own) * (with_own if thing == car else 1 - with_own)
                counts[f"{car} car on {background} with {thing} object"] = round(n * share)
    return counts


_BY_HAND = (
    "its sources do not permit a ready-made copy. Make it with the generator of Whac-A-Mole "
    "(facebookresearch/Whac-A-Mole, gen_urbancars.py): {how} val and test with ratios of 0.5. Put the folders that it "
    "writes into ROOT/urbancars"
)
DATASET = Known(
    title="urban and country cars; background and co-occurring object agree in 95 %",
    transform="resize:256,crop:224",  # where the images were not left at the generator's 256 x 256
    read=partial(read, name="urbancars"),
    markers=("urbancars/bg-0.95_co_occur_obj-0.95/train",),
    by_hand=_BY_HAND.format(how="train with its defaults,"),
)
DATASET_B = Known(
    title="UrbanCars-B: the background is the only shortcut; 8,000 training images, 5 % against it",
    transform="resize:256,crop:224",  # where the images were not left at the generator's 256 x 256
    read=partial(read, name="urbancars_b"),
    markers=("urbancars/bg-0.95_co_occur_obj-0.5/train",),
    by_hand=_BY_HAND.format(how="train with --co_occur_obj_ratio 0.5,"),
)
