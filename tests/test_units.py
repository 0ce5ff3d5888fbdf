"""Samples that show the same, such as pictures of one patient: named in a column, split together, counted once."""

import io
import json
import logging
import re
import tarfile
import warnings

import datasets
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import tcsl
from tcsl.data.check import check_manifest, problems
from tcsl.data.read import read
from tcsl.data.splits import hold_out
from tcsl.errors import InputError, TcslWarning

NAMED = {"unit": "patient"}
N = 40
LABELS = ["cat", "dog"] * (N // 2)
PATIENTS = [f"p{i // 4}" for i in range(N)]  # ten of them, two samples of either class each
FEATURES = np.random.default_rng(0).normal(size=(N, 3))


def frame(**more):
    features = {f"f{k}": FEATURES[:, k] for k in range(3)}
    return pl.DataFrame({**features, "label": LABELS, "patient": PATIENTS, **more})


def picture():
    stream = io.BytesIO()
    Image.fromarray(np.zeros((6, 6, 3), np.uint8)).save(stream, "png")
    return stream.getvalue()


PICTURE = picture()


def shard(path, units, called="patient"):
    with tarfile.open(path, "w") as tar:
        for i, (label, unit) in enumerate(zip(LABELS, units, strict=True)):
            described = json.dumps({"label": label} | ({} if unit is None else {called: unit})).encode()
            for suffix, content in (("png", PICTURE), ("json", described)):
                member = tarfile.TarInfo(f"{i:02}.{suffix}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


SOURCES = {
    "csv": lambda place: frame().write_csv(place / "t.csv") or place / "t.csv",
    "parquet": lambda place: frame().write_parquet(place / "t.parquet") or place / "t.parquet",
    "jsonl": lambda place: frame().write_ndjson(place / "t.jsonl") or place / "t.jsonl",
    "npz": lambda place: np.savez(place / "t.npz", X=FEATURES, y=LABELS, patient=PATIENTS) or place / "t.npz",
    "tar": lambda place: shard(place / "t.tar", PATIENTS),
    "hf": lambda place: (
        datasets.Dataset.from_dict({"x": FEATURES.tolist(), "y": LABELS, "patient": PATIENTS}).save_to_disk(place / "t")
        or f"hf:{place / 't'}"
    ),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_reader_knows_units_and_splits_none(kind, tmp_path, caplog):
    source = SOURCES[kind](tmp_path)
    with caplog.at_level(logging.INFO, "tcsl"):
        splits = tcsl.load(source, columns=NAMED, val_fraction=0.2)
    assert len(splits.val) == 8
    assert np.bincount(splits.val.units).tolist() == [4, 4]
    assert np.bincount(splits.train.units).tolist() == [4] * 8
    assert (
        splits.train.inputs[0].ndim == 3 if kind == "tar" else splits.train.inputs.shape[1] == 3
    )  # patient is no input
    assert (
        splits.val.facts["validation"] == "about 0.2 of each class's training samples, drawn with seed 0, units whole"
    )
    assert any("those of a unit are all in one split" in message for message in caplog.messages)


@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=20),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_units_stay_whole_and_the_parts_are_near(sizes, fraction, seed, order):
    rng = np.random.default_rng(order)
    n = sum(sizes)
    units, labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes)), rng.integers(0, 3, n)
    rows = np.sort(rng.permutation(n)[: max(2, n - 3)])  # the others are of other splits
    stay, out = hold_out(labels, rows, fraction, seed, units)
    assert sorted([*stay, *out]) == rows.tolist()
    assert not np.intersect1d(units[stay], units[out]).size
    present, held = (np.bincount(labels[part], minlength=3) for part in (rows, out))
    assert ((present - held)[held > 0] >= 2).all()
    assert np.abs(fraction * present - held).sum() <= fraction * len(rows) + 1e-9  # nearer than with none held out
    again = hold_out(labels, rows, fraction, seed, units)
    assert [part.tolist() for part in again] == [stay.tolist(), out.tolist()]


def test_units_of_one_sample_are_held_out_as_samples_are():
    labels = np.arange(200) % 2
    stay, out = hold_out(labels, np.arange(200), 0.1, 0, np.arange(200))
    assert np.bincount(labels[out]).tolist() == [10, 10]
    assert len(stay) == 180


def test_one_unit_cannot_be_held_out(tmp_path, caplog):
    frame().with_columns(patient=pl.lit("one")).write_csv(tmp_path / "t.csv")
    with caplog.at_level(logging.INFO, "tcsl"):
        splits = tcsl.load(tmp_path / "t.csv", columns=NAMED)
    assert splits.val is None
    assert "t.csv has no validation split, and too few units that are small enough to make one" in caplog.messages


