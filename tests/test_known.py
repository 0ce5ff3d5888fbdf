"""The named datasets: small files in their published layouts, the recipe of cMNIST bit by bit, and real files."""

import csv
import gzip
import itertools
import math
import os
import pickle
import struct
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import CenterCrop, Resize

from tcsl.config import resolve
from tcsl.data.cmnist import apportion
from tcsl.data.load import load
from tcsl.data.read import read
from tcsl.errors import InputError, TcslWarning

UNCHECKED = {"check": False}


def picture(path, colour=(0, 0, 0), size=(8, 6)):
    """Write an image that keeps its exact colours, whatever its name ends with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, "png")


def links(one, paths):
    """Make many files of one."""
    if not one.exists():
        picture(one)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(one, path)


def colours_of(data, where=(0, 0)):
    return [tuple(image[:, where[0], where[1]].tolist()) for image in data.inputs]


def group_counts(data):
    return dict(zip(data.groups.names, data.groups.counts().tolist(), strict=True))


# --- Waterbirds ---

BIRDS = "waterbirds_v1.0"
WATERBIRDS = {0: (3498, 184, 56, 1057), 1: (467, 466, 133, 133), 2: (2255, 2255, 642, 642)}
FEW_BIRDS = {0: (5, 2, 1, 6), 1: (1, 1, 1, 1), 2: (2, 2, 2, 2)}


def bird_rows(counts):
    """Return rows of metadata.csv: of each split, the landbirds on land and on water, then the waterbirds."""
    cells = [
        (y, split, place)
        for split, groups in counts.items()
        for (y, place), n in zip(itertools.product((0, 1), (0, 1)), groups, strict=True)
        for _ in range(n)
    ]
    return [
        {"img_id": 7 + 3 * i, "img_filename": f"{i % 5:03}.Bird/{i}.jpg", "y": y, "split": split, "place": place}
        for i, (y, split, place) in enumerate(cells)
    ]


def write_metadata(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "metadata.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, [*rows[0], "place_filename"], restval="/o/ocean/1.jpg")
        writer.writeheader()
        writer.writerows(rows)


def bird_colour(row):
    return (row["img_id"] % 256, 100 * row["y"], 100 * row["place"])


def waterbirds(root, *, folder=BIRDS, size=lambda i: (20, 16), views=()):
    """Make a small Waterbirds with every image in a colour of its own and return its rows."""
    rows = bird_rows(FEW_BIRDS)
    write_metadata(root / folder, rows)
    for i, row in enumerate(rows):
        picture(root / folder / row["img_filename"], bird_colour(row), size(i))
        for view, colour in zip(views, ((9, 9, 9), (8, 8, 8)), strict=False):
            picture(root / folder / "views" / view / row["img_filename"], (row["img_id"], *colour[1:]), size(i))
    return rows


def test_waterbirds_with_the_official_counts_is_taken(tmp_path):
    rows = bird_rows(WATERBIRDS)
    write_metadata(tmp_path / BIRDS, rows)
    links(tmp_path / "one.jpg", [tmp_path / BIRDS / row["img_filename"] for row in rows])
    manifest = read("waterbirds", root=tmp_path)
    assert len(manifest) == 11_788
    assert {split: int(manifest.part(split).sum()) for split in ("train", "val", "test")} == {
        "train": 4795,
        "val": 1199,
        "test": 5794,
    }


def test_waterbirds_with_other_counts_is_refused_by_file_and_counts(tmp_path):
    rows = bird_rows(WATERBIRDS)
    rows[0]["place"] = 1
    write_metadata(tmp_path / BIRDS, rows)
    message = (
        r"waterbirds_v1.0/metadata.csv is not the official one: train landbird, land has 3,497 samples, official are "
        r"3,498; train landbird, water has 185 samples, official are 184. .*data.options.check=false"
    )
    with pytest.raises(InputError, match=message):
        read("waterbirds", root=tmp_path)


def test_waterbirds_of_other_counts_is_accepted_on_demand(tmp_path):
    waterbirds(tmp_path)
    with pytest.raises(InputError, match="train landbird, land has 5 samples, official are 3,498"):
        load("waterbirds", root=tmp_path)
    assert len(load("waterbirds", root=tmp_path, options=UNCHECKED).train) == 14


@pytest.mark.parametrize("folder", [BIRDS, "waterbird_complete95_forest2water2"])
def test_waterbirds_is_what_its_table_says(tmp_path, folder):
    rows = waterbirds(tmp_path, folder=folder)
    splits = load("waterbirds", root=tmp_path, options=UNCHECKED)
    for split, data in enumerate((splits.train, splits.val, splits.test)):
        expected = [row for row in rows if row["split"] == split]
        assert data.ids.tolist() == [row["img_id"] for row in expected]
        assert data.labels.tolist() == [row["y"] for row in expected]
        assert data.groups.group.tolist() == [2 * row["y"] + row["place"] for row in expected]
        assert data.groups.minority.tolist() == [row["y"] != row["place"] for row in expected]
        assert colours_of(data) == [bird_colour(row) for row in expected]
        assert data.class_names == ("landbird", "waterbird")
        assert data.groups.names == ("landbird, land", "landbird, water", "waterbird, land", "waterbird, water")
        assert data.groups.majority.tolist() == [0, 1]
    assert group_counts(splits.train) == dict(zip(splits.train.groups.names, FEW_BIRDS[0], strict=True))
    assert splits.val_iid is None


def test_ids_that_are_not_numbers_stay_text(tmp_path):
    rows = waterbirds(tmp_path)
    rows[1]["img_id"] = "2²"
    write_metadata(tmp_path / BIRDS, rows)
    assert load("waterbirds", root=tmp_path, options=UNCHECKED).train.ids[:3].tolist() == ["7", "2²", "13"]


def test_waterbirds_of_many_sizes_is_resized_to_256_and_cropped_to_224(tmp_path):
    rows = waterbirds(tmp_path, size=lambda i: (300 + 7 * i, 260 - 5 * i))
    splits = load("waterbirds", root=tmp_path, options=UNCHECKED)
    for data in (splits.train, splits.val, splits.test):
        assert data.inputs.shape[1:] == (3, 224, 224)
        assert data.facts["transform"] == "resize:256,crop:224"
    noise = Image.effect_noise((317, 241), 90).convert("RGB")
    noise.save(tmp_path / BIRDS / rows[0]["img_filename"], "png")
    image = load("waterbirds", root=tmp_path, options=UNCHECKED).train.inputs[0]
    expected = CenterCrop(224)(Resize((256, 256))(noise))
    assert np.array_equal(image.permute(1, 2, 0).numpy(), np.asarray(expected))


def test_a_copy_of_waterbirds_with_one_small_size_stays_as_it_is(tmp_path):
    waterbirds(tmp_path, size=lambda i: (224, 224))
    train = load("waterbirds", root=tmp_path, options=UNCHECKED).train
    assert train.inputs.shape[1:] == (3, 224, 224)
    assert train.facts["transform"] == "none"


def test_a_transform_that_is_asked_for_is_applied(tmp_path):
    waterbirds(tmp_path)
    train = load("waterbirds", root=tmp_path, options=UNCHECKED, transform="resize:12,crop:10").train
    assert train.inputs.shape[1:] == (3, 10, 10)
    with pytest.raises(InputError, match="unknown transform 'squeeze:9'"):
        load("waterbirds", root=tmp_path, options=UNCHECKED, transform="squeeze:9")


@pytest.mark.parametrize("views", [(), ("core",), ("core", "spurious")])
def test_views_of_waterbirds_are_those_that_are_there(tmp_path, views):
    rows = waterbirds(tmp_path, views=views)
    splits = load("waterbirds", root=tmp_path, options=UNCHECKED)
    for split, data in enumerate((splits.train, splits.val, splits.test)):
        assert tuple(data.views) == views
        for view, second in zip(views, (9, 8), strict=False):
            assert data.views[view].shape == data.inputs.shape
            found = [tuple(image[:, 0, 0].tolist()) for image in data.views[view]]
            assert found == [(row["img_id"], second, second) for row in rows if row["split"] == split]


@pytest.mark.parametrize("on_bad", ["error", "skip"])
def test_a_view_that_lacks_an_image_is_an_error(tmp_path, on_bad):
    rows = waterbirds(tmp_path, views=("core", "spurious"))
    (tmp_path / BIRDS / "views" / "spurious" / rows[2]["img_filename"]).unlink()
    with pytest.raises(InputError, match=r"training, view 'spurious': 1 bad sample: 002.Bird/2.jpg cannot be read"):
        load("waterbirds", root=tmp_path, options=UNCHECKED, on_bad=on_bad)


def test_missing_images_are_said_or_left_out_with_their_views(tmp_path):
    rows = waterbirds(tmp_path, views=("core",))
    for i in (1, 3):
        (tmp_path / BIRDS / rows[i]["img_filename"]).unlink()
    with pytest.raises(InputError, match=r"2 bad samples: 001.Bird/1.jpg is missing; 003.Bird/3.jpg is missing"):
        load("waterbirds", root=tmp_path, options=UNCHECKED)
    with pytest.warns(TcslWarning, match="left out 2 bad samples"):
        train = load("waterbirds", root=tmp_path, options=UNCHECKED, on_bad="skip").train
    kept = [row for i, row in enumerate(rows) if row["split"] == 0 and i not in (1, 3)]
    assert train.ids.tolist() == [row["img_id"] for row in kept]
    assert train.views["core"][:, 0, 0, 0].tolist() == [row["img_id"] for row in kept]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": "2"}, r"line 3 of .*metadata.csv: y must be 0, 1, got '2'"),
        ({"split": "train"}, "split must be 0, 1, 2, got 'train'"),
        ({"img_filename": ""}, "img_filename must not be empty, got ''"),
        ({"img_filename": "../secret.jpg"}, "leads out of"),
        ({"img_id": "7"}, r"line 3 of metadata.csv has the id '7' of line 2 of metadata.csv: ids must be unique"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path, change, message):
    rows = waterbirds(tmp_path)
    rows[1] |= change
    write_metadata(tmp_path / BIRDS, rows)
    with pytest.raises(InputError, match=message):
        load("waterbirds", root=tmp_path, options=UNCHECKED)


def test_a_table_without_a_column_is_said(tmp_path):
    (tmp_path / BIRDS).mkdir()
    (tmp_path / BIRDS / "metadata.csv").write_text("img_id,img_filename,y,split\n1,a.jpg,0,0\n")
    with pytest.raises(InputError, match="has no rows with place; it must have img_id, img_filename, y, split, place"):
        load("waterbirds", root=tmp_path)


def test_the_table_may_have_been_saved_by_a_spreadsheet(tmp_path):
    waterbirds(tmp_path)
    table = tmp_path / BIRDS / "metadata.csv"
    table.write_bytes(b"\xef\xbb\xbf" + table.read_bytes())
    assert len(load("waterbirds", root=tmp_path, options=UNCHECKED).train) == 14


# --- cMNIST ---

DIGITS, TEST_DIGITS = 600, 230
COLOURS = [  # red, green, yellow, blue, orange, purple, cyan, magenta, lime, pink
    *[(230, 25, 75), (60, 180, 75), (255, 225, 25), (0, 130, 200), (245, 130, 48)],
    *[(145, 30, 180), (70, 240, 240), (240, 50, 230), (210, 245, 60), (250, 190, 190)],
]
SMALL = {"check": False, "size": 480, "alpha": 0.9}


def digit_of(i):
    """Return a label; the ten are not equally frequent."""
    return (i * i // 7 + i // 3) % 10


def brightness(i, row, column):
    return (i * 31 + row * 17 + column * 7 + row * column) * (1 + i % 3) % 256


def idx(array):
    """Return MNIST's file format: 0 0 8 dimensions, the sizes, the bytes."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_mnist(raw, *, zipped=False, sizes=(DIGITS, TEST_DIGITS)):
    raw.mkdir(parents=True, exist_ok=True)
    for part, n in zip(("train", "t10k"), sizes, strict=True):
        i, row, column = np.ogrid[:n, :28, :28]
        contents = {
            f"{part}-images-idx3-ubyte": brightness(i, row, column).astype(np.uint8),
            f"{part}-labels-idx1-ubyte": digit_of(np.arange(n)).astype(np.uint8),
        }
        for name, array in contents.items():
            if zipped:
                (raw / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
            else:
                (raw / name).write_bytes(idx(array))


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    root = tmp_path_factory.mktemp("mnist")
    write_mnist(root / "MNIST" / "raw")
    return root


@pytest.fixture
def own_mnist(tmp_path):
    """The same files, for a test that damages them."""
    write_mnist(tmp_path / "MNIST" / "raw")
    return tmp_path


def cmnist(root, **options):
    return load("cmnist", root=root, options={**SMALL, **options})


def colour_table(data):
    """Return how many samples of each digit (rows) have each colour (columns)."""
    return np.bincount(data.groups.cell, minlength=100).reshape(10, 10)


# An independent version: plain loops and Python's own integers.


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return x ^ (x >> 31)


def random_of(image, purpose, draw):
    return splitmix64(splitmix64((1 << 48) + (purpose << 40) + draw) ^ image)


def shared(total, weights):
    """Return the largest-remainder shares, in fractions."""
    exact = [Fraction(total * weight, sum(weights)) for weight in weights]
    out = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda k: (out[k] - exact[k], k))
    for k in by_remainder[: total - sum(out)]:
        out[k] += 1
    return out


