"""Waterbirds from its sources: birds of CUB-200-2011, cut out and laid on pictures of Places, and the two views.

The recipe is that of the original release (kohpangwei/group_DRO). The release was drawn without a seed and cannot be
drawn again; here the draws come from a seed, so the counts of every split, label and place are equal and the pictures
differ. How many of the validation images are waterbirds was left to chance in the release; here it is what came out
there. To use the release's own draws, put its metadata.csv in place first: a metadata.csv that is there is followed.

waterbirds_v1.0/metadata.csv        img_id, img_filename, y, split, place, place_filename; written last
waterbirds_v1.0/NAME                the bird on the place, NAME as in CUB (img_filename)
waterbirds_v1.0/views/core/NAME     the bird on black, x^c
waterbirds_v1.0/views/spurious/NAME the place alone, as it was behind the bird, x^s

Until everything is there, the table is metadata.csv.part and the views are in views.part: an interrupted build is not
taken for a finished one, and goes on where it stopped.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from PIL import Image

from tcsl.data.bad import Bad, describe
from tcsl.data.image import BadImage, open_image, quiet
from tcsl.data.parallel import cores
from tcsl.errors import InputError
from tcsl.files import write_atomic
from tcsl.seeds import generator
from tcsl.types import IntArray, Progress

# As parts of words, as in the release: "tern" also makes waterbirds of the Eastern Towhee, the Western Meadowlark and
# the Western Wood Pewee (180 images), and the release's labels have it so.
WATERBIRDS = (
    *("albatross", "auklet", "cormorant", "frigatebird", "fulmar", "gull", "jaeger", "kittiwake", "pelican"),
    *("puffin", "tern", "gadwall", "grebe", "mallard", "merganser", "guillemot", "pacific_loon"),
)
LAND, WATER = ("bamboo_forest", "forest/broadleaf"), ("ocean", "lake/natural")  # categories of Places
VALIDATION = 0.2  # of CUB's training images
WATERBIRDS_IN_VALIDATION = 266 / 1379  # of CUB's training images of waterbirds, as the release's chance would have it
ON_WATER = ((0.05, 0.95), (0.5, 0.5), (0.5, 0.5))  # of landbirds and of waterbirds, in train, val and test
_COLUMNS = ("img_id", "img_filename", "y", "split", "place", "place_filename")
_QUALITY = {"image": 75, "core": 95, "spurious": 95}  # 75: Pillow's default, which the release has
_AGAIN = "Put that right and build again: what is made already is kept"


class Composite(NamedTuple):
    """A bird on a place, and what it is made of."""

    image: Image.Image
    core: Image.Image
    spurious: Image.Image


class _Job(NamedTuple):
    """One bird: what it is made of, and the files that are missing, by the names of Composite's parts."""

    image: Path
    mask: Path
    place: Path
    targets: dict[str, Path]


def build_waterbirds(cub: Path, places: Path, out: Path, *, seed: int = 0, progress: Progress | None = None) -> Path:
    """Make Waterbirds and its two views, or what is missing of them, and return their folder.

    Parameters
    ----------
    cub : CUB_200_2011, with segmentations/ in it or beside it
    places : Places365 as published for Torralba's large images (with data_large/, or that folder itself) or in the
        "easy format" (with train/CATEGORY/, or that folder itself)
    out : the folder that holds waterbirds_v1.0 afterwards
    seed : draws the validation images, which bird gets which kind of place, and the pictures; without effect where
        metadata.csv is there already
    """
    folder = out / "waterbirds_v1.0"
    metadata, begun = folder / "metadata.csv", folder / "metadata.csv.part"
    if metadata.exists():
        pairs = _read_pairs(metadata)
    else:
        table = draw(cub, places, seed)
        _begin(begun, table, [name for _, name, *_ in table])
        pairs = _read_pairs(begun)
    views, unfinished = folder / "views", folder / "views.part"
    _make(_jobs(cub, places, folder, views if views.is_dir() else unfinished, pairs), progress)
    if unfinished.is_dir() and not views.is_dir():
        os.replace(unfinished, views)
    for left in folder.rglob(".*.jpg.*.part"):  # by a build that was killed
        left.unlink(missing_ok=True)
    if not metadata.exists():
        write_atomic(metadata, begun.read_bytes())
    begun.unlink(missing_ok=True)
    return folder


