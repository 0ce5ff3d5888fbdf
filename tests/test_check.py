"""What `tcsl data check` finds in a dataset, and what it says of it."""

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from tcsl.config import resolve
from tcsl.data.check import check_manifest, manifest_of, problems
from tcsl.data.digits import load as load_digits
from tcsl.data.read import read
from tcsl.errors import InputError
from tcsl.estimate import estimate_run
from tcsl.tables import render_check
from tcsl.training.nets import small_cnn

RNG = np.random.default_rng(0)


def png(width=4, height=3, mode="RGB"):
    stream = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (height, width, 3), np.uint8)).convert(mode).save(stream, "png")
    return stream.getvalue()


def write_table(folder, rows, name="t.csv"):
    """Write the rows' images and a table of their other cells; `image` may be None: no such file."""
    folder.mkdir(exist_ok=True)
    columns = [column for column in rows[0] if column != "image"]
    with open(folder / name, "w", newline="", encoding="utf-8", errors="surrogateescape") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        if row["image"] is not None:
            (folder / row["path"]).write_bytes(row["image"])
    return folder / name


def row(i, label, split="train", image=b"", **more):
    return {"path": f"{i}.png", "label": label, "split": split, "image": png() if image == b"" else image, **more}


def check(source, **options):
    return check_manifest(read(source, on_bad="skip", **options))


def said(report, width=80):
    """Return the lines of the table in a terminal of this width."""
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(render_check(report))
    return console.export_text().splitlines()


def text_of(report):
    """Return the table as one text: cells that were folded are joined."""
    cells = [line.strip("│┃ ").split("│", 1) for line in said(report, width=1000) if "│" in line]
    return "\n".join(" ".join(part.strip() for part in cell) for cell in cells)


# --- counts ---


def test_samples_classes_splits_and_groups_are_counted(tmp_path):
    places = ["land", "land", "land", "water", "water", "water", "land", "water"]
    labels = ["cat", "cat", "cat", "cat", "dog", "dog", "cat", "dog"]
    splits = ["train"] * 6 + ["val", "test"]
    rows = [row(i, labels[i], splits[i], place=places[i]) for i in range(8)]
    report = check(write_table(tmp_path, rows))
    assert report["source"] == "t.csv"
    assert (report["samples"], report["listed"]) == (8, 8)
    assert report["classes"] == {"cat": 5, "dog": 3}
    assert report["splits"] == {"train": 6, "val": 1, "test": 1}
    assert report["groups"] == {"cat, land": 3, "cat, water": 1, "dog, water": 2}  # of the training split
    assert report["empty_groups"] == 1  # dog, land
    assert report["imbalance"] == 2  # 4 : 2 in training, not 5 : 3
    assert report["bad"] == {"count": 0, "reasons": {}, "first": []}
    assert not problems(report)
    shown = text_of(report)
    assert "samples 8\n" in shown
    assert "classes cat: 5; dog: 3" in shown
    assert "splits train: 6; val: 1; test: 1" in shown
    assert "training groups cat, land: 3; cat, water: 1; dog, water: 2; 1 empty" in shown
    assert "class imbalance 2.0 : 1 in training" in shown


def test_sizes_and_modes_are_counted(tmp_path):
    images = [png(4, 3), png(4, 3), png(5, 3, "L"), png(4, 3, "P"), png(3, 4, "RGBA"), png(4, 3)]
    report = check(write_table(tmp_path, [row(i, i % 2, image=image) for i, image in enumerate(images)]))
    assert report["sizes"] == {"distinct": 3, "most": {"4 x 3": 4, "5 x 3": 1, "3 x 4": 1}}
    assert report["modes"] == {"RGB": 3, "L": 1, "P": 1, "RGBA": 1}
    many = check(write_table(tmp_path, [row(i, i % 2, image=png(2 + i, 3)) for i in range(8)]))
    assert many["sizes"]["distinct"] == 8
    assert "2 x 3: 1; 3 x 3: 1; 4 x 3: 1; 5 x 3: 1; 6 x 3: 1; 3 other sizes" in text_of(many)


