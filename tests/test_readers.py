"""The same samples come out, whether they lie in folders, tables, arrays, shards or a Hugging Face dataset."""

import csv
import io
import json
import logging
import tarfile

import datasets
import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

import tcsl
from tcsl.data.columns import find_columns, parse_columns
from tcsl.errors import InputError, TcslWarning

# Twelve samples: eight to train on, two to validate on, two to test on.
N = 12
PIXELS = np.random.default_rng(0).integers(0, 256, (N, 6, 5, 3), np.uint8)
LABELS = ["cat", "dog"] * 6
SPLITS = ["train"] * 8 + ["val"] * 2 + ["test"] * 2
PLACES = ["land", "sea", "land", "sea", "sea", "sea", "land", "land", "land", "sea", "sea", "land"]
MINORITY = [False, False, False, False, True, False, False, True, False, False, True, True]  # cat: land, dog: sea
IDS = [100 + i for i in range(N)]


def encoded(pixels, kind="png"):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


IMAGES = [encoded(pixels) for pixels in PIXELS]


def write_images(folder, names=None):
    """Write the images as 0.png, 1.png, ... or under these names, and return the names."""
    names = names or [f"{i}.png" for i in range(N)]
    for name, content in zip(names, IMAGES, strict=False):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return names


def write_table(path, columns):
    """Write columns as CSV, TSV, Parquet or JSON lines."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if path.suffix == ".parquet":
        pl.DataFrame(columns).write_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with open(path, "w", newline="") as stream:
            writer = csv.DictWriter(stream, list(columns), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


def write_shard(path, members):
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def samples(splits):
    """Return what was loaded by split: ids, labels by name and, where there are any, attribute and minority."""
    found = {}
    for name, data in (("train", splits.train), ("val", splits.val), ("test", splits.test)):
        if data is not None:
            found[name] = (data.ids.tolist(), [data.class_names[y] for y in data.labels.tolist()])
    return found


def pixels_of(data):
    """Return (n, height, width, 3)."""
    return data.inputs.permute(0, 2, 3, 1).numpy()


def expected(ids):
    return {
        split: ([ids[i] for i in rows], [LABELS[i] for i in rows])
        for split, rows in (("train", range(8)), ("val", range(8, 10)), ("test", range(10, 12)))
    }


def assert_groups(splits):
    """Check attribute and minority of all three splits against the lists above."""
    for data, rows in ((splits.train, slice(0, 8)), (splits.val, slice(8, 10)), (splits.test, slice(10, 12))):
        groups = data.groups
        assert groups.attribute_names == ("land", "sea")
        assert [groups.names[group] for group in groups.group] == [
            f"{label}, {place}" for label, place in zip(LABELS[rows], PLACES[rows], strict=True)
        ]
        assert groups.minority.tolist() == MINORITY[rows]
        assert groups.majority.tolist() == [0, 1]


def assert_pixels(splits):
    assert splits.train.inputs.dtype == torch.uint8
    for data, rows in ((splits.train, slice(0, 8)), (splits.val, slice(8, 10)), (splits.test, slice(10, 12))):
        assert (pixels_of(data) == PIXELS[rows]).all()


# --- folders ---


def test_a_folder_of_class_folders(tmp_path):
    write_images(tmp_path, ["dog/b.png", "dog/a.png", "cat/deep/er/z.png", "cat/a.png"])
    (tmp_path / "cat" / ".hidden.png").write_bytes(b"not an image")
    (tmp_path / ".git").mkdir()
    (tmp_path / "README").write_text("not an image, but in no class folder")
    splits = tcsl.load(tmp_path, val_fraction=0)
    assert samples(splits) == {
        "train": (["cat/a.png", "cat/deep/er/z.png", "dog/a.png", "dog/b.png"], ["cat", "cat", "dog", "dog"])
    }
    assert splits.train.class_names == ("cat", "dog")
    assert (pixels_of(splits.train) == PIXELS[[3, 2, 1, 0]]).all()
    assert splits.train.groups is None
    assert splits.train.facts == {"source": tmp_path.name, "transform": "none", "converted": {}}


def test_split_folders_above_the_class_folders(tmp_path):
    folders = {"train": "train", "val": "Validation", "test": "test"}
    names = [
        f"{folders[split]}/{label}/{i:02}.png" for i, (split, label) in enumerate(zip(SPLITS, LABELS, strict=True))
    ]
    write_images(tmp_path, names)
    splits = tcsl.load(str(tmp_path))
    for data, rows in ((splits.train, range(8)), (splits.val, range(8, 10)), (splits.test, range(10, 12))):
        order = sorted(rows, key=lambda i: names[i])
        assert data.ids.tolist() == [names[i] for i in order]
        assert (pixels_of(data) == PIXELS[order]).all()
        assert [data.class_names[y] for y in data.labels] == [LABELS[i] for i in order]


def test_class_folders_that_are_numbers_are_no_splits(tmp_path):
    """0, 1 and 2 are train, val and test in a table, but folders of these names are classes, and sorted by value."""
    write_images(tmp_path, [f"{label}/{i}.png" for i in range(4) for label in ("0", "1", "10", "2")][:N])
    train = tcsl.load(tmp_path, val_fraction=0).train
    assert train.class_names == ("0", "1", "2", "10")
    assert np.bincount(train.labels).tolist() == [3, 3, 3, 3]


def test_a_class_may_be_called_train(tmp_path):
    write_images(tmp_path, ["car/0.png", "car/1.png", "train/0.png", "train/1.png"])
    assert tcsl.load(tmp_path, val_fraction=0).train.class_names == ("car", "train")


def test_a_folder_beside_the_splits_is_not_taken_for_a_class(tmp_path):
    write_images(tmp_path, [f"{split}/{i % 2}/{i}.png" for split in ("train", "test", "extra") for i in range(4)])
    with pytest.raises(InputError, match="test, train look like splits, extra not"):
        tcsl.load(tmp_path)


def test_folders_without_files_are_told(tmp_path):
    write_images(tmp_path, [f"train/{label}/{i}.png" for label in "ab" for i in range(2)])
    (tmp_path / "train" / "c").mkdir()
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "unlabelled.png").write_bytes(IMAGES[0])
    with pytest.warns(TcslWarning, match=r"left out, as they have no files in class folders: test, train/c$"):
        splits = tcsl.load(tmp_path)
    assert splits.train.class_names == ("a", "b")
    assert splits.test is None


# --- tables ---


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_a_table_of_paths(tmp_path, suffix):
    columns = {"path": write_images(tmp_path), "label": LABELS, "split": SPLITS, "group": PLACES, "id": IDS}
    splits = tcsl.load(write_table(tmp_path / f"birds{suffix}", columns))
    texts = suffix in (".csv", ".tsv")  # which have no integers
    assert samples(splits) == expected([str(name) if texts else name for name in IDS])
    assert splits.train.class_names == ("cat", "dog")
    assert splits.train.name == f"birds{suffix}, training"
    assert_pixels(splits)
    assert_groups(splits)


def test_every_kind_of_table_gives_the_same_inputs(tmp_path):
    columns = {"path": write_images(tmp_path), "label": LABELS, "split": SPLITS}
    tables = [write_table(tmp_path / f"t{suffix}", columns) for suffix in (".csv", ".tsv", ".parquet", ".jsonl")]
    (tmp_path / "T.CSV").write_bytes((tmp_path / "t.csv").read_bytes())
    (tmp_path / "t.ndjson").write_bytes((tmp_path / "t.jsonl").read_bytes())
    found = [tcsl.load(table).train for table in (*tables, tmp_path / "T.CSV", tmp_path / "t.ndjson")]
    assert len({train.fingerprint for train in found}) == 1


@pytest.mark.parametrize("odd", ["", "7;8\n"])  # a row that is too short is looked at closely
def test_semicolons_part_the_cells_of_a_csv_whose_header_has_no_comma(odd, tmp_path):
    text = "\ufefff1,f2,label\n" + "".join(f"{i},{i % 5},{'ab'[i % 2]}\n" for i in range(12))
    found = []
    for name, separator in (("commas.csv", ","), ("semicolons.csv", ";")):
        (tmp_path / name).write_text((text + odd.replace(";", ",")).replace(",", separator))
        found.append(tcsl.load(tmp_path / name, on_bad="skip").train)
    assert found[1].facts["features"] == ["f1", "f2"]
    assert torch.equal(found[0].inputs, found[1].inputs)
    assert found[0].labels.tolist() == found[1].labels.tolist()


def test_numbers_with_a_comma_are_read_where_semicolons_part_the_cells(tmp_path):
    rows = "".join(f"{i},25;-,5e1;{'ab'[i % 2]},\n" for i in range(12))
    (tmp_path / "t.csv").write_text('f1;"size; cm";label\n' + rows)
    train = tcsl.load(tmp_path / "t.csv", val_fraction=0).train
    assert train.inputs.tolist() == [[i + 0.25, -5.0] for i in range(12)]
    assert train.class_names == ("a,", "b,")
    (tmp_path / "t.csv").write_text('f1;"size, cm";label\n' + rows)
    assert tcsl.load(tmp_path / "t.csv", val_fraction=0).train.facts["features"] == ["f1", "size, cm"]


def test_columns_of_unusual_names(tmp_path):
    columns = {"where": write_images(tmp_path), "species": LABELS, "part": SPLITS, "place": PLACES, "key": IDS}
    table = write_table(tmp_path / "birds.jsonl", columns)
    splits = tcsl.load(table, columns=parse_columns("path=where, label=species, split=part, group=place, id=key"))
    assert samples(splits) == expected(IDS)
    assert_pixels(splits)
    assert_groups(splits)


def test_several_columns_are_one_group(tmp_path):
    times = [1, 1, 1, 1, 2, 2, 2, 2] + [1, 1] * 2
    columns = {"path": write_images(tmp_path), "y": LABELS, "split": SPLITS, "place": PLACES, "time": times}
    train = tcsl.load(write_table(tmp_path / "t.parquet", columns), columns={"group": "place+time"}).train
    assert train.groups.attribute_names == ("land, 1", "land, 2", "sea, 1", "sea, 2")
    assert [train.groups.attribute_names[majority] for majority in train.groups.majority] == ["land, 1", "sea, 1"]
    found = [train.groups.names[group] for group in train.groups.group]
    assert found[:5] == ["cat, land, 1", "dog, sea, 1", "cat, land, 1", "dog, sea, 1", "cat, sea, 2"]


def test_a_column_named_with_a_plus_is_one_column(tmp_path):
    columns = {"path": write_images(tmp_path), "y": LABELS, "place+time": PLACES}
    train = tcsl.load(write_table(tmp_path / "t.csv", columns), columns={"group": "place+time"}).train
    assert train.groups.attribute_names == ("land", "sea")


def test_paths_are_relative_to_the_table_or_to_the_root(tmp_path):
    names = write_images(tmp_path / "images")
    (tmp_path / "lists").mkdir()
    table = write_table(tmp_path / "lists" / "t.csv", {"path": names, "label": LABELS})
    train = tcsl.load(table, root=tmp_path / "images", val_fraction=0).train
    assert (pixels_of(train) == PIXELS).all()
    beside = write_table(tmp_path / "t.csv", {"path": [f"images/{name}" for name in names], "label": LABELS})
    assert (pixels_of(tcsl.load(beside, val_fraction=0).train) == PIXELS).all()


def test_what_is_named_for_one_role_is_not_guessed_to_have_another():
    assert find_columns("t.csv", ["a", "b", "y"], {"inputs": "a+b"}) == {"inputs": ["a", "b"], "label": ["y"]}
    assert find_columns("t.csv", ["file", "y"], {"id": "file"}) == {"path": ["file"], "label": ["y"], "id": ["file"]}
    assert find_columns("t.csv", ["class", "Label"], {"group": "class"}) == {"label": ["Label"], "group": ["class"]}


def test_guessed_columns_are_said(tmp_path, caplog):
    table = write_table(tmp_path / "t.csv", {"f": [1.5] * N, "y": LABELS, "place": PLACES})
    with caplog.at_level(logging.INFO, "tcsl"):
        tcsl.load(table, columns={"inputs": "f"})
    assert "t.csv: columns that were not named: label=y, group=place" in caplog.messages


def test_ids_are_the_paths_or_the_rows_where_there_are_none(tmp_path):
    names = write_images(tmp_path)
    assert tcsl.load(write_table(tmp_path / "a.csv", {"path": names, "label": LABELS}), val_fraction=0).train.ids[
        [0, 11]
    ].tolist() == ["0.png", "11.png"]
    rows = tcsl.load(write_table(tmp_path / "b.csv", {"f": [0.5] * N, "label": LABELS}), val_fraction=0).train
    assert rows.ids.tolist() == list(range(N))
    large = pl.Series([2**64 - 1 - i for i in range(N)], dtype=pl.UInt64)
    pl.DataFrame({"f": [0.5] * N, "label": LABELS, "id": large}).write_parquet(tmp_path / "c.parquet")
    assert tcsl.load(tmp_path / "c.parquet", val_fraction=0).train.ids[0] == "18446744073709551615"


@pytest.mark.parametrize(
    ("labels", "names", "codes"),
    [
        ([2, 10, 2, 10], ("2", "10"), [0, 1, 0, 1]),
        (["10", "2", "2", "10"], ("2", "10"), [1, 0, 0, 1]),
        ([0.0, 1.0, 0.0, 1.0], ("0", "1"), [0, 1, 0, 1]),
        ([0.5, 1.0, 0.5, 1.0], ("0.5", "1.0"), [0, 1, 0, 1]),
        ([True, False, True, False], ("false", "true"), [1, 0, 1, 0]),
        (["Ärger", "sea gull", "sea gull", "Ärger"], ("sea gull", "Ärger"), [1, 0, 0, 1]),
        (["a, b", 'say "c"', "a, b", 'say "c"'], ("a, b", 'say "c"'), [0, 1, 0, 1]),
    ],
)
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_labels_are_numbers_or_text(tmp_path, labels, names, codes, suffix):
    train = tcsl.load(write_table(tmp_path / f"t{suffix}", {"f": [1, 2, 3, 4], "label": labels})).train
    assert train.class_names == names
    assert train.labels.tolist() == codes


def test_csv_as_spreadsheets_write_it(tmp_path):
    """A byte order mark, CRLF, quoted cells with separators and line ends, blank lines at the end."""
    write_images(tmp_path)
    rows = "".join(f'{i}.png,"{label}, a\r\n""pet""",note\r\n' for i, label in enumerate(LABELS))
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfpath,label,note\r\n" + rows.encode() + b"\r\n,,\r\n")
    train = tcsl.load(tmp_path / "t.csv", val_fraction=0).train
    assert train.class_names == ('cat, a\r\n"pet"', 'dog, a\r\n"pet"')
    assert (pixels_of(train) == PIXELS).all()


