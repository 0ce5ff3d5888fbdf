"""Bad input: each kind is refused in one clear line that says where it is and what to do, or left out and recorded."""

import csv
import io
import json
import os
import re
import struct
import sys
import tarfile
import warnings
import zlib

import datasets
import numpy as np
import polars as pl
import pytest
from PIL import Image
from safetensors.numpy import save_file

import tcsl
from tcsl.cli import main
from tcsl.data.bad import Bad, describe
from tcsl.data.columns import parse_columns
from tcsl.data.image import decode_image
from tcsl.errors import InputError, TcslWarning

LABELS = ["cat", "dog"] * 4
GOOD = [f"{i}.png" for i in range(8)]


def encoded(image, kind="png", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def plain(i=0, size=(6, 4)):
    return Image.new("RGB", size, (10 * i, 200, 7))


def refused(source, **options):
    """Return why a source is refused, where bad samples are an error; it is one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as caught:
            tcsl.load(source, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def left_out(source, **options):
    """Load a source without its bad samples; return what is left and, as recorded and as warned, what is not."""
    with pytest.warns(TcslWarning) as warned:
        splits = tcsl.load(source, on_bad="skip", val_fraction=0, **options)
    skipped = splits.train.facts["skipped"]
    [warning] = [str(one.message) for one in warned if "left out" in str(one.message)]
    assert warning.endswith(f"left out {describe([Bad(*one) for one in skipped])}")
    return splits, skipped


def assert_bad(source, offenders, *, kept, **options):
    """Check a source with these offenders, (where, why): it is refused with them, or what is kept are these ids."""
    message = refused(source, **options)
    listing = "; ".join(f"{where} {why}" for where, why in offenders)
    them = "it" if len(offenders) == 1 else "them"
    assert message.endswith(
        f"{len(offenders)} bad sample{'s' if len(offenders) > 1 else ''}: {listing}. "
        f"Mend {them}, or leave {them} out with --on-bad skip (tcsl data check lists all)"
    )
    splits, skipped = left_out(source, **options)
    assert skipped == [list(one) for one in offenders]
    assert splits.train.ids.tolist() == kept
    return splits


def assert_refused(source, message, **options):
    """Check that a source is refused, whatever is to be done about bad samples."""
    for on_bad in ("error", "skip"):
        assert re.search(message, refused(source, on_bad=on_bad, **options))


def write_table(folder, text, name="t.csv"):
    """Write a table beside eight images, 0.png to 7.png."""
    for i, path in enumerate(GOOD):
        (folder / path).write_bytes(encoded(plain(i)))
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def lines(change=None, header="path,label"):
    """Return the lines of a table of the eight images; `change` has other lines for some rows, counted from 1."""
    rows = {i + 1: f"{path},{label}" for i, (path, label) in enumerate(zip(GOOD, LABELS, strict=True))} | (change or {})
    return "\n".join([header, *rows.values()]) + "\n"


def others(*rows):
    """Return the paths of the other rows, counted from 1."""
    return [path for i, path in enumerate(GOOD) if i + 1 not in rows]


# --- images that cannot be used ---

JPEG = encoded(Image.effect_noise((64, 64), 50).convert("RGB"), "jpeg")
PNG = encoded(Image.effect_noise((64, 64), 50).convert("RGB"))


def bomb(width, height):
    """Return a PNG of a few bytes that says that it is that large."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def corrupt(content, at):
    return content[:at] + bytes(255 - byte for byte in content[at : at + 40]) + content[at + 40 :]


BAD_IMAGES = {
    "zero bytes": (b"", r"is empty \(0 bytes\)"),
    "text": (b"I am not an image, whatever I am called.\n", "is not an image"),
    "a header alone": (JPEG[:2], "is not an image"),
    "truncated in the header": (JPEG[:100], r"has a damaged header \(Truncated File Read\)"),
    "truncated JPEG": (JPEG[: len(JPEG) // 2], r"is truncated or damaged \(image file is truncated .*\)"),
    "truncated PNG": (PNG[: len(PNG) // 2], r"is truncated or damaged \(.*\)"),
    "corrupt PNG": (corrupt(PNG, 100), r"is truncated or damaged \(.*\)"),
    "a bomb": (bomb(60000, 60000), r"has more than 89,478,485 pixels \(a decompression bomb\?\)"),
    "a smaller bomb": (bomb(10000, 9000), r"has 10000 x 9000 pixels, more than 89,478,485 \(a decompression bomb\?\)"),
    "PostScript": (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n",
        "is PostScript, which is not decoded; save it as PNG or JPEG",
    ),
    "floats": (
        encoded(Image.new("F", (6, 4), 0.5), "tiff"),
        "has floating-point pixels, whose range is unknown; save it with 8 or 16 bits",
    ),
    "32 bits": (
        encoded(Image.fromarray(np.array([[0, 70000]], np.int32)), "tiff"),
        r"has values 0 \.\. 70000, more than 16 bits; save it with 8 or 16",
    ),
}


@pytest.mark.parametrize(("content", "why"), BAD_IMAGES.values(), ids=BAD_IMAGES)
def test_an_image_that_cannot_be_used(tmp_path, content, why):
    table = write_table(tmp_path, lines())
    (tmp_path / "3.png").write_bytes(content)
    end = r"\. Mend it, or leave it out with --on-bad skip \(tcsl data check lists all\)"
    assert re.fullmatch(rf"t\.csv: 1 bad sample: 3\.png {why}{end}", refused(table))
    splits, [[where, reason]] = left_out(table)
    assert where == "3.png"
    assert re.fullmatch(why, reason)
    assert splits.train.ids.tolist() == others(4)


def test_the_first_ten_offenders_and_their_count(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for i in range(40):
        (tmp_path / "ab"[i % 2] / f"{i:02}.png").write_bytes(encoded(plain()) if i < 26 else b"x")
    names = sorted(f"{'ab'[i % 2]}/{i}.png" for i in range(26, 40))
    listing = "; ".join(f"{name} is not an image" for name in names[:10])
    message = refused(tmp_path, val_fraction=0)
    assert message == (
        f"{tmp_path.name}: 14 bad samples: {listing}; and 4 more. Mend them, or leave them out with --on-bad "
        "skip (tcsl data check lists all)"
    )
    splits, skipped = left_out(tmp_path)
    assert skipped == [[name, "is not an image"] for name in names]
    assert len(splits.train) == 26


def test_bad_images_of_every_split_are_told_together(tmp_path):
    for i in range(18):
        path = tmp_path / ("train", "val", "test")[i % 3] / "ab"[i % 2] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if i in (3, 4, 5) else encoded(plain(i)))
    offenders = [(f"{name}.png", "is empty (0 bytes)") for name in ("train/b/03", "val/a/04", "test/b/05")]
    good = [f"train/{'ab'[i % 2]}/{i:02}.png" for i in (0, 6, 12, 9, 15)]
    splits = assert_bad(tmp_path, offenders, kept=good)
    assert (len(splits.val), len(splits.test)) == (5, 5)
    assert splits.test.facts["skipped"] == splits.train.facts["skipped"]


def test_all_images_are_bad(tmp_path):
    table = write_table(tmp_path, lines())
    for path in GOOD:
        (tmp_path / path).write_bytes(b"x")
    assert_refused(table, r"^t\.csv, training: none of the 8 images can be read, such as 0\.png")


def test_a_class_whose_images_are_all_bad_is_left_out(tmp_path):
    labels = ["cat", "dog", "owl"] * 4
    for i, label in enumerate(labels):
        (tmp_path / label).mkdir(exist_ok=True)
        (tmp_path / label / f"{i:02}.png").write_bytes(encoded(plain(i)) if label != "owl" or i == 2 else b"x")
    splits, skipped = left_out(tmp_path)
    assert splits.train.class_names == ("cat", "dog")
    assert len(splits.train) == 8
    assert skipped == [
        *(["owl/" + name, "is not an image"] for name in ("05.png", "08.png", "11.png")),
        ["owl/02.png", "is of class 'owl', which has one training sample: two are needed"],
    ]
    assert refused(tmp_path, val_fraction=0).startswith(f"{tmp_path.name}: 3 bad samples: owl/05.png is not an image; ")
    for path in (tmp_path / "dog").iterdir():
        path.write_bytes(b"x")
    assert re.search(
        "all samples are of class 'cat'; a shortcut needs two classes or more to tell apart; left out: 8 bad samples:",
        refused(tmp_path, on_bad="skip"),
    )


# --- images that are converted ---


def grey(value):
    return [value] * 3


def quarters(mode="RGB"):
    """Return a 4 x 2 image, red and green on top of blue and white, two pixels wide each."""
    image = Image.new("RGB", (4, 2))
    for (left, top), colour in zip(((0, 0), (2, 0), (0, 1), (2, 1)), ("red", "lime", "blue", "white"), strict=True):
        image.paste(colour, (left, top, left + 2, top + 1))
    return image.convert(mode)


def palette():
    image = Image.new("P", (4, 2), 1)
    image.putpalette([255, 0, 0, 0, 128, 255])
    return image


def frames():
    return [Image.new("RGB", (4, 2), colour) for colour in ("red", "blue")]


CONVERTED = {
    "greyscale": (encoded(Image.new("L", (4, 2), 77)), "greyscale", grey(77)),
    "greyscale JPEG": (encoded(Image.new("L", (4, 2), 77), "jpeg"), "greyscale", grey(77)),
    "one bit": (encoded(Image.new("1", (4, 2), 1)), "bilevel", grey(255)),
    "palette": (encoded(palette()), "palette", [0, 128, 255]),
    "palette with transparency": (encoded(palette(), transparency=1), "transparent", grey(255)),
    "16 bits, white": (encoded(Image.fromarray(np.full((2, 4), 65535, np.uint16))), "16-bit", grey(255)),
    "16 bits, grey": (encoded(Image.fromarray(np.full((2, 4), 128 * 257, np.uint16))), "16-bit", grey(128)),
    "16 bits, black": (encoded(Image.fromarray(np.full((2, 4), 128, np.uint16))), "16-bit", grey(0)),
    "16 bits in TIFF": (encoded(Image.fromarray(np.full((2, 4), 129, np.uint16)), "tiff"), "16-bit", grey(1)),
    "CMYK": (encoded(Image.new("CMYK", (4, 2), (55, 155, 205, 0)), "tiff"), "CMYK", [200, 100, 50]),
    "CMYK JPEG": (encoded(Image.new("CMYK", (4, 2), (55, 155, 205, 0)), "jpeg"), "CMYK", [200, 100, 50]),
    "alpha, opaque": (encoded(Image.new("RGBA", (4, 2), (9, 8, 7, 255))), "transparent", [9, 8, 7]),
    "alpha, half": (encoded(Image.new("RGBA", (4, 2), (0, 0, 0, 128))), "transparent", grey(127)),
    "alpha, clear": (encoded(Image.new("RGBA", (4, 2), (9, 8, 7, 0))), "transparent", grey(255)),
    "greyscale with alpha": (encoded(Image.new("LA", (4, 2), (0, 0))), "transparent", grey(255)),
    "a colour that is transparent": (
        encoded(Image.new("RGB", (4, 2), (1, 2, 3)), transparency=(1, 2, 3)),
        "transparent",
        grey(255),
    ),
    "animated GIF": (
        encoded(frames()[0], "gif", save_all=True, append_images=frames()[1:]),
        "palette",
        [255, 0, 0],
    ),
    "animated PNG": (encoded(frames()[0], save_all=True, append_images=frames()[1:]), "", [255, 0, 0]),
}


@pytest.mark.parametrize(("content", "note", "colour"), CONVERTED.values(), ids=CONVERTED)
def test_an_image_that_is_converted(content, note, colour):
    image, said = decode_image(content)
    assert image.mode == "RGB"
    assert image.size == (4, 2)
    assert said == note
    pixels = np.asarray(image).reshape(-1, 3)
    tolerance = 2 if content.startswith(b"\xff\xd8") else 0  # JPEG
    assert (np.abs(pixels.astype(int) - colour) <= tolerance).all()


@pytest.mark.parametrize(
    ("orientation", "pixels"),
    [
        (1, ["rrgg", "bbww"]),
        (2, ["ggrr", "wwbb"]),  # mirrored
        (3, ["wwbb", "ggrr"]),  # upside down
        (4, ["bbww", "rrgg"]),
        (5, ["rb", "rb", "gw", "gw"]),
        (6, ["br", "br", "wg", "wg"]),  # the camera was turned to the left: turn right
        (7, ["wg", "wg", "br", "br"]),
        (8, ["gw", "gw", "rb", "rb"]),
        (0, ["rrgg", "bbww"]),  # no such orientation
        (9, ["rrgg", "bbww"]),
    ],
)
def test_the_rotation_that_a_camera_noted_is_carried_out(orientation, pixels):
    exif = Image.Exif()
    exif[0x0112] = orientation
    image, note = decode_image(encoded(quarters(), exif=exif))
    letters = {(255, 0, 0): "r", (0, 255, 0): "g", (0, 0, 255): "b", (255, 255, 255): "w"}
    found = ["".join(letters[tuple(pixel)] for pixel in row) for row in np.asarray(image).tolist()]
    assert found == pixels
    assert note == ("rotated" if orientation in range(2, 9) else "")


def test_conversions_are_counted_and_said(tmp_path, caplog):
    table = write_table(tmp_path, lines())
    turned = Image.Exif()
    turned[0x0112] = 3
    contents = {
        "1.png": encoded(Image.new("L", (6, 4), 9)),
        "2.png": encoded(Image.new("L", (6, 4), 8)),
        "3.png": encoded(Image.new("RGBA", (6, 4), (5, 5, 5, 255))),
        "4.png": encoded(Image.new("L", (6, 4), 7), exif=turned),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    with caplog.at_level("INFO", "tcsl"):
        train = tcsl.load(table, val_fraction=0).train
    assert train.facts["converted"] == {"greyscale": 2, "transparent": 1, "greyscale, rotated": 1}
    said = "t.csv: converted to upright 8-bit RGB: 2 greyscale, 1 transparent, 1 greyscale, rotated"
    assert said in caplog.messages
    assert train.inputs[:, 0, 0, 0].tolist() == [0, 9, 8, 5, 7, 50, 60, 70]
    assert "skipped" not in train.facts


# --- sizes and transforms ---


def test_images_of_several_sizes(tmp_path):
    table = write_table(tmp_path, lines())
    (tmp_path / "5.png").write_bytes(encoded(plain(size=(7, 4))))
    why = "has 7 x 4 pixels, the first image 6 x 4 (choose a data.transform such as short:256,crop:224)"
    assert_bad(table, [("5.png", why)], kept=others(6), transform="none")
    assert tcsl.load(table).train.inputs.shape == (8, 3, 224, 224)
    assert tcsl.load(table, transform="resize:5").train.inputs.shape == (8, 3, 5, 5)


def test_images_to_test_on_have_another_size(tmp_path):
    for i in range(8):
        path = tmp_path / ("train", "test")[i // 4] / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(plain(size=(6 + i // 4, 4))))
    message = "test images have 7 x 4 pixels, training images 6 x 4; choose a data.transform such as short:256,crop:224"
    assert_refused(tmp_path, f"^{tmp_path.name}: {message}$")
    assert tcsl.load(tmp_path, transform="resize:8").test.inputs.shape == (4, 3, 8, 8)


@pytest.mark.parametrize("transform", ["flip", "resize", "resize:0", "crop:-3", "resize:8,", "", "short:1e3"])
def test_an_unknown_transform(tmp_path, transform):
    step = transform.split(",")[-1]
    message = (
        f"unknown transform {step!r} in data.transform={transform!r}; it is auto, none, or steps such as "
        "resize:256,crop:224 (to 256 x 256, then the middle 224 x 224) or short:256,crop:224 (shorter side)"
    )
    assert_refused(write_table(tmp_path, lines()), f"^{re.escape(message)}$", transform=transform)


# --- paths ---


def test_missing_files_and_paths_that_are_none(tmp_path):
    (tmp_path / "folder").mkdir()
    long = "x" * 300
    change = {2: "nowhere.png,dog", 3: "folder,cat", 5: "7.png/,cat", 6: f"{long},dog"}
    offenders = [
        ("row 2 of t.csv: nowhere.png", "is missing"),
        ("row 3 of t.csv: folder", "is not a file"),
        ("row 5 of t.csv: 7.png/", "is missing"),
        (f"row 6 of t.csv: {long}", "is missing"),
    ]
    assert_bad(write_table(tmp_path, lines(change)), offenders, kept=others(2, 3, 5, 6))


def outside(where):
    return f"leads out of {where} (give the folder that holds all images with --root)"


def test_paths_must_not_leave_the_tables_folder_unless_a_root_is_given(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "8.png").write_bytes(encoded(plain(8)))
    folder = tmp_path / "table"
    folder.mkdir()
    (folder / "link.png").symlink_to(elsewhere / "8.png")
    (folder / "up").symlink_to(elsewhere)
    change = {
        1: "../elsewhere/8.png,cat",
        2: f"{elsewhere}/8.png,dog",
        3: "link.png,cat",
        4: "up/8.png,dog",
        5: "../../../../../../../../../../etc/passwd,cat",
        6: "up/../table/5.png,dog",
        9: "8.png,cat",
    }
    (folder / "8.png").write_bytes(encoded(plain(9)))
    table = write_table(folder, lines(change))
    # `up` leads out, and `..` is the parent of where it leads to: the sixth path ends up inside.
    offenders = [(f"row {row} of t.csv: {change[row].rpartition(',')[0]}", outside(folder)) for row in range(1, 6)]
    splits = assert_bad(table, offenders, kept=["up/../table/5.png", "6.png", "7.png", "8.png"])
    assert splits.train.inputs[:, 0, 0, 0].tolist() == [50, 60, 70, 90]
    inside = {1: "table/0.png,cat", 2: f"{elsewhere}/8.png,dog", 3: "table/link.png,cat", 4: "table/up/8.png,dog"}
    rows = {row: f"table/{row - 1}.png,{LABELS[row - 1]}" for row in range(1, 9)} | inside
    train = tcsl.load(write_table(folder, lines(rows)), root=tmp_path, val_fraction=0).train
    assert train.inputs[:4, 0, 0, 0].tolist() == [0, 80, 80, 80]


def test_links_in_a_folder_must_not_leave_it_unless_a_root_is_given(tmp_path):
    folder, elsewhere = tmp_path / "birds", tmp_path / "elsewhere"
    for i in range(8):
        path = folder / LABELS[i] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(plain(i)))
    elsewhere.mkdir()
    for i in range(2):
        (elsewhere / f"{i}.png").write_bytes(encoded(plain(8)))
    (folder / "cat" / "link.png").symlink_to(elsewhere / "0.png")
    (folder / "cat" / "inside.png").symlink_to("0.png")
    (folder / "cat" / "broken.png").symlink_to("nowhere.png")
    (folder / "cat" / "loop.png").symlink_to("loop.png")
    (folder / "owl").symlink_to(elsewhere)
    os.mkfifo(folder / "dog" / "pipe.png")
    offenders = [
        ("cat/broken.png", f"is a link to {folder}/cat/nowhere.png, which is missing"),
        ("cat/link.png", outside(folder)),
        ("cat/loop.png", f"is a link to {folder}/cat/loop.png, which is missing"),
        ("dog/pipe.png", "is not a file"),
        ("owl/0.png", outside(folder)),
        ("owl/1.png", outside(folder)),
    ]
    good = [f"cat/{name}.png" for name in (0, 2, 4, 6, "inside")] + [f"dog/{name}.png" for name in (1, 3, 5, 7)]
    assert_bad(folder, offenders, kept=good)
    splits, _ = left_out(folder, root=tmp_path)
    assert splits.train.ids.tolist() == [*good[:5], "cat/link.png", *good[5:], "owl/0.png", "owl/1.png"]


def test_a_root_that_is_none(tmp_path):
    table = write_table(tmp_path, lines())
    assert_refused(table, rf"^--root {tmp_path}/nowhere is missing$", root=tmp_path / "nowhere")
    assert_refused(table, rf"^--root {tmp_path}/0.png is not a folder$", root=tmp_path / "0.png")


def test_names_of_files_that_are_not_text(tmp_path):
    for i in range(8):
        path = tmp_path / LABELS[i] / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encoded(plain(i)))
    os.rename(tmp_path / "dog" / "3.png", os.fsencode(tmp_path / "dog") + b"/\xff\n.png")
    offender = (r"dog/\udcff\n.png", "has a name that is not UTF-8 text; rename it")
    assert_bad(tmp_path, [offender], kept=[f"{LABELS[i]}/{i}.png" for i in (0, 2, 4, 6, 1, 5, 7)])


# --- labels, ids, splits ---


def test_a_class_with_one_sample(tmp_path):
    why = "is of class 'owl', which has one training sample: two are needed"
    assert_bad(write_table(tmp_path, lines({4: "3.png,owl"})), [("row 4 of t.csv", why)], kept=others(4))


def test_a_class_that_is_only_to_test_on(tmp_path):
    rows = "".join(f"{i}.png,{LABELS[i]},train\n" for i in range(6)) + "6.png,owl,test\n7.png,cat,test\n"
    why = "is of class 'owl', which has no training sample: two are needed"
    table = write_table(tmp_path, "path,label,split\n" + rows)
    splits = assert_bad(table, [("row 7 of t.csv", why)], kept=GOOD[:6])
    assert splits.test.ids.tolist() == ["7.png"]
    assert splits.test.class_names == ("cat", "dog")


def test_one_class_alone(tmp_path):
    table = write_table(tmp_path, lines().replace("cat", "dog"))
    assert_refused(
        table, r"^t\.csv: all samples are of class 'dog'; a shortcut needs two classes or more to tell apart$"
    )


def test_ids_that_occur_twice(tmp_path):
    why = "has the id '1.png' of row 2 of t.csv: ids must be unique"
    table = write_table(tmp_path, lines({4: "1.png,dog", 7: "1.png,cat"}))
    assert_bad(table, [("row 4 of t.csv", why), ("row 7 of t.csv", why)], kept=others(4, 7))


def test_integers_that_occur_twice_as_ids(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"f": range(8), "label": LABELS, "id": [5, 1, 2, 5, 4, 3, 6, 7]}).write_parquet(path)
    why = "has the id '5' of row 1 of t.parquet: ids must be unique"
    splits = assert_bad(path, [("row 4 of t.parquet", why)], kept=[5, 1, 2, 4, 3, 6, 7])
    assert splits.train.ids.dtype == np.int64


def test_ids_that_are_no_names(tmp_path):
    """An array of ids is as wide as its longest: a million of them beside one of 10,000 characters would be 40 GB."""
    ids = [f"a{i}" for i in range(7)] + ["x" * 10_000]
    rows = "".join(f"{name},{i}.png,{LABELS[i]}\n" for i, name in enumerate(ids))
    table = write_table(tmp_path, "id,path,label\n" + rows)
    why = "has an id of 10,000 characters, more than 1,000"
    assert_bad(table, [("row 8 of t.csv", why)], kept=ids[:7])


def test_unknown_splits(tmp_path):
    rows = "".join(f"{i}.png,{LABELS[i]},{'tain' if i == 3 else ' Training '}\n" for i in range(8))
    why = "has the unknown split 'tain' (known: train/training/0, val/valid/validation/dev/1, test/testing/2)"
    assert_bad(write_table(tmp_path, "path,label,split\n" + rows), [("row 4 of t.csv", why)], kept=others(4))


def test_cells_that_are_empty(tmp_path):
    """A blank group or note is nobody's fault: groups are for evaluation only."""
    rows = [f"{i}.png,{LABELS[i]},sea,9" for i in range(8)]
    rows[1], rows[4], rows[6] = "1.png,,sea,9", ",,sea,9", "6.png,cat,sea,"
    table = write_table(tmp_path, "\n".join(["path,label,place,note", *rows]))
    offenders = [("row 2 of t.csv", "has no label"), ("row 5 of t.csv", "has no path and no label")]
    assert_bad(table, offenders, kept=others(2, 5))


def test_too_many_groups(tmp_path):
    """A column of numbers that was taken for an attribute would make a group of every value."""
    frame = pl.DataFrame({"f": range(2000), "label": [i % 1000 for i in range(2000)], "group": range(2000)})
    frame.write_parquet(tmp_path / "t.parquet")
    assert_refused(
        tmp_path / "t.parquet",
        r"^t\.parquet: the group has 2,000 different values; it must be an attribute of few, such as a place; name it "
        "with --columns group=NAME$",
    )


# --- text that is not what it should be ---


def test_rows_with_too_many_or_too_few_cells(tmp_path):
    offenders = [
        ("row 3 of t.csv", "has 3 cells, the header has 2"),
        ("row 6 of t.csv", "has 1 cell, the header has 2"),
    ]
    table = write_table(tmp_path, lines({3: "2.png,cat,7", 6: "5.png"}))
    assert_bad(table, offenders, kept=others(3, 6))
    # Nothing that is needed is missing here, but it may stand in the wrong column.
    short = write_table(tmp_path, "path,label,note\n" + "".join(f"{i}.png,{LABELS[i]},x\n" for i in range(8)))
    short.write_text(short.read_text().replace("3.png,dog,x", "3.png,dog"))
    assert_bad(short, [("row 4 of t.csv", "has 2 cells, the header has 3")], kept=others(4))


def test_rows_are_counted_with_blank_lines_and_line_ends_in_cells(tmp_path):
    text = 'path,label,note\n0.png,cat,"a\nb\nc"\n\n1.png,dog,x\n2.png,cat\n3.png,dog,x\n4.png,cat,x\n5.png,dog,x\n'
    kept = ["0.png", "1.png", "3.png", "4.png", "5.png"]
    assert_bad(write_table(tmp_path, text), [("row 4 of t.csv", "has 2 cells, the header has 3")], kept=kept)
    text = text.replace("2.png,cat\n", "nowhere.png,cat,x\n")
    assert_bad(write_table(tmp_path, text), [("row 4 of t.csv: nowhere.png", "is missing")], kept=kept)


def test_one_bad_line_in_a_million(tmp_path):
    rows = [f"{i},{i % 7}\n" for i in range(1_000_000)]
    rows[765_432] = "765432,0,what is this?\n"
    (tmp_path / "t.csv").write_text("f,label\n" + "".join(rows))
    offender = ("row 765433 of t.csv", "has 3 cells, the header has 2")
    kept = [i for i in range(1_000_000) if i != 765_432]
    splits = assert_bad(tmp_path / "t.csv", [offender], kept=kept)
    assert (splits.train.inputs[:, 0].numpy() == kept).all()


def test_bytes_that_are_not_utf8(tmp_path):
    table = write_table(tmp_path, lines().encode().replace(b"3.png,dog", b"3.png,d\xf6g"))
    assert_bad(table, [("row 4 of t.csv", "is not UTF-8 text")], kept=others(4))
    header = write_table(tmp_path, lines().encode().replace(b"label", b"label,gr\xf6sse", 1))
    assert_refused(header, r"t\.csv: its first line must name the columns: it is not UTF-8 text$")
    utf16 = write_table(tmp_path, lines().encode("utf-16"))
    assert_refused(utf16, r"t\.csv is UTF-16 text, or damaged; save it as UTF-8$")


def test_zero_bytes(tmp_path):
    offenders = [
        ("row 2 of t.csv", "has a zero byte in its label"),
        ("row 5 of t.csv", "has a zero byte in its path"),
    ]
    assert_bad(write_table(tmp_path, lines({2: "1.png,d\0g", 5: "4\0.png,cat"})), offenders, kept=others(2, 5))
    zeros = write_table(tmp_path, bytes(3000))
    assert_refused(
        zeros, r"^t\.csv: which column is the label\? It has \\x00\\x00.*\.\.\.; name it with --columns label=NAME$"
    )


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    message = refused(write_table(tmp_path, lines({2: '"\x1b[2J\nx.png",dog'})))
    assert r"row 2 of t.csv: \x1b[2J\nx.png is missing" in message


def test_quotes_that_are_not_closed(tmp_path):
    """All that follows is in the quote, so that skipping it would be to skip the rest of the table."""
    table = write_table(tmp_path, lines({4: '3.png,"dog'}))
    assert_refused(table, r"t\.csv: row 4 has a quote that is never closed; close it$")
    odd = write_table(tmp_path, lines({4: '"3.png"x,dog', 6: "5.png"}))
    assert refused(odd).startswith("t.csv: 2 bad samples: row 4 of t.csv is not valid CSV (")


def test_a_cell_may_be_long(tmp_path):
    """Python's csv module refuses cells of more than 131,072 characters unless it is asked not to."""
    long = json.dumps([0.125] * 40_000)
    rows = "".join(f'"{long}",{label}\n' for label in LABELS)
    (tmp_path / "t.csv").write_text("x,label\n" + rows + "1,2,3\n")
    splits, skipped = left_out(tmp_path / "t.csv")
    assert skipped == [["row 9 of t.csv", "has 3 cells, the header has 2"]]
    assert splits.train.inputs.shape == (8, 40_000)
    assert csv.field_size_limit() == 131_072


def test_a_column_whose_name_is_a_pattern(tmp_path):
    table = write_table(tmp_path, "path,^y$\n" + "".join(f"{i}.png,{LABELS[i]}\n" for i in range(8)))
    assert_refused(table, r"t\.csv: no column may begin with \^ and end with \$; rename '\^y\$'$")


@pytest.mark.parametrize("header", ["path,label,label", "path,path,label", "label,path,note,note"])
def test_two_columns_of_one_name(tmp_path, header):
    rows = "".join(f"{i}.png,{LABELS[i]}{',x' * (header.count(',') - 1)}\n" for i in range(8))
    table = write_table(tmp_path, f"{header}\n{rows}")
    assert_refused(table, rf"t\.csv: every column needs a name of its own, got '{header}'$")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", r"t\.csv is empty: its first line must name the columns$"),
        ("t.csv", b"\n\r\n\n", r"t\.csv is empty: its first line must name the columns$"),
        ("t.csv", b"\xef\xbb\xbf", r"t\.csv is empty: its first line must name the columns$"),
        ("t.csv", b"path,label", r"t\.csv: there is no sample$"),
        ("t.csv", b"path,label\n", r"t\.csv: there is no sample$"),
        ("t.csv", b"path,label\n\n,\n", r"t\.csv: there is no sample$"),
        ("t.csv", b"path,__row__,label\n0.png,1,cat\n", r"t\.csv: no column may be called __row__; rename it$"),
        ("t.csv", b"note,label\nhello,cat\n", r"t\.csv: which column holds the inputs\? It has note; name a column of"),
        ("t.tsv", b"", r"t\.tsv is empty: its first line must name the columns$"),
        ("t.jsonl", b"", r"t\.jsonl has no rows$"),
        ("t.jsonl", b"\n \n", r"t\.jsonl has no rows$"),
        ("t.jsonl", b"{}\n", r"^t\.jsonl: which column is the label\? It has none; name it"),
        ("t.parquet", b"", r"t\.parquet is not a Parquet file, or it is damaged: .*"),
        ("t.parquet", b"path,label\n0.png,cat\n", r"t\.parquet is not a Parquet file, or it is damaged: .*"),
        ("t.npz", b"", r"t\.npz is not an npz file, or it is damaged: File is not a zip file$"),
        ("t.npz", b"hello" * 99, r"t\.npz is not an npz file, or it is damaged: File is not a zip file$"),
        ("t.safetensors", b"", r"t\.safetensors is not a safetensors file, or it is damaged: .*header too small$"),
        ("t.tar", b"", r"t\.tar is not an uncompressed tar file, or it is damaged: empty file$"),
        ("t.tar", bytes(10240), r"^t\.tar: there is no sample with an image and a label \(KEY.jpg with KEY.cls or "),
        ("t.tar", b"hello" * 999, r"t\.tar is not an uncompressed tar file, or it is damaged: "),
    ],
)  # fmt: skip
def test_a_file_with_nothing_in_it_that_can_be_used(tmp_path, name, content, message):
    assert_refused(write_table(tmp_path, content, name), message)


def json_lines(change=None):
    rows = {i + 1: json.dumps({"path": GOOD[i], "label": LABELS[i]}) for i in range(8)}
    return "\n".join((rows | (change or {})).values())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"path": "3.png", "label": ', "is not valid JSON (Expecting value: line 1 column 28 (char 27))"),
        ("[1, 2]", "is not a JSON object"),
        ("5", "is not a JSON object"),
        ("null", "is not a JSON object"),
        ("{}", "has no path and no label"),
        ('{"path": "3.png", "label": null}', "has no label"),
        ('{"path": "3.png", "label": "owl"}', "is of class 'owl', which has one training sample: two are needed"),
        ("[" * 900 + "]" * 900, "is not valid JSON (lists are too deep in each other)"),
        ("[[], " * 900 + "]" * 900, "is not valid JSON (Expecting value: line 1 column 4501 (char 4500))"),
        ('{"path": "3.png", "label": "dog", "more": ' + "[[], " * 700 + "[]" + "]" * 700 + "}",
         "is not valid JSON (lists are too deep in each other)"),
        ('{"path": "3.png", "label": "dog", "more": ' + '{"a": ' * 700 + "1" + "}" * 701,
         "is not valid JSON (lists are too deep in each other)"),
    ],
)  # fmt: skip
def test_a_json_line_that_is_bad(tmp_path, line, why):
    table = write_table(tmp_path, json_lines({4: line}), "t.jsonl")
    assert_bad(table, [("row 4 of t.jsonl", why)], kept=others(4))