def test_without_splits_and_groups(tmp_path):
    for i in range(6):
        (tmp_path / "f" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "f" / "ab"[i % 2] / f"{i}.png").write_bytes(png())
    report = check(tmp_path / "f")
    assert report["splits"] == {"train": 6}
    assert report["groups"] == {}
    assert "training groups not given" in text_of(report)


def test_a_group_column_of_many_names_is_counted_without_a_table_of_all_pairs(tmp_path):
    """20 classes x 400 attributes are 8,000 cells; only 400 of them have a sample."""
    rows = [{"path": f"{i}.png", "label": i % 20, "place": f"p{i}"} for i in range(400)]
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps(one) + "\n" for one in rows))
    report = check_manifest(read(table, on_bad="skip", look=False), look=False)
    assert len(report["groups"]) == 400
    assert report["empty_groups"] == 20 * 400 - 400


def test_what_a_run_would_refuse_the_check_refuses(tmp_path):
    rows = [{"path": f"{i}.png", "label": i % 200, "place": f"p{i}"} for i in range(2000)]
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps(one) + "\n" for one in rows))
    with pytest.raises(InputError, match="the group has 2,000 different values"):
        check_manifest(read(table, on_bad="skip", look=False), look=False)


def test_images_of_many_sizes_are_bad_where_nothing_is_to_be_done_about_them(tmp_path):
    for i in range(6):
        place = tmp_path / "d" / "ab"[i % 2] / f"{i}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8 + (i == 5)), (i, 0, 0)).save(place)
    assert not problems(check_manifest(read(tmp_path / "d", on_bad="skip")))
    report = check_manifest(read(tmp_path / "d", on_bad="skip"), transform="none")
    assert problems(report)
    assert report["bad"]["count"] == 1


def test_progress_is_told(tmp_path):
    told = []
    table = write_table(tmp_path, [row(i, i % 2) for i in range(100)])
    check_manifest(read(table), progress=lambda *now: told.append(now))
    assert told == [("looking at t.csv", 64, 100), ("looking at t.csv", 100, 100)]


# --- bad samples ---


def test_every_bad_sample_is_named_with_its_row_and_file_and_not_counted(tmp_path):
    rows = [row(i, "ab"[i % 2]) for i in range(1, 11)]
    rows[0]["image"] = None
    rows[1]["image"] = png()[:-30]
    rows[2]["image"] = b"text"
    rows[3]["split"] = "later"
    table = write_table(tmp_path, rows)
    (tmp_path / "5.png").write_bytes(b"")
    report = check(table)
    assert (report["samples"], report["listed"]) == (5, 10)
    assert report["classes"] == {"a": 3, "b": 2}
    assert report["splits"]["train"] == 5
    assert report["modes"] == {"RGB": 5}
    assert report["bad"]["count"] == 5
    whys = dict(report["bad"]["first"])
    assert whys["row 1 of t.csv: 1.png"] == "is missing"
    assert whys["row 2 of t.csv: 2.png"].startswith("is truncated or damaged")
    assert whys["row 3 of t.csv: 3.png"] == "is not an image"
    assert whys["row 4 of t.csv"].startswith("has the unknown split 'later'")
    assert whys["row 5 of t.csv: 5.png"] == "is empty (0 bytes)"
    assert problems(report)
    assert "samples 5 of the 10 listed" in text_of(report)
    assert "row 3 of t.csv: 3.png is not an image" in text_of(report)


