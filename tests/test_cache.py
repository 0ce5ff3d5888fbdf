"""Decoded images: once, whole, and the same bytes whatever happened on the way."""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter, namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import CenterCrop, Compose, Resize

import tcsl
from tcsl.data import cache
from tcsl.data.cache import decode
from tcsl.data.dataset import make_dataset
from tcsl.data.images import Images, files
from tcsl.data.splits import hold_out
from tcsl.data.transform import parse_transform
from tcsl.errors import InputError, TcslWarning


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Give every test a cache of its own."""
    monkeypatch.setenv("TCSL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def noise(i, size=(5, 4)):
    return Image.fromarray(np.random.default_rng(i).integers(0, 256, (size[1], size[0], 3), np.uint8))


def png(image):
    stream = io.BytesIO()
    image.save(stream, "png")
    return stream.getvalue()


class Source:
    """Images in memory that tell which of them were read."""

    def __init__(self, contents):
        self.contents = list(contents)
        self.reads = []

    def read(self, row):
        self.reads.append(row)
        if isinstance(self.contents[row], OSError):
            raise self.contents[row]
        return self.contents[row]

    def stamp(self, row):
        return hashlib.sha256(repr(self.contents[row]).encode()).hexdigest()

    @property
    def images(self):
        n = len(self.contents)
        return Images(np.array([f"image {i}" for i in range(n)], object), self.read, self.stamp, np.arange(n))

    def decode(self, transform="auto", **more):
        self.reads = []
        return decode(self.images, transform, name="test", **more)


def pictures(n, size=(5, 4)):
    return Source(png(noise(i, size)) for i in range(n))


def pixels(image):
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


def digest_from_scratch(inputs):
    """Return what `Dataset.inputs_digest` is of a copy in ordinary memory."""
    return make_dataset(inputs.clone(), torch.zeros(len(inputs)), test=True).inputs_digest


# --- once ---


def test_images_come_out_as_they_went_in():
    found = pictures(150).decode()
    assert found.inputs.shape == (150, 3, 4, 5)
    assert found.inputs.dtype == torch.uint8
    assert all(torch.equal(found.inputs[i], pixels(noise(i))) for i in range(150))
    assert found.kept.tolist() == list(range(150))
    assert found.bad == []
    assert found.facts == {"transform": "none", "converted": {}}


@pytest.mark.parametrize("transform", ["auto", "none", "resize:8,crop:6"])
def test_a_second_load_reads_no_image(transform):
    source = pictures(150)
    first = source.decode(transform)
    assert set(source.reads) == set(range(150))
    second = source.decode(transform)
    assert source.reads == []
    assert torch.equal(first.inputs, second.inputs)
    assert (first.digest, first.facts) == (second.digest, second.facts)


def test_each_image_is_decoded_once_but_the_first_whose_size_is_looked_at():
    source = pictures(150)
    source.decode()
    assert Counter(source.reads) == Counter(range(150)) + Counter([0])


def test_a_second_load_reads_no_image_where_the_last_one_has_another_size():
    source = pictures(150)
    source.contents[-1] = png(noise(0, (6, 4)))
    first = source.decode(fallback="resize:8")
    assert first.facts["transform"] == "resize:8"
    assert source.decode(fallback="resize:8").digest == first.digest
    assert source.reads == []


def test_another_transform_is_another_entry():
    source = pictures(10)
    shapes = [source.decode(transform).inputs.shape[2:] for transform in ("none", "resize:8", "resize:8,crop:6")]
    assert shapes == [(4, 5), (8, 8), (6, 6)]
    assert len(cache.entries()) == 3
    assert [entry.size for entry in cache.entries()] == [entry.path.stat().st_size for entry in cache.entries()]
    assert sorted(entry.size for entry in cache.entries()) == [10 * 3 * 4 * 5, 10 * 3 * 6 * 6, 10 * 3 * 8 * 8]


def folder_of(place, n=10, size=(5, 4)):
    place.mkdir(parents=True, exist_ok=True)
    for i in range(n):
        noise(i, size).save(place / f"{i}.png")
    return files(place, [f"{i}.png" for i in range(n)])


def test_a_changed_file_is_decoded_again(tmp_path):
    images = folder_of(tmp_path / "a")
    before = decode(images, "auto", name="test")
    noise(99).save(tmp_path / "a" / "3.png")
    after = decode(images, "auto", name="test")
    assert torch.equal(after.inputs[3], pixels(noise(99)))
    assert after.digest != before.digest
    assert len(cache.entries()) == 2
    os.utime(tmp_path / "a" / "3.png", ns=(1, 1))  # the size stays
    assert decode(images, "auto", name="test").digest == after.digest
    assert len(cache.entries()) == 3


def test_only_the_training_images_are_decoded_where_only_they_are_wanted(tmp_path):
    data = tmp_path / "data"
    for split in ("train", "val", "test"):
        for label in ("a", "b"):
            (data / split / label).mkdir(parents=True)
            for i in range(4):
                noise(i).save(data / split / label / f"{i}.png")
    (data / "test" / "a" / "0.png").write_bytes(b"no image")
    found = tcsl.load(data, only_train=True)
    assert (len(found.train), found.val, found.test) == (8, None, None)
    with pytest.raises(InputError, match=r"0\.png"):
        tcsl.load(data)


def test_folders_whose_files_look_the_same_are_told_apart(tmp_path):
    """Archives often give all files one time, and images without compression have one size."""
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(3):
            noise(i + 10 * (name == "b")).save(tmp_path / name / f"{i}.bmp")
            os.utime(tmp_path / name / f"{i}.bmp", ns=(1, 1))
        found.append(decode(files(tmp_path / name, [f"{i}.bmp" for i in range(3)]), "auto", name=name))
    assert torch.equal(found[0].inputs[1], pixels(noise(1)))
    assert torch.equal(found[1].inputs[1], pixels(noise(11)))


def test_an_entry_that_lost_its_images_is_made_again():
    source = pictures(150)
    expected = source.decode().digest
    (entry,) = cache.entries()
    entry.path.unlink()
    assert source.decode().digest == expected
    assert set(source.reads) == set(range(150))
    os.truncate(entry.path, 100)
    assert source.decode().digest == expected
    assert len(entry.path.read_bytes()) == 150 * 60


def test_the_cache_can_be_cleared(own_cache):
    assert cache.entries() == []
    assert cache.clear() == 0
    pictures(10).decode()
    pictures(20).decode()
    assert cache.clear() > 30 * 60
    assert list(own_cache.iterdir()) == []


def test_no_other_file_stays(own_cache):
    pictures(150).decode()
    assert sorted(path.suffix for path in own_cache.iterdir()) == [".images", ".json"]


# --- several processes, kills ---

SCRIPT = """
import os, signal, sys
from pathlib import Path