def test_json_that_is_not_unicode(tmp_path):
    line = rb'{"path": "3.png", "label": "\ud800", "broken": '
    splits, [[where, why]] = left_out(write_table(tmp_path, json_lines().encode() + b"\n" + line, "t.jsonl"))
    assert (where, why[:18]) == ("row 9 of t.jsonl", "is not valid JSON ")
    bad = write_table(tmp_path, json_lines({4: line.decode() + "1}"}), "t.jsonl")
    assert re.search(r"1 bad sample: row 4 of t\.jsonl (is not valid JSON|has a zero byte in its label)", refused(bad))
    assert len(splits.train) == 8


def test_a_json_file_that_is_not_json_lines(tmp_path):
    whole = json.dumps([json.loads(line) for line in json_lines().split("\n")])
    assert_refused(write_table(tmp_path, whole, "t.jsonl"), r"row 1 of t\.jsonl,? (which )?is not a JSON object")


def test_labels_that_are_lists(tmp_path):
    text = "".join(json.dumps({"path": GOOD[i], "label": [LABELS[i]]}) + "\n" for i in range(8))
    message = r"t\.jsonl: column 'label' must have one name or number a row, got List\(String\)$"
    assert_refused(write_table(tmp_path, text, "t.jsonl"), message)


# --- inputs in a table ---


