"""`tcsl data`, and runs on one's own files, as a user types the commands."""

import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import datasets
import numpy as np
import polars as pl
import pytest
from PIL import Image

from tcsl.data import download
from tcsl.data.build_metashift import MAJORITY, MINORITY
from tcsl.data.download import Remote
from tcsl.data.folder import read_folder
from tcsl.data.known import Known
from tcsl.registry import DATASETS

RNG = np.random.default_rng(0)
TRAINING = ["--set", "train.epochs=10", "--set", "device.threads=1", "--device", "cpu", "--quiet"]


def plain(text):
    """Return what a table says, without its lines and without line breaks."""
    return " ".join(text.replace("│", " ").split())


def picture(label, ground, side=8):
    pixels = RNG.integers(0, 60, (side, side, 3), np.uint8)
    pixels[..., ground] += 150
    pixels[2 + 3 * label : 4 + 3 * label, 2:6] = 255
    return pixels


def encoded(pixels, form="png"):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, form)
    return stream.getvalue()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """60 images, 40 of them for training, in every kind of source; the ground goes with the label but for a tenth."""
    root = tmp_path_factory.mktemp("data")
    rows, images = [], []
    for i in range(60):
        label, split = i % 2, "train" if i < 40 else "val" if i < 50 else "test"
        ground = label if i % 10 > 1 else 1 - label
        images.append(picture(label, ground))
        row = {"path": f"img/{i:02}.png", "label": "ab"[label], "split": split, "place": "xy"[ground], "id": f"s{i}"}
        rows.append(row)
        for path in (root / row["path"], root / "folder" / split / row["label"] / f"{i:02}.png"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(images[-1]))
    table = pl.DataFrame(rows)
    table.write_csv(root / "t.csv")
    table.write_csv(root / "t.tsv", separator="\t")
    table.write_parquet(root / "t.parquet")
    table.write_ndjson(root / "t.jsonl")
    columns = {name: np.array(table[name]) for name in ("label", "split", "place", "id")}
    np.savez(root / "t.npz", X=np.stack(images), **columns)
    datasets.DatasetDict(
        {
            split: datasets.Dataset.from_dict(
                {
                    "image": [{"path": None, "bytes": encoded(images[i])} for i in part],
                    "label": [rows[i]["label"] for i in part],
                    "place": [rows[i]["place"] for i in part],
                }
            ).cast_column("image", datasets.Image())
            for split, part in (("train", range(40)), ("validation", range(40, 50)), ("test", range(50, 60)))
        }
    ).save_to_disk(root / "hub")
    (root / "shards").mkdir()
    for row, image in zip(rows, images, strict=True):
        with tarfile.open(root / "shards" / f"{row['split']}-000.tar", "a") as shard:
            for suffix, content in (
                ("png", encoded(image)),
                ("json", json.dumps(row | {"group": row["place"]}).encode()),
            ):
                member = tarfile.TarInfo(f"{row['id']}.{suffix}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    return root


# --- check ---


@pytest.mark.parametrize(
    "source", ["folder", "t.csv", "t.tsv", "t.parquet", "t.jsonl", "t.npz", "hub", "shards", "hf:hub"]
)
def test_check_tells_the_same_of_every_kind_of_source(data, source, monkeypatch, tcsl_command):
    monkeypatch.chdir(data)
    code, out, err = tcsl_command("data", "check", source)
    assert code == 0, err
    assert all(len(line) <= 80 for line in out.splitlines())
    shown = plain(out)
    assert "samples 60 " in shown
    assert "classes a: 30; b: 30" in shown
    assert "splits train: 40; val: 10; test: 10" in shown
    assert "class imbalance 1.0 : 1" in shown
    assert "bad samples 0" in shown
    assert "duplicates 0 exact copies" in shown
    assert "memory 7.7 kB of decoded training inputs" in shown
    assert "a run takes about" in shown
    code, out, _ = tcsl_command("data", "check", source, "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["samples"], report["classes"]) == (60, {"a": 30, "b": 30})
    assert report["splits"] == {"train": 40, "val": 10, "test": 10}
    assert report["duplicates"] == {"copies": 0, "across_splits": 0, "across_labels": 0, "first": []}
    assert report["estimate"]["bytes"] == 40 * 3 * 8 * 8
    if source == "t.npz":
        assert report["shape"] == [3, 8, 8]
    else:
        assert report["sizes"] == {"distinct": 1, "most": {"8 x 8": 60}}
        assert report["modes"] == {"RGB": 60}
    if source != "folder":
        assert report["groups"] == {"a, x": 16, "a, y": 4, "b, x": 4, "b, y": 16}


def test_check_ends_with_1_where_something_is_wrong(data, tmp_path, tcsl_command):
    folder = tmp_path / "folder"
    shutil.copytree(data / "folder", folder)
    shutil.copy(folder / "train" / "a" / "00.png", folder / "train" / "a" / "again.png")
    assert tcsl_command("data", "check", folder)[0] == 0  # a copy beside its like does no harm
    shutil.copy(folder / "train" / "a" / "00.png", folder / "test" / "a" / "leak.png")
    code, out, _ = tcsl_command("data", "check", folder)
    assert code == 1
    assert "2 exact copies; across splits 1, across labels 0" in plain(out)
    (folder / "test" / "a" / "leak.png").write_bytes(b"")
    code, out, _ = tcsl_command("data", "check", folder, "--json")
    assert code == 1
    assert json.loads(out)["bad"]["first"] == [["test/a/leak.png", "is empty (0 bytes)"]]


def test_check_without_images_needs_none(data, tmp_path, tcsl_command):
    table = tmp_path / "t.csv"
    shutil.copy(data / "t.csv", table)  # the images are elsewhere
    code, out, _ = tcsl_command("data", "check", table, "--no-images")
    assert code == 0
    assert "images not opened" in plain(out)
    assert "classes a: 30; b: 30" in plain(out)
    code, _, err = tcsl_command("data", "check", table)
    assert code == 2
    assert "none of its 60 files is in" in err


def test_check_of_known_datasets(tmp_path, tcsl_command):
    birds = tmp_path / "waterbirds_v1.0"
    birds.mkdir()
    lines = ["img_id,img_filename,y,split,place,place_filename"]
    for i in range(24):
        y, place, split = i % 2, (i // 2) % 2, i // 8
        lines.append(f"{i + 1},{i}.jpg,{y},{split},{place},x")
        (birds / f"{i}.jpg").write_bytes(encoded(picture(y, place, side=20 + i), "jpeg"))
    (birds / "metadata.csv").write_text("\n".join(lines) + "\n")
    code, _, err = tcsl_command("data", "check", "waterbirds", "--root", tmp_path)
    assert code == 2
    assert "is not the official one" in err
    small = ["--set", "data.options.check=false", "--set", "train.net=small_cnn"]
    code, out, err = tcsl_command("data", "check", "waterbirds", "--root", tmp_path, *small)
    assert code == 0, err
    shown = plain(out)
    assert "classes landbird: 12; waterbird: 12" in shown
    assert "training groups landbird, land: 2; landbird, water: 2; waterbird, land: 2; waterbird, water: 2" in shown
    assert "19 other sizes" in shown
    assert "small_cnn, 300 epochs" in shown  # the dataset's own settings
    assert f"memory {8 * 3 * 224 * 224 / 1e6:.1f} MB" in shown  # what a run makes of them
    (birds / "3.jpg").unlink()
    code, out, _ = tcsl_command("data", "check", "waterbirds", "--root", tmp_path, *small)
    assert code == 1
    assert "3.jpg is missing" in plain(out)


def test_check_of_datasets_that_are_made(tmp_path, tcsl_command):
    code, out, err = tcsl_command("data", "check", "digits", "--set", "data.options.per_class=20")
    assert code == 0, err
    assert "splits train: 200; val: 3,000; test: 12,970" in plain(out)
    assert "input shape 3 x 8 x 8, uint8" in plain(out)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, n in (("train", 400), ("t10k", 100)):
        images, labels = RNG.integers(0, 256, (n, 28, 28), np.uint8), (np.arange(n) % 10).astype(np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (raw / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes(), 1))
    options = [word for one in ("check=false", "size=300", "alpha=0.9") for word in ("--set", f"data.options.{one}")]
    words = ["--root", tmp_path, *options, "--set", "train.net=small_cnn", "--json"]
    code, out, err = tcsl_command("data", "check", "cmnist", *words)
    assert code == 0, err
    assert json.loads(out)["splits"] == {"train": 300, "val": 100, "test": 100}


# --- runs on one's own files ---


def test_models_are_not_evaluated_on_data_that_have_changed(data, tmp_path, tcsl_command):
    """A label that was mended since the run would give another accuracy under the run's name."""
    shutil.copytree(data, tmp_path / "data")
    table = tmp_path / "data" / "t.csv"
    assert tcsl_command("run", table, "--out", tmp_path / "run", "--method", "cb_erm", *TRAINING)[0] == 0
    lines = table.read_text().splitlines()
    head = lines[0].split(",")
    label, split = head.index("label"), head.index("split")
    at = next(i for i, line in enumerate(lines) if line.split(",")[split] == "test")
    cells = lines[at].split(",")
    cells[label] = next(one.split(",")[label] for one in lines[1:] if one.split(",")[label] != cells[label])
    table.write_text("\n".join([*lines[:at], ",".join(cells), *lines[at + 1 :]]) + "\n")
    code, _, err = tcsl_command("evaluate", tmp_path / "run")
    assert code == 2
    assert "the test data of" in err
    assert "have changed since the run" in err


def test_a_table_from_first_look_to_model_from_another_folder(data, tmp_path, monkeypatch, tcsl_command):
    """With a relative path; later commands are given in other folders."""
    monkeypatch.chdir(data / "img")
    run = tmp_path / "run"
    words = ["run", "../t.csv", "--ratio", "0.3", "--out", run, *TRAINING]
    code, out, err = tcsl_command(*words)
    assert code == 0, err
    assert "TCSL-CS" in out
    result = (run / "result.json").read_bytes()
    assert tcsl_command(*words)[0] == 2  # it is there
    monkeypatch.chdir(tmp_path)
    code, out, err = tcsl_command("run", os.path.relpath(data / "t.csv"), *words[2:], "--resume")  # the same table
    assert code == 0, err
    assert (run / "result.json").read_bytes() == result
    assert "WGA" in tcsl_command("show", "run")[1]
    code, out, err = tcsl_command("evaluate", "run", "--json")
    assert code == 0, err
    stored = json.loads(result)["evaluation"]["tcsl_cs"]
    assert json.loads(out)["tcsl_cs"]["average"] == stored["average"]
    coreset = ["--coreset", run / "coreset-random.parquet"]
    assert (
        tcsl_command(
            "run", data / "t.csv", "--method", "random", "--ratio", "0.3", "--out", run.with_name("r"), *TRAINING
        )[0]
        == 0
    )
    coreset = ["--coreset", "r/coreset-random.parquet"]
    code, out, err = tcsl_command("train", data / "t.csv", *coreset, "--out", "model", *TRAINING, "--json")
    assert code == 0, err
    assert json.loads(out)["final"]["n"] == 10
    assert json.loads(tcsl_command("evaluate", "model", "--json")[1])["final"] == json.loads(out)["final"]
    code, out, err = tcsl_command("score", data / "t.csv", "--out", "scores", *TRAINING)
    assert code == 0, err
    assert "scored 40 samples" in out
    assert (tmp_path / "scores" / "scores.parquet").read_bytes() == (run / "scores.parquet").read_bytes()


@pytest.mark.parametrize("source", ["folder", "t.npz", "hub", "shards"])
def test_every_other_kind_of_source_is_scored(data, source, tmp_path, tcsl_command):
    code, out, err = tcsl_command("score", data / source, "--out", tmp_path / "run", *TRAINING)
    assert code == 0, err
    assert "scored 40 samples" in out
    assert pl.read_parquet(tmp_path / "run" / "scores.parquet")["id"].n_unique() == 40


def test_bad_samples_stop_a_run_or_are_left_out_and_recorded(data, tmp_path, tcsl_command):
    shutil.copytree(data, tmp_path / "data")
    (tmp_path / "data" / "img" / "04.png").write_bytes(b"text")
    words = ["score", tmp_path / "data" / "t.csv", "--out", tmp_path / "run", *TRAINING]
    code, _, err = tcsl_command(*words)
    assert code == 2
    assert "1 bad sample: img/04.png is not an image. Mend it, or leave it out with --on-bad skip" in err
    assert not (tmp_path / "run").exists()
    code, out, err = tcsl_command(*words, "--on-bad", "skip")
    assert code == 0, err
    assert "scored 39 samples" in out
    assert "left out 1 bad sample: img/04.png is not an image" in err
    assert json.loads((tmp_path / "run" / "data.json").read_text())["read"]["skipped"] == [
        ["img/04.png", "is not an image"]
    ]


# --- get ---


class Handler(BaseHTTPRequestHandler):
    """Serves the server's `files`; a request for a file in `drops` ends after so many bytes, once."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        site, name = self.server, self.path.strip("/")
        site.seen.append((name, self.headers["Range"]))
        self.close_connection = True
        content = site.files[name]
        start = int((self.headers["Range"] or "bytes=0-")[6:-1])
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        limit = site.drops.pop(name, None)
        self.wfile.write(content[start:] if limit is None else content[start : start + limit])
        self.wfile.flush()
        if limit is not None:
            site.go_on.wait(60)


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.drops, server.seen, server.go_on = {}, {}, [], threading.Event()
    server.go_on.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.go_on.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def archives(data, tmp_path_factory):
    """The folder of images in two archives: training and validation, and test."""
    made = {}
    for name, parts in (("one.tar.gz", ("train", "val")), ("two.tar.gz", ("test",))):
        path = tmp_path_factory.mktemp("archives") / name
        with tarfile.open(path, "w:gz") as tar:
            for part in parts:
                tar.add(data / "folder" / part, part)
            noise = tarfile.TarInfo("noise")  # so that there is something to send
            noise.size = 300_000
            tar.addfile(noise, io.BytesIO(RNG.bytes(noise.size)))
        made[name] = path.read_bytes()
    return made


def toy(site, **more):
    """Return a known dataset whose files are on the site."""
    remotes = tuple(
        (
            Remote(
                f"http://127.0.0.1:{site.server_port}/{name}", name, f"sha256:{hashlib.sha256(content).hexdigest()}"
            ),
            "toy/images",
        )
        for name, content in site.files.items()
    )

    def read(*, root="", on_bad="error"):
        return read_folder(Path(root) / "toy" / "images", root=None, on_bad=on_bad)

    settings = {"title": "a toy", "read": read, "markers": ("toy/images/test",), "remotes": remotes} | more
    return Known(**settings)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_get_downloads_over_a_line_that_drops_unpacks_and_is_done(
    site, archives, data, tmp_path, monkeypatch, tcsl_command
):
    site.files.update(archives)
    site.drops["two.tar.gz"] = 100_000
    monkeypatch.setitem(DATASETS._places, "toy", toy(site))
    assert json.loads(tcsl_command("data", "list", "--root", tmp_path, "--json")[1])["toy"] == {
        "title": "a toy",
        "present": False,
    }
    code, out, err = tcsl_command("data", "get", "toy", "--root", tmp_path)
    assert code == 0, err
    assert f"toy is here, in {tmp_path}: tcsl run toy --root {tmp_path}" in out
    found = contents(tmp_path / "toy" / "images")
    del found["noise"]
    assert found == contents(data / "folder")  # and nothing else: no archive, no part, no lock
    assert site.seen == [("one.tar.gz", None), ("two.tar.gz", None), ("two.tar.gz", "bytes=100000-")]
    assert json.loads(tcsl_command("data", "list", "--root", tmp_path, "--json")[1])["toy"]["present"]
    code, out, _ = tcsl_command("data", "get", "toy", "--root", tmp_path)  # again: nothing to do
    assert (code, len(site.seen)) == (0, 3)
    assert "toy is here" in out
    code, out, err = tcsl_command("data", "check", "toy", "--root", tmp_path, "--no-images")
    assert "splits train: 40; val: 10; test: 10" in plain(out), err


def test_a_wrong_checksum_is_said_and_nothing_is_unpacked(site, archives, tmp_path, monkeypatch, tcsl_command):
    site.files.update(archives)
    monkeypatch.setitem(DATASETS._places, "toy", toy(site))
    site.files["one.tar.gz"] = archives["two.tar.gz"]
    code, out, err = tcsl_command("data", "get", "toy", "--root", tmp_path)
    assert code == 2
    assert out == ""
    assert "one.tar.gz: it is not the file it should be: expected sha256:" in err
    assert "or download it by hand to" in err
    assert not list(tmp_path.rglob("*.png"))
    site.files.update(archives)
    assert tcsl_command("data", "get", "toy", "--root", tmp_path)[0] == 0


SCRIPT = """
import sys
from pathlib import Path
from tcsl.cli import main
from tcsl.data.download import Remote
from tcsl.data.known import Known
from tcsl.registry import DATASETS
port, *names = sys.argv[1].split(",")
remotes = tuple((Remote(f"http://127.0.0.1:{port}/{name}", name), "toy/images") for name in names)
DATASETS.add("toy", Known(title="a toy", markers=("toy/images/test",), remotes=remotes))
sys.argv = ["tcsl", *sys.argv[2:]]
main()
"""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_get_that_was_stopped_goes_on(site, archives, tmp_path, kill, monkeypatch, tcsl_command):
    site.files.update(archives)
    site.drops["two.tar.gz"] = 100_000
    site.go_on.clear()  # it keeps silent after these bytes
    words = ["data", "get", "toy", "--root", str(tmp_path)]
    command = [sys.executable, "-c", SCRIPT, ",".join([str(site.server_port), *archives]), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    part = tmp_path / "toy" / "images" / "two.tar.gz.part"
    while process.poll() is None and not (part.exists() and part.stat().st_size == 100_000):
        time.sleep(0.01)
    process.send_signal(kill)
    out, err = process.communicate(timeout=60)
    site.go_on.set()
    assert out == ""
    assert "Traceback" not in err
    if kill == signal.SIGINT:
        assert process.returncode == 130
    monkeypatch.setitem(DATASETS._places, "toy", toy(site))
    code, out, err = tcsl_command(*words)
    assert code == 0, err
    assert "toy is here" in out
    # The archive that had come is not asked for again, the other goes on.
    assert site.seen == [("one.tar.gz", None), ("two.tar.gz", None), ("two.tar.gz", "bytes=100000-")]
    assert len(list(tmp_path.rglob("*.png"))) == 60
    assert not list(tmp_path.rglob("*.tar.gz*"))


def test_what_is_got_by_hand_is_said_and_ends_with_1(site, archives, tmp_path, monkeypatch, tcsl_command):
    for name in ("metashift", "urbancars", "urbancars_b"):
        code, out, err = tcsl_command("data", "get", name, "--root", tmp_path)
        assert (code, err) == (1, "")
        assert out.startswith(f"{name} is not in {tmp_path} yet: ")
        assert "tcsl data build" in out or f"Put the folders that it writes into {tmp_path}/urbancars" in out
    # One part by download, one by hand: what was downloaded is not downloaded again.
    site.files.update(archives)
    known = toy(site, markers=("toy/by-hand.csv",), by_hand="put by-hand.csv into ROOT/toy")
    monkeypatch.setitem(DATASETS._places, "toy", known)
    for _ in range(2):
        code, out, _ = tcsl_command("data", "get", "toy", "--root", tmp_path)
        assert code == 1
        assert f"toy is not in {tmp_path} yet: put by-hand.csv into {tmp_path}/toy" in out
    assert len(site.seen) == 2


def test_an_archive_that_does_not_hold_the_dataset_is_said(site, archives, tmp_path, monkeypatch, tcsl_command):
    site.files.update(archives)
    monkeypatch.setitem(DATASETS._places, "toy", toy(site, markers=("toy/other",)))
    code, out, _ = tcsl_command("data", "get", "toy", "--root", tmp_path)
    assert code == 1
    assert f"{tmp_path}/toy/other is missing" in out


def test_digits_need_nothing(tmp_path, tcsl_command):
    assert tcsl_command("data", "get", "digits", "--root", tmp_path) == (
        0,
        "digits needs no files: tcsl run digits\n",
        "",
    )


def test_list_shows_what_is_known_and_here(tmp_path, tcsl_command):
    (tmp_path / "waterbirds_v1.0").mkdir()
    (tmp_path / "waterbirds_v1.0" / "metadata.csv").touch()
    code, out, _ = tcsl_command("data", "list", "--root", tmp_path)
    assert code == 0
    assert all(len(line) <= 80 for line in out.splitlines())
    shown = plain(out)
    assert "waterbirds yes birds on land or water" in shown
    assert "digits yes coloured" in shown
    assert "cmnist no digits in colours" in shown
    found = json.loads(tcsl_command("data", "list", "--root", tmp_path, "--json")[1])
    assert {name for name, one in found.items() if one["present"]} == {"digits", "waterbirds"}
    assert set(found) == set(DATASETS.names())


# --- cache ---


def test_the_cache_is_shown_and_emptied(data, tmp_path, monkeypatch, tcsl_command):
    monkeypatch.setenv("TCSL_CACHE", str(tmp_path / "cache"))
    empty = {"folder": str(tmp_path / "cache"), "entries": 0, "bytes": 0, "freed": 0}
    assert json.loads(tcsl_command("data", "cache", "--json")[1]) == empty
    assert "deleted 0" in tcsl_command("data", "cache", "--clear")[1]
    assert tcsl_command("score", data / "t.csv", "--out", tmp_path / "run", *TRAINING)[0] == 0
    found = json.loads(tcsl_command("data", "cache", "--json")[1])
    assert found == empty | {"entries": 1, "bytes": 40 * 8 * 8 * 3}  # scores need no more than the training set
    assert f"1 decoded set, 7.7 kB, in {tmp_path / 'cache'} (TCSL_CACHE)" in tcsl_command("data", "cache")[1]
    assert json.loads(tcsl_command("data", "cache", "--clear", "--json")[1])["freed"] >= 40 * 8 * 8 * 3
    assert list((tmp_path / "cache").iterdir()) == []
    assert tcsl_command("evaluate", tmp_path / "run")[0] == 2  # scores only: but the images were decoded again
    assert json.loads(tcsl_command("data", "cache", "--json")[1])["entries"] == 3


# --- build ---


def test_build_waterbirds_from_its_sources(tmp_path, tcsl_command):
    cub, places = tmp_path / "CUB_200_2011", tmp_path / "places"
    names = [f"{species}/{i:02}.jpg" for species in ("001.Gull", "002.Cardinal") for i in range(20)]
    for name in names:
        for place in (cub / "images" / name, (cub / "segmentations" / name).with_suffix(".png")):
            place.parent.mkdir(parents=True, exist_ok=True)
        (cub / "images" / name).write_bytes(encoded(picture(0, 0, side=16), "jpeg"))
        (cub / "segmentations" / name).with_suffix(".png").write_bytes(encoded(picture(1, 1, side=16)[..., 0]))
    (cub / "images.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(names, start=1)))
    (cub / "train_test_split.txt").write_text("".join(f"{i} {int(i % 20 < 15)}\n" for i in range(1, 41)))
    for category in ("b/bamboo_forest", "f/forest/broadleaf", "o/ocean", "l/lake/natural"):
        (places / "data_large" / category).mkdir(parents=True)
        for i in range(15):
            (places / "data_large" / category / f"{i}.jpg").write_bytes(encoded(picture(0, 2, side=12), "jpeg"))
    words = ["data", "build", "waterbirds", "--cub", cub, "--places", places, "--root", tmp_path / "root"]
    code, out, err = tcsl_command(*words)
    assert code == 0, err
    made = tmp_path / "root" / "waterbirds_v1.0"
    assert out == f"waterbirds is in {made}: tcsl run waterbirds --root {tmp_path / 'root'}\n"
    before = contents(made)
    assert len(before) == 1 + 3 * 40
    assert tcsl_command(*words)[0] == 0
    assert contents(made) == before
    assert "waterbirds is here" in tcsl_command("data", "get", "waterbirds", "--root", tmp_path / "root")[1]
    small = ["--set", "data.options.check=false", "--set", "train.net=small_cnn"]
    code, out, err = tcsl_command("data", "check", "waterbirds", "--root", tmp_path / "root", *small, "--json")
    assert json.loads(out)["samples"] == 40, err
    code, _, err = tcsl_command(*words[:3], "--cub", tmp_path, *words[5:])
    assert code == 0  # all is there: the sources are not needed
    code, _, err = tcsl_command(*words[:3], "--cub", tmp_path, "--places", places, "--root", tmp_path / "other")
    assert code == 2
    assert "give the unpacked CUB_200_2011 with --cub" in err


def test_build_metashift_from_its_sources(tmp_path, tcsl_command):
    groups = MINORITY | MAJORITY
    subsets = {f"{group[:3]}({thing})": set() for group in groups for thing in groups[group].split(", ")}
    for number, (group, size) in enumerate(zip(groups, (294, 294, 994, 994), strict=True), start=1):
        subsets[f"{group[:3]}({groups[group].split(', ')[0]})"] |= {f"{number}{i:04}" for i in range(size)}
    # Where both a minority and a majority group have the thing, the minority keeps its images: the names above differ.
    subsets["cat(dog)"] = set()
    (tmp_path / "subsets.pkl").write_bytes(pickle.dumps(subsets))
    images = tmp_path / "images"
    images.mkdir()
    (tmp_path / "image.jpg").write_bytes(encoded(picture(0, 0), "jpeg"))
    for image in set().union(*subsets.values()):
        os.link(tmp_path / "image.jpg", images / f"{image}.jpg")
    words = ["--images", images, "--metadata", tmp_path / "subsets.pkl", "--root", tmp_path / "root"]
    code, out, err = tcsl_command("data", "build", "metashift", *words)
    assert code == 0, err
    made = tmp_path / "root" / "MetaShift-subpopulation-shift"
    assert out == f"metashift is in {made}: tcsl run metashift --root {tmp_path / 'root'}\n"
    code, out, err = tcsl_command("data", "check", "metashift", "--root", tmp_path / "root", "--no-images", "--json")
    assert code == 0, err
    assert json.loads(out)["groups"] == {
        "cat, indoor": 750,
        "cat, outdoor": 100,
        "dog, indoor": 100,
        "dog, outdoor": 750,
    }
    code, _, err = tcsl_command(
        "data", "build", "metashift", "--images", tmp_path, *words[2:4], "--root", tmp_path / "other"
    )
    assert code == 0, err  # a folder that holds them as images/
    code, _, err = tcsl_command(
        "data", "build", "metashift", "--images", made, *words[2:4], "--root", tmp_path / "third"
    )
    assert code == 2
    assert "and 2,266 more" in err
    assert "with --images" in err


# --- misuse ---


def test_misuse_is_one_clear_line(data, tmp_path, monkeypatch, tcsl_command):
    monkeypatch.chdir(data)
    (tmp_path / "empty").mkdir()
    (tmp_path / "flat").mkdir()
    shutil.copy(data / "img" / "00.png", tmp_path / "flat")
    (tmp_path / "text" / "a").mkdir(parents=True)
    (tmp_path / "text" / "a" / "x.txt").write_text("x")
    (tmp_path / "x.docx").write_text("x")
    (tmp_path / "damaged.parquet").write_text("x")
    (tmp_path / "file").write_text("x")
    out = ["--out", tmp_path / "run"]
    for words, message in [
        (["data", "check", "digit"], "unknown dataset 'digit'; did you mean 'digits'?"),
        (["data", "get", "waterbird"], "unknown dataset 'waterbird'; did you mean 'waterbirds'?"),
        (["data", "check", "none.csv"], "none.csv is missing"),
        (["data", "check", tmp_path / "none" / "x"], "is missing: give a folder of class folders, a table"),
        (["run", tmp_path / "none.npz", *out], "none.npz is missing"),
        (["data", "check", tmp_path / "empty"], "empty has no class folders; it must look like"),
        (["data", "check", tmp_path / "flat"], "flat has no class folders; it must look like"),
        (["data", "check", tmp_path / "text"], "1 bad sample: a/x.txt"),
        (["data", "check", tmp_path / "x.docx"], "x.docx is of no kind that can be read"),
        (["data", "check", tmp_path / "damaged.parquet"], "is not a Parquet file, or it is damaged"),
        (
            ["data", "check", "t.csv", "--columns", "nonsense"],
            "--columns looks like label=y,group=place, got 'nonsense'",
        ),
        (["data", "check", "t.csv", "--columns", "lable=y"], "unknown kind of column 'lable'; did you mean 'label'?"),
        (["data", "check", "t.csv", "--columns", "label=plase"], "did you mean 'place' or 'label'?"),
        (
            ["score", "t.csv", "--on-bad", "nonsense", *out],
            "data.on_bad = 'nonsense': input should be 'error' or 'skip'",
        ),
        (["data", "check", "waterbirds", "--root", tmp_path / "none"], "`tcsl data get waterbirds --root"),
        (["data", "check", "t.csv", "--root", tmp_path / "none"], "none is missing"),
        (["data", "get", "cmnist", "--root", tmp_path / "file"], "could not write"),
        (["data", "check", "t.csv", "--set", "data.transform=big"], "unknown transform 'big'"),
    ]:
        code, shown, err = tcsl_command(*words)
        assert code == 2, words
        assert err.splitlines()[-1].startswith("error: "), words
        assert message in err, (words, err)
        assert "Traceback" not in err
        assert shown == "", words


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read_are_said(data, tmp_path, tcsl_command):
    shutil.copytree(data, tmp_path / "data")
    (tmp_path / "data" / "img" / "04.png").chmod(0)
    code, out, _ = tcsl_command("data", "check", tmp_path / "data" / "t.csv")
    assert code == 1
    assert "img/04.png cannot be read (Permission denied)" in plain(out)
    (tmp_path / "data" / "t.csv").chmod(0)
    code, _, err = tcsl_command("data", "check", tmp_path / "data" / "t.csv")
    assert code == 2
    assert "Permission denied" in err


def test_ctrl_c_while_decoding_is_clean_and_the_next_run_goes_on(tmp_path):
    """On one core images are decoded in order, 64 at a time: once the 129th is there, the first 64 are noted."""
    images, cache, side = tmp_path / "images", tmp_path / "cache", 16
    for label in "ab":
        (images / label).mkdir(parents=True)
        large = Image.fromarray(RNG.integers(1, 256, (50, 50, 3), np.uint8)).resize((1200, 1200))
        large.save(tmp_path / f"{label}.jpg")
        for i in range(200):
            os.link(tmp_path / f"{label}.jpg", images / label / f"{i}.jpg")
    words = ["score", images, "--out", tmp_path / "run", "--set", f"data.transform=resize:{side}", *TRAINING]
    command = [sys.executable, "-m", "tcsl", *map(str, words), "--set", "data.val_fraction=0"]
    environment = {**os.environ, "TCSL_CACHE": str(cache)}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )

    def begun():
        return any(part.read_bytes()[128 * side * side * 3 :].strip(b"\0") for part in cache.glob("*.part"))

    while process.poll() is None and not begun():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert out == ""
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()
    assert 64 <= json.loads(next(cache.glob("*.part.json")).read_text())["done"] < 400
    # What was decoded is not decoded again: its bytes are no image now, and that goes unseen.
    first = images / "a" / "0.jpg"
    stamp = first.stat()
    first.unlink()
    first.write_bytes(bytes(stamp.st_size))
    os.utime(first, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    second = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert second.returncode == 0, second.stderr
    assert "scored 400 samples" in second.stdout
