"""A run's samples with their marks: for FiftyOne, for Hugging Face datasets, for a spreadsheet. Names are hostile."""

import csv
import importlib.util
import io
import json
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import datasets
import numpy as np
import polars as pl
import pytest
from PIL import Image

import tcsl
from tcsl.config import resolve
from tcsl.errors import InputError, TcslWarning
from tcsl.export.fiftyone import export_fiftyone
from tcsl.export.hub import export_hub
from tcsl.export.marked import mark, marks, open_marked
from tcsl.export.sheet import export_sheet
from tcsl.report.marks import Change, change_marks
from tcsl.scores import Coreset, Scores

RNG = np.random.default_rng(0)
N = 60
CLASSES = ["../../x", '<b onload=x>\n"bold", </b>']
IDS = ["=1+1", "../../../up", "two\nlines", "-5", "@x", "+x", "\ttab", 'a "quoted", one', "<script>", "\uff1dwide"]
FILES = ["=a.png", "<b>.png", 'say "x".png', "50%.png", "ünï.png", "a b,c.png"]
RUN = ["--set", "train.epochs=10", "--set", "device.threads=1", "--device", "cpu", "--ratio", "0.3", "--quiet"]


def names(given, n):
    """Return n names, the given ones first."""
    return [given[i] if i < len(given) else f"{i:02}" for i in range(n)]