@pytest.mark.parametrize(
    ("value", "where", "why"),
    [
        ([1, 2], ": 'x'", "has shape (2,), the others (3,)"),
        ([], ": 'x'", "has shape (0,), the others (3,)"),
        ([[1], [2], [3]], ": 'x'", "has shape (3, 1), the others (3,)"),
        (["a", "b", "c"], ": 'x'", "is not a list of numbers, or the lists in it differ in length"),
        ([1, [2], 3], ": 'x'", "is not a list of numbers, or the lists in it differ in length"),
        ({"a": 1}, ": 'x'", "is not a list of numbers, or the lists in it differ in length"),
        (None, "", "has no inputs"),
        ([1, None, 3], "", "has values that are NaN or infinite"),
        ([1, 1e300, 3], "", "has values that are NaN or infinite"),
        ([1, float("nan"), 3], "", "has values that are NaN or infinite"),
    ],
)
def test_a_list_that_is_not_like_the_others(tmp_path, value, where, why):
    lists = [[i, 0.5, 2] for i in range(8)]
    lists[3] = value
    text = "".join(json.dumps({"x": lists[i], "label": LABELS[i]}) + "\n" for i in range(8))
    table = write_table(tmp_path, text, "t.jsonl")
    offenders = [(f"row 4 of t.jsonl{where}", why)]
    assert_bad(table, offenders, kept=[0, 1, 2, 4, 5, 6, 7])