def test_cells_that_are_not_needed_may_be_empty(tmp_path):
    write_images(tmp_path)
    rows = "".join(f"{i}.png,{label},{'note' if i == 3 else ''}\n" for i, label in enumerate(LABELS))
    (tmp_path / "t.csv").write_text("path,label,note\n" + rows)
    assert len(tcsl.load(tmp_path / "t.csv", val_fraction=0).train) == N


def test_json_lines_may_differ_in_what_is_not_needed(tmp_path):
    """Keys that come late, values of several kinds, integers of any size: none of it is asked for."""
    odd = [1, "two", [3], {"four": 4}, None, 10**40, [[[5]]], True, 1.5, "", [], {}]
    rows = [{"x": [i, 0.5], "label": LABELS[i], "meta": odd[i]} | ({"late": 1} if i > 8 else {}) for i in range(N)]
    (tmp_path / "t.jsonl").write_text("\n\n".join(json.dumps(row) for row in rows))
    train = tcsl.load(tmp_path / "t.jsonl", val_fraction=0).train
    assert train.inputs.tolist() == [[i, 0.5] for i in range(N)]


# --- inputs in the table itself ---

ROWS = np.arange(3 * N, dtype=np.float32).reshape(N, 3) / 4


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("name", ["x", "embedding", "image"])
def test_lists_in_a_table(tmp_path, suffix, name):
    lists = ROWS.tolist() if suffix in (".parquet", ".jsonl") else [json.dumps(row) for row in ROWS.tolist()]
    splits = tcsl.load(write_table(tmp_path / f"t{suffix}", {name: lists, "y": LABELS, "split": SPLITS}))
    assert samples(splits) == expected(range(N))
    assert torch.equal(torch.cat([data.inputs for data in (splits.train, splits.val, splits.test)]), torch.tensor(ROWS))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_lists_of_lists_in_a_table(tmp_path, suffix):
    nested = PIXELS[:, :3, :2].tolist()
    cells = [json.dumps(one) for one in nested] if suffix == ".csv" else nested
    train = tcsl.load(write_table(tmp_path / f"t{suffix}", {"x": cells, "y": LABELS}), val_fraction=0).train
    assert torch.equal(train.inputs, torch.tensor(nested, dtype=torch.float32))