def is_waterbird(name: str) -> bool:
    """Tell whether CUB's image is of a waterbird, by its folder.

    >>> is_waterbird("147.Least_Tern/Least_Tern_0001.jpg"), is_waterbird("017.Cardinal/Cardinal_0001.jpg")
    (True, False)
    """
    species = name.partition("/")[0].partition(".")[2].lower()
    return any(word in species for word in WATERBIRDS)


def draw(cub: Path, places: Path, seed: int) -> list[tuple[str, str, int, int, int, str]]:
    """Return the rows of metadata.csv: split, kind of place and picture of each of CUB's images."""
    ids, names, train = _read_cub(cub)
    y = np.array([is_waterbird(name) for name in names], np.int64)
    split = np.where(train, 0, 2)
    water = _rounded(WATERBIRDS_IN_VALIDATION, int(y[split == 0].sum()))
    for label, count in enumerate((_rounded(VALIDATION, int(train.sum())) - water, water)):
        split[_some(np.flatnonzero((split == 0) & (y == label)), count, seed, f"val {label}")] = 1
    place = np.zeros_like(y)
    for part, fractions in enumerate(ON_WATER):
        for label, fraction in enumerate(fractions):
            rows = np.flatnonzero((split == part) & (y == label))
            place[_some(rows, _rounded(fraction, len(rows)), seed, f"place {part} {label}")] = 1
    pictures = [""] * len(names)
    for kind, categories in enumerate((LAND, WATER)):
        rows = np.flatnonzero(place == kind)
        found = [f"/{category[0]}/{category}/{file}" for category in categories for file in _listed(places, category)]
        if len(found) < len(rows):
            raise InputError(
                f"waterbirds: {len(rows):,} birds need a picture of {' or '.join(categories)} each, but {places} has "
                f"{len(found):,}; get the whole of Places365-Standard's training images"
            )
        order = generator(seed, "waterbirds", "pictures", kind).permutation(len(found))
        for row, picture in zip(rows.tolist(), order[: len(rows)].tolist(), strict=True):
            pictures[row] = found[picture]
    return list(zip(ids, names, y.tolist(), split.tolist(), place.tolist(), pictures, strict=True))


def _rounded(fraction: float, count: int) -> int:
    return int(np.round(fraction * count))


def _some(rows: IntArray, count: int, seed: int, name: str) -> IntArray:
    """Return this many of the rows, drawn without replacement."""
    if not 0 <= count <= len(rows):
        raise InputError(f"waterbirds: {name} needs {count} images, there are {len(rows)}; use the whole of CUB")
    return generator(seed, "waterbirds", name).choice(rows, count, replace=False)


def composite(image: Image.Image, mask: Image.Image, place: Image.Image) -> Composite:
    """Lay the bird of an image on a place; all are RGB, the mask is white where the bird is and as large as the image.

    The mask is used as it is, grey at the bird's edge. For a mask value k the bird has at most k and the place at most
    255 - k, so the sum never wraps round.
    """
    share = np.asarray(mask) / 255
    behind = fit(place, image.size)
    bird = np.round(np.asarray(image) * share).astype(np.uint8)
    rest = np.round(np.asarray(behind) * (1 - share)).astype(np.uint8)
    return Composite(Image.fromarray(bird + rest), Image.fromarray(bird), behind)