def test_text_that_is_no_list_among_lists(tmp_path):
    cells = [f'"[{i}, 0.5]"' for i in range(8)]
    cells[0], cells[3], cells[5] = "hello", '"[1, 2"', "null"
    table = write_table(tmp_path, "x,label\n" + "".join(f"{cells[i]},{LABELS[i]}\n" for i in range(8)))
    why = "is not a list of numbers, or the lists in it differ in length"
    offenders = [(f"row {row} of t.csv: 'x'", why) for row in (1, 4, 6)]
    assert_bad(table, offenders, kept=[1, 2, 4, 6, 7])


def test_numbers_that_are_none(tmp_path):
    rows = [f"{i},{i * 0.5},{LABELS[i]}" for i in range(8)]
    rows[1], rows[3], rows[4], rows[6] = "one,1,dog", "3,,dog", "nan,1,cat", "6,-inf,cat"
    offenders = [
        ("row 2 of t.csv: 'f1'", "is 'one', not a number"),
        ("row 4 of t.csv: 'f2'", "is empty"),
        ("row 5 of t.csv", "has values that are NaN or infinite"),
        ("row 7 of t.csv", "has values that are NaN or infinite"),
    ]
    table = write_table(tmp_path, "\n".join(["f1,f2,label", *rows]))
    assert_bad(table, offenders, kept=[0, 2, 5, 7])