def test_arrays_of_a_fixed_size_in_parquet(tmp_path):
    pl.DataFrame({"x": PIXELS[:, :2, :2, 0], "y": LABELS}).write_parquet(tmp_path / "t.parquet")
    train = tcsl.load(tmp_path / "t.parquet", val_fraction=0).train
    assert torch.equal(train.inputs, torch.tensor(PIXELS[:, None, :2, :2, 0]))  # bytes, one channel


def test_columns_of_numbers_are_the_inputs_where_nothing_else_is(tmp_path, caplog):
    columns = {"": range(N), "f1": ROWS[:, 0], "note": ["hello"] * N, "f2": ROWS[:, 1], "label": LABELS, "id": IDS}
    table = write_table(tmp_path / "t.csv", columns)
    with caplog.at_level(logging.INFO, "tcsl"):
        train = tcsl.load(table, val_fraction=0).train
    assert torch.equal(train.inputs, torch.tensor(ROWS[:, :2]))  # not the row numbers that pandas writes
    assert f"{table}: the inputs are the 2 columns f1, f2; left out as they are not numbers: note" in caplog.messages
    named = tcsl.load(table, columns={"inputs": "f2+f1"}, val_fraction=0).train
    assert torch.equal(named.inputs, torch.tensor(ROWS[:, [1, 0]]))


