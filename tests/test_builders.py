"""The builders of Waterbirds and MetaShift: from the published sources to the folders that the loaders read."""

import csv
import io
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.model_selection import train_test_split

from tcsl.data.build_metashift import MAJORITY, MINORITY, build_metashift
from tcsl.data.build_waterbirds import build_waterbirds, composite, draw, fit, is_waterbird
from tcsl.errors import InputError

RNG = np.random.default_rng(0)


def noise(width, height):
    return Image.fromarray(RNG.integers(0, 256, (height, width, 3), np.uint8))


def same(image, other):
    return image.size == other.size and image.mode == other.mode and image.tobytes() == other.tobytes()


def jpeg(image, **options):
    stream = io.BytesIO()
    image.save(stream, "JPEG", **options)
    return stream.getvalue()


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- Waterbirds ---

SPECIES = ("001.Black_footed_Albatross", "017.Cardinal", "021.Eastern_Towhee", "200.Common_Yellowthroat")
CATEGORIES = ("b/bamboo_forest", "f/forest/broadleaf", "o/ocean", "l/lake/natural")


def write_table(cub, names, train):
    cub.mkdir(parents=True, exist_ok=True)
    (cub / "images.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(names, start=1)))
    (cub / "train_test_split.txt").write_text("".join(f"{i} {int(t)}\n" for i, t in enumerate(train, start=1)))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """80 birds of four species, half of them waterbirds; 15 of each species for training. 30 pictures a category."""
    root = tmp_path_factory.mktemp("sources")
    cub, places = root / "CUB_200_2011", root / "places"
    names = [f"{species}/{species[4:]}_{i:04}.jpg" for species in SPECIES for i in range(20)]
    write_table(cub, names, [i % 20 < 15 for i in range(80)])
    for i, name in enumerate(names):
        size = (12 + i % 3, 10 + i % 5)
        image, mask = cub / "images" / name, cub / "segmentations" / name.replace(".jpg", ".png")
        for path in (image, mask):
            path.parent.mkdir(parents=True, exist_ok=True)
        noise(*size).save(image, quality=95)
        Image.fromarray(RNG.choice(np.array([0, 51, 204, 255], np.uint8), size[::-1])).save(mask)
    for category in CATEGORIES:
        folder = places / "data_large" / category
        folder.mkdir(parents=True)
        for i in range(30):
            noise(8 + i, 20 - i % 12).save(folder / f"{i + 1:08}.jpg")
    return cub, places


@pytest.fixture
def own(sources, tmp_path):
    """The same sources, for a test that damages them."""
    for source in sources:
        shutil.copytree(source, tmp_path / source.name)
    return tuple(tmp_path / source.name for source in sources)


@pytest.fixture(scope="module")
def built(sources, tmp_path_factory):
    return build_waterbirds(*sources, tmp_path_factory.mktemp("built"))


def rows_of(folder):
    with open(folder / "metadata.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def counts(cells):
    """For each split: landbirds on land, on water, waterbirds on land, on water."""
    found = Counter(cells)
    return {
        name: [found[i, y, place] for y in (0, 1) for place in (0, 1)]
        for i, name in enumerate(("train", "val", "test"))
    }


def test_a_waterbird_has_a_word_of_the_list_in_its_name():
    birds = ("001.Black_footed_Albatross", "087.Mallard", "058.Pigeon_Guillemot", "086.Pacific_Loon", "141.Artic_Tern")
    assert all(is_waterbird(f"{bird}/x.jpg") for bird in birds)
    assert not any(is_waterbird(f"{bird}/Tern.jpg") for bird in ("017.Cardinal", "079.Belted_Kingfisher"))
    # The release's labels have these, too: "tern" is a part of their names.
    assert all(is_waterbird(f"{bird}/x.jpg") for bird in ("021.Eastern_Towhee", "088.Western_Meadowlark"))


def test_the_counts_are_those_of_the_release(tmp_path):
    """CUB has 5,994 training and 5,794 test images; 1,379 and 1,284 of them count as waterbirds. No image is read."""
    birds = [("Cardinal", 1, 4615), ("Cardinal", 0, 4510), ("Gull", 1, 1379), ("Gull", 0, 1284)]
    names = [f"001.{bird}/{train}_{i}.jpg" for bird, train, count in birds for i in range(count)]
    write_table(tmp_path, names, [train for _, train, count in birds for _ in range(count)])
    for category, count in zip(CATEGORIES, (5000, 2051, 4000, 737), strict=True):  # just enough
        (tmp_path / "data_large" / category).mkdir(parents=True)
        for i in range(count):
            os.mknod(tmp_path / "data_large" / category / f"{i}.jpg")
    table = draw(tmp_path, tmp_path, seed=0)
    assert counts((split, y, place) for _, _, y, split, place, _ in table) == {
        "train": [3498, 184, 56, 1057],
        "val": [467, 466, 133, 133],
        "test": [2255, 2255, 642, 642],
    }
    assert len({row[-1] for row in table}) == 11788


def test_the_table_has_the_recipes_counts(built, sources):
    rows = rows_of(built)
    assert list(rows[0]) == ["img_id", "img_filename", "y", "split", "place", "place_filename"]
    listed = (sources[0] / "images.txt").read_text().splitlines()
    assert [f"{row['img_id']} {row['img_filename']}" for row in rows] == listed
    assert all(row["y"] == str(int(row["img_filename"][:3] in ("001", "021"))) for row in rows)
    assert all((row["split"] == "2") == (int(row["img_filename"][-8:-4]) >= 15) for row in rows)
    # 60 for training: 12 for validation, 0.193 * 30 = 6 of them waterbirds; 24 * 0.05 = 1 against the habitat
    assert counts((int(row["split"]), int(row["y"]), int(row["place"])) for row in rows) == {
        "train": [23, 1, 1, 23],
        "val": [3, 3, 3, 3],
        "test": [5, 5, 5, 5],
    }
    kinds = {"0": ("/b/bamboo_forest/", "/f/forest/broadleaf/"), "1": ("/o/ocean/", "/l/lake/natural/")}
    assert all(row["place_filename"].startswith(kinds[row["place"]]) for row in rows)
    assert len({row["place_filename"] for row in rows}) == 80
    assert all((sources[1] / "data_large" / row["place_filename"][1:]).is_file() for row in rows)


def test_every_image_and_view_shows_what_the_table_says(built, sources):
    cub, places = sources
    for row in rows_of(built):
        name = row["img_filename"]
        image = Image.open(cub / "images" / name).convert("RGB")
        mask = Image.open(cub / "segmentations" / name.replace(".jpg", ".png")).convert("RGB")
        parts = composite(image, mask, Image.open(places / "data_large" / row["place_filename"][1:]).convert("RGB"))
        assert (built / name).read_bytes() == jpeg(parts.image)
        assert (built / "views" / "core" / name).read_bytes() == jpeg(parts.core, quality=95)
        assert (built / "views" / "spurious" / name).read_bytes() == jpeg(parts.spurious, quality=95)
        assert Image.open(built / "views" / "spurious" / name).size == image.size
    assert len(contents(built)) == 1 + 3 * 80


def test_the_bird_is_laid_on_the_place_pixel_by_pixel():
    image, place = noise(16, 9), noise(16, 9)  # a place of the same size stays as it is
    mask = Image.fromarray(np.arange(16 * 9, dtype=np.uint8).reshape(9, 16) * 2)
    mask.putpixel((3, 3), 255)
    parts = composite(image, mask.convert("RGB"), place)
    assert same(parts.spurious, place)
    for x in range(16):
        for y in range(9):
            share = Fraction(mask.getpixel((x, y)), 255)
            bird = tuple(round(value * share) for value in image.getpixel((x, y)))
            rest = tuple(round(value * (1 - share)) for value in place.getpixel((x, y)))
            assert parts.core.getpixel((x, y)) == bird
            assert parts.image.getpixel((x, y)) == tuple(a + b for a, b in zip(bird, rest, strict=True))


def test_no_sum_wraps_round():
    white = Image.new("RGB", (256, 1), "white")
    mask = Image.fromarray(np.arange(256, dtype=np.uint8)[None]).convert("RGB")
    assert same(composite(white, mask, white).image, white)


@pytest.mark.parametrize(
    ("place", "size", "enlarged", "box"),
    [
        ((100, 40), (20, 20), None, (30, 0, 70, 40)),  # larger, wider
        ((40, 100), (20, 20), None, (0, 30, 40, 70)),  # larger, taller
        ((41, 20), (20, 20), None, (10, 0, 31, 20)),  # what does not divide stays in
        ((45, 31), (30, 20), None, (0, 0, 45, 31)),  # one row too many: no room on both sides
        ((10, 10), (30, 20), (30, 30), (0, 5, 30, 25)),  # smaller: by the width
        ((40, 10), (20, 20), (80, 20), (30, 0, 50, 20)),  # too low: by the height
        ((10, 40), (20, 20), (20, 80), (0, 30, 20, 50)),  # too narrow: by the width
        ((210, 196), (510, 476), (510, 476), (0, 0, 510, 476)),  # 510 / 210 * 196 and 476 / 196 * 210 are just short
    ],
)
def test_a_place_is_enlarged_cropped_and_resized(place, size, enlarged, box):
    picture = noise(*place)
    expected = picture.resize(enlarged, Image.Resampling.LANCZOS) if enlarged else picture
    expected = expected.crop(box).resize(size, Image.Resampling.LANCZOS)
    assert same(fit(picture, size), expected)


def test_the_seed_decides(built, sources, tmp_path):
    again = build_waterbirds(*sources, tmp_path / "same")
    assert contents(again) == contents(built)
    assert draw(*sources, seed=1) != draw(*sources, seed=0)


def test_all_layouts_of_the_sources_give_the_same(built, own, tmp_path):
    cub, places = own
    (cub / "segmentations").rename(tmp_path / "segmentations")
    assert contents(build_waterbirds(cub, places / "data_large", tmp_path / "1")) == contents(built)
    for category in CATEGORIES:
        (places / "train").mkdir(exist_ok=True)
        (places / "data_large" / category).rename(places / "train" / category[2:].replace("/", "-"))
    assert contents(build_waterbirds(cub, places, tmp_path / "2")) == contents(built)
    assert contents(build_waterbirds(cub, places / "train", tmp_path / "3")) == contents(built)


def test_a_second_build_changes_nothing_and_needs_no_sources(built):
    times = {path: path.stat().st_mtime_ns for path in built.rglob("*")}
    assert build_waterbirds(Path("none"), Path("none"), built.parent, seed=9) == built
    assert {path: path.stat().st_mtime_ns for path in built.rglob("*")} == times


def test_progress_is_told(sources, tmp_path):
    told = []
    build_waterbirds(*sources, tmp_path, progress=lambda *news: told.append(news))
    assert told == [("building waterbirds", i, 80) for i in range(1, 81)]


def test_a_build_that_was_killed_goes_on(built, sources, tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path; from tcsl.data.build_waterbirds import build_waterbirds\n"
        "def kill(what, done, of): os.kill(os.getpid(), signal.SIGKILL) if done == 30 else None\n"
        "build_waterbirds(*map(Path, sys.argv[1:]), progress=kill)"
    )
    killed = subprocess.run([sys.executable, "-c", script, *map(str, sources), str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    folder = tmp_path / "waterbirds_v1.0"
    assert not (folder / "metadata.csv").exists()
    assert not (folder / "views").exists()
    (folder / SPECIES[0] / ".x.jpg.7.part").write_bytes(b"half")  # what a kill in the middle of a file leaves
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*.*/*.jpg")}
    assert len(done) >= 30
    with pytest.raises(InputError, match="a build with another seed or from other sources was begun in"):
        build_waterbirds(*sources, tmp_path, seed=1)
    build_waterbirds(*sources, tmp_path)
    assert contents(folder) == contents(built)
    assert all(path.stat().st_mtime_ns == time for path, time in done.items())


@pytest.mark.parametrize("views", ["views", "views.part"])
def test_half_a_build_is_completed(built, sources, tmp_path, views):
    folder = tmp_path / "waterbirds_v1.0"
    shutil.copytree(built, folder)
    (folder / "metadata.csv").rename(folder / "metadata.csv.part")
    (folder / "views").rename(folder / views)
    for path in sorted(folder.rglob("*.jpg"))[::2]:
        path.unlink()
    build_waterbirds(*sources, tmp_path)
    assert contents(folder) == contents(built)


def test_images_of_unknown_origin_are_left_alone(built, sources, tmp_path):
    folder = tmp_path / "waterbirds_v1.0"
    shutil.copytree(built, folder)
    (folder / "metadata.csv").unlink()
    shutil.rmtree(folder / "views")
    with pytest.raises(InputError, match=r"_0000.jpg is there but .*metadata.csv is not, so what it shows is unknown"):
        build_waterbirds(*sources, tmp_path)


def test_a_downloaded_metadata_is_kept_and_followed(sources, tmp_path):
    cub, places = sources
    folder, resized = tmp_path / "waterbirds_v1.0", f"{SPECIES[0]}/Black_footed_Albatross_0000.jpg"
    missing = f"{SPECIES[1]}/Cardinal_0003.jpg"
    (folder / SPECIES[0]).mkdir(parents=True)
    noise(7, 7).save(folder / resized)
    text = (
        "img_id,img_filename,y,split,place,place_filename\r\n"
        f"1,{resized},1,0,0,/f/forest/broadleaf/00000002.jpg\r\n24,{missing},0,0,1,/o/ocean/00000005.jpg\r\n"
    )
    (folder / "metadata.csv").write_bytes(text.encode())
    before = (folder / resized).read_bytes()
    build_waterbirds(cub, places, tmp_path)
    assert (folder / "metadata.csv").read_bytes() == text.encode()
    assert (folder / resized).read_bytes() == before
    assert Image.open(folder / missing).size == Image.open(cub / "images" / missing).size
    for name, place in ((resized, "f/forest/broadleaf/00000002.jpg"), (missing, "o/ocean/00000005.jpg")):
        size = Image.open(cub / "images" / name).size
        picture = fit(Image.open(places / "data_large" / place).convert("RGB"), size)
        assert (folder / "views" / "spurious" / name).read_bytes() == jpeg(picture, quality=95)
        assert Image.open(folder / "views" / "core" / name).size == size
    assert len(contents(folder)) == 1 + 3 * 2


def test_sources_that_are_missing_are_all_said_before_anything_is_made(own, tmp_path):
    cub, places = own
    table = draw(cub, places, seed=0)
    for _, name, *_ in table[:12]:
        (cub / "images" / name).unlink()
    (cub / "segmentations" / table[20][1].replace(".jpg", ".png")).unlink()
    with pytest.raises(InputError, match=r"13 bad samples: .*_0000.jpg is missing.*; and 3 more") as error:
        build_waterbirds(cub, places, tmp_path / "out")
    assert str(error.value).count("is missing") == 10
    assert not list(tmp_path.glob("out/**/*.jpg"))


def test_sources_that_cannot_be_read_are_said_once_the_rest_is_made(built, own, sources, tmp_path):
    cub, places = own
    table = draw(cub, places, seed=0)
    empty, other, torn = table[3][1], table[30][1], table[50][5]
    (cub / "images" / empty).write_bytes(b"")
    noise(3, 3).save(cub / "segmentations" / other.replace(".jpg", ".png"))
    picture = places / "data_large" / torn[1:]
    picture.write_bytes(picture.read_bytes()[:-30])
    with pytest.raises(InputError, match="waterbirds: 3 bad samples") as error:
        build_waterbirds(cub, places, tmp_path / "out")
    assert f"{empty} is empty (0 bytes)" in str(error.value)
    assert "has 3 x 3 pixels, its image" in str(error.value)
    assert f"{torn} cannot be read" in str(error.value)
    folder = tmp_path / "out" / "waterbirds_v1.0"
    assert not (folder / "metadata.csv").exists()
    assert len(list(folder.rglob("*.jpg"))) == 3 * 77
    build_waterbirds(*sources, tmp_path / "out")
    assert contents(folder) == contents(built)


def test_too_few_places_are_said_with_both_counts(own, tmp_path):
    cub, places = own
    for path in sorted((places / "data_large" / "o" / "ocean").iterdir())[5:]:
        path.unlink()
    with pytest.raises(InputError, match=r"40 birds need a picture of ocean or lake/natural each, but .* has 35"):
        build_waterbirds(cub, places, tmp_path / "out")


def test_folders_that_are_not_the_sources_are_said(sources, tmp_path):
    cub, places = sources
    with pytest.raises(InputError, match=r"images.txt cannot be read .*give the unpacked CUB_200_2011 with --cub"):
        build_waterbirds(tmp_path, places, tmp_path / "out")
    with pytest.raises(InputError, match=r"has no pictures of 'bamboo_forest': none of .*data_large/b/bamboo_forest"):
        build_waterbirds(cub, tmp_path, tmp_path / "out")
    write_table(tmp_path / "short", ["1.Gull/a.jpg", "1.Gull/b.jpg"], [1])
    with pytest.raises(
        InputError, match=r"one line with 0 or 1 for each of the 2 images of images.txt, it has 1 lines"
    ):
        build_waterbirds(tmp_path / "short", places, tmp_path / "out")
    (tmp_path / "short" / "images.txt").write_text("1 1.Gull/a.jpg\n2\n")
    with pytest.raises(InputError, match=r"line 2 of .*images.txt must be an id and a value, got '2'"):
        build_waterbirds(tmp_path / "short", places, tmp_path / "out")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("../../x.jpg,/o/ocean/1.jpg", "line 2 has '../../x.jpg' and '/o/ocean/1.jpg', not paths such as"),
        ("/tmp/x.jpg,/o/ocean/1.jpg", "line 2 has '/tmp/x.jpg'"),
        ("a/x.jpg,/o/ocean/../../1.jpg", "line 2 has 'a/x.jpg'"),
        ("a/x.jpg,ocean", "line 2 has 'a/x.jpg' and 'ocean'"),
        ("a/x.jpg", "line 2 has 'a/x.jpg' and ''"),
        ("a/x.jpg,/o/ocean/1.jpg\na/x.jpg,/o/ocean/2.jpg", "line 3 has a/x.jpg a second time"),
    ],
)
def test_metadata_that_leads_elsewhere_is_refused(sources, tmp_path, row, message):
    (tmp_path / "waterbirds_v1.0").mkdir()
    (tmp_path / "waterbirds_v1.0" / "metadata.csv").write_text(f"img_filename,place_filename\n{row}\n")
    with pytest.raises(InputError, match=message):
        build_waterbirds(*sources, tmp_path)


def test_metadata_without_places_cannot_be_followed(sources, tmp_path):
    (tmp_path / "waterbirds_v1.0").mkdir()
    (tmp_path / "waterbirds_v1.0" / "metadata.csv").write_text("img_filename,y\na.jpg,1\n")
    with pytest.raises(InputError, match=r"metadata.csv has no column place_filename or no row"):
        build_waterbirds(*sources, tmp_path)


# --- MetaShift ---

GROUPS = MINORITY | MAJORITY


def subsets_of(group):
    return [f"{group[:3]}({thing})" for thing in GROUPS[group].split(", ")]


def make_subsets():
    """320 ids of their own for each minority group and 1,100 for each majority one, and ids in several groups."""
    subsets = defaultdict(set)
    rng = random.Random(0)
    for first, (group, count) in zip(range(1, 9, 2), zip(GROUPS, (320, 320, 1100, 1100), strict=True), strict=True):
        for name in subsets_of(group):
            subsets[name] |= set()
        for i in range(count):
            for name in rng.sample(subsets_of(group), 2):
                subsets[name].add(str(first * 1_000_000 + 7919 * i % 100_000))
    for i in range(40):  # cats indoors and outdoors: of the minority
        subsets["cat(grass)"].add(f"n{i}")
        subsets["cat(sofa)"].add(f"n{i}")
    for i in range(60):  # cats with dogs: of no group
        for name in ("cat(dog)", "dog(cat)", "cat(car)", "dog(sofa)", "cat(bed)", "dog(snow)"):
            subsets[name].add(f"both{i}")
    subsets["zebra(grass)"] = {"99/99"}  # none of our animals
    return subsets


@pytest.fixture(scope="module")
def shift(tmp_path_factory):
    """MetaShift's metadata, and one small image under all names."""
    root = tmp_path_factory.mktemp("metashift")
    subsets = make_subsets()
    (root / "subsets.pkl").write_bytes(pickle.dumps(subsets, protocol=4))
    images = root / "allImages" / "images"
    images.mkdir(parents=True)
    noise(2, 2).save(root / "image.jpg")
    for image in set().union(*(ids for name, ids in subsets.items() if name[:3] in ("cat", "dog"))):
        os.link(root / "image.jpg", images / f"{image}.jpg")
    return images, root / "subsets.pkl", subsets


@pytest.fixture(scope="module")
def shifted(shift, tmp_path_factory):
    return build_metashift(*shift[:2], tmp_path_factory.mktemp("shifted"))


def ids_in(folder, part, animal):
    return {path.stem for path in (folder / part / animal).iterdir()}


def groups_in(folder):
    with open(folder / "groups.csv", newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["image_id", "group"]
    assert len(rows) == len(dict(rows))
    return dict(rows[1:])


def test_the_split_has_the_originals_counts(shifted):
    groups = groups_in(shifted)
    found = {
        part: Counter(groups[i] for animal in ("cat", "dog") for i in ids_in(shifted, part, animal))
        for part in ("train", "val_out_of_domain")
    }
    assert found == {
        "train": {"cat(outdoor)": 100, "dog(indoor)": 100, "cat(indoor)": 750, "dog(outdoor)": 750},
        "val_out_of_domain": dict.fromkeys(GROUPS, 144),
    }
    assert len(groups) == 1700 + 576
    for part in ("train", "val_out_of_domain"):
        for animal in ("cat", "dog"):
            assert all(groups[i].startswith(animal) for i in ids_in(shifted, part, animal))


def test_no_image_is_in_two_places_and_none_shows_both_animals(shifted):
    places = [ids_in(shifted, part, animal) for part in ("train", "val_out_of_domain") for animal in ("cat", "dog")]
    assert sum(map(len, places)) == len(set().union(*places))
    assert not any(image.startswith("both") for image in set().union(*places))


def test_the_split_is_the_originals(shift, shifted):
    subsets, groups = shift[2], groups_in(shifted)
    cats_and_dogs = subsets["cat(dog)"]

    def group(name, size, exclude):
        ids = sorted({i for subset in subsets_of(name) for i in subsets[subset] if i not in exclude})
        random.Random(42).shuffle(ids)
        return ids[:size], set(ids)

    cat_outdoor, taken_cats = group("cat(outdoor)", 294, cats_and_dogs)
    dog_indoor, taken_dogs = group("dog(indoor)", 294, cats_and_dogs)
    exclude = cats_and_dogs | taken_cats | taken_dogs
    cat_indoor, _ = group("cat(indoor)", 994, exclude)
    dog_outdoor, _ = group("dog(outdoor)", 994, exclude)
    co_train, co_test, di_train, di_test = train_test_split(cat_outdoor, dog_indoor, test_size=144, random_state=42)
    ci_train, ci_test, do_train, do_test = train_test_split(cat_indoor, dog_outdoor, test_size=144, random_state=42)
    assert ids_in(shifted, "train", "cat") == set(co_train[:100] + ci_train[100:])
    assert ids_in(shifted, "train", "dog") == set(di_train[:100] + do_train[100:])
    assert ids_in(shifted, "val_out_of_domain", "cat") == set(co_test + ci_test)
    assert ids_in(shifted, "val_out_of_domain", "dog") == set(di_test + do_test)
    assert {groups[i] for i in ci_test + ci_train[100:]} == {"cat(indoor)"}
    assert {groups[i] for i in di_test + di_train[:100]} == {"dog(indoor)"}
    assert any(i.startswith("n") for i in cat_outdoor)


def test_images_are_linked_by_relative_paths_or_copied(shift, shifted, tmp_path):
    images, metadata, _ = shift
    links = list(shifted.glob("*/*/*.jpg"))
    assert all(not os.path.isabs(os.readlink(path)) and path.resolve() == images / path.name for path in links)
    build_metashift(images, metadata, tmp_path)
    told = []  # copies take the place of links
    copied = build_metashift(images, metadata, tmp_path, copy=True, progress=lambda *news: told.append(news))
    assert told == [("building metashift", i, 2276) for i in range(1, 2277)]
    assert not any(path.is_symlink() for path in copied.rglob("*"))
    assert contents(copied) == contents(shifted)


def test_links_lead_to_the_images_through_linked_folders(shift, tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "data").symlink_to(tmp_path / "deep" / "er")
    folder = build_metashift(*shift[:2], tmp_path / "data")
    assert all(path.is_file() for path in folder.glob("*/*/*.jpg"))


@pytest.mark.parametrize("protocol", [2, 4])
def test_all_layouts_and_protocols_give_the_same(shift, shifted, tmp_path, protocol):
    images, _, subsets = shift
    (tmp_path / "subsets.pkl").write_bytes(pickle.dumps(subsets, protocol=protocol))
    above = images.parent if protocol == 2 else images.parent.parent
    assert contents(build_metashift(above, tmp_path / "subsets.pkl", tmp_path)) == contents(shifted)


def test_a_metashift_build_that_was_interrupted_goes_on(shift, shifted, tmp_path):
    folder = tmp_path / shifted.name
    shutil.copytree(shifted, folder, symlinks=True)  # the links are relative: here they lead nowhere
    (folder / "groups.csv").unlink()
    for path in sorted(folder.glob("*/*/*.jpg"))[::2]:
        path.unlink()
    (folder / "train" / "cat" / ".1.jpg.7.part").write_bytes(b"half")
    build_metashift(*shift[:2], tmp_path)
    assert contents(folder) == contents(shifted)


def test_images_of_another_split_are_not_mixed_in(shift, tmp_path):
    stranger = tmp_path / "MetaShift-subpopulation-shift" / "train" / "cat" / "5.jpg"
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(b"")
    with pytest.raises(InputError, match=r"1 bad sample: train/cat/5.jpg is not in it"):
        build_metashift(*shift[:2], tmp_path)


def test_missing_images_are_said_together(shift, shifted, tmp_path):
    used = sorted(groups_in(shifted))[:12]
    (tmp_path / "images").mkdir()
    for path in shift[0].iterdir():
        if path.stem not in used:
            os.link(path, tmp_path / "images" / path.name)
    with pytest.raises(InputError, match=r"12 bad samples: .*; and 2 more.*--images") as error:
        build_metashift(tmp_path / "images", shift[1], tmp_path)
    assert str(error.value).count(".jpg is missing") == 10
    assert not (tmp_path / "MetaShift-subpopulation-shift").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: (s.pop("cat(sofa)"), s.pop("dog(trash can)")),
            r"lacks 2 of the 110 .*: cat\(sofa\), dog\(trash can\)",
        ),
        (lambda s: s.pop("cat(dog)"), r"lacks 1 of .*: cat\(dog\)"),
        (
            lambda s: [s[name].clear() for name in subsets_of("dog(indoor)")],
            r"dog\(indoor\) needs 294 images, .* has 0",
        ),
        (lambda s: s["cat(sofa)"].add("../x"), "image ids that are not letters and digits, such as '../x'"),
        (
            lambda s: [s["dog(snow)"].update(s[name]) for name in subsets_of("cat(indoor)")],
            "are in another group as well",
        ),
        (lambda s: s.update({"cat(sofa)": 3}), "must hold a dict from subsets"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(shift, tmp_path, change, message):
    subsets = make_subsets()
    change(subsets)
    (tmp_path / "subsets.pkl").write_bytes(pickle.dumps(dict(subsets)))
    with pytest.raises(InputError, match=message):
        build_metashift(shift[0], tmp_path / "subsets.pkl", tmp_path)


def test_the_builders_do_not_wait_for_torch():
    code = "import sys, tcsl.data.build_metashift, tcsl.data.build_waterbirds; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