def test_columns_that_are_named_but_not_there_or_not_numbers(tmp_path):
    table = write_table(tmp_path, "f,note,label\n" + "".join(f"{i},hello,{LABELS[i]}\n" for i in range(8)))
    assert_refused(table, r"t\.csv: column 'note' does not hold numbers$", columns={"inputs": "f+note"})
    assert_refused(
        table, r"^unknown column of t\.csv for 'label' 'lable'; did you mean 'label'\?", columns={"label": "lable"}
    )
    assert_refused(table, "^unknown kind of column 'lable'; did you mean 'label'?", columns={"lable": "label"})
    assert_refused(table, r"^t\.csv: label is one column, got 'f\+note'$", columns={"label": "f+note"})
    for text, message in (
        ("label", "--columns looks like label=y"),
        ("lable=y", "did you mean 'label'?"),
        ("label=a,label=b", "names label twice, 'a' and 'b'"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            parse_columns(text)


def test_images_in_parquet_that_are_bad(tmp_path):
    cells = [{"bytes": encoded(plain(i)), "path": None} for i in range(8)]
    cells[2], cells[3], cells[5] = {"bytes": b"", "path": None}, None, {"bytes": None, "path": "5.png"}
    table = tmp_path / "t.parquet"
    pl.DataFrame({"image": cells, "label": LABELS}).write_parquet(table)
    assert "row 4 of t.parquet has no image. Mend it" in refused(table)
    splits, skipped = left_out(table)
    assert skipped == [
        ["row 4 of t.parquet", "has no image"],
        ["row 6 of t.parquet: 'image'", "has no image"],
        ["row 3 of t.parquet", "is empty (0 bytes)"],
    ]
    assert splits.train.ids.tolist() == [0, 1, 4, 6, 7]
    assert splits.train.inputs[:, 0, 0, 0].tolist() == [0, 10, 40, 60, 70]
    pl.DataFrame({"image": [{"a": 1}] * 8, "label": LABELS}).write_parquet(table)
    assert_refused(table, r"t\.parquet: column 'image' must have one name or number a row, got Struct")


def test_labels_that_are_not_a_number(tmp_path):
    """pandas makes floats of integers among which one is missing."""
    labels = [0.0, 1.0, 0.0, float("nan"), 0.0, 1.0, None, 1.0]
    table = tmp_path / "t.parquet"
    pl.DataFrame({"f": range(8), "label": labels}).write_parquet(table)
    offenders = [(f"row {row} of t.parquet", "has no label") for row in (4, 7)]
    splits = assert_bad(table, offenders, kept=[0, 1, 2, 4, 5, 7])
    assert splits.train.class_names == ("0", "1")


def test_parquet_that_is_truncated(tmp_path):
    table = tmp_path / "t.parquet"
    pl.DataFrame({"f": range(8), "label": LABELS}).write_parquet(table)
    whole = table.read_bytes()
    for size in (3, 20, len(whole) // 2, len(whole) - 4):
        table.write_bytes(whole[:size])
        assert_refused(table, rf"^{table} is not a Parquet file, or it is damaged: .")


# --- arrays ---

OBJECTS = "holds arrays of Python objects, which are not read; save numbers or text"
X, Y = np.arange(16.0).reshape(8, 2), np.arange(8) % 2


def npz(folder, **arrays):
    np.savez(folder / "a.npz", **arrays)
    return folder / "a.npz"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.array([[1], [2, 3]], object), "y": Y}, f" {OBJECTS}$"),
        ({"X": X, "y": Y.astype(object)}, f" {OBJECTS}$"),
        ({"X": X, "y": Y[:5]}, r": y must have shape \(8,\) as there are 8 inputs, got \(5,\)"),
        ({"X": X, "y": Y[:, None]}, r": y must have shape \(8,\) as there are 8 inputs, got \(8, 1\)"),
        ({"X": X, "y": Y, "group": X}, r": group must have shape \(8,\) as there are 8 inputs, got \(8, 2\)"),
        ({"X": X[:, 0], "y": Y}, r": inputs must have shape \(n, features\) or \(n, channels, height, width\), got"),
        ({"X": np.float64(3), "y": Y}, r": inputs must have shape \(n, features\) or .*, got \(\)"),
        ({"X": X[:, :0], "y": Y}, r": the inputs are empty: they have shape \(8, 0\)"),
        ({"X": X[:0], "y": Y[:0]}, "^a.npz: there is no sample"),
        ({"X": X.astype(str), "y": Y}, ": inputs must be numbers, got dtype <U"),
        ({"X": X.astype(complex), "y": Y}, ": inputs must be numbers, got dtype complex128"),
        ({"X": X, "y": np.zeros(8, [("a", int)])}, ": y must have one name or number a sample, got dtype"),
        ({"X": X}, r"^a\.npz: which column is the label\? It has X; name it with --columns label=NAME"),
        ({"y": Y, "stuff": X}, r": which array holds the inputs\? It has y \(8,\), stuff \(8, 2\); name it with --col"),
        ({"x_train": X, "y_train": Y, "x_test": X}, ": y must be there for train, test, as x is"),
        ({"x_train": X, "y_train": Y[:6], "x_test": X[:6], "y_test": Y},
         r": y_train must have as many rows as x_train, which has shape \(8, 2\), got \(6,\)$"),
        ({"x_train": X, "y_train": Y, "x_test": X[:, :1], "y_test": Y}, ": the splits' arrays do not fit together: "),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit(tmp_path, arrays, message):
    assert_refused(npz(tmp_path, **arrays), message)


def test_several_arrays_are_not_joined_to_inputs(tmp_path):
    path = npz(tmp_path, A=X, B=X, y=Y)
    message = r"a\.npz: inputs is one array, got 'A\+B'; join them with numpy\.concatenate$"
    assert_refused(path, message, columns={"inputs": "A+B"})


def test_values_that_are_not_finite(tmp_path):
    values = X.copy()
    values[2, 1], values[5, 0], values[7, 0] = np.nan, np.inf, 1e300
    offenders = [(f"sample {i} of a.npz", "has values that are NaN or infinite") for i in (2, 5, 7)]
    assert_bad(npz(tmp_path, X=values, y=Y), offenders, kept=[0, 1, 3, 4, 6])


def test_samples_of_arrays_that_lack_something(tmp_path):
    labels = np.array(["a", "b", "", "a", "b", "a", "b", "a"])
    split = np.array(["train"] * 6 + ["later", "train"])
    offenders = [
        ("sample 2 of a.npz", "has no label"),
        ("sample 6 of a.npz", "has the unknown split 'later' (known: train/training/0, val/valid/validation/dev/1, "
         "test/testing/2)"),
    ]  # fmt: skip
    path = npz(tmp_path, X=X, y=labels, split=split, id=np.arange(8) + 10)
    assert_bad(path, offenders, kept=[10, 11, 13, 14, 15, 17])


def test_npz_that_is_truncated_or_damaged(tmp_path):
    path = npz(tmp_path, X=X, y=Y)
    whole = path.read_bytes()
    for size in (1, 30, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:size])
        assert_refused(path, rf"^{path} is not an npz file, or it is damaged: .")
    path.write_bytes(corrupt(whole, whole.index(b"NUMPY")))
    assert_refused(path, rf"^{path} is not an npz file, or it is damaged: .")