import tcsl
from tcsl.data import cache
from tcsl.data.images import Images, files

folder, n, log = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
listed = files(folder, [f"{i}.png" for i in range(n)])
rows = open(log, "a", buffering=1)


def read(row):
    rows.write(f"{row}\\n")
    on_read(row)
    return listed.read(row)


def on_read(row):
    pass


def progress(what, done, of):
    pass


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


%s
images = Images(listed.names, read, listed.stamp, listed.rows, listed.path)
print(cache.decode(images, "auto", name="test", progress=lambda *at: progress(*at)).digest)
"""


def start(tmp_path, n, log, code=""):
    arguments = [sys.executable, "-c", SCRIPT % code, str(tmp_path / "images"), str(n), str(tmp_path / log)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed(tmp_path, n, log, code):
    """Run until the code kills the process."""
    process = start(tmp_path, n, log, code)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def rows_in(tmp_path, log):
    return [int(row) for row in (tmp_path / log).read_text().split()]


def resumed(tmp_path, images):
    """Decode here and return the result and which images were read for it."""
    reads = []

    def read(row):
        reads.append(row)
        return images.read(row)

    counted = Images(images.names, read, images.stamp, images.rows, images.path)
    return decode(counted, "auto", name="test"), reads


def decoded_elsewhere(tmp_path, images, monkeypatch):
    """Return what an undisturbed decoding gives, and its file's bytes."""
    with monkeypatch.context() as context:
        context.setenv("TCSL_CACHE", str(tmp_path / "undisturbed"))
        found = decode(images, "auto", name="test")
        return found, cache.entries()[0].path.read_bytes()