def fit(place: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Bring a place to a size (width, height): enlarged where it is too small, cropped in the middle, resized.

    >>> fit(Image.new("RGB", (30, 20)), (50, 10)).size
    (50, 10)
    """
    (width, height), (to_width, to_height) = place.size, size
    if width < to_width or height < to_height:
        enlarged = (to_width, int(to_width / width * height))
        if enlarged[1] < to_height:
            # Not less than the width: where both shapes are the same, int() may come out one pixel short both times.
            enlarged = (max(to_width, int(to_height / height * width)), to_height)
        place = place.resize(enlarged, Image.Resampling.LANCZOS)
        width, height = enlarged
    aspect = to_width / to_height
    if width / height > aspect:
        offset = (width - int(aspect * height)) // 2
        box = (offset, 0, width - offset, height)
    else:
        offset = (height - int(width / aspect)) // 2
        box = (0, offset, width, height - offset)
    return place.crop(box).resize(size, Image.Resampling.LANCZOS)


def _make(jobs: list[_Job], progress: Progress | None) -> None:
    """Make all files that are missing, on all cores; what cannot be made is said when the rest is done."""
    bad = [
        Bad(str(path), "is missing")
        for path in dict.fromkeys(path for job in jobs for path in (job.image, job.mask, job.place))
        if not path.is_file()
    ]
    if bad:  # at once, not after an hour
        raise InputError(f"waterbirds: {describe(bad)}. {_AGAIN}")
    pool = ThreadPoolExecutor(cores())
    try:
        with quiet():
            for done, problem in enumerate(pool.map(_make_one, jobs), start=1):
                bad += [problem] if problem else []
                if progress is not None:
                    progress("building waterbirds", done, len(jobs))
    finally:
        pool.shutdown(cancel_futures=True)
    if bad:
        raise InputError(f"waterbirds: {describe(bad)}. {_AGAIN}")


def _make_one(job: _Job) -> Bad | None:
    path = job.image
    try:
        image = _read_rgb(path)
        path = job.mask
        mask = _read_rgb(path)
        if mask.size != image.size:
            raise BadImage("has {} x {} pixels, its image {} x {}".format(*mask.size, *image.size))
        path = job.place
        parts = composite(image, mask, _read_rgb(path))
    except BadImage as reason:
        return Bad(str(path), str(reason))
    for part, target in job.targets.items():
        stream = io.BytesIO()
        getattr(parts, part).save(stream, "JPEG", quality=_QUALITY[part])
        write_atomic(target, stream.getvalue())
    return None


def _read_rgb(path: Path) -> Image.Image:
    """Read an image as the recipe does: converted to RGB by Pillow, whatever it is, and never rotated."""
    try:
        return open_image(path.read_bytes()).convert("RGB")
    except OSError as error:
        raise BadImage(f"cannot be read ({error.strerror or error})") from None
    except (BadImage, MemoryError):
        raise
    except Exception as error:  # a decoder may raise anything on damaged bytes
        raise BadImage(f"is damaged ({str(error)[:80] or type(error).__name__})") from None


def _jobs(cub: Path, places: Path, folder: Path, views: Path, pairs: Iterable[tuple[str, str]]) -> list[_Job]:
    """Return what is left to do: the images and views that are not there."""
    masks = _masks(cub)
    roots = {"image": folder, "core": views / "core", "spurious": views / "spurious"}
    pictures: dict[str, Path] = {}  # folder of each category
    jobs = []
    for name, picture in pairs:
        targets = {part: root / name for part, root in roots.items() if not (root / name).exists()}
        if targets:
            _, *words, file = PurePosixPath(picture.lstrip("/")).parts
            category = "/".join(words)
            if category not in pictures:
                pictures[category] = _category(places, category)
            image = PurePosixPath(name)
            mask = masks / image.with_suffix(".png")
            jobs.append(_Job(cub / "images" / image, mask, pictures[category] / file, targets))
    return jobs


def _masks(cub: Path) -> Path:
    inside, beside = cub / "segmentations", Path(os.path.abspath(cub)).parent / "segmentations"
    return beside if beside.is_dir() and not inside.is_dir() else inside


def _category(places: Path, category: str) -> Path:
    """Return the folder of a category such as forest/broadleaf, in any of the layouts."""
    deep, flat = f"{category[:1]}/{category}", category.replace("/", "-")
    candidates = [places / "data_large" / deep, places / deep, places / "train" / flat, places / flat]
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise InputError(
        f"waterbirds: {places} has no pictures of {category!r}: none of {', '.join(map(str, candidates))} is a folder. "
        "Give the unpacked Places365-Standard with --places"
    )


def _listed(places: Path, category: str) -> list[str]:
    """Return the names of a category's pictures, sorted: a folder's own order differs from disk to disk."""
    return sorted(path.name for path in _category(places, category).glob("*.jpg"))


def _read_cub(cub: Path) -> tuple[list[str], list[str], IntArray]:
    """Return ids and paths of CUB's images, in its order, and 1 for its training images."""
    ids, names = _two_columns(cub / "images.txt")
    same_ids, train = _two_columns(cub / "train_test_split.txt")
    if sorted(ids) != sorted(same_ids) or not set(train) <= {"0", "1"}:
        raise InputError(
            f"waterbirds: {cub / 'train_test_split.txt'} must have one line with 0 or 1 for each of the {len(ids):,} "
            f"images of images.txt, it has {len(same_ids):,} lines; unpack CUB_200_2011 again"
        )
    is_train = dict(zip(same_ids, train, strict=True))
    return ids, names, np.array([int(is_train[i]) for i in ids], np.int64)


def _two_columns(path: Path) -> tuple[list[str], list[str]]:
    try:
        lines = [line.split(maxsplit=1) for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"waterbirds: {path} cannot be read ({getattr(error, 'strerror', None) or error}); give the unpacked "
            "CUB_200_2011 with --cub"
        ) from None
    for number, line in enumerate(lines, start=1):
        if len(line) != 2:
            raise InputError(f"waterbirds: line {number} of {path} must be an id and a value, got {' '.join(line)!r}")
    return [line[0] for line in lines], [line[1].strip() for line in lines]


def _begin(begun: Path, table: Iterable[tuple[object, ...]], names: list[str]) -> None:
    """Note the table of a new build, or see that the build that was begun here had the same."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(table)
    text, folder = stream.getvalue(), begun.parent
    if begun.exists():
        if begun.read_bytes() != text.encode():
            raise InputError(
                f"waterbirds: a build with another seed or from other sources was begun in {folder}; go on with the "
                "same ones, or delete that folder, or choose another"
            )
        return
    for path in (folder / "views", folder / "views.part", *(folder / name for name in names)):
        if path.exists():
            raise InputError(
                f"waterbirds: {path} is there but {folder / 'metadata.csv'} is not, so what it shows is unknown; put "
                "its metadata.csv beside it, or delete that folder, or choose another"
            )
    write_atomic(begun, text)


def _read_pairs(metadata: Path) -> list[tuple[str, str]]:
    """Return img_filename and place_filename of every row; paths that lead out of their folders are refused."""
    try:
        with open(metadata, newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"waterbirds: {metadata} cannot be read: {error}") from None
    wanted = ("img_filename", "place_filename")
    absent = [name for name in wanted if not rows or name not in rows[0]]
    if absent:
        raise InputError(
            f"waterbirds: {metadata} has no column {', '.join(absent)} or no row; the views are made from "
            f"{' and '.join(wanted)}"
        )
    bad, seen = [], set()
    for number, row in enumerate(rows, start=2):
        name, picture = (row[column] or "" for column in wanted)
        where = f"line {number}"
        if not _inside(name) or not _inside(picture.lstrip("/"), parts=3):
            bad.append(
                Bad(where, f"has {name[:200]!r} and {picture[:200]!r}, not paths such as a/b.jpg and /o/ocean/1.jpg")
            )
        elif name in seen:
            bad.append(Bad(where, f"has {name} a second time"))
        seen.add(name)
    if bad:
        raise InputError(f"waterbirds: {metadata}: {describe(bad)}. Get it again")
    return [(row["img_filename"], row["place_filename"]) for row in rows]


def _inside(path: str, parts: int = 1) -> bool:
    """Tell whether a path has so many parts and stays where it is put."""
    found = PurePosixPath(path)
    safe = not found.is_absolute() and ".." not in found.parts and not set("\0\\") & set(path)
    return safe and len(found.parts) >= parts
