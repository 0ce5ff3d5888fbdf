"""The numbers that the page and the figures draw: densities, tenths, bands."""

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from tcsl.report.composition import compositions, tenths
from tcsl.report.curves import bands
from tcsl.report.densities import density
from tcsl.report.material import TrueGroups
from tcsl.scores import Scores


@pytest.mark.parametrize("heavy", [False, True])
def test_the_density_is_scipys_with_silvermans_width(heavy):
    rng = np.random.default_rng(0)
    values = rng.standard_t(3, 500) if heavy else rng.normal(size=500)
    logs = np.concatenate([values, values[:50] + 4]) / 3  # two heaps
    quarters = np.subtract(*np.quantile(logs, [0.75, 0.25])) / 1.349
    width = 0.9 * min(logs.std(), quarters) * 550**-0.2
    exact = gaussian_kde(logs, bw_method=width / logs.std(ddof=1))
    at, height = density(10**logs)
    assert np.abs(height - exact(np.log10(at))).max() < 2e-3 * height.max()
    assert np.log10(at).min() == pytest.approx(logs.min() - 4 * width, abs=0.05)
    assert np.log10(at).max() == pytest.approx(logs.max() + 4 * width, abs=0.05)


def test_the_density_of_equal_scores_is_a_narrow_peak():
    at, height = density(np.full(5, 3.0))
    assert at[height.argmax()] == pytest.approx(3, rel=1e-3)
    assert height.max() == pytest.approx(1 / (0.01 * np.sqrt(2 * np.pi)), rel=1e-2)
    assert at.max() < 3.3


def test_the_density_of_a_million_is_that_of_their_distribution():
    logs = np.random.default_rng(0).normal(size=1_000_000)
    at, height = density(10**logs)
    assert np.abs(height - np.exp(-(np.log10(at) ** 2) / 2) / np.sqrt(2 * np.pi)).max() < 0.005


def test_tenths_are_equal_in_size_whatever_the_values():
    assert tenths(np.array([0.3, 9.0, 0.1, 0.2, 5.0, 0.4, 0.5, 0.6, 0.7, 0.8])).tolist() == [
        2,
        9,
        0,
        1,
        8,
        3,
        4,
        5,
        6,
        7,
    ]
    assert tenths(np.zeros(20)).tolist() == [k // 2 for k in range(20)]  # ties in order
    sizes = np.bincount(tenths(np.random.default_rng(0).exponential(size=25)))
    assert sizes.tolist() == [3, 2, 3, 2, 3, 2, 3, 2, 3, 2]


def test_a_composition_by_hand():
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    curves = np.ones((10, 4), np.float32)
    scores = Scores(np.arange(10), labels, curves[:, 0], np.arange(10, dtype=np.float32), np.arange(10) < 3, curves)
    chosen = np.isin(np.arange(10), [0, 3, 9])
    groups = TrueGroups(np.array([0] * 8 + [1] * 2), np.zeros(10, bool), ("a", "b"))
    made = compositions(scores, chosen, ["x", "y", "z"], groups)
    counts = {by: (part.full.tolist(), part.kept.tolist()) for by, part in made.items()}
    tenth = [1, 0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert counts == {
        "class": ([3, 3, 4], [1, 1, 1]),
        "cluster": ([7, 3], [2, 1]),
        "tenth": ([1] * 10, tenth),
        "group": ([8, 2], [2, 1]),
    }
    assert "group" not in compositions(scores, chosen, ["x", "y", "z"], None)


def test_bands_are_percentiles_of_each_cluster():
    curves = np.stack([np.arange(11.0), 10 * np.arange(11.0)], 1).astype(np.float32)
    curves = np.concatenate([curves, 100 + curves])
    made = bands(curves, np.arange(22) >= 11)
    assert made["G_low"].tolist() == [[1, 10], [2.5, 25], [5, 50], [7.5, 75], [9, 90]]
    assert made["G_high"].tolist() == [[101, 110], [102.5, 125], [105, 150], [107.5, 175], [109, 190]]
    assert list(bands(curves, np.zeros(22, bool))) == ["G_low"]