def test_processes_that_start_together_decode_each_image_once(tmp_path):
    images = folder_of(tmp_path / "images", 300)
    wait = "print('ready', flush=True); sys.stdin.readline()"
    processes = [start(tmp_path, 300, f"log{i}", wait) for i in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    digests = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    found, reads = resumed(tmp_path, images)
    assert reads == []
    assert digests == {found.digest}
    logs = [rows_in(tmp_path, f"log{i}") for i in range(3)]
    assert sorted(map(len, logs)) == [0, 0, 301]  # the first image is looked at for its size
    assert len(cache.entries()) == 1


def test_a_killed_decoding_goes_on_where_it_stopped(tmp_path, own_cache, monkeypatch):
    images = folder_of(tmp_path / "images", 640)
    code = """
cache._SAVE_EVERY = 0.0
def progress(what, done, of):
    if done == 384:
        kill()
"""
    killed(tmp_path, 640, "log", code)
    assert cache.entries() == []
    (notes,) = own_cache.glob("*.part.json")
    assert json.loads(notes.read_text())["done"] == 320
    found, reads = resumed(tmp_path, images)
    assert sorted(reads) == list(range(320, 640))
    expected, content = decoded_elsewhere(tmp_path, images, monkeypatch)
    assert cache.entries()[0].path.read_bytes() == content
    assert found.digest == expected.digest == digest_from_scratch(found.inputs)
    assert not list(own_cache.glob("*.part*"))


def test_a_decoding_killed_before_it_saved_anything_begins_anew(tmp_path, monkeypatch):
    images = folder_of(tmp_path / "images", 200)
    killed(tmp_path, 200, "log", "def on_read(row): row == 100 and kill()")
    found, _ = resumed(tmp_path, images)
    assert cache.entries()[0].path.read_bytes() == decoded_elsewhere(tmp_path, images, monkeypatch)[1]
    assert found.digest == digest_from_scratch(found.inputs)


def test_a_kill_between_the_images_and_their_facts_leaves_no_stale_notes(tmp_path, own_cache, monkeypatch):
    """The images are in place, the facts are not; the next decoding is killed, too, before it notes anything."""
    images = folder_of(tmp_path / "images", 640)
    code = """
cache._SAVE_EVERY = 0.0
write = cache.write_atomic
cache.write_atomic = lambda path, content: write(path, content) if path.name.endswith(".part.json") else kill()
"""
    killed(tmp_path, 640, "log", code)
    assert len(cache.entries()) == 1
    killed(tmp_path, 640, "again", "def on_read(row): row == 70 and kill()")
    found, _ = resumed(tmp_path, images)
    assert cache.entries()[0].path.read_bytes() == decoded_elsewhere(tmp_path, images, monkeypatch)[1]
    assert found.digest == digest_from_scratch(found.inputs)


def test_a_kill_while_gaps_are_closed_does_not_mix_images_up(tmp_path, monkeypatch):
    images = folder_of(tmp_path / "images", 640)
    for i in (0, 5, 300):
        (tmp_path / "images" / f"{i}.png").write_bytes(b"not an image")
    code = """
cache._SAVE_EVERY = 0.0
os.truncate = lambda *arguments: kill()
"""
    killed(tmp_path, 640, "log", code)
    found, _ = resumed(tmp_path, images)
    assert cache.entries()[0].path.read_bytes() == decoded_elsewhere(tmp_path, images, monkeypatch)[1]
    assert all(torch.equal(found.inputs[k], pixels(noise(i))) for k, i in enumerate(found.kept.tolist()))


def test_ctrl_c_keeps_what_is_decoded_and_leaves_no_thread():
    source = pictures(640)
    threads = set(threading.enumerate())

    def interrupt(what, done, of):
        if done == 192:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            source.decode(progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(threading.enumerate()) <= threads
    assert cache.entries() == []
    found = source.decode()
    assert sorted(source.reads) == list(range(192, 640))
    assert found.digest == digest_from_scratch(found.inputs)


def test_ctrl_c_after_sizes_differed_keeps_what_was_decoded_since():
    source = pictures(640)
    source.contents[100] = png(noise(0, (6, 4)))
    seen = []

    def interrupt(what, done, of):
        seen.append(done)
        if done == 192:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        source.decode(fallback="resize:8", progress=interrupt)
    found = source.decode(fallback="resize:8")
    assert sorted(source.reads) == list(range(192, 640))
    assert found.digest == digest_from_scratch(found.inputs)


def interrupted_at(line, decoding):
    """Run it with a Ctrl-C at this line, counted from 1, of the cache's own code; tell whether it came so far."""
    seen = 0

    def tracer(frame, event, arg):
        nonlocal seen
        if frame.f_code.co_filename != cache.__file__:
            return None
        seen += event == "line"
        if seen == line:
            raise KeyboardInterrupt
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        decoding()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_ctrl_c_at_any_line_changes_nothing():
    source = pictures(130)
    for i in (3, 64, 70):
        source.contents[i] = b"not an image"
    expected, line = source.decode(), 1
    content = cache.entries()[0].path.read_bytes()
    cache.clear()
    while interrupted_at(line, source.decode):
        found = source.decode()
        assert found.kept.tolist() == expected.kept.tolist(), line
        assert found.digest == expected.digest, line
        assert cache.entries()[0].path.read_bytes() == content, line
        cache.clear()
        line += 1
    assert line > 100


def test_progress_is_told_block_by_block():
    calls = []
    pictures(150).decode(progress=lambda *call: calls.append(call))
    assert calls == [("decoding test", 64, 150), ("decoding test", 128, 150), ("decoding test", 150, 150)]


# --- bad images ---

BAD = {
    "first": [0],
    "last": [199],
    "one block": list(range(64, 128)),
    "first block": list(range(64)),
    "last block": list(range(192, 200)),
    "here and there": [3, 63, 64, 65, 150],
    "all but one": [i for i in range(200) if i != 100],
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_gaps_are_closed(bad):
    source = pictures(200)
    for i in bad:
        source.contents[i] = b"GIF89a is cut short"
    found = source.decode()
    kept = [i for i in range(200) if i not in bad]
    assert found.kept.tolist() == kept
    assert [one.where for one in found.bad] == [f"image {i}" for i in bad]
    assert found.inputs.shape == (len(kept), 3, 4, 5)
    assert all(torch.equal(found.inputs[k], pixels(noise(i))) for k, i in enumerate(kept))
    assert found.digest == digest_from_scratch(found.inputs)
    assert cache.entries()[0].size == 60 * len(kept)
    again = source.decode()
    assert source.reads == []
    assert again.bad == found.bad
    assert again.kept.tolist() == kept
    assert again.digest == found.digest


def test_every_bad_image_has_its_reason():
    source = pictures(8)
    source.contents[1] = b""
    source.contents[2] = b"text"
    source.contents[3] = source.contents[3][:-30]
    source.contents[4] = OSError(5, "Input/output error")
    source.contents[5] = png(noise(5, (7, 4)))
    found = source.decode("none")
    reasons = [f"{one.where} {one.why}" for one in found.bad]
    assert reasons[0] == "image 1 is empty (0 bytes)"
    assert reasons[1] == "image 2 is not an image"
    assert reasons[2].startswith("image 3 is truncated or damaged")
    assert reasons[3] == "image 4 cannot be read (Input/output error)"
    assert reasons[4].startswith("image 5 has 7 x 4 pixels, the first image 5 x 4")
    assert found.kept.tolist() == [0, 6, 7]


def test_images_none_of_which_can_be_read():
    with pytest.raises(InputError, match="test: none of the 3 images can be read, such as image 0"):
        Source([b"", b"a", b"b"]).decode()
    assert cache.entries() == []


def test_an_image_too_long_for_the_transform_is_bad_and_does_not_take_all_memory():
    """One row of 60,000 pixels would be 15 million pixels long at a height of 256."""
    source = pictures(5, (30, 20))
    source.contents[0] = png(Image.new("RGB", (60_000, 1)))
    found = source.decode("short:256,crop:224")
    assert found.kept.tolist() == [1, 2, 3, 4]
    assert "15360000 x 256" in found.bad[0].why


def test_what_was_converted_is_counted():
    source = pictures(150)
    source.contents[3] = png(Image.new("L", (5, 4), 7))
    source.contents[100] = png(Image.new("L", (5, 4), 8))
    source.contents[101] = png(Image.new("RGBA", (5, 4)))
    found = source.decode()
    assert found.facts["converted"] == {"greyscale": 2, "transparent": 1}
    assert found.inputs[3].unique().tolist() == [7]


# --- the digest and the fingerprint ---


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_the_digest_is_the_datasets(n):
    found = pictures(n).decode()
    assert found.digest == digest_from_scratch(found.inputs)
    assert found.digest != digest_from_scratch(found.inputs.flip(3))


def dataset(inputs=None, labels=None, **more):
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (130, 3, 4, 5), np.uint8))
    return make_dataset(
        images if inputs is None else inputs(images), torch.arange(130) % 2 if labels is None else labels, **more
    )


def test_the_fingerprint_is_that_of_the_values_not_of_their_place_in_memory():
    expected = dataset().fingerprint
    assert dataset(lambda x: x.contiguous(memory_format=torch.channels_last)).fingerprint == expected
    assert dataset(lambda x: x.repeat_interleave(2, 0)[::2]).fingerprint == expected
    assert dataset(lambda x: torch.cat([x, x])[:130]).fingerprint == expected


def test_the_fingerprint_changes_with_any_pixel_label_id_or_class_name():
    expected = dataset().fingerprint
    for place in ((0, 0, 0, 0), (63, 1, 2, 3), (64, 2, 0, 4), (129, 2, 3, 4)):

        def changed(x, place=place):
            x = x.clone()
            x[place] ^= 1
            return x

        assert dataset(changed).fingerprint != expected
    labels = torch.arange(130) % 2
    labels[77] = 1 - labels[77]
    assert dataset(labels=labels).fingerprint != expected
    ids = np.arange(130)
    ids[129] = 130
    assert dataset(ids=ids).fingerprint != expected
    assert dataset(ids=np.arange(130).astype(str)).fingerprint != expected
    assert dataset(class_names=("a", "b")).fingerprint != expected
    assert dataset(lambda x: x.transpose(2, 3)).fingerprint != expected
    assert dataset(lambda x: x.float()).fingerprint != expected


def test_the_fingerprint_says_nothing_of_groups_and_is_computed_once():
    data = dataset()
    data.__dict__["inputs_digest"] = "known since it was decoded"
    hidden = data.without_groups()
    assert hidden.inputs_digest == "known since it was decoded"
    assert hidden.fingerprint == data.fingerprint


# --- where nothing can be kept ---


def test_a_cache_that_is_a_file_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TCSL_CACHE", str(tmp_path / "file"))
    message = rf"test: decoded images cannot be kept in {tmp_path}/file: .*; set TCSL_CACHE to a folder with space"
    with pytest.raises(InputError, match=message):
        pictures(3).decode()


def test_a_disk_that_is_too_small_is_said_before_anything_is_decoded(monkeypatch, own_cache):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(10_000, 1_001, 8_999))
    source = pictures(150)
    with pytest.raises(
        InputError, match=r"150 decoded images of 5 x 4 need 0.0 GB in .*cache, which has 0.0 GB free; s"
    ):
        source.decode()
    assert source.reads == [0]
    assert not list(own_cache.glob("*.part"))
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(10_000, 1_000, 9_000))
    assert len(source.decode().inputs) == 150