def test_one_array_alone(tmp_path):
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npy").read_bytes())
    for name in ("a.npy", "a.npz"):
        assert_refused(
            tmp_path / name, r"holds one array and no labels; save both with numpy\.savez\(\.\.\., X=X, y=y\)$"
        )


def test_safetensors_that_are_damaged(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"X": X, "y": Y}, path)
    whole = path.read_bytes()
    for size in (4, 20, len(whole) - 3):
        path.write_bytes(whole[:size])
        assert_refused(path, rf"^{path} is not a safetensors file, or it is damaged: .")
    path.write_bytes(corrupt(whole, 8))
    assert_refused(path, rf"^{path} is not a safetensors file, or it is damaged: .")


# --- shards ---


def shard(folder, members, name="birds.tar", mode="w"):
    with tarfile.open(folder / name, mode) as tar:
        for key, content in members:
            info = tarfile.TarInfo(key)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return folder / name


def members(change=None):
    """Return KEY.png and KEY.json of eight samples; `change` has other members for some of them."""
    for i in range(8):
        parts = {"png": encoded(plain(i)), "json": json.dumps({"label": LABELS[i], "place": "sea"}).encode()}
        for suffix, content in {**parts, **(change or {}).get(i, {})}.items():
            if content is not None:
                yield f"{i:03}.{suffix}", content


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"png": None}, "has no image (json)"),
        ({"png": None, "txt": b"hello"}, "has no image (json, txt)"),
        ({"png": b"hello"}, "is not an image"),
        ({"json": None}, "has no label (neither .cls nor a label in .json; name it with --columns label=NAME)"),
        ({"json": b"[1]"}, "has no label (neither .cls nor a label in .json; name it with --columns label=NAME)"),
        ({"json": b"{"}, "has a JSON file that is not valid"),
        ({"json": b"\xff"}, "has a JSON file that is not valid"),
        ({"json": b'{"label": {"a": 1}}'}, "has a label that is neither a name nor a number"),
        ({"json": b'{"label": "\\ud800"}'}, "has a label that is not UTF-8 text"),
        ({"json": b'{"label": "a\\u0000"}'}, "has a zero byte in its label"),
        ({"cls": b" \n"}, "has an empty .cls"),
        ({"cls": b"d\xf6g"}, "has a .cls that is not UTF-8 text"),
        ({"json": b'{"label": "owl", "place": "sea"}'},
         "is of class 'owl', which has one training sample: two are needed"),
        ({"json": b'{"label": "dog", "place": "sea", "id": "001"}'},
         "has the id '001' of sample 001 of birds.tar: ids must be unique"),
    ],
)  # fmt: skip
def test_a_sample_of_a_shard_that_is_bad(tmp_path, change, why):
    path = shard(tmp_path, members({3: change}))
    kept = [f"{i:03}" for i in range(8) if i != 3]
    assert_bad(path, [("sample 003 of birds.tar", why)], kept=kept)