def test_in_a_folder_the_file_is_the_place(tmp_path):
    for i in range(6):
        (tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
        (tmp_path / "ab"[i % 2] / f"{i}.png").write_bytes(png())
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    assert check(tmp_path)["bad"]["first"] == [["a/notes.txt", "is not an image"]]


def test_a_class_that_unreadable_files_leave_with_one_sample_is_left_out_and_said(tmp_path):
    rows = [row(i, label) for i, label in enumerate("aabbcc")]
    table = write_table(tmp_path, rows)
    (tmp_path / "5.png").write_bytes(b"")
    report = check(table)
    assert report["classes"] == {"a": 2, "b": 2}
    assert report["bad"]["count"] == 2
    assert "is of class 'c', which has one training sample" in report["bad"]["first"][1][1]


def test_repeated_ids_are_bad_samples(tmp_path):
    rows = [row(i, i % 2, id=f"s{i % 7}") for i in range(8)]
    report = check(write_table(tmp_path, rows))
    assert report["samples"] == 7
    assert report["bad"]["first"] == [["row 8 of t.csv", "has the id 's0' of row 1 of t.csv: ids must be unique"]]


def test_of_many_bad_samples_ten_are_named_and_the_reasons_counted(tmp_path):
    rows = [row(i, i % 2) for i in range(40)]
    for one in rows[:15]:
        one["image"] = b"text"
    for one in rows[15:18]:
        one["image"] = None
    report = check(write_table(tmp_path, rows))
    assert report["bad"]["reasons"] == {"is not an image": 15, "is missing": 3}
    assert len(report["bad"]["first"]) == 10
    assert "bad samples 18: is not an image: 15; is missing: 3" in text_of(report)
    assert "and 8 more" in text_of(report)


def test_reasons_that_are_all_different_stay_few(tmp_path):
    rows = [row(i, i % 2, id=i % 30) for i in range(60)]
    report = check(write_table(tmp_path, rows))
    assert report["bad"]["count"] == 30
    assert len(report["bad"]["reasons"]) == 10


def test_where_nothing_usable_is_left_it_is_said_why(tmp_path):
    table = write_table(tmp_path, [row(i, "ab"[i > 3], image=b"text" if i > 3 else b"") for i in range(8)])
    with pytest.raises(InputError, match=r"all samples are of class 'a'.*left out: 4 bad samples: row 5 .*4.png is"):
        check(table)
    table = write_table(tmp_path, [row(i, i % 2, image=b"text") for i in range(8)])
    with pytest.raises(InputError, match=r"no sample is left: 8 bad samples: row 1 of t.csv: 0.png is not an image"):
        check(table)


# --- duplicates ---


def test_copies_are_counted_and_the_worst_named_first(tmp_path):
    same, across_splits, across_labels = png(), png(), png()
    images = [same, same, same, across_splits, across_labels, png(), across_splits, across_labels]
    labels = ["a", "a", "a", "a", "a", "b", "a", "b"]
    rows = [row(i, labels[i], "test" if i == 6 else "train", images[i]) for i in range(8)]
    report = check(write_table(tmp_path, rows))
    found = report["duplicates"]
    assert (found["copies"], found["across_splits"], found["across_labels"]) == (4, 1, 1)
    assert [[one["name"] for one in members] for members in found["first"]] == [
        ["4.png", "7.png"],
        ["3.png", "6.png"],
        ["0.png", "1.png", "2.png"],
    ]
    assert found["first"][0][1] == {"name": "7.png", "label": "b", "split": "train"}
    assert problems(report)
    assert "duplicates 4 exact copies; across splits 1, across labels 1" in text_of(report)
    assert "3.png (a, train) = 6.png (a, test)" in text_of(report)


def test_copies_of_one_label_in_one_split_are_told_but_are_no_problem(tmp_path):
    image = png()
    report = check(write_table(tmp_path, [row(i, i % 2, image=image if i in (0, 2) else png()) for i in range(6)]))
    assert report["duplicates"]["copies"] == 1
    assert not problems(report)


def test_many_sets_of_copies_are_counted_and_ten_named(tmp_path):
    images = [png() for _ in range(30)]
    report = check(write_table(tmp_path, [row(i, i % 2, image=images[i // 2]) for i in range(60)]))
    assert report["duplicates"]["copies"] == report["duplicates"]["across_labels"] == 30
    assert len(report["duplicates"]["first"]) == 10


def test_rows_of_numbers_are_copies_by_value(tmp_path):
    x = RNG.normal(size=(200, 3)).astype(np.float32)
    x[150] = x[3]
    x[7, 1] = 0.0
    x[161] = x[7] * [1, -1, 1]  # -0.0 is 0.0
    y = np.arange(200) % 2
    y[150] = 1 - y[3]
    np.savez(tmp_path / "a.npz", X=x, y=y)
    found = check(tmp_path / "a.npz")["duplicates"]
    assert (found["copies"], found["across_labels"]) == (2, 1)
    assert found["first"][0][0] == {"name": "sample 3 of a.npz", "label": str(y[3])}


@pytest.mark.parametrize("shape", [(40, 5, 4, 3), (40, 3, 5, 4), (40, 5, 4)])
def test_images_in_arrays_are_copies_by_value(tmp_path, shape):
    x = RNG.integers(0, 256, shape, np.uint8)
    x[30] = x[2]
    np.savez(tmp_path / "a.npz", X=x, y=np.arange(40) % 2)
    report = check(tmp_path / "a.npz")
    assert report["duplicates"]["copies"] == 1
    assert report["shape"] == [3 if len(shape) == 4 else 1, 5, 4]
    assert report["dtype"] == "uint8"


# --- without opening images ---


def test_without_looking_no_file_is_needed(tmp_path):
    table = write_table(tmp_path, [row(i, i % 2, image=None, place="x") for i in range(6)])
    report = check_manifest(read(table, look=False), look=False)
    assert report["samples"] == 6
    assert not {"sizes", "modes", "duplicates"} & report.keys()
    assert "images not opened: sizes, unreadable files and duplicates are not known" in text_of(report)


def test_what_needs_no_opening_is_known_without_looking(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("x1,x2,label\n" + "1,2,a\n3,4,b\n" * 2)
    report = check_manifest(read(table, look=False), look=False)
    assert report["shape"] == [2]
    assert report["duplicates"]["copies"] == 2


# --- datasets that are made ---


def test_a_made_dataset_is_counted_like_one_that_is_read():
    splits = load_digits(0, per_class=20)
    report = check_manifest(manifest_of({"train": splits.train, "test": splits.test}, "digits"))
    assert report["source"] == "digits"
    assert report["splits"] == {"train": 200, "val": 0, "test": 15970}
    assert report["groups"]["0, red"] == 19
    assert sum(report["groups"].values()) == 200
    assert report["imbalance"] == 1
    assert report["bad"]["count"] == 0  # a training id may be a test id, too
    assert report["shape"] == [3, 8, 8]


# --- what is printed ---


def test_names_are_printed_as_they_are_and_cannot_command_the_terminal(tmp_path):
    report = check(write_table(tmp_path, [row(i, ["[red]", "[/b] \x1b[31m"][i % 2]) for i in range(6)]))
    report["bad"] = {"count": 1, "reasons": {"is odd": 1}, "first": [["f\udcff.png", "is odd"]]}
    shown = text_of(report)
    assert "[/b] \ufffd[31m: 3; [red]: 3" in shown
    assert "f\ufffd.png is odd" in shown
    shown.encode()  # what cannot be encoded cannot be printed


def test_many_classes_and_groups_stay_readable(tmp_path):
    rows = [
        {"path": f"{i}-{j}.png", "label": f"species {i:03}", "group": f"place {j % 7}", "image": None}
        for i in range(150)
        for j in range(2 + i)
    ]
    report = check_manifest(read(write_table(tmp_path, rows), look=False), look=False)
    assert len(report["classes"]) == 150
    lines = said(report)
    assert len(lines) < 25
    assert all(len(line) <= 80 for line in lines)
    shown = text_of(report)
    assert "150 in all. Largest: species 149: 151; species 148: 150; " in shown
    assert "Smallest: species 003: 5; species 002: 4; species 001: 3; species 000: 2" in shown
    assert f"{report['empty_groups']} empty" in shown


def test_long_names_are_folded_not_cut(tmp_path):
    name = "n" * 200
    rows = [row(i, ["a", name][i % 2]) for i in range(6)]
    lines = said(check(write_table(tmp_path, rows)))
    assert all(len(line) <= 80 for line in lines)
    assert sum(line.count("n" * 40) for line in lines) >= 3


@pytest.mark.parametrize(
    ("bytes_", "seconds", "expected"),
    [
        (7_680, 0.4, ("7.7 kB", "about 2 seconds")),
        (1_500_000, 75, ("1.5 MB", "about 75 seconds")),
        (721_800_000, 5_400, ("721.8 MB", "about 2 hours")),
        (19_300_000_000, 900_000, ("19.3 GB", "about 10 days")),
    ],
)
def test_the_estimate_is_in_units_that_people_use(tmp_path, bytes_, seconds, expected):
    report = check(write_table(tmp_path, [row(i, i % 2) for i in range(6)]))
    run = {
        "net": "small_cnn",
        "device": "cpu",
        "steps": 1,
        "epochs": 50,
        "bytes": bytes_,
        "training_bytes": 5e6,
        "seconds": seconds,
    }
    shown = text_of({**report, "estimate": run})
    assert f"memory {expected[0]} of decoded training inputs" in shown
    assert f"a run takes {expected[1]} (small_cnn, 50 epochs, cpu)" in shown


# --- what a run would take ---


def test_the_estimate_counts_the_steps_and_bytes_of_a_run():
    settings = resolve(overrides={"train.epochs": 20, "train.batch_size": 16, "device.device": "cpu"})
    found = estimate_run(settings, 100, (3, 8, 8), 2)
    # 7 steps an epoch: 20 epochs of CB ERM, of the biased (225 steps would be 33), of the core and of the final model
    assert found["steps"] == 7 * (20 + 20 + 20 + 20)
    assert found["bytes"] == 100 * 3 * 8 * 8
    # Weights, gradients and momentum; and of a batch at least what the four ReLUs keep.
    weights = 4 * sum(p.numel() for p in small_cnn((3, 8, 8), 2).parameters())
    kept = 4 * settings.train.batch_size * (2 * 32 * 64 + 2 * 64 * 16)
    assert 3 * weights + kept <= found["training_bytes"] <= 3 * weights + 3 * kept
    assert found["net"] == "small_cnn"
    assert found["seconds"] > 0
    rows = estimate_run(settings, 100, (6,), 2, dtype="float32")
    assert rows["bytes"] == 100 * 6 * 4
    assert rows["net"] == "mlp"
    assert estimate_run(settings, 100, (3, 8, 8), 2, dtype="float32")["bytes"] == 4 * found["bytes"]


@pytest.mark.parametrize(("n", "classes", "lr"), [(4, 2, 0.01), (500, 200, 0.01), (100, 2, 1e30)])
def test_the_estimate_works_for_few_samples_many_classes_and_any_learning_rate(n, classes, lr):
    settings = resolve(overrides={"train.lr": lr, "device.device": "cpu"})
    assert estimate_run(settings, n, (3, 8, 8), classes)["seconds"] > 0


def test_what_left_one_class_is_said(tmp_path):
    (tmp_path / "t.csv").write_text("id,a,label\n1,0.1,x\n1,0.3,y\n1,0.5,y\n2,0.1,x\n")
    why = r"all samples are of class 'x'.*left out: 2 bad samples: row 2 of t.csv has the id '1' of row 1"
    with pytest.raises(InputError, match=why):
        check_manifest(read(tmp_path / "t.csv", on_bad="skip"))