@pytest.mark.parametrize(("n", "size", "limit"), [(150, (5, 4), 8_999), (10, (1, 1), 100)])
def test_a_disk_that_fills_up_is_said(tmp_path, own_cache, n, size, limit):
    """A limit on the size of files stands for a full disk: one that images, or what is noted of them, do not fit."""
    folder_of(tmp_path / "images", n, size=size)
    process = start(tmp_path, n, "log", f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit},) * 2)")
    _, err = process.communicate()
    assert process.returncode == 1
    message = f"InputError: test: decoded images cannot be kept in {own_cache}: File too large; set TCSL_CACHE to a "
    assert message in err
    assert not list(own_cache.glob("*.part"))


# --- which transform ---


def test_auto_keeps_images_of_one_small_size():
    assert pictures(3, (256, 200)).decode().facts["transform"] == "none"
    assert pictures(3, (257, 200)).decode().facts["transform"] == "short:256,crop:224"
    assert pictures(3, (200, 300)).decode(fallback="resize:9").facts["transform"] == "resize:9"


@pytest.mark.parametrize("odd", [1, 63, 64, 149])
def test_auto_changes_its_mind_when_sizes_differ_later(odd):
    source = pictures(150)
    source.contents[odd] = png(noise(odd, (4, 5)))
    for _ in range(2):  # decoded, and from the cache
        with pytest.warns(TcslWarning, match=r"has 4 x 5 pixels, the first image .* data.transform=resize:8,crop:6"):
            found = source.decode(fallback="resize:8,crop:6")
    assert found.facts["transform"] == "resize:8,crop:6"
    assert found.inputs.shape == (150, 3, 6, 6)
    assert found.bad == []
    apply = parse_transform("resize:8,crop:6")
    assert torch.equal(found.inputs[odd], pixels(apply(noise(odd, (4, 5)))))
    assert torch.equal(found.inputs[0], pixels(apply(noise(0))))
    assert found.digest == digest_from_scratch(found.inputs)
    assert len(cache.entries()) == 1


