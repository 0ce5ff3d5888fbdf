"""A coreset and scores as others read them."""

import csv
import io
import json
import os
import shutil
import tarfile

import datasets
import numpy as np
import polars as pl
import pytest
from PIL import Image

import tcsl
from tcsl.config import resolve
from tcsl.data.digits import load as load_digits
from tcsl.errors import InputError
from tcsl.export.hub import export_hub
from tcsl.export.links import export_links
from tcsl.export.marked import mark, marks
from tcsl.export.tables import export_ids, export_scores, export_table
from tcsl.scores import Coreset, Scores

RNG = np.random.default_rng(0)


def png(pixels=None):
    stream = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (8, 8, 3), np.uint8) if pixels is None else pixels).save(stream, "png")
    return stream.getvalue()


def write_images(folder, paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(png())


def coreset_of(ids, labels):
    """Return a coreset with these ids and class indices."""
    n = len(ids)
    return Coreset(np.arange(n), np.array(ids), np.array(labels), np.arange(n) % 2 == 0)


def hub_of(coreset, settings, folder, *, class_names):
    """Save the samples of a coreset, of which no scores are known, as a Hugging Face dataset."""
    export_hub(mark(marks(coreset, None, class_names=class_names, only="coreset"), settings), folder)


def settings_of(source, **data):
    return resolve(dataset=str(source), overrides={f"data.{name}": value for name, value in data.items()})


TABLE = """id,path,label,split,note,number
x9,img/9.png,dog,train,"a, ""quoted"" one",007
x2,img/2.png,cat,train,,1.50
x5,img/5.png,dog,train,"two
lines",1e3
x1,img/1.png,cat,train,größe,-0
x7,img/7.png,cat,test,NA,null
x3,img/3.png,dog,train,  spaces ,12345678901234567890
"""


@pytest.fixture
def table(tmp_path):
    source = tmp_path / "data" / "t.csv"
    write_images(source.parent, [f"img/{i}.png" for i in (9, 2, 5, 1, 7, 3)])
    source.write_text(TABLE, encoding="utf-8")
    return source


def cells(path, separator=","):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream, delimiter=separator))


# --- ids and scores ---


def test_ids_are_one_a_line(tmp_path):
    export_ids(coreset_of(["b", "a c", "ü"], [0, 1, 0]), tmp_path / "new" / "ids.txt")
    assert (tmp_path / "new" / "ids.txt").read_bytes() == "b\na c\nü\n".encode()


def test_scores_have_a_column_for_each_epoch_or_the_curve_itself(tmp_path):
    curves = np.array([[1.5, 0.25], [2.0, 0.5], [0.125, 3.0]], np.float32)
    scores = Scores(
        np.array(["a", "b", "c"]), np.array([0, 1, 0]), curves.mean(1), curves[:, 0], curves[:, 1] > 1, curves
    )
    export_scores(scores, tmp_path / "s.csv")
    rows = cells(tmp_path / "s.csv")
    assert rows[0] == ["id", "label", "tcsl_s", "tcsl_c", "g_high", "loss_1", "loss_2"]
    assert rows[2] == ["b", "1", "1.25", "2.0", "false", "2.0", "0.5"]
    export_scores(scores, tmp_path / "s.TSV")
    assert cells(tmp_path / "s.TSV", "\t") == rows
    export_scores(scores, tmp_path / "s.parquet")
    assert pl.read_parquet(tmp_path / "s.parquet").equals(scores.frame())
    export_scores(scores, tmp_path / "s.jsonl")
    assert json.loads((tmp_path / "s.jsonl").read_text().splitlines()[2])["curve"] == [0.125, 3.0]


# --- the table ---


def test_a_filtered_table_keeps_every_cell_as_it_was_and_the_order(table, tmp_path):
    coreset = coreset_of(["x1", "x5", "x9", "x3"], [0, 1, 1, 1])  # in another order than the table
    export_table(coreset, settings_of(table), tmp_path / "kept.csv", class_names=["cat", "dog"])
    whole = cells(table)
    assert cells(tmp_path / "kept.csv") == [whole[i] for i in (0, 1, 3, 4, 6)]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl", ".ndjson"])
