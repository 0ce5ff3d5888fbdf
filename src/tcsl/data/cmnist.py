"""cMNIST: MNIST in ten colours, one for each digit; in training nearly all digits have their own colour.

Recipe 1, in integer arithmetic only, so that it gives the same bytes on every machine. Every random choice is a
64-bit hash (splitmix64) of the recipe, the draw, the purpose and the image's number in MNIST's file.

- Training images: 52,808 of MNIST's 60,000, shared over the digits by their frequency (largest remainders), in each
  digit those of lowest hash. 257 of them conflict, shared in the same way: the first in the same order, whose colours
  go round the other nine.
- Validation: the remaining 7,192 images, painted twice: `val` in uniform colours (in each digit the colours go round
  all ten), which tells about the groups, and `val_iid` as in training (35 conflicts), on which choices may be made.
- Test: MNIST's 10,000 test images in uniform colours.
- Colours are those of the coloured digits (`tcsl.data.digits`), each channel moved by -10 .. 10 for each image. A pixel
  of brightness p in colour c becomes (p c + 127) // 255. Images stay 28 x 28.
- Views: "core" is the grey digit; "spurious" has the colour at the image's mean brightness and no shape.
- Worst-group accuracy is over digit x (colour agrees or not), 20 groups; the cells are digit x colour, 100 of them.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tcsl.data.dataset import Dataset, Splits, make_dataset
from tcsl.data.digits import COLOURS
from tcsl.data.download import Remote
from tcsl.data.groups import make_groups
from tcsl.data.known import Known, check_counts, data_root, need
from tcsl.errors import InputError
from tcsl.types import AnyArray, IntArray

RECIPE = 1
SIZE, CONFLICTS = 52_808, 257
_NOISE = 10
_PALETTE = np.array(list(COLOURS.values()), np.int64)
_DRAWS = 1 << 40  # the bits of the hash's key below the purpose
_ORDER, _TEST_ORDER, _COLOUR = 1, 2, 3  # purposes of the hash; colours use _COLOUR .. _COLOUR + 5


def load(
    seed: int = 0,
    *,
    root: str = "",
    size: int = SIZE,
    alpha: float | None = None,
    draw: int = 0,
    check: bool = True,
) -> Splits:
    """Make cMNIST from MNIST's files.

    Parameters
    ----------
    seed : unused: all seeds of a run share one dataset, as in the paper
    root : the folder that holds MNIST/raw
    size : training samples
    alpha : fraction of them whose colour agrees with the digit; by default 257 samples do not
    draw : another draw of the same recipe
    check : refuse files that are not MNIST's 60,000 and 10,000 images

    Returns
    -------
    train, test, val (uniform colours) and val_iid (distributed like the training set); images (3, 28, 28), uint8
    """
    if not isinstance(draw, int) or not 0 <= draw < _DRAWS:
        raise InputError(f"cmnist: draw must be an integer in 0 .. {_DRAWS - 1}, got {draw}")
    place = data_root(root)
    images, digits = _read(place, "train", 60_000 if check else None)
    test_images, test_digits = _read(place, "t10k", 10_000 if check else None)
    conflicts = CONFLICTS if alpha is None else _conflicts(alpha, size)
    if not 20 <= size <= len(digits):
        raise InputError(f"cmnist: size must be in 20 .. {len(digits)}, the images of MNIST, got {size}")
    if conflicts > size:
        raise InputError(f"cmnist: a size of {size} cannot hold {conflicts} conflicting samples; give alpha")
    sizes = apportion(size, np.bincount(digits, minlength=10))
    against = apportion(conflicts, sizes)
    left = np.bincount(digits, minlength=10) - sizes
    against_iid = apportion((conflicts * int(left.sum()) + size // 2) // size, left)
    train, train_colours, val, val_uniform, val_iid = [], [], [], [], []
    for digit in range(10):
        rows = np.flatnonzero(digits == digit)
        rows = rows[np.argsort(_hash(rows, _ORDER, draw), kind="stable")]
        chosen, rest = rows[: sizes[digit]], rows[sizes[digit] :]
        train.append(chosen)
        train_colours.append(_mostly(digit, len(chosen), int(against[digit])))
        val.append(rest)
        val_uniform.append(np.arange(len(rest)) % 10)
        val_iid.append(_mostly(digit, len(rest), int(against_iid[digit])))
    test, test_colours = [], []
    for digit in range(10):
        rows = np.flatnonzero(test_digits == digit)
        test.append(rows[np.argsort(_hash(rows, _TEST_ORDER, draw), kind="stable")])
        test_colours.append(np.arange(len(rows)) % 10)

    def make(which: list[IntArray], colours: list[IntArray], split: str, stream: int) -> Dataset | None:
        rows = np.concatenate(which)
        if len(rows) == 0:
            return None
        source = (test_images, test_digits) if split == "test" else (images, digits)
        return _painted(*source, rows, np.concatenate(colours), split, stream, draw)

    trained = make(train, train_colours, "training", _COLOUR)
    assert trained is not None
    return Splits(
        trained,
        make(test, test_colours, "test", _COLOUR + 1),
        make(val, val_uniform, "validation", _COLOUR + 2),
        make(val, val_iid, "validation like training", _COLOUR + 3),
    )


def apportion(total: int, weights: IntArray) -> IntArray:
    """Share `total` by integer weights: the largest remainders round up, on a tie the first.

    >>> apportion(10, np.array([1, 1, 1])).tolist()
    [4, 3, 3]
    """
    whole = int(weights.sum())
    if whole == 0:
        return np.zeros(len(weights), np.int64)
    shares = total * weights // whole
    remainders = total * weights - shares * whole
    up = np.argsort(-remainders, kind="stable")[: total - int(shares.sum())]
    shares[up] += 1
    return np.asarray(shares, np.int64)


def _conflicts(alpha: float, size: int) -> int:
    if not 0 <= alpha <= 1:
        raise InputError(f"alpha must be in [0, 1], got {alpha:g}: the fraction whose colour agrees with the digit")
    return size - round(alpha * size)


def _mostly(digit: int, n: int, conflicts: int) -> IntArray:
    """Return n colours, the digit's own after the first `conflicts`, which go round the other nine."""
    colours = np.full(n, digit, np.int64)
    colours[:conflicts] = (digit + 1 + (np.arange(conflicts) + digit) % 9) % 10
    return colours