@pytest.fixture(scope="module")
def made(tmp_path_factory, tcsl_command):
    """A folder with data/, 60 images of 8 x 8 and a table, and run/, a run on it."""
    root = tmp_path_factory.mktemp("marked")
    (root / "data" / "img").mkdir(parents=True)
    rows = []
    for i, (key, file) in enumerate(zip(names(IDS, N), names(FILES, N), strict=True)):
        label = i % 2
        colour = label if i % 10 > 1 else 1 - label
        pixels = RNG.integers(0, 60, (8, 8, 3), np.uint8)
        pixels[..., colour] += 150
        pixels[2 + 3 * label : 4 + 3 * label, 2:6] = 255
        Image.fromarray(pixels).save(root / "data" / "img" / file, "png")
        split = "train" if i < 40 else "val" if i < 50 else "test"
        rows.append({"path": f"img/{file}", "label": CLASSES[label], "id": key, "split": split, "group": "xy"[colour]})
    (root / "data" / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    methods = ["--method", "tcsl_cs", "--method", "random"]
    code, _, err = tcsl_command("run", root / "data" / "t.jsonl", *methods, "--out", root / "run", *RUN)
    assert code == 0, err
    return root


@pytest.fixture(scope="module")
def scores(made):
    return pl.read_parquet(made / "run" / "scores.parquet")


@pytest.fixture(scope="module")
def chosen(made):
    return set(pl.read_parquet(made / "run" / "coreset.parquet")["id"])


@pytest.fixture
def moved(made, tmp_path):
    """The same, copied to a place where it can be changed."""
    shutil.copytree(made, tmp_path / "moved")
    config = tmp_path / "moved" / "run" / "config.toml"
    config.write_text(config.read_text().replace(str(made), str(tmp_path / "moved")))
    return tmp_path / "moved"


def original(made, i):
    """Return the file of sample i; most have no ending."""
    return made / "data" / "img" / names(FILES, N)[i]


def from_arrays(tmp_path, inputs, **names):
    """Return six samples with scores, two of them chosen, from an npz file of these inputs."""
    np.savez(tmp_path / "a.npz", X=inputs, y=np.arange(6) % 2)
    curves = np.linspace(0, 1, 12, dtype=np.float32).reshape(6, 2)
    found = Scores(np.arange(6), np.arange(6) % 2, curves.mean(1), curves[:, 0], np.arange(6) > 3, curves)
    kept = Coreset(np.array([1, 4]), np.array([1, 4]), np.array([1, 0]), np.array([False, True]))
    return mark(marks(kept, found, class_names="01", **names), resolve(dataset=str(tmp_path / "a.npz")))


# --- the samples and their marks ---


def test_marks_are_the_runs_scores_and_what_is_chosen(made, scores, chosen):
    samples = open_marked(made / "run")
    assert samples.table.columns == ["id", "label", "tcsl_s", "tcsl_c", "g_high", "chosen"]
    assert samples.table["id"].to_list() == names(IDS, N)[:40]
    assert samples.table["label"].to_list() == CLASSES * 20
    assert samples.table.select("tcsl_s", "tcsl_c", "g_high").equals(scores.select("tcsl_s", "tcsl_c", "g_high"))
    assert set(samples.table.filter("chosen")["id"]) == chosen
    assert len(chosen) == 12
    part = open_marked(made / "run", only="coreset")
    assert part.table.equals(samples.table.filter("chosen"))
    assert part.source.ids.tolist() == part.table["id"].to_list()


def test_marks_are_in_the_sources_order_whatever_the_scores_are_in(tmp_path):
    whole = from_arrays(tmp_path, RNG.normal(size=(6, 2)))
    settings = resolve(dataset=str(tmp_path / "a.npz"))
    assert mark(whole.table.reverse(), settings).table.equals(whole.table)


def test_a_coreset_of_other_data_is_refused(made, tmp_path):
    table = pl.read_parquet(made / "run" / "coreset.parquet")
    ids, labels = np.array(table["id"].to_list()), table["label"].to_numpy()
    for odd in (
        Coreset(np.arange(12), np.array([*ids[:11], "elsewhere"]), labels, labels > 0),
        Coreset(np.arange(12), ids, np.array([1 - labels[0], *labels[1:]]), labels > 0),
    ):
        with pytest.raises(InputError, match="1 of the coreset's 12 ids are not among the run's scores, or not with"):
            open_marked(made / "run", coreset=odd)


# --- FiftyOne ---


def documents(folder):
    dataset = json.loads((folder / "metadata.json").read_text())
    samples = json.loads((folder / "samples.json").read_text())["samples"]
    return dataset, samples


def test_fiftyone_has_files_classes_tags_scores_and_ids(made, scores, chosen, tmp_path):
    export_fiftyone(open_marked(made / "run"), tmp_path / "fo")
    dataset, samples = documents(tmp_path / "fo")
    assert [one["tcsl_id"] for one in samples] == scores["id"].to_list()
    assert [one["tcsl_s"] for one in samples] == scores["tcsl_s"].to_list()
    assert [one["tcsl_c"] for one in samples] == scores["tcsl_c"].to_list()
    for i, (one, high) in enumerate(zip(samples, scores["g_high"], strict=True)):
        assert one["tags"] == ["g_high"] * high + ["coreset"] * (one["tcsl_id"] in chosen)
        assert one["ground_truth"]["label"] == CLASSES[i % 2]
        assert one["filepath"] == f"data/{i:02}.png"
        assert (tmp_path / "fo" / one["filepath"]).read_bytes() == original(made, i).read_bytes()
    assert dataset["classes"]["ground_truth"] == CLASSES
    assert {field["db_field"] for field in dataset["sample_fields"]} >= set(samples[0])
    assert sorted(path.name for path in (tmp_path / "fo").iterdir()) == ["data", "metadata.json", "samples.json"]
    assert len(list((tmp_path / "fo" / "data").iterdir())) == 40
    assert [path.name for path in tmp_path.iterdir()] == ["fo"]


def test_fiftyone_has_ids_of_its_own_kind_the_same_every_time(made, tmp_path):
    for name in ("one", "two"):
        export_fiftyone(open_marked(made / "run"), tmp_path / name)
    for file in ("metadata.json", "samples.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    samples = documents(tmp_path / "one")[1]
    ids = [owner["_id"]["$oid"] for one in samples for owner in (one, one["ground_truth"])]
    assert len(set(ids)) == 80
    assert all(len(bytes.fromhex(name)) == 12 for name in ids)
    assert all(0.999 <= one["_rand"] < 1 for one in samples)


def test_fiftyone_can_be_told_where_the_files_lie(made, tmp_path):
    export_fiftyone(open_marked(made / "run", only="coreset"), tmp_path / "fo", images="link")
    samples = documents(tmp_path / "fo")[1]
    place_of = dict(zip(names(IDS, N), names(FILES, N), strict=True))
    assert [one["filepath"] for one in samples] == [
        str(made / "data" / "img" / place_of[one["tcsl_id"]]) for one in samples
    ]
    assert len(samples) == 12
    assert list((tmp_path / "fo" / "data").iterdir()) == []


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_are_written_as_png_which_loses_nothing(tmp_path, channels):
    x = RNG.integers(0, 256, (6, channels, 6, 5), np.uint8)
    export_fiftyone(from_arrays(tmp_path, x), tmp_path / "fo")
    for i, one in enumerate(documents(tmp_path / "fo")[1]):
        pixels = np.asarray(Image.open(tmp_path / "fo" / one["filepath"])).reshape(6, 5, channels)
        assert (pixels == x[i].transpose(1, 2, 0)).all()


def test_floats_are_black_to_white_and_other_ranges_are_said(tmp_path):
    x = np.linspace(0, 1, 6 * 3 * 4 * 4).reshape(6, 3, 4, 4)
    export_fiftyone(from_arrays(tmp_path, 0.5 * x), tmp_path / "half")
    with pytest.warns(TcslWarning, match=r"the pixels of a.npz go from -1 to 3; in the PNG files, that is black"):
        export_fiftyone(from_arrays(tmp_path, 4 * x - 1), tmp_path / "wide")
    for folder, factor in (("half", 0.5), ("wide", 1)):
        last = np.asarray(Image.open(tmp_path / folder / "data" / "5.png")).transpose(2, 0, 1)
        assert np.abs(last - 255 * factor * x[5]).max() <= 0.5 + 1e-4


def test_what_is_no_image_or_no_file_is_refused(tmp_path):
    rows = from_arrays(tmp_path, RNG.normal(size=(6, 3)))
    with pytest.raises(InputError, match=r"the inputs of a.npz are no images but have shape \(3,\); export them as"):
        export_fiftyone(rows, tmp_path / "fo")
    with pytest.raises(InputError, match=r"of a.npz are not image files that could be linked: use --images copy"):
        export_fiftyone(rows, tmp_path / "fo", images="link")
    with pytest.raises(InputError, match=r"unknown images 'move'. Known: copy, link"):
        export_fiftyone(rows, tmp_path / "fo", images="move")
    assert not (tmp_path / "fo").exists()


def test_an_export_that_fails_leaves_nothing(moved, tmp_path):
    samples = open_marked(moved / "run")
    original(moved, 30).unlink()
    for export in (export_fiftyone, export_hub):
        with pytest.raises(InputError, match="img/30 cannot be read: No such file"):
            export(samples, tmp_path / "out" / "x")
        assert list((tmp_path / "out").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(tcsl.errors.RunFolderError, match=r"could not write .*file/x: "):
        export_fiftyone(samples, tmp_path / "file" / "x")


@pytest.mark.skipif(importlib.util.find_spec("fiftyone") is None, reason="needs fiftyone, with its database")
def test_fiftyone_itself_opens_it(made, scores, chosen, tmp_path):
    import fiftyone

    export_fiftyone(open_marked(made / "run"), tmp_path / "fo")
    export_fiftyone(open_marked(made / "run", only="coreset"), tmp_path / "links", images="link")
    whole, part = (
        fiftyone.Dataset.from_dir(str(tmp_path / name), fiftyone.types.FiftyOneDataset) for name in ("fo", "links")
    )
    try:
        assert whole.values("tcsl_id") == scores["id"].to_list()
        assert whole.values("tcsl_s") == scores["tcsl_s"].to_list()
        assert whole.values("ground_truth.label") == CLASSES * 20
        assert set(whole.match_tags("coreset").values("tcsl_id")) == chosen
        assert len(whole.match_tags("g_high")) == scores["g_high"].sum()
        assert whole.classes == {"ground_truth": CLASSES}
        for dataset, n in ((whole, 40), (part, 12)):
            dataset.compute_metadata()
            assert dataset.values("metadata.width") == [8] * n
            assert len(dataset.take(5, seed=0)) == 5
            dataset.first().save()
    finally:
        whole.delete()
        part.delete()


# --- a Hugging Face dataset ---


def test_the_hub_dataset_has_the_scores_and_marks(made, scores, chosen, tmp_path):
    export_hub(open_marked(made / "run"), tmp_path / "hub")
    found = datasets.load_from_disk(tmp_path / "hub")
    assert found.column_names == ["image", "label", "id", "tcsl_s", "tcsl_c", "g_high", "chosen"]
    assert found.features["label"].names == CLASSES
    assert isinstance(found.features["image"], datasets.Image)
    assert found["id"][:] == scores["id"].to_list()
    for name in ("label", "tcsl_s", "tcsl_c", "g_high"):
        assert found[name][:] == scores[name].to_list()
    assert {row["id"] for row in found if row["chosen"]} == chosen
    for i in (0, 7, 39):
        assert (np.asarray(found[i]["image"]) == np.asarray(Image.open(original(made, i)))).all()


def test_without_the_package_the_hub_export_says_what_to_install(made, tmp_path, monkeypatch):
    samples = open_marked(made / "run")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"need the package `datasets`: pip install 'tcsl\[hub\]'"):
        export_hub(samples, tmp_path / "hub")


# --- a sheet ---


def test_the_sheet_opens_in_csv_and_polars_and_no_cell_is_a_formula(made, scores, chosen, tmp_path):
    changed = export_sheet(open_marked(made / "run"), tmp_path / "s.csv")
    with open(tmp_path / "s.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["id", "label", "tcsl_s", "tcsl_c", "g_high", "chosen", "link"]
    risky = {"=1+1", "-5", "@x", "+x", "\ttab", "\uff1dwide"}
    assert [row["id"] for row in rows] == [f"'{name}" if name in risky else name for name in scores["id"]]
    assert changed == len(risky)
    assert [row["label"] for row in rows] == CLASSES * 20
    assert np.array([row["tcsl_s"] for row in rows], np.float32).tolist() == scores["tcsl_s"].to_list()
    assert [row["g_high"] == "true" for row in rows] == scores["g_high"].to_list()
    assert {row["id"].lstrip("'") for row in rows if row["chosen"] == "true"} == chosen
    for i, row in enumerate(rows):
        assert row["link"].startswith("file:///")
        assert Path(unquote(urlparse(row["link"]).path)) == original(made, i)
    frame = pl.read_csv(tmp_path / "s.csv")
    assert frame.dtypes == [pl.String, pl.String, pl.Float64, pl.Float64, pl.Boolean, pl.Boolean, pl.String]
    assert frame["id"].to_list() == [row["id"] for row in rows]
    assert frame["label"].to_list() == CLASSES * 20
    assert (tmp_path / "s.csv").read_bytes().count(b"\r\n") == 41


def test_numbers_in_a_sheet_stay_numbers(tmp_path):
    samples = from_arrays(tmp_path, RNG.normal(size=(6, 3)), only="coreset")
    table = samples.table.with_columns(id=-pl.col("id"))
    assert export_sheet(type(samples)(table, ""), tmp_path / "s.csv") == 0
    assert (tmp_path / "s.csv").read_text().splitlines()[1].startswith("-1,1,")


# --- the command ---


def test_the_command_writes_all_or_the_coreset(made, tmp_path, tcsl_command, chosen):
    places = ["--fiftyone", tmp_path / "fo", "--csv", tmp_path / "s.csv", "--hub", tmp_path / "hub"]
    code, out, err = tcsl_command("export", made / "run", *places)
    assert code == 0, err
    for line in (
        f"40 samples (fiftyone) are in {tmp_path / 'fo'}",
        f"40 samples (csv) are in {tmp_path / 's.csv'}",
        f"12 samples (hub) are in {tmp_path / 'hub'}",
        f"open it with fiftyone.Dataset.from_dir('{tmp_path / 'fo'}', fiftyone.types.FiftyOneDataset)",
        f"an apostrophe stands before 6 cells of {tmp_path / 's.csv'} that a spreadsheet may take for formulas",
    ):
        assert line in out
    places = ["--fiftyone", tmp_path / "fo12", "--images", "link", "--csv", tmp_path / "s12.csv"]
    assert tcsl_command("export", made / "run", *places, "--only", "coreset")[0] == 0
    assert {one["tcsl_id"] for one in documents(tmp_path / "fo12")[1]} == chosen
    assert len(pl.read_csv(tmp_path / "s12.csv")) == 12
    assert tcsl_command("export", made / "run", "--hub", tmp_path / "hub40", "--only", "all")[0] == 0
    assert len(datasets.load_from_disk(tmp_path / "hub40")) == 40


def test_the_folder_that_one_is_in_may_be_filled(made, tmp_path, tcsl_command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tcsl_command("export", made / "run", "--fiftyone", ".")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "metadata.json", "samples.json"]


def test_the_chosen_are_those_of_the_method_that_is_named(made, tmp_path, tcsl_command):
    code, _, err = tcsl_command("export", made / "run", "--csv", tmp_path / "s.csv", "--method", "random")
    assert code == 0, err
    kept = pl.read_parquet(made / "run" / "coreset-random.parquet")["id"].to_list()
    frame = pl.read_csv(tmp_path / "s.csv")
    assert [name.lstrip("'") for name in frame.filter("chosen")["id"]] == kept


def test_misused_it_is_one_clear_line(made, tmp_path, tcsl_command):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("mine")
    new = tmp_path / "new.csv"
    for words, message in [
        (["--csv", new, "--fiftyone", tmp_path / "there"], "there exists already; choose another place"),
        (["--csv", tmp_path / "new.xlsx"], "new.xlsx must end in .csv"),
        (["--csv", new, "--only", "al"], "unknown --only 'al'; did you mean 'all'? Known: all, coreset"),
        (["--csv", new, "--ids", tmp_path / "x", "--only", "all"], "--only all is for --hub, --csv, --fiftyone; --ids"),
        (["--scores", new, "--only", "coreset"], "--only is for --hub, --csv, --fiftyone; --scores has every"),
        (["--csv", new, "--images", "link"], "--images is for --fiftyone"),
        (["--csv", new, "--fiftyone", tmp_path / "x", "--images", "lin"], "unknown --images 'lin'; did you mean"),
        (["--csv", new, "--method", "cb_erm"], "has no coreset of cb_erm; it has those of tcsl_cs, random"),
    ]:
        code, out, err = tcsl_command("export", made / "run", *words)
        assert code == 2, words
        assert message in err, words
        assert "Traceback" not in err
        assert out == ""
        assert [path.name for path in tmp_path.iterdir()] == ["there"], words


@pytest.mark.parametrize("form", ["--fiftyone", "--hub", "--csv"])
def test_images_that_changed_since_the_run_are_said(moved, tmp_path, tcsl_command, form):
    place = tmp_path / "x.csv"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(original(moved, 20), "png")
    code, _, err = tcsl_command("export", moved / "run", form, place)
    assert code == 2
    assert "the training data of" in err
    assert "have changed since the run; bring them back, or run it again in another folder" in err
    assert not place.exists()


def test_a_changed_test_image_is_no_matter(moved, tmp_path, tcsl_command):
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(original(moved, 55), "png")
    assert tcsl_command("export", moved / "run", "--csv", tmp_path / "s.csv")[0] == 0


def test_a_run_without_scores_has_its_coreset_alone(made, tmp_path, tcsl_command):
    run = tmp_path / "run"
    code, _, err = tcsl_command("run", made / "data" / "t.jsonl", "--method", "random", "--out", run, *RUN)
    assert code == 0, err
    words = ["export", run, "--method", "random", "--csv", tmp_path / "s.csv"]
    code, _, err = tcsl_command(*words)
    assert code == 2
    assert f"{run} has no scores: no method that scores was run" in err
    code, out, err = tcsl_command(*words, "--only", "coreset", "--fiftyone", tmp_path / "fo")
    assert code == 0, err
    assert f"{run} has no scores, so tcsl_s, tcsl_c and g_high are left out" in out
    assert pl.read_csv(tmp_path / "s.csv").columns == ["id", "label", "chosen", "link"]
    dataset, samples = documents(tmp_path / "fo")
    assert len(samples) == 12
    assert all(one["tags"] == ["coreset"] and "tcsl_s" not in one for one in samples)
    assert "tcsl_s" not in {field["name"] for field in dataset["sample_fields"]}


def test_of_a_run_made_from_python_there_is_a_sheet_without_links(tmp_path, tcsl_command):
    X, y = RNG.normal(size=(40, 3)), np.arange(40) % 2
    run = tcsl.debias((X, y), 0.5, settings={"train.epochs": 10}, out=tmp_path / "run")
    code, _, err = tcsl_command("export", run.path, "--csv", tmp_path / "s.csv")
    assert code == 0, err
    frame = pl.read_csv(tmp_path / "s.csv")
    assert frame.columns == ["id", "label", "tcsl_s", "tcsl_c", "g_high", "chosen"]
    assert np.flatnonzero(frame["chosen"].to_numpy()).tolist() == run.coreset.indices.tolist()
    code, _, err = tcsl_command("export", run.path, "--fiftyone", tmp_path / "fo")
    assert code == 2
    assert "was made from Python on data that only the caller has" in err


def test_members_of_shards_have_endings_by_their_content(tmp_path):
    import tarfile

    with tarfile.open(tmp_path / "train-0.tar", "w") as shard:
        for i in range(6):
            stream = io.BytesIO()
            kind = ("jpeg", "png", "webp")[i % 3]
            Image.fromarray(RNG.integers(0, 256, (8, 8, 3), np.uint8)).save(stream, kind)
            for suffix, content in (("png", stream.getvalue()), ("cls", b"ab"[i % 2 : i % 2 + 1])):
                member = tarfile.TarInfo(f"s{i}.{suffix}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    kept = Coreset(np.arange(3), np.array(["s0", "s1", "s2"]), np.array([0, 1, 0]), np.zeros(3, np.bool_))
    settings = resolve(dataset=str(tmp_path / "train-0.tar"))
    export_fiftyone(mark(marks(kept, None, class_names="ab", only="coreset"), settings), tmp_path / "fo")
    assert [one["filepath"] for one in documents(tmp_path / "fo")[1]] == ["data/0.jpg", "data/1.png", "data/2.webp"]


def test_what_somebody_marked_comes_along(made, tmp_path):
    run = shutil.copytree(made / "run", tmp_path / "run")
    scores = Scores.load(run / "scores.parquet")
    change_marks(run, scores, Change({"wrong label": [3], "": [5]}))
    table = open_marked(run).table
    assert dict(table.filter("marked")["id", "note"].rows()) == {scores.ids[3]: "wrong label", scores.ids[5]: ""}
    assert table["note"].null_count() == table["marked"].null_count() == 0
    assert table.drop("marked", "note").equals(open_marked(made / "run").table)
    export_fiftyone(open_marked(run), tmp_path / "fo")
    found = json.loads((tmp_path / "fo" / "samples.json").read_text())["samples"]
    assert {one["tcsl_id"] for one in found if "marked" in one["tags"]} == {scores.ids[3], scores.ids[5]}
    export_sheet(open_marked(run), tmp_path / "sheet.csv")
    with (tmp_path / "sheet.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["note"] for row in rows if row["marked"] == "true"] == ["wrong label", ""]