def test_paths_are_the_inputs_where_a_number_is_called_x(tmp_path):
    columns = {"file": write_images(tmp_path), "label": LABELS, "x": range(N)}
    assert (pixels_of(tcsl.load(write_table(tmp_path / "t.csv", columns), val_fraction=0).train) == PIXELS).all()
    columns["x"] = ROWS.tolist()  # lists beside file names: the files tell where they are from
    lists = write_table(tmp_path / "t.jsonl", columns)
    train = tcsl.load(lists, val_fraction=0).train
    assert torch.equal(train.inputs, torch.tensor(ROWS))
    assert train.ids[1] == "1.png"
    assert (pixels_of(tcsl.load(lists, columns={"path": "file"}, val_fraction=0).train) == PIXELS).all()


@pytest.mark.parametrize(
    "cells",
    [
        IMAGES,
        [{"bytes": content, "path": f"{i}.png"} for i, content in enumerate(IMAGES)],
        [{"bytes": content, "path": None} for content in IMAGES],
        [{"bytes": None, "path": f"{i}.png"} for i in range(N)],
    ],
    ids=["bytes", "Hugging Face's struct", "without paths", "without bytes"],
)
def test_images_in_parquet(tmp_path, cells):
    write_images(tmp_path)
    pl.DataFrame({"image": cells, "label": LABELS, "split": SPLITS}).write_parquet(tmp_path / "t.parquet")
    splits = tcsl.load(tmp_path / "t.parquet")
    assert samples(splits) == expected(range(N))
    assert_pixels(splits)


# --- arrays ---