def test_auto_does_not_take_what_was_decoded_without_a_transform():
    """`none` leaves out images of another size; `auto` must not find that entry and leave them out, too."""
    source = pictures(10)
    source.contents[4] = png(noise(4, (6, 4)))
    assert source.decode("none").kept.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert len(source.decode("auto").kept) == 10
    assert len(source.decode("none").kept) == 9


def test_a_bad_first_image_does_not_decide():
    source = pictures(3)
    source.contents[0] = b""
    found = source.decode()
    assert found.facts["transform"] == "none"
    assert found.kept.tolist() == [1, 2]


@pytest.mark.parametrize("text", ["resize", "resize:0", "crop:-3", "short:256;crop:224", "", "resize:256,", "flip:3"])
def test_unknown_transforms_are_said_before_anything_is_read(text):
    source = pictures(3)
    with pytest.raises(InputError, match="unknown transform"):
        source.decode(text)
    assert source.reads == []


SIZES = [
    (1, 1),
    (1, 7),
    (7, 1),
    (8, 8),
    (9, 8),
    (8, 11),
    (13, 5),
    (5, 16),
    (24, 31),
    (33, 24),
    (37, 41),
    (64, 23),
    (101, 99),
]


@pytest.mark.parametrize("side", [1, 5, 8, 24, 31])
def test_steps_are_torchvisions_bit_for_bit(side):
    for number, size in enumerate(SIZES):
        image = noise(number, size)
        for name, step in {
            f"resize:{side}": Resize((side, side)),
            f"short:{side}": Resize(side),
            f"crop:{side}": CenterCrop(side),
            f"short:{side},crop:{max(1, side - 3)}": Compose([Resize(side), CenterCrop(max(1, side - 3))]),
            f"resize:{side}, crop:{side + 3}": Compose([Resize((side, side)), CenterCrop(side + 3)]),
        }.items():
            found, expected = parse_transform(name)(image), step(image)
            assert found.size == expected.size, (name, size)
            assert found.tobytes() == expected.tobytes(), (name, size)


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (341, 256), (256, 341), (333, 499), (1024, 683), (224, 224)])
def test_the_literatures_transforms_are_torchvisions_bit_for_bit(size):
    image = noise(0, size)
    for name, step in {
        "resize:256,crop:224": Compose([Resize((256, 256)), CenterCrop(224)]),
        "short:256,crop:224": Compose([Resize(256), CenterCrop(224)]),
    }.items():
        assert parse_transform(name)(image).tobytes() == step(image).tobytes()


