"""Datasets: the embedded one, what comes from Python, and what is wrong with it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from tcsl.data.convert import as_dataset
from tcsl.data.dataset import make_dataset
from tcsl.data.digits import load
from tcsl.errors import GroupsHidden, InputError


def test_digits_conflicts_are_stratified_and_exact():
    train = load(3).train
    counts = np.bincount(train.groups.group, minlength=20).reshape(10, 2)
    assert counts.tolist() == [[114, 6]] * 10
    assert train.groups.minority.sum() == 60
    assert len(train.groups.names) == 20
    assert len(train.groups.cell_names) == 100


def test_digits_at_alpha_a_tenth_have_uniform_colours():
    train = load(0, alpha=0.1).train
    assert np.bincount(train.groups.cell, minlength=100).tolist() == [12] * 100


def test_digits_at_test_come_in_all_ten_colours():
    train, test = load(0)[:2]
    assert len(test) == 5970
    colours = test.groups.cell.reshape(-1, 10) % 10
    assert (np.sort(colours, 1) == np.arange(10)).all()
    grey = test.views["core"].reshape(-1, 10, 3, 8, 8)
    assert (grey == grey[:, :1]).all()
    assert not set(train.ids) & set(test.ids // 10)
    assert (np.bincount(test.groups.cell) >= 54).all()


def test_digits_for_validation_are_coloured_like_those_for_training():
    plain, splits = load(0), load(0, val_per_class=30)
    assert torch.equal(plain.train.inputs, splits.train.inputs)
    assert plain.val_iid is None
    counts = np.bincount(splits.val_iid.groups.group, minlength=20).reshape(10, 2)
    assert counts.tolist() == [[28, 2]] * 10
    assert (np.bincount(splits.val.groups.cell) == 30).all()
    assert set(splits.val.ids // 10) == set(splits.val_iid.ids)
    ids = [set(splits.train.ids), set(splits.val_iid.ids), set(splits.test.ids // 10)]
    assert sum(map(len, ids)) == len(set.union(*ids)) == 1797
    with pytest.raises(InputError, match=r"val_per_class must be in 0 \.\. 30, got 31"):
        load(0, val_per_class=31)


def test_digits_ids_do_not_tell_the_group():
    """An id is the image's number in scikit-learn's set, whatever its colour."""
    first, second = load(0, alpha=0.95).train, load(0, alpha=0.5).train
    assert (first.ids == second.ids).all()
    assert (first.groups.minority != second.groups.minority).any()


def test_digits_views_take_away_colour_or_shape():
    train = load(0).train
    grey, flat = train.views["core"], train.views["spurious"]
    assert (grey == grey[:, :1]).all()
    assert (flat == flat[:, :, :1, :1]).all()
    # The colour's proportions are those of the picture.
    i = 7
    whole = train.inputs[i].float().mean((1, 2))
    assert torch.allclose(flat[i, :, 0, 0].float(), whole, atol=1.5)
    assert torch.equal(train.inputs[i].amax(0) > 0, grey[i, 0] > 0)


def test_digits_are_seeded():
    assert load(1).train.fingerprint == load(1).train.fingerprint
    assert load(1).train.fingerprint != load(2).train.fingerprint


@pytest.mark.parametrize(
    ("options", "message"), [({"alpha": 2}, r"alpha must be in \[0, 1\]"), ({"per_class": 170}, "150")]
)
def test_digits_refuse(options, message):
    with pytest.raises(InputError, match=message):
        load(0, **options)


def test_groups_are_hidden_from_who_did_not_declare_them():
    hidden = load(0, per_class=5).train.without_groups()
    with pytest.raises(GroupsHidden, match="method's needs"):
        _ = hidden.groups
    assert hidden.fingerprint == load(0, per_class=5).train.fingerprint


X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X, Y + 0.5), "labels must be integers, got 0.5 at index 0"),
        ((X, np.where(Y == 2, np.nan, Y)), "got nan at index 2"),
        ((X, np.where(Y == 1, 3, Y)), "no sample has label 1"),
        ((X, Y * 0), "one class"),
        ((X, -Y), "got -2"),
        ((X, np.array(["a", "b", " ", "a", "b", "a"])), "or text, in every sample; got ' ' at index 2"),
        ((X, np.array(["a", "b", None, "a", "b", "a"])), "or text, in every sample; got None at index 2"),
        ((X, ["a", "b", float("nan"), "a", "b", "a"]), "or text, in every sample; got nan at index 2"),
        ((X, [None, "b", "a", "a", "b", "a"]), "got None at index 0"),
        ((X, (1, "a", 0, 1, 0, 1)), "got 'a' at index 1"),
        ((X, ["a", "b", "\udc80", "a", "b", "a"]), r"got '\\udc80' at index 2"),
        ((X, ["a", "b", "a\0", "a", "b", "a"]), r"got 'a\\x00' at index 2"),
        ((X, [b"a", b"b"] * 3), "got b'a' at index 0"),
        ((X, Y.astype(complex)), r"got 0j at index 0"),
        ((X, [[0], [1, 2], 0, 1, 0, 1]), "some of these are lists"),
        ((X, None), r"labels must have shape \(n,\), got \(\)"),
        ((X, ["a"] * 6), "one class"),
        ((X, np.array([["a"]] * 6)), r"labels must have shape \(n,\), got \(6, 1\)"),
        ((X, np.array([0, 10**30, 0, 1, 0, 1], object)), "got 10{30} at index 1"),
        ((X, Y[:5]), "6 inputs but 5 labels; there must be one a sample"),
        ((X, Y[:, None]), r"labels must have shape \(n,\), got \(6, 1\)"),
        ((X, Y * 10**14), "no sample has label 1"),
        ((np.where(X == 7, np.nan, X), Y), "1 samples have NaN or infinite values, first at index 3"),
        ((X[:, 0], Y), "X must have shape"),
        ((X.astype(str).astype(object) + "a", Y), "X must be numbers, got dtype object"),
        ((X[:0], Y[:0]), "no sample"),
        ((X.astype(complex), Y), "X must be numbers, got dtype complex128"),
        ((X, [0, 1, np.nan, 0, 1, 2]), "got nan at index 2; leave such samples out"),
        ((X, Y, Y), "a tuple of 3"),
        (5, "got int"),
        ([(1, 2, 3)], "item 0 must be a pair"),
        ([], "no sample"),
        ([(torch.zeros(2), 0), (torch.zeros(3), 1)], "item 1 has shape"),
        ([("text", 0)], "item 0's x must be an image"),
        ([(torch.zeros(2), 0), (torch.zeros(2), "cat")], "or text, in every sample; got 'cat' at index 1"),
        ([(torch.zeros(2), None), (torch.zeros(2), 1)], "got None at index 0"),
        ([(torch.zeros(2), torch.eye(2)[i]) for i in range(2)], r"labels must have shape \(n,\), got \(2, 2\)"),
        ([(torch.tensor(1.0), 0), (torch.tensor(2.0), 1)], "X must have shape"),
    ],
)
def test_bad_data_is_said(data, message):
    with pytest.raises(InputError, match=message):
        as_dataset(data)


@pytest.mark.parametrize("kind", [list, np.array, lambda y: np.array(y, object), tuple])
def test_labels_may_be_text(kind):
    named = [("red", "blue", "green")[y] for y in Y]
    made = as_dataset((X, kind(named)))
    assert made.class_names == ("blue", "green", "red")
    assert [made.class_names[y] for y in made.labels] == named
    assert as_dataset(list(zip(torch.from_numpy(X), named, strict=True))).labels.tolist() == made.labels.tolist()
    held_out = as_dataset((X[:2], kind(["red", "green"])), test=True, like=made)
    assert held_out.labels.tolist() == [2, 1]
    with pytest.raises(InputError, match="'pink' at index 1 is none of the classes, 'blue', 'green', 'red'"):
        as_dataset((X[:2], kind(["red", "pink"])), test=True, like=made)


def test_numbers_as_text_are_sorted_and_found_by_value():
    """As in tables; a test set's numbers are names where the training set's classes have others than 0 .. k - 1."""
    twelve = as_dataset((np.eye(24), [str(i % 12) for i in range(24)]))
    assert twelve.class_names == tuple(map(str, range(12)))
    assert as_dataset((np.eye(24)[:3], [2, 10, 11]), test=True, like=twelve).labels.tolist() == [2, 10, 11]
    odd = as_dataset((X, ["1", "3", "10"] * 2))
    assert odd.class_names == ("1", "3", "10")
    for labels in ([10, 1], ["10", "1"], torch.tensor([10, 1]), np.array([10.0, 1.0])):
        assert as_dataset((X[:2], labels), test=True, like=odd).labels.tolist() == [2, 0]
    with pytest.raises(InputError, match="'2' at index 0 is none of the classes, '1', '3', '10'"):
        as_dataset((X[:2], [2, 1]), test=True, like=odd)
    assert as_dataset((X[:2], [2, 0]), test=True, like=as_dataset((X, ["a", "b", "c"] * 2))).labels.tolist() == [2, 0]


def test_class_names_must_differ_and_occur():
    with pytest.raises(InputError, match="class names must differ, got 'a', 'a'"):
        make_dataset(X, ["a"] * 6, class_names=["a", "a"])
    with pytest.raises(InputError, match="no sample is of class 'c'; leave its name out"):
        make_dataset(X, ["a", "b"] * 3, class_names=["a", "c", "b"])


@pytest.mark.parametrize("kind", [">i4", "<u8", np.longdouble, bool, object])
def test_numbers_of_any_kind_are_labels(kind):
    assert as_dataset((X, (Y % 2).astype(kind))).labels.tolist() == (Y % 2).tolist()


def test_tensors_of_half_precision_are_taken():
    made = as_dataset((torch.from_numpy(X).bfloat16(), torch.from_numpy(Y).bfloat16()))
    assert made.inputs.tolist() == X.tolist()
    assert made.labels.tolist() == Y.tolist()


def test_labels_of_one_number_each_are_taken():
    """Python's own, NumPy's, and arrays or tensors of one element."""
    ones = [0, np.int8(1), torch.tensor(2), np.array(0.0), torch.tensor([1]), np.array([2])]
    assert as_dataset(list(zip(torch.from_numpy(X), ones, strict=True))).labels.tolist() == Y.tolist()


def test_a_dataset_says_what_it_is():
    assert repr(as_dataset((X, Y), name="rows")) == "<rows: 6 samples of 2, 3 classes (0, 1, 2)>"
    digits = load(0, per_class=5).train
    assert (
        repr(digits.without_groups()) == "<digits, training: 50 samples of 3 x 8 x 8, 10 classes (0, 1, 2, 3, 4, ...)>"
    )


def test_labels_that_are_whole_floats_are_taken():
    assert as_dataset((X, Y.astype(float))).labels.tolist() == Y.tolist()


def test_a_torch_dataset_of_tensors():
    made = as_dataset(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)))
    assert made.inputs.dtype == torch.float32
    assert made.labels.tolist() == Y.tolist()


def test_a_torch_dataset_of_pil_images():
    images = [(Image.new("RGB", (5, 4), (10 * i, 2, 3)), i % 2) for i in range(4)]
    made = as_dataset(images)
    assert made.inputs.shape == (4, 3, 4, 5)
    assert made.inputs.dtype == torch.uint8
    assert made.inputs[2, :, 0, 0].tolist() == [20, 2, 3]
    grey = as_dataset([(Image.new("L", (5, 4), i), i % 2) for i in range(4)])
    assert grey.inputs.shape == (4, 1, 4, 5)


IMAGES = np.random.default_rng(3).integers(256, size=(6, 8, 9, 3), dtype=np.uint8)  # (n, height, width, channels)


@pytest.mark.parametrize(
    "given",
    [
        (IMAGES, Y),
        (IMAGES.transpose(0, 3, 1, 2), Y),
        (IMAGES.astype(int), Y),
        (IMAGES.astype(np.float32), Y),
        (torch.from_numpy(IMAGES), Y),
        [*zip(IMAGES, Y, strict=True)],
        [*zip(torch.from_numpy(IMAGES).permute(0, 3, 1, 2), Y, strict=True)],
        [*zip(map(Image.fromarray, IMAGES), Y, strict=True)],
    ],
)
def test_images_are_the_same_however_they_are_laid_out(given):
    assert torch.equal(as_dataset(given).inputs, torch.from_numpy(IMAGES).permute(0, 3, 1, 2))


def test_floating_point_images_of_pil_are_taken():
    images = [Image.fromarray(image[..., 0] / np.float32(100)) for image in IMAGES]
    assert as_dataset(list(zip(images, Y, strict=True))).inputs.dtype == torch.float32


def test_floats_that_are_no_bytes_stay_floats_and_grey_bytes_get_a_channel():
    assert torch.equal(as_dataset((IMAGES / 255, Y)).inputs, torch.from_numpy(IMAGES / 255).permute(0, 3, 1, 2).float())
    assert as_dataset((IMAGES > 127, Y)).inputs.unique().tolist() == [0.0, 1.0]
    assert as_dataset((IMAGES[..., 0], Y)).inputs.shape == (6, 1, 8, 9)
    assert as_dataset([*zip(IMAGES[..., 0], Y, strict=True)]).inputs.shape == (6, 1, 8, 9)


def test_images_of_a_palette_are_made_rgb_as_files_are():
    flat = np.repeat(IMAGES[:, :1, :1], 8, 1).repeat(9, 2)  # one colour each, which a palette has
    images = [Image.fromarray(image).convert("P", palette=Image.Palette.ADAPTIVE) for image in flat]
    made = as_dataset(list(zip(images, Y, strict=True)))
    assert torch.equal(made.inputs, torch.from_numpy(flat).permute(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("given", "test", "message"),
    [
        (
            (IMAGES, Y),
            (IMAGES / 255, Y),
            "floats up to 1, those of the training set bytes up to 255: give both alike",
        ),
        ((IMAGES / 255, Y), (IMAGES, Y), "are bytes up to 255, those of the training set floats up to 1"),
        ((IMAGES / 255, Y), as_dataset((IMAGES, Y)), "are bytes up to 255"),
    ],
)
def test_images_up_to_255_and_up_to_1_do_not_go_together(given, test, message):
    with pytest.raises(InputError, match=message):
        as_dataset(test, test=True, like=as_dataset(given))


@pytest.mark.parametrize(
    ("given", "test", "dtype"),
    [
        (IMAGES.astype(int) * 16, IMAGES.astype(int), torch.float32),  # 12 bits, of which a test set may show few
        (IMAGES / 100, np.minimum(IMAGES, 2).astype(float), torch.float32),
        (IMAGES.astype(float), np.minimum(IMAGES, 1).astype(float), torch.uint8),
        (IMAGES, IMAGES / 2, torch.float32),
    ],
)
def test_the_training_set_decides_whether_whole_numbers_are_bytes(given, test, dtype):
    held_out = as_dataset((test, Y), test=True, like=as_dataset((given, Y)))
    assert held_out.inputs.dtype == dtype
    assert torch.equal(held_out.inputs.double(), torch.from_numpy(test).permute(0, 3, 1, 2).double())


@pytest.mark.parametrize("kind", [int, np.float32])
def test_sequences_stay_as_they_are(kind):
    assert as_dataset((IMAGES[..., 0].astype(kind), Y)).inputs.shape == (6, 8, 9)


def test_a_torch_dataset_may_have_columns():
    class Table(TensorDataset):
        columns = ("a", "b")

    assert as_dataset(Table(torch.from_numpy(X), torch.from_numpy(Y))).inputs.shape == (6, 2)


def test_a_grey_image_among_coloured_ones_is_said():
    images = [Image.fromarray(image) for image in IMAGES]
    images[4] = images[4].convert("L")
    with pytest.raises(
        InputError, match=r"item 4 has shape \(1, 8, 9\).*such as image.convert\('RGB'\), to the dataset"
    ):
        as_dataset(list(zip(images, Y, strict=True)))
    images[4] = images[0].resize((4, 4))
    with pytest.raises(InputError, match=r"item 4 .*; add a Resize to the dataset's transform"):
        as_dataset(list(zip(images, Y, strict=True)))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, dict])
def test_a_table_alone_is_no_pair(kind):
    with pytest.raises(InputError, match=r"or a pair of arrays \(X, y\); got (DataFrame|dict)"):
        as_dataset(kind({"a": [1.0, 2.0], "label": [0, 1]}))


def test_groups_from_an_attribute_of_text():
    train = as_dataset((X, Y), groups=np.array(["sea", "sea", "land", "sea", "land", "land"]))
    assert train.groups.attribute_names == ("land", "sea")
    assert train.groups.majority.tolist() == [1, 0, 0]
    # class 1 has one of each: the tie goes to the lower value, land
    assert train.groups.minority.tolist() == [False, True, False, False, False, False]
    test = as_dataset((X, Y), groups=np.array(["sea"] * 6), test=True, like=train)
    assert test.groups.names == train.groups.names
    assert test.groups.minority.tolist() == [False, True, True, False, True, True]


def test_groups_that_do_not_fit():
    train = as_dataset((X, Y), groups=Y % 2)
    with pytest.raises(InputError, match="6 samples but 5 group labels"):
        as_dataset((X, Y), groups=Y[:5])
    with pytest.raises(InputError, match="'7' does not occur in the training set"):
        as_dataset((X, Y), groups=np.full(6, 7), like=train)
    with pytest.raises(InputError, match="has its own"):
        as_dataset(train, groups=Y)
    with pytest.raises(InputError, match="one value a sample"):
        as_dataset((X, Y), groups=np.zeros((6, 2)))


def test_a_test_set_may_lack_classes_but_not_have_more():
    train = as_dataset((X, Y))
    assert as_dataset((X[:2], [0, 0]), test=True, like=train).num_classes == 3
    assert as_dataset((X[:2], [4, 4]), test=True).num_classes == 5
    with pytest.raises(InputError, match="data: its labels go up to 5, those of the training set up to 2"):
        as_dataset((X[:1], [5]), test=True, like=train)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ids": np.array([1, 1, 2, 3, 4, 5])}, "ids must be unique"),
        ({"ids": np.arange(3)}, "6 samples but 3 ids"),
        ({"class_names": ["a"]}, "3 classes but 1 class names"),
        ({"views": {"core": torch.zeros(5, 2)}}, "6 inputs but 5 core"),
    ],
)
def test_parts_that_do_not_fit(more, message):
    with pytest.raises(InputError, match=message):
        make_dataset(torch.from_numpy(X), torch.from_numpy(Y), **more)


def test_the_fingerprint_tells_data_apart():
    base = as_dataset((X, Y)).fingerprint
    assert as_dataset((X.copy(), Y.copy())).fingerprint == base
    assert as_dataset((X + 1, Y)).fingerprint != base
    assert as_dataset((X, Y[::-1].copy())).fingerprint != base
    assert as_dataset((X.reshape(6, 2, 1), Y)).fingerprint != base


def test_tensors_with_a_gradient_and_ids_of_any_kind_are_taken():
    made = as_dataset([(torch.ones(2, requires_grad=True), 0), (torch.ones(2), torch.tensor(1))])
    assert not made.inputs.requires_grad
    assert make_dataset(
        torch.from_numpy(X), torch.from_numpy(Y), ids=np.array(["a", 1, "b", 2, 3, 4], object)
    ).fingerprint