GREY = PIXELS[..., 0]
RGBA = np.concatenate([PIXELS, PIXELS[..., :1]], 3)


@pytest.mark.parametrize(
    ("stored", "inputs"),
    [
        (PIXELS, PIXELS.transpose(0, 3, 1, 2)),
        (PIXELS.transpose(0, 3, 1, 2), PIXELS.transpose(0, 3, 1, 2)),
        (PIXELS / 255.0, (PIXELS / 255.0).transpose(0, 3, 1, 2)),
        (GREY, GREY[:, None]),
        (GREY[..., None], GREY[:, None]),
        (GREY[:, None], GREY[:, None]),
        (RGBA, RGBA.transpose(0, 3, 1, 2)),
        (ROWS.astype(np.float64), ROWS),
        (ROWS.astype(np.float16), ROWS),
        ((4 * ROWS).astype(np.int32), 4 * ROWS),
        (np.ones((N, 7, 3, 3)), np.ones((N, 7, 3, 3))),
        (np.ones((N, 7, 1, 1)), np.ones((N, 7, 1, 1))),
    ],
    ids=[
        "NHWC",
        "NCHW",
        "NHWC in floats",
        "greyscale",
        "NHW1",
        "N1HW",
        "RGBA",
        "rows in float64",
        "rows in float16",
        "rows in integers",
        "maps of features",
        "vectors of features",
    ],
)
def test_npz(tmp_path, stored, inputs):
    np.savez(tmp_path / "a.npz", X=stored, y=np.array(LABELS))
    train = tcsl.load(tmp_path / "a.npz", val_fraction=0).train
    wanted = torch.uint8 if stored.dtype == np.uint8 else torch.float32
    assert train.inputs.dtype == wanted
    assert torch.equal(train.inputs, torch.tensor(inputs).to(wanted))
    assert samples(tcsl.load(tmp_path / "a.npz", val_fraction=0)) == {"train": (list(range(N)), LABELS)}


def test_npz_with_groups_splits_and_ids(tmp_path):
    arrays = {"images": PIXELS, "labels": LABELS, "place": PLACES, "split": SPLITS, "id": IDS}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    splits = tcsl.load(tmp_path / "a.npz")
    assert samples(splits) == expected(IDS)
    assert_pixels(splits)
    assert_groups(splits)
    numbers = np.array([{"train": 0.0, "val": 1.0, "test": 2.0}[word] for word in SPLITS])
    np.savez(tmp_path / "b.npz", emb=ROWS, kind=np.array(LABELS, "S"), part=numbers, p=PLACES, q=np.arange(N) % 2)
    splits = tcsl.load(tmp_path / "b.npz", columns=parse_columns("inputs=emb,label=kind,split=part,group=p+q"))
    assert samples(splits) == expected(range(N))
    assert splits.train.groups.attribute_names == ("land, 0", "land, 1", "sea, 0", "sea, 1")


@pytest.mark.parametrize(
    "order", [("x_train", "y_train", "x_test", "y_test"), ("y_test", "x_train", "x_test", "y_train")]
)
def test_npz_with_an_array_for_each_split(tmp_path, order):
    arrays = {"x_train": ROWS[:8], "y_train": LABELS[:8], "x_test": ROWS[8:], "y_test": LABELS[8:]}
    np.savez(tmp_path / "a.npz", **{name: arrays[name] for name in order}, class_names=["cat", "dog"])
    splits = tcsl.load(tmp_path / "a.npz", val_fraction=0)
    assert torch.equal(splits.train.inputs, torch.tensor(ROWS[:8]))
    assert torch.equal(splits.test.inputs, torch.tensor(ROWS[8:]))
    assert [splits.test.class_names[y] for y in splits.test.labels] == LABELS[8:]
    assert splits.val is None


def test_npz_with_a_validation_split(tmp_path):
    arrays = {}
    for split, rows in (("train", slice(0, 8)), ("valid", slice(8, 10)), ("test", slice(10, 12))):
        arrays |= {f"X_{split}": PIXELS[rows], f"y_{split}": LABELS[rows], f"group_{split}": PLACES[rows]}
    np.savez(tmp_path / "a.npz", **arrays)
    splits = tcsl.load(tmp_path / "a.npz")
    assert samples(splits) == expected(range(N))
    assert_pixels(splits)
    assert_groups(splits)


def test_safetensors(tmp_path):
    codes = np.array([LABELS.index(label) for label in LABELS])
    places = np.array([PLACES.index(place) for place in PLACES])
    save_file({"images": np.ascontiguousarray(PIXELS), "y": codes, "place": places}, tmp_path / "a.safetensors")
    train = tcsl.load(tmp_path / "a.safetensors", val_fraction=0).train
    assert (pixels_of(train) == PIXELS).all()
    assert train.labels.tolist() == codes.tolist()
    assert train.groups.attribute_names == ("0", "1")
    brain = {"x": torch.tensor(ROWS).bfloat16(), "y": torch.tensor(codes)}
    save_tensors(brain, tmp_path / "b.safetensors")
    assert torch.equal(tcsl.load(tmp_path / "b.safetensors", val_fraction=0).train.inputs, brain["x"].float())


