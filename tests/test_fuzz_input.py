"""Ten thousand damaged files: each is read, or refused with tcsl's own error, and never anything else.

The damage is drawn with a seed, so that a failure comes again; it names the mutation, and `mutation` makes it again.
"""

import csv
import io
import json
import random
import tarfile
import warnings

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from safetensors.numpy import save

import tcsl
from tcsl.data.image import BadImage, decode_image, quiet
from tcsl.errors import InputError

EACH = 720  # mutations of each of seven kinds of manifest and of image: 5,040 of both
N = 8
NASTY = [
    "", " ", "nan", "NULL", "inf", "-1", "0", "true", "9" * 400, "1e400", "1_0", "٣", "é☃\U0001f600", "\ufeff", "tain",
    "test", "../x", "/etc/passwd", ".", "..", "//", "a/b", "3.png", "\0", "\x1b[2J", "\n", "\r", "\t", ",", ";", '"',
    "{}", "[1, 2]", "[[1, [2]], 3]", "[" * 900 + "]" * 900, "x" * 20_000,
]  # fmt: skip
VALUES = [
    *NASTY, None, True, 0.5, 1e308, float("nan"), float("inf"), -1, 2**63, 10**40, [], {}, [None], [1, "a"],
    [[1], [2, 3]], {"a": [1]}, [[[[[1.0]]]]],
]  # fmt: skip


def png(i):
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (i, 0, 0)).save(stream, "png")
    return stream.getvalue()


def rows():
    """Return eight samples, six of them to train on."""
    return [
        {
            "path": f"{i}.png",
            "label": ("cat", "dog")[i % 2],
            "split": "train" if i < 6 else "test",
            "place": "sea" if i % 3 else "land",
            "id": i,
        }
        for i in range(N)
    ]


# --- valid manifests, and tables with cells replaced ---


def as_csv(table, separator=",", *, quoted=True):
    names = list(dict.fromkeys(name for row in table for name in row))
    if not quoted:
        lines = [names, *([str(row.get(name, "")) for name in names] for row in table)]
        return "".join(separator.join(line) + "\n" for line in lines).encode()
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, delimiter=separator, restval="")
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue().encode()


def as_jsonl(table):
    return "".join(json.dumps(row) + "\n" for row in table).encode()


def as_parquet(table):
    columns = {name: [row.get(name) for row in table] for row in table for name in row}
    for name, values in columns.items():
        if {} in values or len({type(value) for value in values if value is not None}) > 1:  # they do not go together
            columns[name] = [None if value is None else str(value) for value in values]
    stream = io.BytesIO()
    pl.DataFrame(columns, strict=False).write_parquet(stream, compression="uncompressed")
    return stream.getvalue()


def as_npz():
    stream = io.BytesIO()
    split = np.array(["train"] * 6 + ["test"] * 2)
    np.savez(stream, X=np.arange(3.0 * N).reshape(N, 3), y=np.arange(N) % 2, split=split, group=np.arange(N) % 3)
    return stream.getvalue()


def as_safetensors():
    return save({"X": np.arange(3.0 * N).reshape(N, 3), "y": np.arange(N) % 2, "group": np.arange(N) % 3})


def as_tar():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for i, row in enumerate(rows()):
            for suffix, content in (("png", png(i)), ("json", json.dumps(row).encode())):
                info = tarfile.TarInfo(f"{i}.{suffix}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


TABLES = {
    "csv": as_csv,
    "tsv": lambda table, **options: as_csv(table, "\t", **options),
    "jsonl": as_jsonl,
    "parquet": as_parquet,
}
MANIFESTS = {kind: write(rows()) for kind, write in TABLES.items()} | {
    "parquet": as_parquet([{"image": png(i), "label": row["label"], "id": i} for i, row in enumerate(rows())]),
    "npz": as_npz(),
    "safetensors": as_safetensors(),
    "tar": as_tar(),
}


def with_nasty_cells(kind, rng):
    """Return a table in which a few cells, or a whole column, are something nasty."""
    table = rows()
    for _ in range(rng.choice((1, 1, 2, 4))):
        name = rng.choice((*table[0], "x", "note"))
        value = rng.choice(VALUES if kind in ("jsonl", "parquet") else NASTY)
        for row in table if rng.random() < 0.15 else [rng.choice(table)]:
            row[name] = value
    if kind in ("csv", "tsv"):
        return TABLES[kind](table, quoted=rng.random() < 0.7)
    return TABLES[kind](table)


def damaged(content, rng):
    """Return the bytes with a few of them flipped, deleted, inserted, copied, or cut off."""
    out = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(out) + 1)
        what = rng.choice(("flip", "flip", "delete", "insert", "copy", "cut"))
        if what == "flip" and out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        elif what == "delete":
            del out[at : at + rng.choice((1, 1, 2, 8, 64))]
        elif what == "insert":
            out[at:at] = rng.randbytes(rng.choice((1, 1, 4, 16)))
        elif what == "copy" and out:
            start = rng.randrange(len(out))
            out[at:at] = out[start : start + rng.choice((1, 4, 32))]
        elif what == "cut" and rng.random() < 0.3:
            del out[at:]
    return bytes(out)


def mutation(kind, number):
    """Return the mutation of this number of a manifest."""
    rng = random.Random(f"{kind} {number}")
    return with_nasty_cells(kind, rng) if kind in TABLES and number % 2 else damaged(MANIFESTS[kind], rng)


