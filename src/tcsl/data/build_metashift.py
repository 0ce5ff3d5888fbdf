"""MetaShift's cats and dogs, indoor and outdoor, from Visual Genome's images and MetaShift's metadata.

MetaShift names subsets of images by an animal and something else in the picture, such as cat(sofa). Each of the four
groups is a union of subsets; in training most cats are indoors and most dogs outdoors, at test all groups are equal.
The draws have the original's fixed seeds. The original notes the groups in a pickle, this writes groups.csv.

MetaShift-subpopulation-shift/{train,val_out_of_domain}/{cat,dog}/ID.jpg    links to the images, or copies
MetaShift-subpopulation-shift/groups.csv                                    image_id, group; written last
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from tcsl.data.bad import Bad, describe
from tcsl.data.plain_pickle import read_plain_pickle
from tcsl.errors import InputError
from tcsl.files import write_atomic
from tcsl.types import Progress

MINORITY = {
    "cat(outdoor)": "car, fence, grass, roof, bench, bird, house",
    "dog(indoor)": (
        "screen, shelf, desk, picture, laptop, remote control, blanket, bed, sheet, lamp, books, pillow, curtain, "
        "container, table, cup, plate, food, box, rug, floor, cabinet, towel, bowl, television, carpet, sofa"
    ),
}
MAJORITY = {
    "cat(indoor)": (
        "speaker, computer, screen, laptop, computer mouse, keyboard, monitor, desk, sheet, bed, blanket, "
        "remote control, comforter, pillow, couch, books, book, television, bookshelf, blinds, sink, bottle, faucet, "
        "towel, counter, curtain, toilet, pot, carpet, toy, floor, plate, rug, food, table, box, paper, suitcase, bag, "
        "container, vase, shelf, bowl, picture, papers, lamp, cup, sofa"
    ),
    "dog(outdoor)": (
        "house, grass, horse, fence, cow, sheep, dirt, car, motorcycle, truck, helmet, snow, flag, boat, rope, trees, "
        "frisbee, bike, bicycle, sand, surfboard, water, fire hydrant, pole, skateboard, bench, trash can"
    ),
}
BOTH = "cat(dog)"  # neither a cat nor a dog by label
MINORITY_SIZE, MAJORITY_SIZE, TEST_SIZE = 294, 994, 144  # images of a group, and how many of them are for testing
MINORITY_TRAIN = 100  # of a class; they stand for as many of the majority
_SEED = 42
_FOLDERS = ("train", "val_out_of_domain")


def build_metashift(
    images: Path, metadata: Path, out: Path, *, copy: bool = False, progress: Progress | None = None
) -> Path:
    """Make the dataset's folder, or what is missing of it, and return it.

    Parameters
    ----------
    images : Visual Genome's images (those of GQA), ID.jpg, or a folder that holds them as images or allImages/images
    metadata : MetaShift's full-candidate-subsets.pkl; it is parsed, never unpickled
    out : the folder that holds MetaShift-subpopulation-shift afterwards
    copy : copy the images instead of linking to them
    """
    split = draw(_read_subsets(metadata))
    folder = out / "MetaShift-subpopulation-shift"
    targets = {
        folder / part / group.partition("(")[0] / f"{image}.jpg": image
        for part, groups in split.items()
        for group, ids in groups.items()
        for image in ids
    }
    strangers = sorted({path for part in _FOLDERS for path in (folder / part).glob("*/*.jpg")} - set(targets))
    if strangers:
        raise InputError(
            f"metashift: {folder} holds images that are not in this split: "
            f"{describe([Bad(str(path.relative_to(folder)), 'is not in it') for path in strangers])}. Delete that "
            "folder, or choose another"
        )
    source = _find(images, targets.values())
    for done, (target, image) in enumerate(targets.items(), start=1):
        _place(source / f"{image}.jpg", target, copy)
        if progress is not None:
            progress("building metashift", done, len(targets))
    for left in folder.rglob(".*.jpg.*.part"):  # by a build that was killed
        left.unlink(missing_ok=True)
    rows = [f"{image},{group}" for groups in split.values() for group, ids in groups.items() for image in sorted(ids)]
    write_atomic(folder / "groups.csv", "\n".join(["image_id,group", *rows, ""]))
    return folder


def draw(subsets: Mapping[str, set[str]]) -> dict[str, dict[str, list[str]]]:
    """Return the image ids of each group of the training and of the test set."""
    from sklearn.model_selection import train_test_split

    wanted = [BOTH, *(name for group in (*MINORITY, *MAJORITY) for name in _names(group))]
    absent = [name for name in wanted if name not in subsets]
    if absent:
        raise InputError(
            f"metashift: the metadata lacks {len(absent)} of the {len(wanted)} subsets: {', '.join(absent)}. Use the "
            "original full-candidate-subsets.pkl"
        )
    unions = {group: set().union(*(subsets[name] for name in _names(group))) for group in (*MINORITY, *MAJORITY)}
    taken = set(subsets[BOTH])
    minority = [_cut(group, unions[group] - taken, MINORITY_SIZE) for group in MINORITY]
    taken = taken.union(*(unions[group] for group in MINORITY))
    majority = [_cut(group, unions[group] - taken, MAJORITY_SIZE) for group in MAJORITY]
    seen: set[str] = set()
    for group, ids in zip((*MINORITY, *MAJORITY), (*minority, *majority), strict=True):
        if again := sorted(seen.intersection(ids)):
            raise InputError(
                f"metashift: {len(again)} images of {group} are in another group as well, such as {again[0]}; the "
                f"metadata's {BOTH} should name them. Use the original full-candidate-subsets.pkl"
            )
        seen.update(ids)
    # Both groups of a pair are split at the same places, in one call, as in the original.
    rare = train_test_split(*minority, test_size=TEST_SIZE, random_state=_SEED)
    common = train_test_split(*majority, test_size=TEST_SIZE, random_state=_SEED)
    train = {group: rare[2 * i][:MINORITY_TRAIN] for i, group in enumerate(MINORITY)}
    train |= {group: common[2 * i][MINORITY_TRAIN:] for i, group in enumerate(MAJORITY)}
    test = {group: rare[2 * i + 1] for i, group in enumerate(MINORITY)}
    test |= {group: common[2 * i + 1] for i, group in enumerate(MAJORITY)}
    return dict(zip(_FOLDERS, (train, test), strict=True))


def _names(group: str) -> list[str]:
    """Return the names of a group's subsets."""
    animal = group.partition("(")[0]
    return [f"{animal}({thing})" for thing in (MINORITY | MAJORITY)[group].split(", ")]