def test_images_of_whole_numbers_are_bytes_whatever_their_type(tmp_path):
    for dtype in (np.int64, np.int16, np.float64):
        np.savez(tmp_path / "a.npz", X=PIXELS.astype(dtype), y=LABELS)
        train = tcsl.load(tmp_path / "a.npz", val_fraction=0).train
        assert train.inputs.dtype == torch.uint8
        assert (pixels_of(train) == PIXELS).all()
    np.savez(tmp_path / "b.npz", X=PIXELS / 255, y=LABELS)
    assert tcsl.load(tmp_path / "b.npz", val_fraction=0).train.inputs.dtype == torch.float32
    np.savez(tmp_path / "c.npz", X=ROWS.round(), y=LABELS)  # rows of features are not images
    assert tcsl.load(tmp_path / "c.npz", val_fraction=0).train.inputs.dtype == torch.float32


def test_images_as_lists_in_a_table(tmp_path):
    lines = [json.dumps({"x": PIXELS[i].tolist(), "label": LABELS[i]}) for i in range(N)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    train = tcsl.load(tmp_path / "t.jsonl", val_fraction=0).train
    assert train.inputs.dtype == torch.uint8
    assert (pixels_of(train) == PIXELS).all()


def test_a_number_called_x_is_one_feature_among_others(tmp_path):
    table = write_table(tmp_path / "t.csv", {"x": ROWS[:, 0], "a": ROWS[:, 1], "label": LABELS})
    train = tcsl.load(table, val_fraction=0).train
    assert torch.equal(train.inputs, torch.tensor(ROWS[:, :2]))
    assert train.groups is None


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_groups_may_be_known_for_the_test_set_only(tmp_path, kind):
    split = ["train"] * (N - 4) + ["test"] * 4
    place = [""] * (N - 4) + PLACES[-4:]
    columns = {"f": ROWS[:, 0].tolist(), "label": LABELS, "place": place, "split": split}
    if kind == "npz":
        np.savez(tmp_path / "t.npz", X=ROWS, y=LABELS, place=place, split=split)
    elif kind == "csv":
        write_table(tmp_path / "t.csv", columns)
    else:
        pl.DataFrame({**columns, "place": [one or None for one in place]}).write_parquet(tmp_path / "t.parquet")
    found = tcsl.load(tmp_path / f"t.{kind}", val_fraction=0)
    assert len(found.train) == N - 4
    assert found.train.groups is None
    names = found.test.groups.attribute_names
    assert names == tuple(sorted(set(PLACES[-4:])))


def test_a_set_that_lacks_some_groups_counts_as_without_and_that_is_said(tmp_path):
    table = write_table(tmp_path / "t.csv", {"f": ROWS[:, 0], "label": LABELS, "group": ["", *PLACES[1:]]})
    with pytest.warns(TcslWarning, match=f"1 of {N} training samples have no group, so this set counts as one without"):
        train = tcsl.load(table, val_fraction=0).train
    assert len(train) == N
    assert train.groups is None


def test_links_to_folders_inside_a_class_folder_are_followed(tmp_path):
    write_images(tmp_path / "more" / "x")
    for label in ("a", "b"):
        write_images(tmp_path / "data" / label)
    (tmp_path / "data" / "a" / "link").symlink_to(tmp_path / "data" / "b")
    (tmp_path / "data" / "a" / "up").symlink_to(tmp_path / "data" / "a")  # a loop is not walked
    found = tcsl.load(tmp_path / "data", val_fraction=0).train
    assert sorted(np.bincount(found.numpy_labels).tolist()) == [N, 2 * N]


def test_images_beside_the_class_folders_are_said(tmp_path):
    for label in ("a", "b"):
        write_images(tmp_path / label)
    write_images(tmp_path, ["lost.png"])
    with pytest.warns(
        TcslWarning, match=r"1 images beside the class folders are of no class and left out, .* lost\.png"
    ):
        assert len(tcsl.load(tmp_path, val_fraction=0).train) == 2 * N


def test_a_folder_may_hold_the_archive_it_came_in(tmp_path):
    for label in ("a", "b"):
        write_images(tmp_path / label)
    (tmp_path / "original.tar").write_bytes(b"whatever")
    assert len(tcsl.load(tmp_path, val_fraction=0).train) == 2 * N


# --- shards ---


def shard_members(rows, fields=("label",), suffix="png"):
    """Return KEY.png and KEY.json of these samples."""
    known = {"label": LABELS, "split": SPLITS, "place": PLACES, "id": IDS}
    for i in rows:
        yield f"birds/{i:03}.{suffix}", IMAGES[i]
        yield f"birds/{i:03}.json", json.dumps({field: known[field][i] for field in fields}).encode()


def test_shards_with_cls(tmp_path):
    members = [
        part for i in range(N) for part in ((f"{i:03}.cls", f"{LABELS[i]}\n".encode()), (f"{i:03}.png", IMAGES[i]))
    ]
    shard = write_shard(tmp_path / "birds.tar", [("._000.png", b"of a Mac"), *members])
    splits = tcsl.load(shard, val_fraction=0)
    assert samples(splits) == {"train": ([f"{i:03}" for i in range(N)], LABELS)}
    assert (pixels_of(splits.train) == PIXELS).all()


@pytest.mark.parametrize("suffix", ["png", "PNG", "seg.png", "0001.image.png"])
def test_shards_with_json_and_compound_suffixes(tmp_path, suffix):
    shard = write_shard(tmp_path / "a.tar", shard_members(range(N), ("label", "split", "place", "id"), suffix))
    splits = tcsl.load(shard)
    assert samples(splits) == expected([str(name) for name in IDS])
    assert_pixels(splits)
    assert_groups(splits)


def test_shards_are_splits_by_their_names(tmp_path):
    for name, rows in (("train-0", range(4)), ("train-1", range(4, 8)), ("val-0", range(8, 10)), ("test_0", (10, 11))):
        write_shard(tmp_path / f"{name}.tar", shard_members(rows, ("label", "place")))
    keys = [f"birds/{i:03}" for i in range(N)]
    for source in (tmp_path, tmp_path / "*.tar"):
        splits = tcsl.load(source)
        assert samples(splits) == expected(keys)
        assert_pixels(splits)
        assert_groups(splits)
    for path in tmp_path.glob("*.tar"):
        path.rename(tmp_path / f"birds-{path.name}")
    assert samples(tcsl.load(tmp_path)) == expected(keys)


def test_shards_that_are_numbered_are_no_splits(tmp_path):
    for number in range(3):
        write_shard(tmp_path / f"{number}.tar", shard_members(range(4 * number, 4 * number + 4)))
    splits = tcsl.load(tmp_path, val_fraction=0)
    assert (len(splits.train), splits.val, splits.test) == (N, None, None)


def test_shards_with_the_class_in_cls_and_the_rest_in_json(tmp_path):
    members = [*shard_members(range(N), ("place",)), *((f"birds/{i:03}.cls", LABELS[i].encode()) for i in range(N))]
    shard = write_shard(tmp_path / "a.tar", members)
    train = tcsl.load(shard, val_fraction=0).train
    assert [train.class_names[y] for y in train.labels] == LABELS
    assert train.groups.attribute_names == ("land", "sea")


def test_fields_of_shards_are_named_as_columns_are(tmp_path):
    shard = write_shard(tmp_path / "a.tar", shard_members(range(N), ("label", "place", "split")))
    train = tcsl.load(shard, columns={"label": "place", "group": "label+split"}).train
    assert train.class_names == ("land", "sea")
    assert train.groups.attribute_names == (
        "cat, test", "cat, train", "cat, val", "dog, test", "dog, train", "dog, val"
    )  # fmt: skip


def test_a_shard_may_have_brackets_in_its_name(tmp_path):
    assert len(tcsl.load(write_shard(tmp_path / "birds[1].tar", shard_members(range(N))), val_fraction=0).train) == N


# --- Hugging Face datasets ---


@pytest.fixture(autouse=True, scope="module")
def no_bars():
    datasets.disable_progress_bars()


def hub(rows, **more):
    """Return the samples as a Hugging Face dataset; the classes are in an order of its own."""
    features = {
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=["dog", "cat", "unicorn"]),
        "place": datasets.Value("string"),
    }
    names = features["label"].names
    columns = {
        "image": [{"bytes": IMAGES[i], "path": None} for i in rows],
        "label": [names.index(LABELS[i]) for i in rows],
        "place": [PLACES[i] for i in rows],
    }
    made = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    for name, values in more.items():
        made = made.add_column(name, values)
    return made