def test_a_class_whose_units_are_too_large_is_said(tmp_path):
    """Class cat has patients of two, class dog one of 10 and one of 9."""
    patients = [f"c{i // 4}" if i % 2 == 0 else f"d{i > 20}" for i in range(N)]
    frame(patient=patients).write_csv(tmp_path / "t.csv")
    told = "t.csv: the validation split that was made has no sample of dog: whole units could not be divided so"
    with pytest.warns(TcslWarning, match=told):
        splits = tcsl.load(tmp_path / "t.csv", columns=NAMED)
    assert np.bincount(splits.val.numpy_labels, minlength=2).tolist() == [2, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", TcslWarning)
        splits = tcsl.load(tmp_path / "t.csv", columns=NAMED, val_fraction=0.4)
    assert np.bincount(splits.val.numpy_labels).tolist() == [8, 10]


def test_of_a_split_that_was_given_no_class_is_missed(tmp_path):
    frame(split=["train"] * 36 + ["val", "train"] * 2).write_csv(tmp_path / "t.csv")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*validation split that was made")
        warnings.filterwarnings("ignore", ".*units have samples")
        assert set(tcsl.load(tmp_path / "t.csv", columns=NAMED).val.numpy_labels) == {0}


def test_units_of_a_shard_that_are_all_blank_are_said(tmp_path):
    with pytest.raises(InputError, match=r"sample 00 of t.tar has no unit"):
        tcsl.load(shard(tmp_path / "t.tar", [""] * N), columns=NAMED)


def test_no_column_is_a_unit_unasked(tmp_path):
    """It may be that of a measurement."""
    frame(unit=["mm"] * N, units=np.arange(N) % 2).write_csv(tmp_path / "t.csv")
    train = tcsl.load(tmp_path / "t.csv").train
    assert train.units is None
    assert train.inputs.shape == (36, 4)


def test_what_a_shard_names_for_one_role_has_no_other(tmp_path):
    source = shard(tmp_path / "t.tar", PATIENTS, called="place")
    assert tcsl.load(source).train.groups is not None
    assert tcsl.load(source, columns={"unit": "place"}).train.groups is None


def test_units_that_are_divided_are_said(tmp_path):
    splits = ["train"] * 30 + ["val"] * 4 + ["test"] * 6  # the eighth patient has two for training, two held out
    frame(split=splits).write_csv(tmp_path / "t.csv")
    with pytest.warns(TcslWarning, match=r"t.csv: 1 units have samples for training and.*into one split$") as told:
        tcsl.load(tmp_path / "t.csv", columns=NAMED)
    assert len(told) == 1
    report = check_manifest(read(tmp_path / "t.csv", columns=NAMED, on_bad="skip"))
    assert report["units"] == {"distinct": 10, "divided": 1}
    assert problems(report)
    frame(split=["train"] * 32 + ["val"] * 2 + ["test"] * 6).write_csv(tmp_path / "whole.csv")
    report = check_manifest(read(tmp_path / "whole.csv", columns=NAMED, on_bad="skip"))
    assert report["units"] == {"distinct": 10, "divided": 0}
    assert not problems(report)


def test_it_is_said_once_where_a_class_loses_its_images(tmp_path):
    kinds, rows = ["cat", "dog", "eel"], []
    for i in range(18):
        (tmp_path / f"{i}.png").write_bytes(b"" if i % 3 == 2 else PICTURE)
        rows.append(
            {"path": f"{i}.png", "label": kinds[i % 3], "patient": i % 2, "split": "train" if i < 12 else "test"}
        )
    pl.DataFrame(rows).write_csv(tmp_path / "t.csv")
    with pytest.warns(TcslWarning) as told:
        tcsl.load(tmp_path / "t.csv", columns=NAMED, on_bad="skip", val_fraction=0)
    assert sum("2 units have samples" in str(one.message) for one in told) == 1


def test_the_check_prints_units(tmp_path, tcsl_command):
    frame().write_csv(tmp_path / "t.csv")
    code, out, _ = tcsl_command("data", "check", tmp_path / "t.csv", "--columns", "unit=patient")
    assert code == 0
    assert re.search(r"units +│ 10; 0 both in training and held out", out)


def test_a_sample_without_a_unit_is_bad(tmp_path):
    some = [None if i == 7 else patient for i, patient in enumerate(PATIENTS)]
    frame(patient=some).write_csv(tmp_path / "t.csv")
    np.savez(tmp_path / "t.npz", X=FEATURES, y=LABELS, patient=[patient or "" for patient in some])
    shard(tmp_path / "t.tar", some)
    columns = {"x": FEATURES.tolist(), "y": LABELS, "patient": some}
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "t")
    for source, why in {
        tmp_path / "t.csv": "row 8 of t.csv has no unit",
        tmp_path / "t.npz": "sample 7 of t.npz has no unit",
        tmp_path / "t.tar": "sample 07 of t.tar has no 'patient' in its .json, which --columns names for unit",
        f"hf:{tmp_path / 't'}": "row 7 of hf:.* has no unit",
    }.items():
        with pytest.raises(InputError, match=why):
            tcsl.load(source, columns=NAMED)
        with pytest.warns(TcslWarning, match="left out"):
            assert len(tcsl.load(source, columns=NAMED, on_bad="skip", val_fraction=0).train) == N - 1


def test_the_verdict_counts_units_of_a_table_once(tmp_path):
    """The same held-out samples, ten times each: p must not fall by that."""
    rng = np.random.default_rng(0)
    y = np.arange(1200) % 2
    shortcut = np.where(rng.random(1200) < np.repeat([0.9, 0.5], 600), y, 1 - y)
    x = rng.normal(size=(1200, 3)) + np.stack([6 * shortcut, 1.5 * y, 1.5 * y], axis=1)
    rows = np.r_[:600, np.repeat(np.arange(600, 700), 10)]
    features = {f"f{k}": x[rows, k] for k in range(3)}
    others = {"label": y[rows], "split": ["train"] * 600 + ["test"] * 1000, "shows": [f"thing {row}" for row in rows]}
    pl.DataFrame(features | others).write_csv(tmp_path / "t.csv")
    usual = {"train.epochs": 10, "device.device": "cpu", "data.val_fraction": 0.0}
    once, often = (
        tcsl.debias(
            str(tmp_path / "t.csv"), 0.2, settings=usual | {"data.columns": columns}, out=tmp_path / f"run {columns}"
        ).verdict
        for columns in ("unit=shows", "")
    )
    assert (once.units, often.units) == (100, None)
    assert often.units_gained == often.gained == once.gained == 10 * once.units_gained > 0
    assert often.p_gained < once.p_gained