def test_fields_of_shards_that_are_not_there(tmp_path):
    path = shard(tmp_path, members({3: {"json": b'{"label": "dog", "place": "sea", "split": "train"}'}}))
    why = "has no 'part' in its .json, which --columns names for split"
    offenders = [(f"sample {i:03} of birds.tar", why) for i in range(8)]
    with pytest.raises(InputError, match="8 bad samples") as error:
        tcsl.load(path, columns={"split": "part"})
    assert all(f"{where} {what}" in str(error.value) for where, what in offenders)


def test_splits_in_shards_that_are_not_known(tmp_path):
    fields = {i: {"json": json.dumps({"label": LABELS[i], "split": "train"}).encode()} for i in range(8)}
    fields[3] = {"json": b'{"label": "dog", "split": "later"}'}
    fields[5] = {"json": b'{"label": "dog"}'}
    _, skipped = left_out(shard(tmp_path, members(fields)))
    assert skipped == [
        ["sample 005 of birds.tar", "has no split"],
        ["sample 003 of birds.tar", "has the unknown split 'later' (known: train/training/0, "
         "val/valid/validation/dev/1, test/testing/2)"],
    ]  # fmt: skip


def test_one_key_in_two_shards(tmp_path):
    shard(tmp_path, members(), "a-0.tar")
    shard(tmp_path, list(members())[:2], "a-1.tar")
    why = "has the id '000' of sample 000 of a-0.tar: ids must be unique"
    assert_bad(tmp_path, [("sample 000 of a-1.tar", why)], kept=[f"{i:03}" for i in range(8)])


def test_a_shard_beside_those_of_the_splits(tmp_path):
    for name in ("train-0.tar", "test-0.tar", "more.tar"):
        shard(tmp_path, ((f"{name}/{key}", content) for key, content in members()), name)
    message = r"^more\.tar lies beside shards that are named after splits: which split is it\?"
    assert_refused(tmp_path, message)


def test_shards_that_are_truncated_or_damaged(tmp_path):
    """Python's tarfile takes a damaged header for the end, and what follows it for nothing."""
    path = shard(tmp_path, members())
    whole = path.read_bytes()
    assert len(whole) % 512 == 0
    for size in (100, 700, 5 * 512, 5 * 512 + 100, 6 * 512, 32 * 512):
        path.write_bytes(whole[:size])
        assert_refused(path, rf"^{path} is not an uncompressed tar file, or it is damaged: .")
    path.write_bytes(corrupt(whole, whole.index(b"004.png")))
    assert_refused(
        path, rf"^{path} is not an uncompressed tar file, or it is damaged: it breaks off after [\d,]+ bytes$"
    )


def test_shards_that_are_compressed(tmp_path):
    path = shard(tmp_path, members(), "birds.tar.gz", "w:gz")
    assert_refused(
        path, rf"^{path} is of no kind that can be read; unpack it first: give .*WebDataset shards \(\.tar\)"
    )
    path.rename(tmp_path / "birds.tar")
    assert_refused(tmp_path / "birds.tar", r"birds\.tar is not an uncompressed tar file, or it is damaged: ")


# --- Hugging Face datasets ---


def saved(folder, columns, **features):
    datasets.disable_progress_bars()
    made = datasets.Dataset.from_dict(columns)
    for name, feature in features.items():
        made = made.cast_column(name, feature)
    made.save_to_disk(folder / "d")
    return folder / "d"