# --- the validation split that is made ---


@given(
    st.lists(st.integers(2, 40), min_size=1, max_size=5),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_what_is_held_out_is_the_same_part_of_each_class(counts, fraction, seed, order):
    rng = np.random.default_rng(order)
    labels = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    labels = np.concatenate([labels, rng.integers(0, len(counts), 7)])  # rows of other splits
    rows = np.sort(rng.permutation(len(labels))[: len(labels) - 7])
    present = np.bincount(labels[rows], minlength=len(counts))
    if (present == 1).any():
        return
    stay, out = hold_out(labels, rows, fraction, seed)
    assert sorted([*stay, *out]) == rows.tolist()
    assert (np.diff(stay) > 0).all()
    assert (np.diff(out) > 0).all()
    held = np.bincount(labels[out], minlength=len(counts))
    for n, k in zip(present.tolist(), held.tolist(), strict=True):
        assert k == min(round(fraction * n), n - 2) if n else k == 0
    again = hold_out(labels, rows, fraction, seed)
    assert again[0].tolist() == stay.tolist()
    assert again[1].tolist() == out.tolist()


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2.0, float("nan")])
def test_a_fraction_that_cannot_be_held_out(fraction):
    with pytest.raises(InputError, match=r"data.val_fraction must be in \[0, 1\)"):
        hold_out(np.array([0, 0, 1, 1]), np.arange(4), fraction, 0)