def test_a_hugging_face_dataset_on_disk(tmp_path):
    hub(range(N), split=SPLITS, key=IDS).save_to_disk(tmp_path / "d")
    for source in (tmp_path / "d", f"hf:{tmp_path / 'd'}"):
        splits = tcsl.load(source, columns={"id": "key"})
        assert samples(splits) == expected([str(name) for name in IDS])
        assert splits.train.class_names == ("dog", "cat")
        assert_pixels(splits)
        assert splits.train.groups.attribute_names == ("land", "sea")
        assert splits.train.groups.minority.tolist() == MINORITY[:8]
        assert splits.test.groups.minority.tolist() == MINORITY[10:]


def test_a_hugging_face_dataset_of_several_splits(tmp_path):
    parts = {"train": range(8), "validation": range(8, 10), "test": range(10, 12)}
    datasets.DatasetDict({name: hub(rows) for name, rows in parts.items()}).save_to_disk(tmp_path / "d")
    splits = tcsl.load(tmp_path / "d")
    assert samples(splits) == expected(range(N))
    assert_pixels(splits)


@pytest.mark.parametrize("name", ["embedding", "image"])
def test_a_hugging_face_dataset_of_lists(tmp_path, name):
    made = datasets.Dataset.from_dict({name: ROWS.tolist(), "label": LABELS, "a": PLACES, "b": [1, 2, 3, 4] * 3})
    made.save_to_disk(tmp_path / "d")
    train = tcsl.load(tmp_path / "d", columns={"group": "a+b"}, val_fraction=0).train
    assert torch.equal(train.inputs, torch.tensor(ROWS))
    assert train.class_names == ("cat", "dog")
    assert train.groups.attribute_names[:2] == ("land, 1", "land, 3")


