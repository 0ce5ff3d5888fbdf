"""Intervals of a share and AUC, by hand and against scipy and scikit-learn."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from tcsl.errors import InputError
from tcsl.statistics import auc, clopper_pearson, wilson, wilson_of_mean, worth


def test_wilson_by_hand():
    # 8 of 10, z^2 = 3.8415: the middle is 9.9207 / 13.8415, half the width sqrt(3.8415 (1.6 + 0.9604)) / 13.8415.
    assert wilson(8, 10) == pytest.approx((0.7167 - 0.2266, 0.7167 + 0.2266), abs=1e-4)
    # None of n: the upper end is z^2 / (n + z^2).
    assert wilson(0, 20) == pytest.approx((0, 3.8415 / 23.8415), abs=1e-5)


def test_clopper_pearson_by_hand():
    # None of 20: (1 - p)^20 = 0.025. All of 20: p^20 = 0.025.
    assert clopper_pearson(0, 20) == pytest.approx((0, 1 - 0.025 ** (1 / 20)))
    assert clopper_pearson(20, 20) == pytest.approx((0.025 ** (1 / 20), 1))
    # 1 of 2: at the lower end 1 - (1 - p)^2 = 0.025, at the upper 1 - p^2 = 0.025.
    assert clopper_pearson(1, 2) == pytest.approx((1 - math.sqrt(0.975), math.sqrt(0.975)))
    # 95 of 100, from a table.
    assert clopper_pearson(95, 100) == pytest.approx((0.8872, 0.9836), abs=1e-4)


@pytest.mark.parametrize("n", [1, 7, 23, 60])
def test_both_are_scipys(n):
    for k in range(n + 1):
        found = binomtest(k, n)
        for level in (0.9, 0.95):
            exact = found.proportion_ci(level, "exact")
            assert clopper_pearson(k, n, level) == pytest.approx((exact.low, exact.high), abs=1e-12)
        score = found.proportion_ci(0.95, "wilson")
        assert wilson(k, n) == pytest.approx((score.low, score.high), abs=1e-12)


def test_the_exact_interval_covers_every_share_often_enough():
    n = 20
    ends = np.array([clopper_pearson(k, n) for k in range(n + 1)])
    for share in np.linspace(0.001, 0.999, 333):
        inside = (ends[:, 0] <= share) & (share <= ends[:, 1])
        assert binom.pmf(np.arange(n + 1), n, share)[inside].sum() >= 0.95


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_what_is_no_share_is_refused(interval, k, n):
    with pytest.raises(InputError, match=f"got {k} of {n}"):
        interval(k, n)


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_is_between_0_and_1(level):
    with pytest.raises(InputError, match="between 0 and 1"):
        clopper_pearson(1, 2, level)


def test_the_interval_of_a_mean_by_hand():
    # 8 of 10 is in [0.4902, 0.9433], 20 of 20 in [0.8389, 1]. Their mean is 0.9, and the distances below are 0.3098 and
    # 0.1611, half of each: sqrt(0.1549^2 + 0.0806^2); above 0.1433 / 2 and 0.
    below, above = np.hypot(0.1549, 0.0806), 0.0717
    assert wilson_of_mean([(8, 10), (20, 20)], [0.5, 0.5]) == pytest.approx((0.9 - below, 0.9 + above), abs=1e-4)
    assert wilson_of_mean([(0, 5), (0, 9)], [0.3, 0.7])[0] == 0
    assert wilson_of_mean([(5, 5), (9, 9)], [0.3, 0.7])[1] == 1


def test_the_interval_of_a_mean_covers_it():
    """In 95 % of 2,000 draws of four groups of unlike sizes and weights, within what chance allows."""
    rng = np.random.default_rng(0)
    shares, sizes, weights = np.array([0.95, 0.4, 0.7, 0.9]), np.array([300, 40, 60, 120]), [0.7, 0.05, 0.05, 0.2]
    inside = 0
    for _ in range(2000):
        low, high = wilson_of_mean(
            list(zip(rng.binomial(sizes, shares).tolist(), sizes.tolist(), strict=True)), weights
        )
        inside += low <= shares @ weights <= high
    assert abs(inside / 2000 - 0.95) < 0.02


def test_worth_by_hand():
    # Four units of two, 2 2 0 2 right of 8: sums less 0.75 a sample are 0.5 0.5 -1.5 0.5, their squares' sum is 3, and
    # 0.75 x 0.25 / (3 / 8^2 x 4 / 3) = 3.
    right = np.array([1, 1, 1, 1, 0, 0, 1, 1], bool)
    assert worth(right, np.array([7, 7, 3, 3, 5, 5, 0, 0])) == pytest.approx(3)
    assert worth(right, np.arange(8)) == 8  # each shows something else
    assert worth(np.ones(8, bool), np.arange(8) // 2) == 4
    # Units that differ less than chance would have it are worth no more than their samples.
    assert worth(np.array([1, 0] * 4, bool), np.arange(8) // 2) == 4
    assert worth(np.array([1, 0, 1, 0, 1, 1], bool), np.array([0, 0, 1, 1, 2, 2])) <= 6


def test_samples_that_are_there_ten_times_are_worth_their_units():
    right = np.random.default_rng(0).random(40) < 0.7
    assert worth(np.repeat(right, 10), np.repeat(np.arange(40), 10)) == pytest.approx(39)


def test_intervals_by_worth_cover_where_those_by_samples_do_not():
    rng = np.random.default_rng(0)
    units, covered = np.repeat(np.arange(60), 8), {"worth": 0, "samples": 0}
    for _ in range(400):
        right = rng.random(480) < rng.beta(2, 1, 60)[units]  # 2 / 3 of all
        for name, n in (("worth", worth(right, units)), ("samples", 480)):
            low, high = wilson(right.mean() * n, n)
            covered[name] += low <= 2 / 3 <= high
    assert covered["worth"] >= 0.92 * 400
    assert covered["samples"] <= 0.8 * 400


def test_auc_by_hand():
    # Pairs of a positive with a negative: 4 beats 3, 3 and 1; 3 ties with two and beats 1: 3 + 2 / 2 + 1 of 6.
    scores, positive = np.array([4.0, 3.0, 3.0, 3.0, 1.0]), np.array([1, 1, 0, 0, 0], bool)
    assert auc(scores, positive) == 5 / 6
    assert auc(-scores, positive) == 1 / 6
    assert auc(np.zeros(5), positive) == 0.5
    with pytest.raises(InputError, match="index 3 is nan"):
        auc(np.array([1, 1, 1, np.nan, 1]), positive)


@pytest.mark.parametrize("values", [3, 50, 10**6])
def test_auc_is_sklearns(values):
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(values)
    scores, positive = rng.integers(values, size=500).astype(np.float32), rng.random(500) < 0.1
    assert auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