def test_a_file_that_could_not_be_read_is_tried_again(tmp_path, monkeypatch):
    """A disk or a network that fails once must not cost the sample for ever."""
    for label in ("a", "b"):
        for i in range(3):
            place = tmp_path / "data" / label / f"{i}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (i, i, i)).save(place)
    whole = Path.read_bytes
    failing = []

    def read_bytes(path):
        if failing and path.name == "2.png" and path.parent.name == "a":
            raise OSError(5, "Input/output error")
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    failing.append(True)
    for _ in range(2):  # the second finds the entry of the first
        with pytest.warns(TcslWarning, match=r"a/2.png cannot be read \(Input/output error\)"):
            assert len(tcsl.load(tmp_path / "data", on_bad="skip", val_fraction=0).train) == 5
    failing.clear()
    assert len(tcsl.load(tmp_path / "data", val_fraction=0).train) == 6


def test_facts_that_are_damaged_are_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TCSL_CACHE", str(tmp_path / "cache"))
    for label in ("a", "b"):
        for i in range(2):
            place = tmp_path / "data" / label / f"{i}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (i, i, i)).save(place)
    first = tcsl.load(tmp_path / "data", val_fraction=0).train.fingerprint
    (facts,) = (tmp_path / "cache").glob("*.json")
    facts.write_text("{bad")
    assert tcsl.load(tmp_path / "data", val_fraction=0).train.fingerprint == first