@pytest.mark.parametrize("source_suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_from_every_kind_of_table_to_every_other(table, tmp_path, source_suffix, suffix):
    frame = pl.read_csv(table, infer_schema=False)
    source = table.with_suffix(source_suffix)
    write = {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}
    write.get(source_suffix, lambda path: frame.write_csv(path, separator="\t"))(source)
    place = tmp_path / f"kept{suffix}"
    export_table(coreset_of(["x2", "x5"], [0, 1]), settings_of(source), place, class_names=["cat", "dog"])
    read = {
        ".csv": lambda: pl.read_csv(place, infer_schema=False),
        ".tsv": lambda: pl.read_csv(place, infer_schema=False, separator="\t"),
        ".parquet": lambda: pl.read_parquet(place),
    }
    assert read.get(suffix, lambda: pl.read_ndjson(place))().equals(frame[[1, 2]])


def test_types_of_columns_stay_where_the_format_has_types(tmp_path):
    source = tmp_path / "t.parquet"
    frame = pl.DataFrame(
        {"embedding": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], "label": [0, 1, 0, 1], "when": ["x"] * 4},
        schema={"embedding": pl.Array(pl.Float32, 2), "label": pl.Int8, "when": pl.Categorical},
    )
    frame.write_parquet(source)
    coreset = coreset_of([0, 3], [0, 1])
    export_table(coreset, settings_of(source), tmp_path / "kept.parquet", class_names=["0", "1"])
    assert pl.read_parquet(tmp_path / "kept.parquet").equals(frame[[0, 3]])
    assert pl.read_parquet(tmp_path / "kept.parquet").schema == frame.schema
    with pytest.raises(InputError, match=r"kept.csv: this table cannot be written as .csv: .*; use .parquet"):
        export_table(coreset, settings_of(source), tmp_path / "kept.csv", class_names=["0", "1"])
    assert [path.name for path in tmp_path.glob("kept*")] == ["kept.parquet"]


def test_what_was_no_table_becomes_one(tmp_path):
    np.savez(tmp_path / "a.npz", X=RNG.normal(size=(6, 2)), y=np.arange(6) % 2)
    source = settings_of(tmp_path / "a.npz")
    assert export_table(coreset_of([2, 5], [0, 1]), source, tmp_path / "k.csv", class_names=["a", "b"]) is None
    assert cells(tmp_path / "k.csv") == [["id", "label", "g_high"], ["2", "a", "true"], ["5", "b", "false"]]


def test_where_the_tables_paths_lead_is_returned_where_it_is_elsewhere(table, tmp_path):
    coreset, settings = coreset_of(["x2", "x5"], [0, 1]), settings_of(table)
    assert export_table(coreset, settings, table.parent / "k.csv", class_names=["cat", "dog"]) is None
    assert export_table(coreset, settings, tmp_path / "k.csv", class_names=["cat", "dog"]) == table.parent
    moved = tmp_path / "tables" / "t.csv"
    moved.parent.mkdir()
    shutil.copy(table, moved)
    settings = settings_of(moved, root=str(table.parent))
    assert export_table(coreset, settings, tmp_path / "k2.csv", class_names=["cat", "dog"]) == table.parent


def test_a_row_with_a_repeated_id_that_the_run_left_out_is_left_out(table, tmp_path):
    table.write_text(TABLE + "x5,img/1.png,dog,train,again,1\n")
    settings = settings_of(table, on_bad="skip")
    export_table(coreset_of(["x2", "x5"], [0, 1]), settings, tmp_path / "k.csv", class_names=["cat", "dog"])
    assert [row[0] for row in cells(tmp_path / "k.csv")] == ["id", "x2", "x5"]


# --- links ---


