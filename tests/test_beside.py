"""A test or validation set in a source of its own: which samples it has, and whose classes, features and groups."""

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

import tcsl
from tcsl.data.convert import as_dataset
from tcsl.data.load import load_beside
from tcsl.errors import InputError

NAMES = ("ant", "bee", "cat")
QUICK = {"train.epochs": 30, "train.lr": 0.1, "device.threads": 1}


def write(path, labels, *, features="abc", **columns):
    """Write samples whose feature a, b or c says which class they are."""
    codes = [NAMES.index(label) for label in labels]
    X = np.random.default_rng(len(labels)).normal(scale=0.1, size=(len(labels), 3)) + 3 * np.eye(3)[codes]
    found = {name: X[:, "abc".index(name)] for name in features}
    pl.DataFrame({**found, "label": labels, **columns}).write_csv(path)
    return str(path)


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    return write(tmp_path_factory.mktemp("train") / "train.csv", list(NAMES) * 30)


@pytest.fixture(scope="module")
def model(train):
    return tcsl.train(train, settings=QUICK)


@pytest.mark.parametrize("labels", [["bee", "cat"] * 20, ["cat"], ["cat", "bee", "ant"]])
def test_classes_are_told_by_their_names(train, model, tmp_path, labels):
    found = tcsl.evaluate(model, write(tmp_path / "test.csv", labels), train=train)
    assert (found.n, found.average) == (len(labels), 1.0)


def test_features_are_told_by_their_names(train, model, tmp_path):
    swapped = write(tmp_path / "test.csv", list(NAMES) * 5, features="cab")
    assert tcsl.evaluate(model, swapped, train=train).average == 1.0
    with pytest.raises(InputError, match="the feature 'b' is missing: the training set has it; name the columns"):
        tcsl.evaluate(model, write(tmp_path / "two.csv", ["ant", "cat"], features="ac"), train=train)
    more = write(tmp_path / "more.csv", ["ant", "cat"], d=[1.0, 2.0])
    with pytest.raises(InputError, match="the feature 'd' is not among those of the training set"):
        tcsl.evaluate(model, more, train=train)


def test_a_run_is_evaluated_on_all_of_a_file_without_splits(train, tmp_path):
    test = write(tmp_path / "test.csv", ["bee", "cat"] * 25)
    run = tcsl.debias(train, 0.5, test=test, methods=["cb_erm"], settings=QUICK, out=tmp_path / "run")
    found = run.result["evaluation"]["cb_erm"]
    assert (run.result["evaluated_on"], found["n"], found["average"]) == ("test.csv, test", 50, 1.0)


def test_of_a_file_with_splits_it_is_the_test_split(train, model, tmp_path):
    labels = ["ant", "bee", "cat"] * 4
    split = ["train"] * 5 + ["val"] * 4 + ["test"] * 3
    assert tcsl.evaluate(model, write(tmp_path / "all.csv", labels, split=split), train=train).n == 3
    assert tcsl.evaluate(model, write(tmp_path / "val.csv", labels[:9], split=split[:9]), train=train).n == 4
    assert tcsl.evaluate(model, write(tmp_path / "only.csv", labels[9:], split=split[9:]), train=train).n == 3


def test_of_the_training_file_itself_it_is_what_training_held_out(train, model, tmp_path):
    assert tcsl.evaluate(model, train, train=train).n == 9
    assert tcsl.evaluate(model, train).n == 90
    run = tcsl.debias(train, 0.5, test=train, methods=["cb_erm"], settings=QUICK, out=tmp_path / "run")
    assert run.result["evaluated_on"] == "train.csv, validation"


def test_a_validation_set_is_the_validation_split(train, tmp_path):
    val = write(tmp_path / "val.csv", ["ant", "bee", "cat"] * 4, split=["test"] * 7 + ["val"] * 5)
    chosen = {**QUICK, "train.model_selection": "worst_class"}
    run = tcsl.debias(train, 0.5, val=val, methods=["cb_erm"], settings=chosen, out=tmp_path / "run")
    assert run.result["models"]["cb_erm"]["on"] == "val.csv, validation"
    assert [len(load_beside(val, order)) for order in (["val", "test"], ["test", "val"])] == [5, 7]