def by_hand(labels, test_labels, size, conflicts, draw):
    """Return, for each split, the colour of each image; images are numbers in MNIST's file."""
    order = [
        sorted((i for i, y in enumerate(labels) if y == d), key=lambda i: random_of(i, 1, draw)) for d in range(10)
    ]
    sizes = shared(size, [len(images) for images in order])
    left = [len(images) - n for images, n in zip(order, sizes, strict=True)]
    against = shared(conflicts, sizes)
    against_iid = shared(math.floor(Fraction(conflicts * sum(left), size) + Fraction(1, 2)), left)
    splits = {"train": {}, "val": {}, "val_iid": {}, "test": {}}
    for digit in range(10):
        others = [(digit + 1 + k) % 10 for k in range(9)]
        for k, image in enumerate(order[digit]):
            if k < sizes[digit]:
                splits["train"][image] = others[(k + digit) % 9] if k < against[digit] else digit
            else:
                j = k - sizes[digit]
                splits["val"][image] = j % 10
                splits["val_iid"][image] = others[(j + digit) % 9] if j < against_iid[digit] else digit
        at_test = [i for i, y in enumerate(test_labels) if y == digit]
        for k, image in enumerate(sorted(at_test, key=lambda i: random_of(i, 2, draw))):
            splits["test"][image] = k % 10
    return splits