def test_rows_of_a_hugging_face_dataset_that_are_bad(tmp_path):
    columns = {
        "image": [{"bytes": encoded(plain(i)), "path": None} for i in range(10)],
        "label": [0, 1, -1, None, 0, 1, 0, 1, 0, 1],
        "split": ["train"] * 5 + ["later"] + ["train"] * 4,
    }
    columns["image"][7] = None
    source = saved(tmp_path, columns, image=datasets.Image(), label=datasets.ClassLabel(names=["a", "b"]))
    name = f"hf:{source}"
    unknown = "has the unknown split 'later' (known: train/training/0, val/valid/validation/dev/1, test/testing/2)"
    listed = [
        (f"row 2 of {name}", "has no label"),
        (f"row 3 of {name}", "has no label"),
        (f"row 5 of {name}", unknown),
    ]
    assert "; ".join(" ".join(one) for one in listed) in refused(source)
    splits, skipped = left_out(source)
    assert skipped == [*map(list, listed), [f"row 7 of {name}", "is empty (0 bytes)"]]
    assert splits.train.ids.tolist() == [0, 1, 4, 6, 8, 9]


def test_lists_of_a_hugging_face_dataset_that_are_bad(tmp_path):
    lists = [[1.0, 2.0, i] for i in range(8)]
    lists[1], lists[3], lists[6] = [1.0], None, [1.0, float("inf"), 0.0]
    source = saved(tmp_path, {"x": lists, "label": LABELS})
    offenders = [
        (f"row 1 of hf:{source}: 'x'", "has shape (1,), the others (3,)"),
        (f"row 3 of hf:{source}: 'x'", "is not a list of numbers, or the lists in it differ in length"),
        (f"row 6 of hf:{source}", "has values that are NaN or infinite"),
    ]
    assert_bad(source, offenders, kept=[0, 2, 4, 5, 7])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["hello"] * 8, "label": LABELS}, r"which column holds the inputs\? It has text, label; name it with"),
        ({"x": ["hello"] * 8, "label": LABELS}, "column 'x' must hold lists of numbers$"),
        ({"x": [[1.0]] * 8, "label": [[0], [1]] * 4}, r"column 'label' must have one name or number a row, got List\("),
        ({"x": [[1.0]] * 8, "kind": LABELS}, r"which column is the label\? It has x, kind; name it with --columns"),
    ],
)
def test_columns_of_a_hugging_face_dataset_that_are_none(tmp_path, columns, message):
    assert_refused(saved(tmp_path, columns), message)


def test_splits_of_a_hugging_face_dataset_that_do_not_fit(tmp_path):
    datasets.disable_progress_bars()
    parts = {"train": {"x": [[1.0]] * 8, "label": [0, 1] * 4}, "test": {"x": [[1.0]] * 8, "label": LABELS}}
    made = datasets.DatasetDict({name: datasets.Dataset.from_dict(part) for name, part in parts.items()})
    made.save_to_disk(tmp_path / "d")
    assert_refused(tmp_path / "d", "its splits do not have the same columns: .*label")


def test_a_hugging_face_dataset_that_is_damaged(tmp_path):
    source = saved(tmp_path, {"x": [[1.0]] * 8, "label": LABELS})
    end = "; give its name on the Hub, which must be within reach, or the folder that save_to_disk wrote$"
    for path in source.glob("*.arrow"):
        path.write_bytes(path.read_bytes()[:100])
    assert_refused(source, f"the Hugging Face dataset '{source}' cannot be loaded: .*{end}")
    (tmp_path / "empty").mkdir()
    assert_refused(f"hf:{tmp_path}/empty", f"the Hugging Face dataset '{tmp_path}/empty' cannot be loaded: .*{end}")


# --- sources ---


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("digit", r"^unknown dataset 'digit'; did you mean 'digits'\? Known: .*digits"),
        ("no-such-thing", r"^unknown dataset 'no-such-thing'\. Known: .*digits"),
        ("", r"^unknown dataset ''\. Known: "),
        ("nowhere.csv", r"^nowhere\.csv is missing: give a folder of class folders, a table .*, or a known dataset \("),
        ("./nowhere", r"^\./nowhere is missing: give"),
        ("nowhere/*.tar", r"^nowhere/\*\.tar is missing: give"),
        ("a\0b", r"^unknown dataset 'a\\x00b'\."),
        ("x" * 5000, r"^x{200}\.\.\. cannot be reached: File name too long$"),
        ("~nobody-at-all/birds.csv", r"^~nobody-at-all/birds\.csv cannot be reached: "),
    ],
)
def test_a_source_that_is_not_there(tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    assert_refused(source, message)


def test_a_file_of_an_unknown_kind(tmp_path):
    path = tmp_path / "birds.xlsx"
    path.write_bytes(b"PK")
    assert_refused(path, rf"^{path} is of no kind that can be read: give a folder of class folders, a table \(\.csv, ")
    (tmp_path / "folder.csv").mkdir()
    assert_refused(
        tmp_path / "folder.csv", "has no class folders; it must look like .*/CLASS/IMAGE, or be a table or npz$"
    )


def test_folders_without_images(tmp_path):
    assert_refused(tmp_path, f"^{tmp_path} has no class folders; it must look like {tmp_path}/CLASS/IMAGE, or be a")
    (tmp_path / "cat").mkdir()
    (tmp_path / "dog").mkdir()
    assert_refused(tmp_path, rf"^{tmp_path}: its class folders \(cat, dog\) have no files$")


def test_what_a_source_does_not_take(tmp_path):
    table = write_table(tmp_path, lines())
    assert_refused(table, r"t\.csv takes no options, got alpha: known datasets have some$", options={"alpha": 1})
    assert_refused("digits", "^digits is known, and so are its columns; leave out --columns$", columns={"label": "y"})
    (tmp_path / "f" / "cat").mkdir(parents=True)
    message = "is a folder of class folders, which has no columns; leave out --columns$"
    assert_refused(tmp_path / "f", message, columns={"label": "y"})
    with pytest.raises(InputError, match=r"^unknown on_bad 'skp'; did you mean 'skip'\?"):
        tcsl.load(table, on_bad="skp")


# --- through a run ---


def test_a_run_records_what_was_left_out(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    for i in range(40):
        path = tmp_path / "pets" / LABELS[i % 2] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8))
        path.write_bytes(encoded(image.convert("L") if i == 7 else image))
    (tmp_path / "pets" / "cat" / "20.png").write_bytes(JPEG[:500])
    (tmp_path / "pets" / "dog" / "21.png").write_bytes(b"")
    out = tmp_path / "run"
    words = ["tcsl", "run", str(tmp_path / "pets"), "--ratio", "0.5", "--out", str(out), "--method", "cb_erm"]
    words += ["--set", "train.epochs=10", "--device", "cpu", "--quiet"]

    def run(*more):
        monkeypatch.setattr(sys, "argv", [*words, *more])
        try:
            main()
        except SystemExit as end:
            return end.code, capsys.readouterr().err
        return 0, capsys.readouterr().err

    code, said = run()
    assert code == 2
    assert said.startswith("error: pets: 2 bad samples: ")
    assert said.count("\n") == 1
    assert "dog/21.png is empty (0 bytes)" in said
    assert not out.exists()
    code, said = run("--on-bad", "skip")
    assert code == 0
    assert "warning: pets: left out 2 bad samples: " in said
    read = json.loads((out / "data.json").read_text())["read"]
    assert sorted(where for where, _ in read["skipped"]) == ["cat/20.png", "dog/21.png"]
    assert ["dog/21.png", "is empty (0 bytes)"] in read["skipped"]
    assert read["converted"] == {"greyscale": 1}