def test_a_class_that_training_lacks_is_said(train, model, tmp_path):
    table = pl.read_csv(write(tmp_path / "test.csv", ["ant", "bee"] * 3))
    table.with_columns(label=pl.lit("dog")).write_csv(tmp_path / "dogs.csv")
    with pytest.raises(InputError, match="class 'dog' does not occur in the training set, which has 'ant', "):
        tcsl.evaluate(model, tmp_path / "dogs.csv", train=train)


def test_without_the_training_set_fewer_classes_are_unclear(model, tmp_path):
    with pytest.raises(InputError, match="give the training set, train=, whose classes tell which logit is which"):
        tcsl.evaluate(model, write(tmp_path / "test.csv", ["bee", "cat"] * 3))
    assert tcsl.evaluate(model, write(tmp_path / "all.csv", list(NAMES))).average == 1.0


def test_groups_are_told_by_their_names_and_agree_as_in_training(tmp_path):
    labels, place = ["ant", "bee"] * 20, ["x", "y", "x", "y", "x", "y", "y", "z"] * 5
    train = write(tmp_path / "train.csv", labels, place=place)
    test = write(tmp_path / "test.csv", ["bee"] * 6, place=["z", "y", "z", "z", "y", "z"])
    columns = {"data.columns": "group=place"}
    run = tcsl.debias(train, 0.5, test=test, methods=["cb_erm"], settings={**QUICK, **columns}, out=tmp_path / "run")
    found = {group["name"]: group["n"] for group in run.result["evaluation"]["cb_erm"]["groups"] if group["n"]}
    assert found == {"bee, y": 2, "bee, z": 4}
    named = {"group": "place"}
    like = tcsl.load(train, columns=named, val_fraction=0).train
    held_out = as_dataset(load_beside(test, ["test"], columns=named), test=True, like=like)
    assert held_out.groups.minority.tolist() == [True, False, True, True, False, True]


def test_labels_that_are_numbers_stay_numbers():
    names = ("ant", "bee", "cat")
    train = tcsl.make_dataset(torch.eye(3).repeat(2, 1), torch.arange(3).repeat(2), class_names=names)
    plain = tcsl.make_dataset(torch.eye(3)[1:], torch.tensor([1, 2]), test=True)
    assert as_dataset(plain, test=True, like=train).labels.tolist() == [1, 2]
    with pytest.raises(InputError, match="its labels go up to 3, those of the training set up to 2"):
        as_dataset(tcsl.make_dataset(torch.zeros(1, 3), torch.tensor([3]), test=True), test=True, like=train)


def test_what_fits_already_is_the_same_object(train):
    splits = tcsl.load("digits", options={"per_class": 20})
    assert as_dataset(splits.test, test=True, like=splits.train) is splits.test


def test_images_are_made_as_those_of_training_were(tmp_path):
    rng = np.random.default_rng(0)
    for folder, sides in (("train", (300, 300)), ("test", (300, 200))):
        for name in ("cat", "dog"):
            (tmp_path / folder / name).mkdir(parents=True)
            for i in range(4):
                pixels = rng.integers(0, 255, (*sides, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / folder / name / f"{i}.png")
    net = tcsl.train(tmp_path / "train", net="mlp", settings={"train.epochs": 1, "data.transform": "resize:8"})
    settings = {"data.transform": "resize:8"}
    assert tcsl.evaluate(net, tmp_path / "test", train=tmp_path / "train", settings=settings).n == 8


def test_nothing_cannot_be_evaluated_on(model):
    with pytest.raises(InputError, match=r"test data: expected a tcsl Dataset, .* got NoneType"):
        tcsl.evaluate(model, None)