def paint_of(image, colour, split, draw):
    number = random_of(image, {"train": 3, "test": 4, "val": 5, "val_iid": 6}[split], draw)
    moves = [(number >> shift & 0xFFFF) % 21 - 10 for shift in (0, 16, 32)]
    return [min(max(base + move, 0), 255) for base, move in zip(COLOURS[colour], moves, strict=True)]


def assert_painted(data, split, colours, labels, pixels_of, draw):
    """Compare which images there are, their colours, and every pixel of a few."""
    images = sorted(colours)
    assert data.ids.tolist() == images
    assert data.labels.tolist() == [labels[i] for i in images]
    assert (data.groups.cell % 10).tolist() == [colours[i] for i in images]
    assert data.groups.minority.tolist() == [colours[i] != labels[i] for i in images]
    for place in range(0, len(data), max(1, len(data) // 5)):
        pixels = pixels_of(images[place])
        paint = paint_of(images[place], colours[images[place]], split, draw)
        assert data.inputs[place].tolist() == [[[(p * c + 127) // 255 for p in row] for row in pixels] for c in paint]
        assert data.views["core"][place].tolist() == [pixels] * 3
        mean = sum(map(sum, pixels)) // 784
        assert data.views["spurious"][place].tolist() == [[[(mean * c + 127) // 255] * 28] * 28 for c in paint]


@pytest.mark.parametrize(("size", "alpha", "draw"), [(480, 0.9, 0), (480, 0.9, 7), (301, 0.5, 1), (20, 0.0, 2)])
def test_cmnist_agrees_with_a_version_of_plain_loops(mnist, size, alpha, draw):
    made = cmnist(mnist, size=size, alpha=alpha, draw=draw)._asdict()
    labels = [digit_of(i) for i in range(DIGITS)]

    def pixels_of(i):
        return [[brightness(i, row, column) for column in range(28)] for row in range(28)]

    expected = by_hand(labels, labels[:TEST_DIGITS], size, size - round(alpha * size), draw)
    for split, colours in expected.items():
        assert_painted(made[split], split, colours, labels, pixels_of, draw)


# What recipe 1 made of the small MNIST of this file; another value means another dataset, and another recipe number.
FROZEN = {
    "train": "120660f7d78198ef1c6bb180ced4ac14867ccc316f39a484e9191080cf773ee2",
    "test": "37ddd11e9990698e782c417860c429dbb6fc24cf41ca7bc79ebaec1b11803e57",
    "val": "1b4db576e2204bfc473e8d24d8e2879016942b7147a504799d03acf51670649e",
    "val_iid": "75f9d4fb028101653f407eea28b2db38e6dde5e5fcec554c2ba2d707562389a5",
}


def test_the_bytes_of_recipe_1_are_frozen(mnist):
    assert {split: data.fingerprint for split, data in cmnist(mnist)._asdict().items()} == FROZEN


def test_gzipped_files_and_other_folder_names_give_the_same_bytes(tmp_path):
    for i, name in enumerate(("MNIST/raw", "mnist", "MNIST")):
        write_mnist(tmp_path / str(i) / name, zipped=i > 0)
        assert cmnist(tmp_path / str(i)).train.fingerprint == FROZEN["train"]


@pytest.mark.parametrize(("size", "alpha", "conflicts"), [(480, 0.9, 48), (333, 0.95, 17), (600, 0.5, 300), (20, 1, 0)])
def test_sizes_and_conflicts_are_exact_and_shared_by_frequency(mnist, size, alpha, conflicts):
    splits = cmnist(mnist, size=size, alpha=alpha)
    train, frequency = splits.train, np.bincount(digit_of(np.arange(DIGITS)))
    assert len(train) == size
    assert train.groups.minority.sum() == conflicts
    by_class = np.bincount(train.labels)
    assert (abs(by_class - size * frequency / DIGITS) < 1).all()
    against = np.bincount(train.labels[train.groups.minority], minlength=10)
    assert (abs(against - conflicts * by_class / size) < 1).all()
    if size == DIGITS:
        assert splits.val is splits.val_iid is None
    else:
        assert len(splits.val) == len(splits.val_iid) == DIGITS - size
        assert splits.val_iid.groups.minority.sum() == round(conflicts / size * (DIGITS - size))


def test_conflicts_go_round_the_other_nine_colours(mnist):
    for table in (colour_table(cmnist(mnist).train), colour_table(cmnist(mnist, alpha=0.3).train)):
        for digit, counts in enumerate(table):
            others = np.delete(counts, digit)
            assert others.max() - others.min() <= 1
    # Digits begin at different colours, so that no colour gains by what does not divide by nine.
    assert (np.delete(colour_table(cmnist(mnist).train).sum(0), 0) > 0).all()


def test_colours_say_nothing_at_test_and_in_the_uniform_validation_set(mnist):
    splits = cmnist(mnist)
    for data in (splits.test, splits.val):
        table = colour_table(data)
        assert (table.max(1) - table.min(1) <= 1).all()


def test_all_images_are_used_and_none_twice(mnist):
    splits = cmnist(mnist)
    assert sorted([*splits.train.ids.tolist(), *splits.val.ids.tolist()]) == list(range(DIGITS))
    assert splits.test.ids.tolist() == list(range(TEST_DIGITS))


def test_both_validation_sets_are_of_the_same_images(mnist):
    _, _, val, val_iid = cmnist(mnist)
    assert val.ids.tolist() == val_iid.ids.tolist()
    assert torch.equal(val.views["core"], val_iid.views["core"])
    assert not torch.equal(val.inputs, val_iid.inputs)


def test_the_order_does_not_tell_the_colour(mnist):
    for data in cmnist(mnist):
        assert (np.diff(data.ids) > 0).all()  # MNIST's own order
    at = np.flatnonzero(cmnist(mnist).train.groups.minority)
    thirds = np.bincount(at * 3 // 480, minlength=3)
    assert (thirds > 8).all()  # 48 conflicts


def test_views_of_cmnist_take_away_the_colour_or_the_shape(mnist):
    for data in cmnist(mnist):
        core, spurious = data.views["core"], data.views["spurious"]
        assert core.shape == spurious.shape == data.inputs.shape
        assert (core == core[:, :1]).all()
        assert (spurious == spurious[:, :, :1, :1]).all()
        whole = data.inputs.float().mean((2, 3))
        assert (spurious[:, :, 0, 0].float() - whole).abs().max() <= 1.5


def test_another_draw_is_another_dataset_and_the_seed_plays_no_part(mnist):
    first, second = cmnist(mnist).train, cmnist(mnist, draw=1).train
    assert first.ids.tolist() != second.ids.tolist()
    assert first.facts == {"recipe": 1, "draw": 0}
    assert second.facts == {"recipe": 1, "draw": 1}
    assert load("cmnist", root=mnist, options=SMALL, seed=5).train.fingerprint == first.fingerprint


def test_alpha_alone_leaves_the_images_as_they_are(mnist):
    first, second = cmnist(mnist).train, cmnist(mnist, alpha=0.5).train
    assert first.ids.tolist() == second.ids.tolist()
    assert torch.equal(first.views["core"], second.views["core"])


def test_a_small_rest_may_lack_digits(mnist):
    splits = cmnist(mnist, size=597)
    assert len(splits.val) == 3
    assert splits.val.num_classes == 10


def test_by_default_257_samples_conflict(mnist):
    assert load("cmnist", root=mnist, options={"check": False, "size": 500}).train.groups.minority.sum() == 257


def test_groups_are_digit_and_agreement_and_cells_digit_and_colour(mnist):
    groups = cmnist(mnist).train.groups
    assert groups.names[:2] == ("0, agrees", "0, conflicts")
    assert len(groups.names) == 20
    assert groups.cell_names[:2] == ("0, red", "0, green")
    assert len(groups.cell_names) == 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.5}, r"alpha must be in \[0, 1\], got 1.5"),
        ({"alpha": float("nan")}, r"alpha must be in \[0, 1\], got nan"),
        ({"size": 19}, r"size must be in 20 .. 600, the images of MNIST, got 19"),
        ({"size": 601}, r"size must be in 20 .. 600"),
        ({"size": 200, "alpha": None}, "a size of 200 cannot hold 257 conflicting samples; give alpha"),
        ({"draw": -1}, r"draw must be an integer in 0 .. 1099511627775, got -1"),
        ({"draw": 1 << 40}, r"draw must be an integer in 0"),
        ({"draw": 0.5}, r"draw must be an integer in 0 .. 1099511627775, got 0.5"),
        ({"size": "many"}, "an option has the wrong type"),
        ({"sise": 100}, "unknown option of dataset cmnist 'sise'; did you mean 'size'"),
    ],
)
def test_cmnist_refuses(mnist, options, message):
    with pytest.raises(InputError, match=message):
        cmnist(mnist, **options)


def test_cmnist_wants_mnists_60_000_images(mnist):
    message = r"train-images-idx3-ubyte is not the official one: it has 600 samples, official are 60,000"
    with pytest.raises(InputError, match=message):
        load("cmnist", root=mnist)


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (
            IMAGES,
            lambda c: b"\0\0\x08\x01" + c[4:],
            "train-images-idx3-ubyte is not one of MNIST's files, or it is cut",
        ),
        (IMAGES, lambda c: c[:-1], "is not one of MNIST's files, or it is cut short; get it again"),
        (IMAGES, lambda c: c + b"\0", "is not one of MNIST's files"),
        (IMAGES, lambda c: c[:7], "is not one of MNIST's files, or it is cut short"),
        (IMAGES, lambda c: c[:2], "is not one of MNIST's files, or it is cut short"),
        (IMAGES, lambda c: b"", "is not one of MNIST's files, or it is cut short"),
        (IMAGES, lambda c: b"<html>404 not found</html>", "is not one of MNIST's files"),
        (LABELS, lambda c: idx(np.zeros(599, np.uint8)), "has 600 images, .*train-labels-idx1-ubyte 599 labels"),
        (LABELS, lambda c: idx(np.full(600, 10, np.uint8)), "must have the labels 0 .. 9, each of them"),
        (LABELS, lambda c: idx(np.arange(600, dtype=np.uint8) % 9), "must have the labels 0 .. 9, each of them"),
    ],
)
def test_files_that_are_not_mnists_are_named(own_mnist, name, damage, message):
    path = own_mnist / "MNIST" / "raw" / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        cmnist(own_mnist)


@pytest.mark.parametrize("damage", [lambda c: c[:-20], lambda c: b"no gzip", lambda c: c[:12] + b"\xff" * 30 + c[42:]])
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
    write_mnist(tmp_path / "MNIST" / "raw", zipped=True)
    path = tmp_path / "MNIST" / "raw" / f"{IMAGES}.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz cannot be read"):
        cmnist(tmp_path)


def test_the_documented_apportionment():
    assert apportion(10, np.array([1, 1, 1])).tolist() == shared(10, [1, 1, 1]) == [4, 3, 3]
    rng = np.random.default_rng(0)
    for _ in range(100):
        weights, total = rng.integers(0, 7000, 10), int(rng.integers(0, 60_000))
        assert apportion(total, weights).tolist() == shared(total, weights.tolist())
    assert apportion(0, np.zeros(3, np.int64)).tolist() == [0, 0, 0]


# --- MetaShift ---

SHIFT = "MetaShift-subpopulation-shift"
METASHIFT = {
    "train": {"cat(indoor)": 750, "cat(outdoor)": 100, "dog(indoor)": 100, "dog(outdoor)": 750},
    "val_out_of_domain": {"cat(indoor)": 144, "cat(outdoor)": 144, "dog(indoor)": 144, "dog(outdoor)": 144},
}
FEW_PETS = {
    "train": {"cat(indoor)": 4, "cat(outdoor)": 1, "dog(indoor)": 2, "dog(outdoor)": 5},
    "val_out_of_domain": {"cat(indoor)": 2, "cat(outdoor)": 1, "dog(indoor)": 1, "dog(outdoor)": 2},
}


def metashift(root, counts=FEW_PETS, *, table="csv"):
    """Make MetaShift by links to one image, and return the group of each image's id."""
    place = root / SHIFT
    groups, paths = {}, []
    for folder, sizes in counts.items():
        for group, n in sizes.items():
            for _ in range(n):
                image = str(2_300_000 + 17 * len(groups))
                groups[image] = group
                paths.append(place / folder / group[:3] / f"{image}.jpg")
    links(root / "one.jpg", paths)
    write_groups(place, groups, table)
    return groups


def write_groups(place, groups, table):
    if table == "csv":
        (place / "groups.csv").write_text(
            "image_id,group\n" + "".join(f"{image},{group}\n" for image, group in groups.items())
        )
    else:
        (place / "imageID_to_group.pkl").write_bytes(pickle.dumps({image: [group] for image, group in groups.items()}))


@pytest.mark.parametrize("table", ["csv", "pkl"])
def test_metashift_with_the_official_counts_is_taken(tmp_path, table):
    groups = metashift(tmp_path, METASHIFT, table=table)
    splits = load("metashift", root=tmp_path)
    assert (len(splits.train), len(splits.test)) == (1700, 576)
    assert splits.val is None  # the release has none, and a known dataset is taken as it is published
    names = ("cat, indoor", "cat, outdoor", "dog, indoor", "dog, outdoor")
    for data, folder in ((splits.train, "train"), (splits.test, "val_out_of_domain")):
        assert group_counts(data) == dict(zip(names, METASHIFT[folder].values(), strict=True))
        assert data.groups.majority.tolist() == [0, 1]
        for name, group in zip(data.ids.tolist(), data.groups.group, strict=True):
            part, label, file = name.split("/")
            assert part == folder
            assert groups[file.removesuffix(".jpg")] == f"{label}({names[group].split(', ')[1]})"
            assert names[group].startswith(label)
    assert splits.train.groups.minority.sum() == 200


@pytest.mark.parametrize("folder", ["train", "val_out_of_domain"])
def test_metashift_with_another_count_is_refused_by_folder_and_counts(tmp_path, folder):
    metashift(tmp_path, METASHIFT)
    next((tmp_path / SHIFT / folder / "dog").glob("*.jpg")).unlink()
    message = (
        rf"{SHIFT}/{folder} is not the official one: dog\(\w+\) has (99|749|143) samples, official are (100|750|144)"
    )
    with pytest.raises(InputError, match=message):
        load("metashift", root=tmp_path)
    assert len(load("metashift", root=tmp_path, options=UNCHECKED).train) >= 1699


def test_metashifts_images_may_be_links_to_another_place(tmp_path):
    metashift(tmp_path)
    at = tmp_path / SHIFT / "train" / "cat"
    first, second = sorted(at.glob("*.jpg"))[:2]
    elsewhere = tmp_path / "elsewhere" / "image.jpg"
    picture(elsewhere, (1, 2, 3))
    first.unlink()
    first.symlink_to(elsewhere)
    assert colours_of(load("metashift", root=tmp_path, options=UNCHECKED).train)[0] == (1, 2, 3)
    second.unlink()
    second.symlink_to(tmp_path / "gone.jpg")
    with pytest.raises(InputError, match=rf"1 bad sample: train/cat/{second.name} is .*missing"):
        load("metashift", root=tmp_path, options=UNCHECKED)


@pytest.mark.parametrize("table", ["csv", "pkl"])
def test_the_groups_of_metashift_must_fit_its_images(tmp_path, table):
    groups = metashift(tmp_path, table=table)
    first = next(iter(groups))
    place = tmp_path / SHIFT

    def refuses(changed, message):
        write_groups(place, changed, table)
        with pytest.raises(InputError, match=message):
            load("metashift", root=tmp_path, options=UNCHECKED)

    refuses(groups | {first: "cat(sofa)"}, rf"has group 'cat\(sofa\)' for image '{first}'; groups are cat\(indoor\)")
    refuses({k: v for k, v in groups.items() if k != first}, rf"image .*{first}.jpg is not in .*(csv|pkl)")
    refuses(groups | {first: "dog(indoor)"}, rf"train/cat/{first}.jpg is in group dog\(indoor\) of .*(csv|pkl)")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["cat(indoor)"], "must hold a dict from image ids to groups, got list"),
        ({"1": []}, r"has group \[\] for image '1'"),
        ({"1": [["cat(indoor)"]]}, r"has group \['cat\(indoor\)'\] for image '1'"),
        ({"1": None}, "has group None for image '1'"),
        (Path("x"), "pathlib"),
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path, content, message):
    metashift(tmp_path, table="pkl")
    (tmp_path / SHIFT / "imageID_to_group.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(InputError, match=message):
        load("metashift", root=tmp_path, options=UNCHECKED)


PETS = "MetaShift-Cat-Dog-indoor-outdoor"
SUBPOPBENCH = {0: 2276, 1: 349, 2: 874}


def subpopbench(root, counts, tree=f"/home/someone/data/metashift/{PETS}"):
    """Make SubpopBench's layout, whose table has the paths of the machine that wrote it."""
    rows, paths = ["id,filename,split,y,a"], []
    for split, n in counts.items():
        for i in range(n):
            y, a = i % 2, (i // 2) % 2 if split else int((i % 2) ^ (i % 7 == 0))
            inside = f"{('train', 'val', 'test')[split]}/{['dog', 'cat'][y]}/{i}.jpg"
            rows.append(f"{len(rows)},{tree}/{inside},{split},{y},{a}")
            paths.append(root / "metashift" / PETS / inside)
    links(root / "one.jpg", paths)
    (root / "metashift" / "metadata_metashift.csv").write_text("\n".join([*rows, ""]))


def test_subpopbenchs_metashift_with_the_official_counts_is_taken(tmp_path):
    subpopbench(tmp_path, SUBPOPBENCH)
    manifest = read("metashift_subpopbench", root=tmp_path)
    assert [int(manifest.part(split).sum()) for split in ("train", "val", "test")] == [2276, 349, 874]


def test_subpopbenchs_paths_of_another_machine_are_found_here(tmp_path):
    subpopbench(tmp_path, {0: 28, 1: 8, 2: 12})
    with pytest.raises(InputError, match=r"metadata_metashift.csv is not the official one: train has 28 samples, offi"):
        load("metashift_subpopbench", root=tmp_path)
    splits = load("metashift_subpopbench", root=tmp_path, options=UNCHECKED)
    train = splits.train
    assert train.ids[:2].tolist() == [f"{PETS}/train/dog/0.jpg", f"{PETS}/train/cat/1.jpg"]
    assert train.class_names == ("cat", "dog")
    assert train.labels.tolist() == [1, 0] * 14  # y = 1 is a cat
    assert train.groups.attribute_names == ("indoor", "outdoor")
    assert train.groups.majority.tolist() == [0, 1]  # a = 1 is indoor
    assert train.groups.minority.tolist() == [i % 7 == 0 for i in range(28)]
    assert (len(splits.val), len(splits.test)) == (8, 12)


def test_subpopbenchs_paths_that_lead_elsewhere_are_refused(tmp_path):
    subpopbench(tmp_path, {0: 4, 1: 2, 2: 2}, tree="/home/someone/other")
    with pytest.raises(InputError, match=r"8 bad samples: /home/someone/other/train/dog/0.jpg leads out of"):
        load("metashift_subpopbench", root=tmp_path, options=UNCHECKED)


# --- UrbanCars ---

TRAIN = {"urbancars": "bg-0.95_co_occur_obj-0.95", "urbancars_b": "bg-0.95_co_occur_obj-0.5"}
EVEN = "bg-0.5_co_occur_obj-0.5"
KINDS = ("urban", "country")
# For a car: on its own background with its own thing, on its own with the other, and so on.
URBANCARS = {"urbancars": (3610, 190, 190, 10), "urbancars_b": (1900, 1900, 100, 100)}


def urbancars(root, name, train=(6, 2, 2, 1), even=(2, 2, 2, 2)):
    """Make the generator's folders; counts are for a car of either kind."""
    paths = []
    splits = {f"{TRAIN[name]}/train": train, f"{EVEN}/val": even, f"{EVEN}/test": even}
    for folder, counts in splits.items():
        for car in (0, 1):
            cells = [(car, car), (car, 1 - car), (1 - car, car), (1 - car, 1 - car)]
            for (background, thing), n in zip(cells, counts, strict=True):
                at = f"obj-{KINDS[car]}_bg-{KINDS[background]}_co_occur_obj-{KINDS[thing]}"
                paths += [root / "urbancars" / folder / at / f"{i:03}.jpg" for i in range(n)]
    links(root / "one.jpg", paths)


@pytest.mark.parametrize("name", TRAIN)
def test_urbancars_with_the_generators_counts_is_taken(tmp_path, name):
    urbancars(tmp_path, name, URBANCARS[name], (125, 125, 125, 125))
    manifest = read(name, root=tmp_path)
    assert [int(manifest.part(split).sum()) for split in ("train", "val", "test")] == [8000, 1000, 1000]
    on_own = [
        path.split("/")[2].split("_")[0][4:] == path.split("/")[2].split("_")[1][3:]
        for path in manifest.ids[manifest.part("train")].tolist()
    ]
    assert Counter(on_own) == {True: 7600, False: 400}


def test_urbancars_with_another_count_is_refused_by_folder_and_counts(tmp_path):
    urbancars(tmp_path, "urbancars_b", URBANCARS["urbancars_b"], (125, 125, 125, 125))
    (tmp_path / "urbancars" / EVEN / "val" / "obj-urban_bg-country_co_occur_obj-urban" / "007.jpg").unlink()
    message = (
        rf"urbancars_b: .*urbancars/{EVEN}/val is not the official one: urban car on country with urban object has 124 "
        "samples, official are 125"
    )
    with pytest.raises(InputError, match=message):
        read("urbancars_b", root=tmp_path)


def test_urbancars_b_has_the_background_as_its_only_attribute(tmp_path):
    urbancars(tmp_path, "urbancars_b")
    train, test, val, _ = load("urbancars_b", root=tmp_path, options=UNCHECKED)
    assert group_counts(train) == {
        "urban, urban background": 8,
        "urban, country background": 3,
        "country, urban background": 3,
        "country, country background": 8,
    }
    for data in (train, test, val):
        parts = [name.split("/")[2].split("_") for name in data.ids.tolist()]
        assert data.labels.tolist() == [KINDS.index(part[0][4:]) for part in parts]
        assert data.groups.minority.tolist() == [part[0][4:] != part[1][3:] for part in parts]


def test_in_urbancars_a_sample_is_of_the_minority_where_either_attribute_disagrees(tmp_path):
    urbancars(tmp_path, "urbancars")
    train, test, val, _ = load("urbancars", root=tmp_path, options=UNCHECKED)
    assert len(train.groups.names) == 8
    assert sorted(train.groups.counts().tolist()) == [1, 1, 2, 2, 2, 2, 6, 6]
    assert test.groups.counts().tolist() == val.groups.counts().tolist() == [2] * 8
    for data in (train, test, val):
        parts = [name.split("/")[2].split("_") for name in data.ids.tolist()]
        agree = [part[0][4:] == part[1][3:] == part[4][4:] for part in parts]
        assert data.groups.minority.tolist() == [not both for both in agree]


@pytest.mark.parametrize("split", [f"{TRAIN['urbancars_b']}/train", f"{EVEN}/val", f"{EVEN}/test"])
def test_a_folder_of_urbancars_without_images_is_said(tmp_path, split):
    urbancars(tmp_path, "urbancars_b")
    for path in (tmp_path / "urbancars" / split).glob("*/*.jpg"):
        path.unlink()
    message = rf"{split} has no folder such as obj-urban_bg-urban_co_occur_obj-urban with \*.jpg"
    with pytest.raises(InputError, match=message):
        load("urbancars_b", root=tmp_path, options=UNCHECKED)


# --- all of them ---


@pytest.mark.parametrize(
    ("name", "there", "missing"),
    [
        ("waterbirds", "", f"{BIRDS}/metadata.csv"),
        ("cmnist", "", "MNIST/raw"),
        ("cmnist", "MNIST/raw", f"MNIST/raw/{IMAGES}"),
        ("metashift", "", SHIFT),
        ("metashift", SHIFT, f"{SHIFT}/groups.csv"),
        ("metashift_subpopbench", "", "metashift/metadata_metashift.csv"),
        ("urbancars", "", f"urbancars/{TRAIN['urbancars']}/train"),
        ("urbancars_b", f"urbancars/{TRAIN['urbancars_b']}/train", f"urbancars/{EVEN}/val"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_gets_it(tmp_path, name, there, missing):
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    message = rf"{name}: {tmp_path}/{missing} is missing. `tcsl data get {name} --root {tmp_path}` downloads it or says"
    with pytest.raises(InputError, match=message):
        load(name, root=tmp_path)


def test_metashift_without_a_class_is_said(tmp_path):
    metashift(tmp_path)
    for path in (tmp_path / SHIFT / "train" / "dog").glob("*"):
        path.unlink()
    (tmp_path / SHIFT / "train" / "dog").rmdir()
    with pytest.raises(InputError, match=rf"{SHIFT}/train/dog is missing. `tcsl data get metashift --root {tmp_path}`"):
        load("metashift", root=tmp_path)


def test_the_root_is_the_one_given_or_that_of_the_environment_or_data(tmp_path, monkeypatch):
    write_mnist(tmp_path / "data" / "MNIST" / "raw")
    monkeypatch.delenv("TCSL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert cmnist("").train.fingerprint == FROZEN["train"]
    monkeypatch.setenv("TCSL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=f"{tmp_path}/nowhere/MNIST/raw is missing"):
        cmnist("")
    assert cmnist(tmp_path / "data").train.fingerprint == FROZEN["train"]


@pytest.mark.parametrize(
    ("name", "net", "lr", "weight_decay", "batch_size", "epochs", "tau"),
    [
        ("waterbirds", "resnet50", 1e-4, 1e-1, 128, 300, 0.4),
        ("cmnist", "resnet18", 1e-3, 1e-3, 32, 50, 0.0),
        ("metashift", "resnet50", 1e-3, 1e-3, 32, 200, 0.4),
        ("urbancars_b", "resnet50", 1e-4, 1e-1, 128, 300, 0.4),
    ],
)
@pytest.mark.parametrize("profile", ["default", "paper"])
def test_presets_are_those_of_appendix_f(profile, name, net, lr, weight_decay, batch_size, epochs, tau):
    settings = resolve(profile=profile, dataset=name)
    train, select = settings.train, settings.select
    assert (train.net, train.pretrained) == (f"torchvision:{net}", True)
    assert (train.lr, train.weight_decay, train.momentum) == (lr, weight_decay, 0.9)
    assert (train.batch_size, train.epochs) == (batch_size, epochs)
    share = 0.1 if profile == "paper" else 0.03
    assert (settings.biased_epochs, settings.core_epochs) == (max(5, round(share * epochs)), epochs)
    assert (select.tau, select.bins) == (tau, 50)
    assert train.augment == "none"


# --- real files: TCSL_DATA=FOLDER pytest -m data ---

DATA = os.environ.get("TCSL_DATA", "")


def real(path):
    """Mark a test that needs this path in $TCSL_DATA."""
    absent = not DATA or not (Path(DATA) / path).exists()
    why = f"set TCSL_DATA to a folder with {path} to run this"
    return lambda test: pytest.mark.data(pytest.mark.skipif(absent, reason=why)(test))


@real(BIRDS)
def test_real_waterbirds():
    splits = load("waterbirds", root=DATA)
    with open(Path(DATA) / BIRDS / "metadata.csv", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    for split, data in enumerate((splits.train, splits.val, splits.test)):
        assert tuple(data.groups.counts().tolist()) == WATERBIRDS[split]
        expected = [row for row in rows if row[3] == str(split)]
        assert data.ids.tolist() == [int(row[0]) for row in expected]
        assert data.labels.tolist() == [int(row[2]) for row in expected]
        assert data.groups.group.tolist() == [2 * int(row[2]) + int(row[4]) for row in expected]
        assert data.inputs.shape[1:] == (3, 224, 224)
        for i in range(0, len(data), len(data) // 10):
            with Image.open(Path(DATA) / BIRDS / expected[i][1]) as opened:
                image = opened.convert("RGB")
            if data.facts["transform"] != "none":
                image = CenterCrop(224)(Resize((256, 256))(image))
            assert np.array_equal(data.inputs[i].permute(1, 2, 0).numpy(), np.asarray(image))


# Samples of each digit, and conflicts among them, as they are shared by MNIST's frequencies.
REAL_SIZES = [5213, 5934, 5244, 5396, 5142, 4771, 5208, 5514, 5150, 5236]
REAL_CONFLICTS = [25, 29, 26, 26, 25, 23, 25, 27, 25, 26]
REAL = {
    "train": "3392ad46b0cde4ed8eb2a681d457d38d06d7318d886c6ba08a95119ff74b4c34",
    "test": "0c710e39f79d5d0cb246c464f605c51dd2f13e152991c52af1512d80b5426e95",
    "val": "f5324d90a22c584aa6809867e2579d34de70cb3fde2e50545342c4fb41542504",
    "val_iid": "a20c09fab8aa0e6679d3601220429f8627cc355f402f26cc6d18b243aaaf0b88",
}


@real("MNIST/raw")
def test_real_cmnist():
    splits = load("cmnist", root=DATA)
    train, test, val, val_iid = splits
    assert (len(train), len(test), len(val), len(val_iid)) == (52_808, 10_000, 7_192, 7_192)
    assert Counter(train.groups.minority.tolist()) == {False: 52_551, True: 257}
    assert val_iid.groups.minority.sum() == 35
    frequency = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(train.labels).tolist() == shared(52_808, frequency) == REAL_SIZES
    against = np.bincount(train.labels[train.groups.minority]).tolist()
    assert against == shared(257, REAL_SIZES) == REAL_CONFLICTS
    assert {split: data.fingerprint for split, data in splits._asdict().items()} == REAL


@real("MNIST/raw/train-images-idx3-ubyte")
def test_real_cmnist_agrees_with_a_version_of_plain_loops():
    made = load("cmnist", root=DATA)._asdict()
    raw = Path(DATA) / "MNIST" / "raw"
    labels, test_labels = ((raw / f"{part}-labels-idx1-ubyte").read_bytes()[8:] for part in ("train", "t10k"))
    for split, colours in by_hand(labels, test_labels, 52_808, 257, 0).items():
        part = "t10k" if split == "test" else "train"
        images = np.fromfile(raw / f"{part}-images-idx3-ubyte", np.uint8, offset=16).reshape(-1, 28, 28)
        known = test_labels if split == "test" else labels
        assert_painted(made[split], split, colours, known, lambda i, images=images: images[i].tolist(), 0)