def _cut(group: str, ids: set[str], size: int) -> list[str]:
    """Return this many ids in an order that depends on the ids only."""
    if len(ids) < size:
        raise InputError(
            f"metashift: {group} needs {size} images, the metadata has {len(ids)} once those in other groups are "
            "taken away. Use the original full-candidate-subsets.pkl"
        )
    order = sorted(ids)
    random.Random(_SEED).shuffle(order)
    return order[:size]


def _read_subsets(metadata: Path) -> dict[str, set[str]]:
    stored = read_plain_pickle(metadata)
    if not isinstance(stored, dict) or not all(isinstance(ids, set | list) for ids in stored.values()):
        raise InputError(
            f"metashift: {metadata} must hold a dict from subsets such as cat(sofa) to sets of image ids; is it "
            "full-candidate-subsets.pkl?"
        )
    animals = tuple(f"{group.partition('(')[0]}(" for group in MINORITY)
    subsets = {name: set(map(str, ids)) for name, ids in stored.items() if str(name).startswith(animals)}
    odd = sorted({i for ids in subsets.values() for i in ids if not re.fullmatch(r"\w+", i)})
    if odd:  # an id becomes a file name
        raise InputError(
            f"metashift: {metadata} has image ids that are not letters and digits, such as {odd[0][:80]!r}"
        )
    return subsets


def _find(images: Path, ids: Iterable[str]) -> Path:
    """Return the folder that holds the images."""
    names = [f"{image}.jpg" for image in ids]
    absent = {
        folder: [name for name in names if not (folder / name).is_file()]
        for folder in (images, images / "images", images / "allImages" / "images")
    }
    best = min(absent, key=lambda folder: len(absent[folder]))
    if absent[best]:
        bad = [Bad(str(best / name), "is missing") for name in sorted(absent[best])]
        raise InputError(
            f"metashift: {describe(bad)}. Give the folder with all of Visual Genome's images (GQA's images.zip) with "
            "--images"
        )
    return best


def _place(source: Path, target: Path, copy: bool) -> None:
    """Put one image in its place, unless it is there."""
    if copy:
        if target.is_symlink() or not target.is_file():
            write_atomic(target, partial(shutil.copyfile, source))
    elif not target.is_file():
        try:
            target.unlink(missing_ok=True)  # a link whose image has moved
            target.parent.mkdir(parents=True, exist_ok=True)
            # From real folder to real folder: `..` after a link to a folder leads elsewhere.
            target.symlink_to(os.path.relpath(source.parent.resolve() / source.name, target.parent.resolve()))
        except OSError as error:
            raise InputError(
                f"metashift: cannot link {target} to {source} ({error.strerror or error}); copy the images with --copy"
            ) from error
