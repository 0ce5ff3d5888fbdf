"""The scikit-learn sampler, by scikit-learn's own checks."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from tcsl import TCSLSampler
from tcsl.errors import InputError


@parametrize_with_checks([TCSLSampler(ratio=0.5, epochs=2, random_state=0)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 3)), np.array(["cat", "dog"])[np.arange(60) % 2]


def test_fit_resample_keeps_labels_as_they_came():
    X, y = rows()
    sampler = TCSLSampler(ratio=0.5, epochs=10, random_state=0)
    X_kept, y_kept = sampler.fit_resample(X, y)
    assert X_kept.shape == (30, 3)
    assert set(y_kept) == {"cat", "dog"}
    assert np.array_equal(X_kept, X[sampler.sample_indices_])
    assert sampler.tcsl_s_.shape == sampler.tcsl_c_.shape == sampler.g_high_.shape == (60,)
    assert sampler.classes_.tolist() == ["cat", "dog"]


def test_tables_stay_tables():
    X, y = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    X_kept, y_kept = TCSLSampler(ratio=0.2, epochs=10, random_state=0).fit_resample(frame, pd.Series(y))
    assert list(X_kept.columns) == ["a", "b", "c"]
    assert X_kept.index.tolist() == y_kept.index.tolist()
    pair = TCSLSampler(ratio=0.2, epochs=10, random_state=0).fit_resample(pl.from_pandas(frame), pl.Series(y))
    assert [type(part) for part in pair] == [pl.DataFrame, pl.Series]
    assert pair[0].to_numpy().tolist() == X_kept.to_numpy().tolist()


def test_the_same_random_state_gives_the_same_samples():
    X, y = rows()
    sampler = TCSLSampler(ratio=0.2, epochs=10, random_state=3)
    first = sampler.fit(X, y).sample_indices_
    assert first.tolist() == clone(sampler).fit(X, y).sample_indices_.tolist()


def test_settings_reach_the_run():
    X, y = rows()
    with pytest.raises(InputError, match="unknown setting"):
        TCSLSampler(settings={"train.lrr": 1}).fit(X, y)
    with pytest.raises(InputError, match=r"did you mean 0.20"):
        TCSLSampler(ratio=20).fit(X, y)
