"""The separation of two clusters: by hand, by all cuts in numpy, by scikit-learn's k-means, and what must hold."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from tcsl.scoring.separation import separation


def of_values(values):
    """Return the separation of losses whose 1 - exp(-loss) are these values."""
    return float(separation(torch.tensor([-math.log1p(-value) for value in values], dtype=torch.float64)))


def test_by_hand():
    # Mean 0.45; squares 0.2025, 0.0625, 0.0625, 0.2025: 0.53. Means of the halves 0.1 and 0.8: 4 x 0.35^2 = 0.49.
    assert of_values([0.9, 0.0, 0.7, 0.2]) == pytest.approx(0.49 / 0.53, abs=1e-12)
    # 0.1, 0.1, 0.1 | 0.5: two points, in any proportion.
    assert of_values([0.1, 0.5, 0.1, 0.1]) == pytest.approx(1, abs=1e-12)
    # 0, 0.3 | 0.9: mean 0.4, squares 0.16, 0.01, 0.25: 0.42; between 2 x 0.25^2 + 0.5^2 = 0.375.
    assert of_values([0.0, 0.3, 0.9]) == pytest.approx(0.375 / 0.42, abs=1e-12)


def test_large_losses_are_bounded():
    """Of four samples one has a loss of 50, another of 100: both are wrong with certainty, and no further apart."""
    assert float(separation(torch.tensor([0.0, 0.0, 50.0, 100.0]))) == pytest.approx(1)


@pytest.mark.parametrize("losses", [[2.5], [2.5, 2.5, 2.5], [0.0, 0.0], [math.log(10)] * 1000])
def test_one_point_is_not_separated(losses):
    assert float(separation(torch.tensor(losses))) == 0


def test_a_uniform_and_a_normal_distribution_have_what_is_said():
    grid = (np.arange(20_000) + 0.5) / 20_000
    assert of_values(grid) == pytest.approx(3 / 4, abs=1e-4)
    normal = torch.special.ndtri(torch.tensor(grid)).clamp(-8, 8).numpy()
    assert of_values(0.5 + normal / 20) == pytest.approx(2 / math.pi, abs=1e-3)


@pytest.mark.parametrize("n", [2, 3, 40, 500])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_best_cut_and_that_of_k_means(n, seed):
    rng = np.random.default_rng(seed)
    losses = rng.exponential(rng.choice([0.1, 3.0], n)).astype(np.float32)
    values = np.sort(1 - np.exp(-losses.astype(np.float64)))
    total = values.var() * n
    within = min(values[:k].var() * k + values[k:].var() * (n - k) for k in range(1, n))
    found = float(separation(torch.tensor(losses)))
    assert found == pytest.approx(1 - within / total, abs=1e-6)
    clusters = KMeans(2, n_init=50, random_state=0).fit(values[:, None])
    assert found == pytest.approx(1 - clusters.inertia_ / total, abs=1e-6)


@given(st.lists(st.floats(0, 100, width=32), min_size=1, max_size=50), st.randoms())
def test_it_is_between_0_and_1_whatever_the_order(losses, random):
    found = float(separation(torch.tensor(losses)))
    assert 0 <= found <= 1
    random.shuffle(losses)
    assert float(separation(torch.tensor(losses))) == found
