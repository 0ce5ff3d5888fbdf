"""The embedded dataset: scikit-learn's handwritten digits, coloured.

Ten colours, one for each digit. In training the colour agrees with the digit for a fraction alpha of the samples; the
conflicts are stratified, the same exact count in every class, spread as evenly as they go over the other nine
colours. At test every digit is shown in all ten colours, so colour says nothing there. Worst-group accuracy is over
class x (colour agrees or not), 20 groups; the finer cells are class x colour, 100 of them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tcsl.data.dataset import Dataset, Splits, make_dataset
from tcsl.data.groups import make_groups
from tcsl.data.known import Known
from tcsl.errors import InputError
from tcsl.seeds import generator
from tcsl.types import AnyArray, IntArray

COLOURS = {
    "red": (230, 25, 75),
    "green": (60, 180, 75),
    "yellow": (255, 225, 25),
    "blue": (0, 130, 200),
    "orange": (245, 130, 48),
    "purple": (145, 30, 180),
    "cyan": (70, 240, 240),
    "magenta": (240, 50, 230),
    "lime": (210, 245, 60),
    "pink": (250, 190, 190),
}
_NAMES = tuple(COLOURS)
_PALETTE = np.array(list(COLOURS.values()), np.float32)


def load(seed: int = 0, *, alpha: float = 0.95, per_class: int = 120, val_per_class: int = 0) -> Splits:
    """Make the coloured digits.

    Parameters
    ----------
    seed : draws which images are for training, which of them conflict, and in which colour
    alpha : fraction of each class's training samples whose colour agrees with the digit
    per_class : training samples of each class
    val_per_class : images of each class for validation; at most 150 of both. All other images are for testing

    Returns
    -------
    train : 10 * per_class images (3, 8, 8), uint8, with the views "core" (grey) and "spurious" (colour, no shape)
    test : every other image in all ten colours, with the same views
    val : the images for validation in all ten colours, or None
    val_iid : the same images coloured like those of `train`, or None

    >>> train, test = load(seed=0)[:2]
    >>> len(train), len(test), int(train.groups.minority.sum())
    (1200, 5970, 60)
    """
    if not 0 <= alpha <= 1:
        raise InputError(f"alpha must be in [0, 1], got {alpha:g}: the fraction whose colour agrees with the digit")
    if not 2 <= per_class <= 150:
        raise InputError(f"per_class must be in 2 .. 150, got {per_class}: the smallest class has 174 images")
    if not 0 <= val_per_class <= 150 - per_class:
        raise InputError(
            f"val_per_class must be in 0 .. {150 - per_class}, got {val_per_class}: with {per_class} for training, the "
            "smallest class has no more to give"
        )
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    rng = generator(seed, "digits")
    rows: dict[str, list[IntArray]] = {"training": [], "validation": [], "test": []}
    colours: dict[str, list[IntArray]] = {"training": [], "validation": []}
    for digit in range(10):
        shuffled = rng.permutation(np.flatnonzero(digits == digit))
        cuts = [per_class, per_class + val_per_class]
        others = (digit + 1 + rng.permutation(9)) % 10
        for part, chosen in zip(rows, np.split(shuffled, cuts), strict=True):
            rows[part].append(chosen)
            if part in colours:
                colours[part].append(_biased_colours(digit, others, len(chosen), alpha))

    def like_training(part: str, name: str) -> Dataset:
        at = np.concatenate(rows[part])
        return _coloured(images[at], digits[at], np.concatenate(colours[part]), at, f"digits, {name}")

    def in_all_colours(part: str) -> Dataset:
        at = np.repeat(np.concatenate(rows[part]), 10)
        each = np.tile(np.arange(10), len(at) // 10)
        # Ten samples of one image need ten ids; a training id must not tell the colour.
        return _coloured(images[at], digits[at], each, 10 * at + each, f"digits, {part}", units=at)

    return Splits(
        like_training("training", "training"),
        in_all_colours("test"),
        val=in_all_colours("validation") if val_per_class else None,
        val_iid=like_training("validation", "validation like training") if val_per_class else None,
    )


def _biased_colours(digit: int, others: IntArray, n: int, alpha: float) -> IntArray:
    """Return the colours of n samples of a digit: the first few in other colours, the rest in its own."""
    conflicts = round((1 - alpha) * n)
    colours = np.full(n, digit)
    colours[:conflicts] = np.resize(others, conflicts)
    return colours


def _coloured(
    intensity: AnyArray,
    digits: AnyArray,
    colours: IntArray,
    ids: IntArray,
    name: str,
    *,
    units: IntArray | None = None,
) -> Dataset:
    """Paint digits (n, 64) with intensities 0 .. 16 in their colours, and make the two views."""
    shape = (intensity / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    flat = np.broadcast_to(shape.mean((1, 2, 3), keepdims=True), shape.shape)
    paint = _PALETTE[colours][:, :, None, None]
    labels = digits.astype(np.int64)
    names = tuple(map(str, range(10)))
    return make_dataset(
        _uint8(shape * paint),
        torch.from_numpy(labels),
        class_names=names,
        ids=ids,
        groups=make_groups(
            labels,
            colours,
            class_names=names,
            attribute_names=_NAMES,
            majority=np.arange(10),
            agreement=True,
        ),
        name=name,
        views={"core": _uint8(np.repeat(shape * 255, 3, 1)), "spurious": _uint8(flat * paint)},
        units=units,
    )


def _uint8(values: AnyArray) -> Tensor:
    return torch.from_numpy(np.rint(values).astype(np.uint8))


DATASET = Known(title="coloured 8 x 8 digits, embedded; 1,200 training images, 5 % against the colour", load=load)