def _hash(rows: IntArray, purpose: int, draw: int) -> AnyArray:
    """Return one unsigned 64-bit number for each row."""
    key = np.array([(RECIPE << 48) + (purpose << 40) + draw], np.uint64)
    return _mix(_mix(key) ^ rows.astype(np.uint64))


def _mix(x: AnyArray) -> AnyArray:
    """Return splitmix64 of each number; the sums and products wrap."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def _painted(
    images: AnyArray, digits: IntArray, rows: IntArray, colours: IntArray, split: str, stream: int, draw: int
) -> Dataset:
    order = np.argsort(rows, kind="stable")  # MNIST's own: the order must not tell the colour
    rows, colours = rows[order], colours[order]
    grey, labels = images[rows], digits[rows]
    noise = _hash(rows, stream, draw)[:, None] >> np.array([0, 16, 32], np.uint64)
    offsets = (noise & np.uint64(0xFFFF)).astype(np.int64) % (2 * _NOISE + 1) - _NOISE
    paint = np.clip(_PALETTE[colours] + offsets, 0, 255)
    names = tuple(map(str, range(10)))
    mean = grey.sum((1, 2), dtype=np.int64) // (grey.shape[1] * grey.shape[2])
    flat = torch.from_numpy(((mean[:, None] * paint + 127) // 255).astype(np.uint8))
    core = torch.from_numpy(grey)[:, None]
    return make_dataset(
        _paint(grey, paint),
        torch.from_numpy(labels),
        class_names=names,
        ids=rows,
        groups=make_groups(
            labels,
            colours,
            class_names=names,
            attribute_names=tuple(COLOURS),
            majority=np.arange(10),
            agreement=True,
        ),
        name=f"cmnist, {split}",
        views={
            "core": core.expand(-1, 3, -1, -1),
            "spurious": flat[:, :, None, None].expand(-1, -1, *grey.shape[1:]),
        },
        facts={"recipe": RECIPE, "draw": draw},
        test=split != "training",
    )


def _paint(grey: AnyArray, paint: IntArray) -> Tensor:
    """Paint (n, height, width) in one colour each, (n, 3); channels last in memory."""
    out = np.empty((*grey.shape, 3), np.uint8)
    for channel in range(3):
        colour = paint[:, channel].astype(np.uint32)[:, None, None]
        out[..., channel] = (grey * colour + np.uint32(127)) // np.uint32(255)
    return torch.from_numpy(out).permute(0, 3, 1, 2)


def _read(root: Path, part: str, expected: int | None) -> tuple[AnyArray, IntArray]:
    images, where = _read_idx(root, f"{part}-images-idx3-ubyte", 3)
    labels, labels_where = _read_idx(root, f"{part}-labels-idx1-ubyte", 1)
    if expected is not None:
        check_counts("cmnist", where, {"it": len(images)}, {"it": expected})
    if len(images) != len(labels):
        raise InputError(f"cmnist: {where} has {len(images)} images, {labels_where} {len(labels)} labels")
    if labels.max(initial=0) > 9 or len(np.unique(labels)) < 10:
        raise InputError(f"cmnist: {labels_where} must have the labels 0 .. 9, each of them")
    return images, labels.astype(np.int64)


def _read_idx(root: Path, name: str, dimensions: int) -> tuple[AnyArray, Path]:
    """Read one of MNIST's files, plain or gzipped."""
    raw = need("cmnist", root, "MNIST/raw", "mnist", "MNIST")
    path = need("cmnist", root, name, f"{name}.gz", within=raw)
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cmnist: {path} cannot be read: {error}") from None
    head = 4 * (1 + dimensions)
    known = content[:4] == bytes([0, 0, 8, dimensions]) and len(content) >= head
    shape = struct.unpack(f">{dimensions}I", content[4:head]) if known else ()
    if not known or len(content) - head != math.prod(shape):
        raise InputError(f"cmnist: {path} is not one of MNIST's files, or it is cut short; get it again")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape), path


_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FILES = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}

DATASET = Known(
    title="digits in colours; 52,808 training images, 0.5 % against the colour",
    load=load,
    markers=("MNIST/raw/t10k-labels-idx1-ubyte", "MNIST/raw/t10k-labels-idx1-ubyte.gz"),
    remotes=tuple((Remote(_MIRROR + name, name, f"md5:{md5}"), "MNIST/raw") for name, md5 in _FILES.items()),
)