def links_in(folder):
    """Return CLASS/FILE of every link; each leads to an image by a relative path."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            link = os.path.join(place, name)
            assert not os.path.isabs(os.readlink(link))
            Image.open(link).load()
            found[os.path.relpath(link, folder)] = os.path.realpath(link)
    return found


def test_links_lead_from_class_folders_to_the_images(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    coreset = coreset_of(["x1", "x2", "x9"], [0, 0, 1])
    export_links(coreset, settings_of(table), tmp_path / "deep" / "kept", class_names=["cat", "dog"])
    assert links_in("deep/kept") == {
        f"{label}/{i}.png": str(tmp_path.resolve() / "data" / "img" / f"{i}.png")
        for label, i in (("cat", 1), ("cat", 2), ("dog", 9))
    }
    shutil.move(tmp_path / "deep", tmp_path / "deeper")  # with the data beside it, they still lead there
    assert len(links_in(tmp_path / "deeper" / "kept")) == 3


def test_links_to_the_images_of_a_folder_keep_its_classes(tmp_path):
    paths = [f"{split}/{label}/{i}.png" for split in ("train", "test") for label in "ab" for i in range(3)]
    write_images(tmp_path / "f", paths)
    coreset = coreset_of(["train/a/1.png", "train/b/0.png", "train/b/1.png"], [0, 1, 1])
    export_links(coreset, settings_of(tmp_path / "f"), tmp_path / "k", class_names="ab")
    assert set(links_in(tmp_path / "k")) == {"a/1.png", "b/0.png", "b/1.png"}


def test_links_made_through_linked_folders_open(table, tmp_path):
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "near").symlink_to(tmp_path / "far" / "away")
    (tmp_path / "alias").symlink_to(table.parent)
    settings = settings_of(tmp_path / "alias" / "t.csv")
    export_links(coreset_of(["x1", "x9"], [0, 1]), settings, tmp_path / "near" / "kept", class_names=["cat", "dog"])
    assert set(links_in(tmp_path / "far" / "away" / "kept")) == {"cat/1.png", "dog/9.png"}


def test_images_of_one_name_all_get_a_link(tmp_path):
    paths = ["a/1.png", "b/1.png", "c/1.png", "c/2-1.png", "d/x.png", "e/x.png"]
    write_images(tmp_path, paths)
    source = tmp_path / "t.csv"
    source.write_text("path,label\n" + "".join(f"{path},{'pq'[path > 'd']}\n" for path in paths))
    export_links(coreset_of(paths, [0, 0, 0, 0, 1, 1]), settings_of(source), tmp_path / "k", class_names="pq")
    found = links_in(tmp_path / "k")
    assert sorted(found.values()) == sorted(str(tmp_path.resolve() / path) for path in paths)
    assert len({os.path.dirname(link) for link in found}) == 2


ODD = [
    "..",
    ".",
    "a/b",
    "a_b",
    "A_B",
    "../../up",
    "/root",
    "",
    ".hidden",
    "x\ny",
    "c:\\d",
    "n" * 400,
    "日" * 300,
    "a_b-2",
]


def test_class_names_never_leave_the_folder_nor_meet_in_one(tmp_path):
    paths = [f"img/{i}.png" for i in range(2 * len(ODD))]
    write_images(tmp_path, paths)
    source = tmp_path / "t.jsonl"
    # The empty name is refused by the reader; here it is a name of blanks.
    names = [name or "  x" for name in ODD]
    rows = [{"path": path, "label": names[i % len(names)]} for i, path in enumerate(paths)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    order = sorted(names)
    labels = [order.index(row["label"]) for row in rows]
    before = {path for path in tmp_path.rglob("*") if not path.is_symlink()}
    export_links(coreset_of(paths, labels), settings_of(source), tmp_path / "k" / "kept", class_names=order)
    found = links_in(tmp_path / "k" / "kept")
    assert len(found) == len(paths)
    folders = {os.path.dirname(link) for link in found}
    assert len(folders) == len({folder.lower() for folder in folders}) == len(ODD)
    assert all("/" not in folder and not folder.startswith(".") for folder in folders)
    made = {path for path in tmp_path.rglob("*") if not path.is_symlink()} - before
    assert all((tmp_path / "k") in (path, *path.parents) for path in made)


def test_links_to_what_is_no_file_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=RNG.normal(size=(6, 2)), y=np.arange(6) % 2)
    with pytest.raises(InputError, match=r"links are made to image files, but the inputs of .*a.npz are not files"):
        export_links(coreset_of([0, 1], [0, 1]), settings_of(tmp_path / "a.npz"), tmp_path / "k", class_names="01")
    assert not (tmp_path / "k").exists()


# --- a Hugging Face dataset ---


def test_from_files_the_hub_dataset_has_images_ids_and_class_names(table, tmp_path):
    hub_of(coreset_of(["x1", "x9"], [0, 1]), settings_of(table), tmp_path / "hub", class_names=["cat", "dog"])
    made = datasets.load_from_disk(tmp_path / "hub")
    assert made["id"][:] == ["x9", "x1"]  # in the table's order
    assert made.features["label"].names == ["cat", "dog"]
    assert made["label"][:] == [1, 0]
    original = np.asarray(Image.open(table.parent / "img" / "9.png"))
    assert (np.asarray(made[0]["image"]) == original).all()
    raw = made.cast_column("image", datasets.Image(decode=False))
    assert raw[1]["image"]["bytes"] == (table.parent / "img" / "1.png").read_bytes()


def test_from_a_hub_dataset_its_rows_are_kept_whole(tmp_path):
    names = datasets.ClassLabel(names=["cat", "dog"])
    parts = {
        split: datasets.Dataset.from_dict(
            {"image": [{"path": None, "bytes": png()} for _ in range(n)], "y": [0, 1] * (n // 2), "note": notes},
            features=datasets.Features({"image": datasets.Image(), "y": names, "note": datasets.Value("string")}),
        )
        for split, n, notes in (("train", 6, list("abcdef")), ("test", 4, list("ghij")))
    }
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "source")
    coreset = coreset_of([1, 2, 5], [1, 0, 1])
    before = sorted((tmp_path / "source").rglob("*"))
    for source in (tmp_path / "source", f"hf:{tmp_path / 'source'}"):
        place = tmp_path / f"hub-{str(source)[:2].strip('/')}"
        hub_of(coreset, settings_of(source), place, class_names=["cat", "dog"])
        made = datasets.load_from_disk(place)
        own = parts["train"].features
        assert {name: made.features[name] for name in own} == own
        assert made["id"][:] == [1, 2, 5]
        assert made["chosen"][:] == [True] * 3
        assert made["note"][:] == ["b", "c", "f"]
        assert (np.asarray(made[2]["image"]) == np.asarray(parts["train"][5]["image"])).all()
        assert not (place / "rows").exists()
    assert sorted((tmp_path / "source").rglob("*")) == before  # nothing is left beside the source's own files


def test_a_column_that_is_there_already_is_not_replaced(tmp_path):
    own = {"x": [[float(i), 1.0] for i in range(6)], "label": list("ababab"), "chosen": list("uvwxyz")}
    datasets.Dataset.from_dict(own).save_to_disk(tmp_path / "source")
    settings = settings_of(tmp_path / "source", columns="inputs=x")
    with pytest.raises(InputError, match="source has a column chosen of its own, as the marks have: rename it"):
        hub_of(coreset_of([1, 2], [1, 0]), settings, tmp_path / "hub", class_names="ab")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_from_shards_the_hub_dataset_has_the_images(tmp_path):
    images = {f"s{i}": png() for i in range(6)}
    with tarfile.open(tmp_path / "train-0.tar", "w") as shard:
        for i, (key, image) in enumerate(images.items()):
            for suffix, content in (("png", image), ("cls", b"ab"[i % 2 : i % 2 + 1])):
                member = tarfile.TarInfo(f"{key}.{suffix}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    settings = settings_of(tmp_path / "train-0.tar")
    hub_of(coreset_of(["s1", "s4"], [1, 0]), settings, tmp_path / "hub", class_names="ab")
    made = datasets.load_from_disk(tmp_path / "hub").cast_column("image", datasets.Image(decode=False))
    assert [row["image"]["bytes"] for row in made] == [images["s1"], images["s4"]]
    assert made["label"][:] == [1, 0]


@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_from_arrays_the_hub_dataset_has_the_values(tmp_path, kind):
    x = (
        RNG.normal(size=(6, 4)).astype(np.float32)
        if kind == "float32"
        else RNG.integers(0, 256, (6, 3, 4, 5), np.uint8)
    )
    np.savez(tmp_path / "a.npz", X=x, y=np.array(["b", "a"] * 3))
    hub_of(coreset_of([1, 4], [0, 1]), settings_of(tmp_path / "a.npz"), tmp_path / "hub", class_names="ab")
    made = datasets.load_from_disk(tmp_path / "hub").with_format("numpy")
    assert made["id"][:].tolist() == [1, 4]
    assert made["label"][:].tolist() == [0, 1]
    if kind == "uint8":  # pixels become PNG, which loses nothing
        assert isinstance(made.features["image"], datasets.Image)
        assert (np.stack(list(made["image"][:])) == x[[1, 4]].transpose(0, 2, 3, 1)).all()
    else:
        assert made["inputs"][:].dtype == np.float32
        assert (np.asarray(made["inputs"][:]) == x[[1, 4]]).all()


def test_from_a_made_dataset_the_hub_dataset_has_its_samples(tmp_path):
    settings = resolve(dataset="digits", overrides={"data.options.per_class": 20, "seed": 3})
    train = load_digits(3, per_class=20).train
    index = [0, 30, 199]
    coreset = Coreset(np.array(index), train.ids[index], train.numpy_labels[index], np.zeros(3, np.bool_))
    hub_of(coreset, settings, tmp_path / "hub", class_names=train.class_names)
    made = datasets.load_from_disk(tmp_path / "hub").with_format("numpy")
    assert made["id"][:].tolist() == train.ids[index].tolist()
    assert (np.stack(list(made["image"][:])) == train.inputs[index].numpy().transpose(0, 2, 3, 1)).all()


# --- what cannot be done ---


@pytest.mark.parametrize("export", [export_table, export_links, hub_of])
def test_an_input_that_changed_since_the_run_is_refused(table, tmp_path, export):
    def refused(ids, labels, message):
        with pytest.raises(InputError, match=message):
            export(coreset_of(ids, labels), settings_of(table), tmp_path / "k.csv", class_names=["cat", "dog"])
        assert not (tmp_path / "k.csv").exists()

    refused(["x1", "gone", "x9"], [0, 0, 1], "1 of the (coreset|run)'s 3 ids are not in t.csv, or not with the label")
    refused(["x1", "x9", "x5"], [0, 0, 0], "2 of the (coreset|run)'s 3 ids are not in t.csv, or not with the label")
    refused(["x1", "x9"], [0, 7], "1 of the (coreset|run)'s 2 ids")  # a coreset of other data
    table.unlink()
    refused(["x1", "x9"], [0, 1], "t.csv is missing")


def test_nothing_is_written_over(table, tmp_path):
    settings, coreset = settings_of(table), coreset_of(["x1", "x9"], [0, 1])
    names = {"class_names": ["cat", "dog"]}
    curves = np.ones((2, 2), np.float32)
    scores = Scores(coreset.ids, coreset.labels, curves[:, 0], curves[:, 0], coreset.g_high, curves)
    before = table.read_bytes()
    for write in (
        lambda: export_table(coreset, settings, table, **names),
        lambda: export_ids(coreset, table),
        lambda: export_scores(scores, table),
        lambda: export_links(coreset, settings, table.parent, **names),
        lambda: hub_of(coreset, settings, table.parent, **names),
        lambda: hub_of(coreset, settings, table, **names),
    ):
        with pytest.raises(InputError, match="exists already; choose another place, or delete it"):
            write()
    assert table.read_bytes() == before
    (tmp_path / "empty").mkdir()
    export_links(coreset, settings, tmp_path / "empty", **names)  # an empty folder is as good as none


# --- the command, on a run made once ---


ROWS = 60
RUN = ["--set", "train.epochs=10", "--set", "device.threads=1", "--device", "cpu", "--ratio", "0.3", "--quiet"]


@pytest.fixture(scope="module")
def run(tmp_path_factory, tcsl_command):
    """60 images of 8 x 8, with a table, and a run on it."""
    root = tmp_path_factory.mktemp("export")
    (root / "data" / "img").mkdir(parents=True)
    rows = ["file,species,ground,part,key,note"]
    for i in range(ROWS):
        label = i % 2
        ground = label if i % 10 > 1 else 1 - label
        pixels = RNG.integers(0, 60, (8, 8, 3), np.uint8)
        pixels[..., ground] += 150
        pixels[2 + 3 * label : 4 + 3 * label, 2:6] = 255
        (root / "data" / "img" / f"{i:02}.png").write_bytes(png(pixels))
        part = "train" if i < 40 else "dev" if i < 50 else "test"
        rows.append(f'img/{i:02}.png,{"ab"[label]},{"xy"[ground]},{part},k{i},"{i}, 0{i}"')
    (root / "data" / "t.csv").write_text("\n".join(rows) + "\n")
    columns = ["--columns", "label=species,group=ground,split=part,id=key"]
    methods = [word for name in ("cb_erm", "random", "tcsl_cs") for word in ("--method", name)]
    code, _, err = tcsl_command("run", root / "data" / "t.csv", *columns, *methods, "--out", root / "run", *RUN)
    assert code == 0, err
    return root / "run"


def test_everything_at_once(run, tmp_path, tcsl_command):
    places = [tmp_path / name for name in ("ids.txt", "kept.csv", "links", "hub", "scores.parquet")]
    forms = ("--ids", "--table", "--links", "--hub", "--scores")
    code, out, err = tcsl_command("export", run, *(word for pair in zip(forms, places, strict=True) for word in pair))
    assert code == 0, err
    kept = pl.read_parquet(run / "coreset.parquet")["id"].to_list()
    assert len(kept) == 12
    ids, table, links, hub, scores = places
    assert ids.read_text().splitlines() == kept
    whole = cells(run.parent / "data" / "t.csv")
    assert cells(table) == [whole[0], *(row for row in whole if row[4] in kept)]
    assert len(links_in(links)) == 12
    assert datasets.load_from_disk(hub)["id"][:] == kept
    assert pl.read_parquet(scores)["id"].to_list() == [f"k{i}" for i in range(40)]
    for form, place in zip(forms[:4], places[:4], strict=True):
        assert f"12 samples ({form[2:]}) are in {place}" in out
    assert f"the scores are in {scores}" in out
    assert f"the paths in {table} are relative to {run.parent / 'data'}: add --root" in out


def test_what_is_written_can_be_read_in_again(run, tmp_path, tcsl_command):
    places = ["--table", tmp_path / "k.csv", "--links", tmp_path / "k", "--hub", tmp_path / "hub"]
    assert tcsl_command("export", run, "--method", "random", *places)[0] == 0
    columns = {"label": "species", "id": "key", "split": "part"}
    data = run.parent / "data"
    sources = [
        tcsl.load(tmp_path / "k.csv", columns=columns, root=data, val_fraction=0).train,
        tcsl.load(tmp_path / "k", root=run.parent.parent.parent, val_fraction=0).train,
        tcsl.load(tmp_path / "hub", val_fraction=0).train,
    ]
    for source in sources:
        assert len(source) == 12
        assert source.class_names == ("a", "b")
    pixels = [sorted(image.numpy().tobytes() for image in source.inputs) for source in sources]
    assert pixels[0] == pixels[1] == pixels[2]


def test_another_methods_coreset_and_one_chosen_later(run, tmp_path, tcsl_command):
    assert tcsl_command("export", run, "--ids", tmp_path / "random.txt", "--method", "random")[0] == 0
    kept = pl.read_parquet(run / "coreset-random.parquet")["id"].to_list()
    assert (tmp_path / "random.txt").read_text().splitlines() == kept
    assert tcsl_command("select", run, "--ratio", "0.5", "--out", tmp_path / "half.parquet")[0] == 0
    code, _, err = tcsl_command("export", run, "--coreset", tmp_path / "half.parquet", "--table", tmp_path / "half.csv")
    assert code == 0, err
    assert len(cells(tmp_path / "half.csv")) == 1 + 20


def test_export_misused_is_one_clear_line(run, tmp_path, tcsl_command):
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "several").mkdir()
    (tmp_path / "several" / "summary.json").write_text("{}")
    new = tmp_path / "new.csv"
    for words, message in [
        ([run], "say what to write, with a path: --ids, --table, --links, --hub, --fiftyone, --csv, --scores"),
        ([tmp_path, "--ids", new], "is not a run folder"),
        ([tmp_path / "several", "--ids", new], f"holds several seeds: name one of them, such as {tmp_path}"),
        ([run, "--ids", new, "--table", tmp_path / "there.csv"], "there.csv exists already"),
        ([run, "--ids", new, "--links", tmp_path], "exists already"),
        ([run, "--ids", new, "--table", tmp_path / "k.xlsx"], "k.xlsx must end in .csv, .tsv, .parquet"),
        ([run, "--ids", new, "--scores", tmp_path / "k"], "must end in .csv, .tsv, .parquet"),
        ([run, "--ids", new, "--method", "cb_erm"], "has no coreset of cb_erm; it has those of random, tcsl_cs"),
        ([run, "--ids", new, "--coreset", tmp_path / "none.parquet"], "none.parquet does not exist"),
        ([run, "--ids", new, "--coreset", tmp_path / "there.csv"], "there.csv is not a Parquet file"),
    ]:
        code, out, err = tcsl_command("export", *words)
        assert code == 2, words
        assert err.startswith("error: "), words
        assert message in err, words
        assert "Traceback" not in err
        assert out == ""
        assert not new.exists(), words  # nothing is written before everything is in order
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_a_run_that_is_not_finished_has_no_coreset_yet(run, tmp_path, tcsl_command):
    part = tmp_path / "part"
    shutil.copytree(run, part)
    for name in ("done", "result.json", "coreset.parquet", "scores.parquet"):
        (part / name).unlink()
    for words, what in (
        (["--ids", tmp_path / "x"], "coreset of tcsl_cs"),
        (["--scores", tmp_path / "x.csv"], "scores"),
    ):
        code, _, err = tcsl_command("export", part, *words)
        assert code == 2
        assert f"{part} has no {what} yet: it is not finished, go on with the same command and --resume" in err


def test_tables_that_a_finished_run_has_lost_are_said_to_be_gone(run, tmp_path, tcsl_command):
    part = tmp_path / "part"
    shutil.copytree(run, part)
    for name in ("coreset.parquet", "scores.parquet"):
        (part / name).unlink()
    for words, name in (
        (["export", part, "--ids", tmp_path / "x"], "coreset.parquet"),
        (["export", part, "--scores", tmp_path / "x.csv"], "scores.parquet"),
        (["figures", part], "scores.parquet"),
        (["report", part], "scores.parquet"),
    ):
        code, _, err = tcsl_command(*words)
        assert code == 2
        assert f"{part / name} is gone: --resume (in Python, resume=True) makes it from the rest" in " ".join(
            err.split()
        )


def test_a_run_without_any_coreset_or_scores(run, tmp_path, tcsl_command):
    source = run.parent / "data" / "t.csv"
    columns = ["--columns", "label=species,split=part"]
    tcsl_command("run", source, *columns, "--method", "cb_erm", "--out", tmp_path / "erm", *RUN)
    assert (
        "has no scores: no method that scores was run"
        in tcsl_command("export", tmp_path / "erm", "--scores", tmp_path / "s.csv")[2]
    )
    assert (
        "make one with tcsl select, for --coreset"
        in tcsl_command("export", tmp_path / "erm", "--ids", tmp_path / "x")[2]
    )


def test_a_run_made_from_python_has_no_files_to_go_back_to(tmp_path, tcsl_command):
    X, y = RNG.normal(size=(40, 3)), np.arange(40) % 2
    tcsl.debias((X, y), 0.5, settings={"train.epochs": 10}, out=tmp_path / "run")
    for form in ("--links", "--hub"):
        code, _, err = tcsl_command("export", tmp_path / "run", form, tmp_path / "x")
        assert code == 2
        assert "was made from Python on data that only the caller has; use run.coreset there" in err
    assert tcsl_command("export", tmp_path / "run", "--ids", tmp_path / "i.txt", "--table", tmp_path / "t.csv")[0] == 0
    kept = [int(line) for line in (tmp_path / "i.txt").read_text().splitlines()]
    assert cells(tmp_path / "t.csv")[1:] == [
        [str(i), str(y[i]), g] for i, g in zip(kept, [row[2] for row in cells(tmp_path / "t.csv")[1:]], strict=True)
    ]


def test_a_table_that_changed_since_the_run_is_said(run, tmp_path, tcsl_command):
    data = tmp_path / "data"
    shutil.copytree(run.parent / "data", data)
    moved = tmp_path / "run"
    shutil.copytree(run, moved)
    config = (moved / "config.toml").read_text().replace(str(run.parent / "data"), str(data))
    (moved / "config.toml").write_text(config)
    assert tcsl_command("export", moved, "--table", tmp_path / "same.csv")[0] == 0
    kept = pl.read_parquet(run / "coreset.parquet")["id"].to_list()
    lines = (data / "t.csv").read_text().splitlines()
    (data / "t.csv").write_text("\n".join(line for line in lines if f",{kept[0]}," not in line) + "\n")
    code, _, err = tcsl_command("export", moved, "--table", tmp_path / "k.csv")
    assert code == 2
    assert "1 of the coreset's 12 ids are not in t.csv, or not with the label that they had: it has changed" in err