def test_a_hugging_face_dataset_of_numbers(tmp_path):
    made = datasets.Dataset.from_dict({"u": ROWS[:, 0], "v": ROWS[:, 1], "label": LABELS})
    made.save_to_disk(tmp_path / "d")
    train = tcsl.load(tmp_path / "d", columns={"inputs": "u+v"}, val_fraction=0).train
    assert torch.equal(train.inputs, torch.tensor(ROWS[:, :2]))


def test_a_hugging_face_dataset_out_of_reach(monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError,
        match=r"the Hugging Face dataset 'nobody/nothing' cannot be loaded: .*'nobody/nothing'.*; "
        "give its name on the Hub, which must be within reach, or the folder that save_to_disk wrote",
    ):
        tcsl.load("hf:nobody/nothing")


# --- the validation split that is made ---


def write_rows(path, counts, split=None):
    """Write a table with so many rows of each class; the input is the row's number."""
    labels = [label for label, count in counts.items() for _ in range(count)]
    columns = {"f": range(len(labels)), "label": labels} | ({"split": split} if split else {})
    return write_table(path, columns)


def test_a_validation_split_is_made_stratified_and_said(tmp_path, caplog):
    table = write_rows(tmp_path / "t.csv", {"a": 100, "b": 30, "c": 10})
    with caplog.at_level(logging.INFO, "tcsl"):
        splits = tcsl.load(table)
    assert np.bincount(splits.val.labels).tolist() == [10, 3, 1]
    assert np.bincount(splits.train.labels).tolist() == [90, 27, 9]
    assert sorted([*splits.train.ids, *splits.val.ids]) == list(range(140))
    assert (splits.val.inputs[:, 0].numpy() == splits.val.ids).all()
    assert splits.test is None
    assert splits.evaluation is splits.val
    said = (
        "t.csv has no validation split, so one was made: 14 of the training samples, 10 % of each class "
        "(data.val_fraction, data.val_seed)"
    )
    assert said in caplog.messages
    assert splits.train.facts["validation"] == "0.1 of each class's training samples, drawn with seed 0"


def test_the_validation_split_is_seeded(tmp_path):
    table = write_rows(tmp_path / "t.csv", {"a": 60, "b": 60})
    first, again, other = (tcsl.load(table, val_fraction=0.25, val_seed=seed).val.ids for seed in (3, 3, 4))
    assert (first == again).all()
    assert len(first) == len(other) == 30
    assert (first != other).any()
    assert (tcsl.load(table, val_fraction=0.25, val_seed=3, seed=9).val.ids == first).all()  # another seed for the rest


def test_the_validation_split_leaves_the_test_split_alone(tmp_path):
    table = write_rows(tmp_path / "t.csv", {"a": 40, "b": 40}, ["train"] * 20 + ["test"] * 20 + ["train"] * 40)
    splits = tcsl.load(table)
    assert splits.test.ids.tolist() == list(range(20, 40))
    assert np.bincount(splits.val.labels).tolist() == [2, 4]
    assert not set(splits.val.ids) & {*splits.train.ids, *splits.test.ids}


def test_a_validation_split_that_is_there_is_taken(tmp_path, caplog):
    table = write_rows(tmp_path / "t.csv", {"a": 20, "b": 20}, (["train"] * 15 + ["dev"] * 5) * 2)
    with caplog.at_level(logging.INFO, "tcsl"):
        splits = tcsl.load(table)
    assert splits.val.ids.tolist() == [*range(15, 20), *range(35, 40)]
    assert "validation" not in splits.train.facts
    assert not any("validation split" in message for message in caplog.messages)


def test_no_validation_split_where_none_is_wanted_or_there_are_too_few(tmp_path, caplog):
    table = write_rows(tmp_path / "t.csv", {"a": 4, "b": 4})
    with caplog.at_level(logging.INFO, "tcsl"):
        assert tcsl.load(table, val_fraction=0).val is None
        assert not any("validation split" in message for message in caplog.messages)
        splits = tcsl.load(table)
    assert splits.val is None
    assert "validation" not in splits.train.facts
    assert "t.csv has no validation split, and too few samples of each class to make one" in caplog.messages


def test_two_samples_of_each_class_stay_to_train_on(tmp_path):
    splits = tcsl.load(write_rows(tmp_path / "t.csv", {"a": 3, "b": 100}), val_fraction=0.9)
    assert np.bincount(splits.train.labels).tolist() == [2, 10]


@pytest.mark.parametrize("fraction", [1, 1.5, -0.1, float("nan")])
def test_a_validation_fraction_that_is_none(tmp_path, fraction):
    with pytest.raises(InputError, match=r"data.val_fraction must be in \[0, 1\), got"):
        tcsl.load(write_rows(tmp_path / "t.csv", {"a": 20, "b": 20}), val_fraction=fraction)
