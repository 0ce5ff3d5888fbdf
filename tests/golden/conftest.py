"""What the tests of several scores are made on: few rows, short trainings."""

import numpy as np
import pytest

from tcsl.config import DeviceSettings, resolve
from tcsl.data.convert import as_dataset
from tcsl.training.device import choose
from tcsl.training.feed import Feed


@pytest.fixture
def rows_feed():
    """Return a function to a feed of n rows of three classes."""

    def feed(n=23, spread=1.0):
        y = np.arange(n) % 3
        X = np.random.default_rng(1).normal(size=(n, 4)) * spread + y[:, None]
        return Feed.of(as_dataset((X, y)), choose(DeviceSettings(device="cpu")))

    return feed


@pytest.fixture
def settings():
    """Return a function to settings with seed 3, 8 epochs and batches of 5, and what else is given."""

    def with_overrides(**overrides):
        named = {name.replace("__", "."): value for name, value in overrides.items()}
        return resolve(overrides={"seed": 3, "train.epochs": 8, "train.batch_size": 5, "train.lr": 0.05, **named})

    return with_overrides