def outcome(source, **options):
    """Return the splits or tcsl's error; anything else that is raised is returned as a failure to be told."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tcsl.load(source, **options)
    except InputError as error:
        return error
    except BaseException as error:  # a panic in polars is a BaseException
        return f"{type(error).__name__}: {error}"


def is_sound(found):
    """Tell whether what came out is one line of an error, or splits that are whole."""
    if isinstance(found, InputError):
        return "\n" not in str(found) and len(str(found)) < 8000
    if isinstance(found, str):
        return False
    parts = [data for data in (found.train, found.val, found.test) if data is not None]
    ids = [name for data in parts for name in data.ids.tolist()]
    counts = np.bincount(found.train.labels, minlength=found.train.num_classes)
    finite = all(torch.isfinite(data.inputs.float()).all() for data in parts)
    return len(set(ids)) == len(ids) and counts.min() >= 2 and finite


@pytest.mark.parametrize("kind", MANIFESTS)
def test_valid_manifests_are_read(tmp_path, kind):
    """What is damaged below is sound here."""
    for i in range(N):
        (tmp_path / f"{i}.png").write_bytes(png(i))
    (tmp_path / f"m.{kind}").write_bytes(MANIFESTS[kind])
    assert len(tcsl.load(tmp_path / f"m.{kind}", val_fraction=0).train) in (6, 8)


@pytest.mark.parametrize("kind", MANIFESTS)
def test_damaged_manifests_are_read_or_refused(tmp_path, kind):
    for i in range(N):
        (tmp_path / f"{i}.png").write_bytes(png(i))
    path = tmp_path / f"m.{kind}"
    failures, read = {}, 0
    for number in range(EACH):
        path.write_bytes(mutation(kind, number))
        found = outcome(path, on_bad=("error", "skip")[number // 2 % 2])
        read += not isinstance(found, InputError | str)
        if not is_sound(found):
            failures[number] = found
    assert failures == {}
    assert 0 < read < EACH  # some damage does not matter


# --- images ---


def images():
    """Return one or several valid files of each format, 8 x 8 pixels."""
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8))
    deep = Image.fromarray(np.asarray(noise)[..., 0].astype(np.uint16) * 257)
    turned = Image.Exif()
    turned[0x0112] = 6
    wanted = {
        "jpeg": [(noise, {}), (noise, {"exif": turned}), (noise.convert("CMYK"), {}), (noise.convert("L"), {})],
        "png": [(noise, {}), (noise.convert("P"), {"transparency": 3}), (deep, {}), (noise.convert("RGBA"), {})],
        "gif": [(noise, {}), (noise, {"save_all": True, "append_images": [noise.rotate(90)]})],
        "bmp": [(noise, {}), (noise.convert("P"), {}), (noise.convert("1"), {})],
        "webp": [(noise, {}), (noise, {"lossless": True}), (noise.convert("RGBA"), {"exif": turned})],
        "tiff": [(noise, {}), (deep, {}), (noise, {"compression": "tiff_lzw"}), (noise, {"compression": "jpeg"})],
        "ppm": [(noise, {}), (deep, {}), (noise.convert("1"), {})],
    }
    out = {}
    for kind, forms in wanted.items():
        out[kind] = []
        for image, options in forms:
            stream = io.BytesIO()
            image.save(stream, kind, **options)
            out[kind].append(stream.getvalue())
    return out


IMAGES = images()


def image_mutation(kind, number):
    """Return the mutation of this number of an image."""
    return damaged(IMAGES[kind][number % len(IMAGES[kind])], random.Random(f"{kind} {number}"))


def why_bad(content):
    """Return why an image is refused, "" where it is decoded; anything else that is raised goes on."""
    try:
        image, _ = decode_image(content)
    except BadImage as reason:
        return str(reason)
    assert image.mode == "RGB"
    assert np.asarray(image).shape == (image.height, image.width, 3)
    return ""


@pytest.mark.parametrize("kind", IMAGES)
def test_damaged_images_are_decoded_or_refused(kind):
    failures, decoded = {}, 0
    with quiet():
        assert [why_bad(content) for content in IMAGES[kind]] == [""] * len(IMAGES[kind])
        for number in range(EACH):
            try:
                why = why_bad(image_mutation(kind, number))
                decoded += why == ""
                if "\n" in why or len(why) > 300:
                    failures[number] = why
            except BaseException as error:
                failures[number] = f"{type(error).__name__}: {error}"
    assert failures == {}
    assert 0 < decoded < EACH


@pytest.mark.parametrize("kind", IMAGES)
def test_damaged_images_among_others_are_left_out_exactly(tmp_path, kind):
    for label in "ab":
        (tmp_path / label).mkdir()
        for i in range(2):
            (tmp_path / label / f"good{i}.png").write_bytes(png(i))
    contents = {f"{'ab'[number % 2]}/{number:03}.{kind}": image_mutation(kind, number) for number in range(0, EACH, 12)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    with quiet():
        bad = {name: why for name, content in contents.items() if (why := why_bad(content))}
    found = outcome(tmp_path, transform="resize:8", val_fraction=0)
    assert isinstance(found, InputError)
    assert str(found).startswith(f"{tmp_path.name}: {len(bad)} bad samples: ")
    found = outcome(tmp_path, transform="resize:8", val_fraction=0, on_bad="skip")
    assert is_sound(found)
    assert dict(found.train.facts["skipped"]) == bad
    assert len(found.train) == len(contents) + 4 - len(bad)
