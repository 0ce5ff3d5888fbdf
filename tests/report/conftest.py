"""Small real runs that are drawn: digits, rows with groups, rows whose names are hostile."""

import numpy as np
import pytest
import torch

import tcsl

SMALL = {"train.epochs": 10, "device.device": "cpu"}
HOSTILE = ["<script>alert(1)</script>", r"$\frac{", "two\nlines \u202e", 300 * "long "]


@pytest.fixture(scope="package")
def digits(tmp_path_factory):
    """Return a run on the digits, whose data can be loaded again."""
    path = tmp_path_factory.mktemp("digits") / "run"
    return tcsl.debias("digits", 0.2, settings={**SMALL, "data.options.per_class": 20}, out=path)


def make_rows(n, classes, rng):
    y = np.arange(n) % classes
    place = np.where(rng.random(n) < 0.8, y, (y + 1) % classes)
    return rng.normal(size=(n, 3)) + np.stack([4 * place, y, y], axis=1), y, place


@pytest.fixture(scope="package")
def rows(tmp_path_factory):
    """Return a run on rows from Python, with a test set and its groups."""
    rng = np.random.default_rng(0)
    (X, y, place), (test_X, test_y, test_place) = (make_rows(120, 2, rng) for _ in range(2))
    return tcsl.debias(
        (X, y),
        0.25,
        test=(test_X, test_y),
        groups=place,
        test_groups=test_place,
        settings=SMALL,
        out=tmp_path_factory.mktemp("rows") / "run",
    )


@pytest.fixture(scope="package")
def hostile(tmp_path_factory):
    """Return a run on rows without groups whose classes have names that are no names."""
    rng = np.random.default_rng(0)
    sets = []
    for _ in range(2):
        X, y, _ = make_rows(80, 4, rng)
        sets.append(tcsl.make_dataset(torch.from_numpy(X), torch.from_numpy(y), class_names=HOSTILE, name=HOSTILE[0]))
    path = tmp_path_factory.mktemp("hostile") / "run"
    return tcsl.debias(sets[0], 0.25, test=sets[1], settings=SMALL, out=path)
