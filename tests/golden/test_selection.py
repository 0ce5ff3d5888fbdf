"""wKMeans, SelectBot, SelectHist and the quota, solved by hand."""

import warnings
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tcsl.config import SelectSettings
from tcsl.errors import InputError, TcslWarning
from tcsl.scores import Scores
from tcsl.selection.baselines import select_random, select_rgbal
from tcsl.selection.coreset import select
from tcsl.selection.fill import select_bottom, select_histogram, select_weighted
from tcsl.selection.quota import check_quota, level, quota, shares
from tcsl.selection.tcsl_cs import identify, select_coreset, select_tcsl_cs, tcsl_s_of
from tcsl.selection.wkmeans import wkmeans

RNG = np.random.default_rng


def column(*values):
    return np.array(values, np.float32)[:, None]


def test_wkmeans_by_hand():
    # From centres 0 and 10: {0, 1}, {10, 12}. Weighted means (0 + 3 * 1) / 4 = 0.75 and 11; nothing moves after that.
    # Inertia: 0.75^2 + 3 * 0.25^2 + 1 + 1 = 2.75.
    found = wkmeans(
        column(0, 1, 10, 12),
        np.array([1, 3, 1, 1], np.float32),
        rng=RNG(0),
        initial=np.array([[[0.0], [10.0]]]),
    )
    assert found.second.tolist() == [False, False, True, True]
    assert found.centres.ravel().tolist() == pytest.approx([0.75, 11])
    assert found.inertia == pytest.approx(2.75)
    assert found.iterations == 2


def test_wkmeans_weights_move_the_boundary():
    # Unweighted: centres 2 and 7.75, and 5.5 stays with 10. With weight 100 on 10 its centre is 9.96, and 5.5 leaves.
    rows = column(0, 4, 5.5, 10)
    start = np.array([[[0.0], [10.0]]])
    light = wkmeans(rows, np.ones(4, np.float32), rng=RNG(0), initial=start)
    assert light.second.tolist() == [False, False, True, True]
    heavy = wkmeans(rows, np.array([1, 1, 1, 100], np.float32), rng=RNG(0), initial=start)
    assert heavy.second.tolist() == [False, False, False, True]
    assert heavy.centres.ravel().tolist() == pytest.approx([9.5 / 3, 10])


def test_wkmeans_on_bounded_losses_by_hand():
    found = wkmeans(
        column(0, np.log(2), 50), np.ones(3, np.float32), rng=RNG(0), losses="bounded", initial=[[[0.0], [1.0]]]
    )
    # 1 - exp(-loss): 0, 0.5, 1. The middle is as close to both and goes to the first.
    assert found.second.tolist() == [False, False, True]
    assert found.centres.ravel().tolist() == pytest.approx([0.25, 1])


@pytest.mark.parametrize("seed", range(5))
def test_wkmeans_is_scikit_learns_k_means_from_the_same_centres(seed):
    rng = RNG(seed)
    rows = rng.exponential(size=(400, 6)).astype(np.float32)
    weights = rows.mean(1)
    start = rows[rng.choice(400, 2, replace=False)]
    ours = wkmeans(rows, weights, rng=rng, initial=start[None])
    theirs = KMeans(2, init=start, n_init=1, max_iter=200, tol=0, algorithm="lloyd").fit(rows, sample_weight=weights)
    assert np.array_equal(ours.second, theirs.labels_ == 1)
    assert ours.inertia == pytest.approx(theirs.inertia_, rel=1e-4)


def test_wkmeans_keeps_the_tightest_restart():
    rows = column(0, 0.1, 5, 5.1, 5.2)
    poor_and_good = np.array([[[5.0], [5.2]], [[0.0], [5.0]]])
    found = wkmeans(rows, np.ones(5, np.float32), rng=RNG(0), initial=poor_and_good, max_iterations=1)
    assert found.second.tolist() == [False, False, True, True, True]


def test_wkmeans_of_equal_rows_is_nothing_to_separate():
    assert wkmeans(np.ones((5, 2), np.float32), np.ones(5, np.float32), rng=RNG(0)) is None


@pytest.mark.parametrize("losses", ["raw", "bounded"])
@pytest.mark.parametrize("seed", range(20))
def test_wkmeans_tells_rows_apart_that_differ_in_the_last_digits(losses, seed):
    """Ten classes at the start of training: every loss is log(10) and a few units in the last place."""
    rng = RNG(seed)
    rows = (np.float32(2.302585) + 1e-6 * rng.integers(0, 4, (50, 3))).astype(np.float32)
    found = wkmeans(rows, rows.mean(1), rng=rng, losses=losses, restarts=3)
    assert 0 < found.second.sum() < 50


def test_wkmeans_finds_the_one_row_that_differs_among_many():
    rows = np.zeros((5000, 3), np.float32)
    rows[1234] = 1
    found = wkmeans(rows, np.ones(5000, np.float32), rng=RNG(0))
    assert sorted([int(found.second.sum()), int((~found.second).sum())]) == [1, 4999]


def test_a_cluster_of_weight_zero_keeps_its_centre():
    found = wkmeans(column(0, 10), np.array([0, 1], np.float32), rng=RNG(0), initial=[[[1.0], [9.0]]])
    assert found.centres.ravel().tolist() == pytest.approx([1, 10])


@pytest.mark.parametrize(
    ("curves", "weights", "message"),
    [
        (np.zeros((0, 3)), np.zeros(0), "loss curves must have shape"),
        (np.zeros((2, 3)), np.zeros(3), "one weight a sample"),
        (np.zeros((2, 3)), np.array([-1.0, 1.0]), "not negative"),
    ],
)
def test_wkmeans_says_what_is_wrong(curves, weights, message):
    with pytest.raises(InputError, match=message):
        wkmeans(curves.astype(np.float32), weights.astype(np.float32), rng=RNG(0))


def test_select_bottom_breaks_ties_by_position():
    assert select_bottom(np.array([2.0, 1, 1, 0]), 3).tolist() == [3, 1, 2]


def test_select_histogram_visits_bins_in_ascending_order():
    # Bins of one sample each leave nothing to chance: the order is the ascending one.
    assert select_histogram(np.array([3.0, 1, 2]), 3, bins=3, rng=RNG(0)).tolist() == [1, 2, 0]


def test_select_histogram_passes_over_a_bin_that_ran_out():
    # 5 samples in 3 bins of 2, 2, 1: turns 0 1 2, then 0 1 and the third is empty.
    picked = select_histogram(np.arange(5.0), 5, bins=3, rng=RNG(0))
    assert [0 if i < 2 else 1 if i < 4 else 2 for i in picked] == [0, 1, 2, 0, 1]
    assert sorted(picked) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("ratio", "n", "count"), [(0.1, 10, 1), (0.29, 100, 29), (1 / 3, 9, 2), (1, 7, 7), (0.999, 3, 2)]
)
def test_quota_is_the_floor_of_the_decimal_product(ratio, n, count):
    assert quota(ratio, n) == count


@pytest.mark.parametrize(
    ("ratio", "message"),
    [
        (0, r"in \(0, 1\], got 0"),
        (10, r"got 10; did you mean 0.10\?"),
        (-0.1, "got -0.1"),
        (float("nan"), "got nan"),
        (0.01, "no sample: use a ratio of 0.02"),
    ],
)
def test_quota_refuses(ratio, message):
    for refuses in (quota, check_quota):
        with pytest.raises(InputError, match=message):
            refuses(ratio, 50)
    check_quota("auto", 50)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 99, 1001, 33_333_333])
def test_the_ratio_that_an_error_advises_is_enough(n):
    with pytest.raises(InputError, match="is no sample") as caught:
        quota(1e-9, n)
    assert quota(float(str(caught.value).split()[-3]), n) >= 1


def test_nothing_to_select_from():
    with pytest.raises(InputError, match="no samples to select from"):
        quota(0.5, 0)


def test_what_is_divided_is_no_more_than_there_is():
    with pytest.raises(InputError, match="cannot divide 5"):
        level(5, np.array([1, 1]), np.array([2, 2]))
    with pytest.raises(InputError, match="cannot divide 5"):
        shares(5, np.array([1, 1]), np.array([2, 2]))
    with pytest.raises(InputError, match="cannot divide 5"):
        select_histogram(np.arange(4.0), 5, bins=2, rng=RNG(0))


# Algorithm 2. Ten samples, two classes; 8 and 9 have high curves. TCSL_c is the index, descending in class 1.
CURVES = np.array([[0.1]] * 8 + [[4.0]] * 2, np.float32).repeat(3, 1)
LABELS = np.array([0, 1] * 5)
TCSL_C = np.arange(10, dtype=np.float32)
TCSL_S = CURVES.mean(1)


def choose(**settings):
    return select_tcsl_cs(CURVES, TCSL_C, LABELS, SelectSettings(**settings), seed=0)


def test_g_high_comes_first_and_the_lowest_tcsl_c_fills():
    found = choose(ratio=0.5, tau=0, fill="global")
    assert found.g_high.tolist() == [False] * 8 + [True] * 2
    assert found.indices.tolist() == [0, 1, 2, 8, 9]


def test_equal_filling_levels_the_classes_counting_g_high():
    # Seven of class 0 and three of class 1; G_high has samples 0 and 1, both of class 0. Six are kept, so four are
    # left: with all three of class 1 and one of class 0, both classes have three.
    labels = np.array([0] * 7 + [1] * 3)
    g_high = np.arange(10) < 2
    settings = SelectSettings(ratio=0.6, tau=0)
    equal = select_coreset(g_high, TCSL_S, TCSL_C, labels, settings, seed=0)
    assert equal.tolist() == [0, 1, 2, 7, 8, 9]
    # By shares, 0.7 and 0.3 of the six, 4.2 and 1.8: four and two.
    shared = select_coreset(g_high, TCSL_S, TCSL_C, labels, settings.model_copy(update={"fill": "class"}), seed=0)
    assert shared.tolist() == [0, 1, 2, 3, 7, 8]
    # Where class 1 has no more to give, class 0 takes the rest.
    most = select_coreset(g_high, TCSL_S, TCSL_C, labels, settings.model_copy(update={"ratio": 0.8}), seed=0)
    assert most.tolist() == [0, 1, 2, 3, 4, 7, 8, 9]


def test_g_high_takes_at_most_half_of_a_class():
    # Six samples a class; G_high has 0 .. 3 of class 0, with TCSL_s rising, and 6 of class 1. Eight are kept, four of
    # each class: of class 0 the two highest, 2 and 3, and both of G_low; of class 1 its one and the three lowest.
    labels, g_high = np.repeat([0, 1], 6), np.isin(np.arange(12), [0, 1, 2, 3, 6])
    tcsl_s, tcsl_c = np.arange(12, dtype=np.float32), np.arange(12, dtype=np.float32)
    settings = SelectSettings(ratio=8 / 12 + 1e-6, tau=0)

    def kept(**changed):
        return select_coreset(g_high, tcsl_s, tcsl_c, labels, settings.model_copy(update=changed), seed=0).tolist()

    assert kept() == [2, 3, 4, 5, 6, 7, 8, 9]
    # A quarter of four is one; but class 0 has only two others, so two of G_high are kept.
    assert kept(high_share=0.25) == [2, 3, 4, 5, 6, 7, 8, 9]
    # As printed, G_high takes what it has: all four places of class 0, or over all classes all five of eight.
    assert kept(high_share=1.0) == [0, 1, 2, 3, 6, 7, 8, 9]
    assert kept(high_share=1.0, fill="global") == [0, 1, 2, 3, 4, 5, 6, 7]
    # Over all classes half of eight are four, the highest of five.
    assert kept(fill="global") == [1, 2, 3, 4, 5, 6, 7, 8]
    # Half of three is rounded up: of class 0 two of G_high and one other.
    assert kept(ratio=0.5) == [2, 3, 4, 6, 7, 8]


def test_filling_by_class_keeps_the_classes_shares():
    # 2 left, one for each class: the lowest of class 0 is sample 0; class 1 is scored the other way round.
    tcsl_c = np.where(LABELS == 1, 100 - TCSL_C, TCSL_C).astype(np.float32)
    by_class = select_tcsl_cs(CURVES, tcsl_c, LABELS, SelectSettings(ratio=0.4, tau=0, fill="class"), seed=0)
    assert by_class.indices.tolist() == [0, 7, 8, 9]
    everywhere = select_tcsl_cs(CURVES, tcsl_c, LABELS, SelectSettings(ratio=0.4, tau=0, fill="global"), seed=0)
    assert everywhere.indices.tolist() == [0, 2, 8, 9]


def test_below_tau_the_quota_is_spread_over_bins():
    # G_low's 8 samples in 4 bins of 2; 4 left: one of each.
    found = choose(ratio=0.6, tau=0.7, bins=4, fill="global")
    low = found.indices[found.indices < 8]
    assert (low // 2).tolist() == [0, 1, 2, 3]


def test_tau_itself_selects_the_bottom():
    assert choose(ratio=0.4, tau=0.4, fill="global").indices.tolist() == [0, 1, 8, 9]


def test_a_weighted_draw_has_the_probabilities_of_drawing_one_by_one():
    # Weights 1, 2, 3. The pair {0, 1} comes as 0 then 1, 1/6 x 2/5, or 1 then 0, 1/3 x 1/4: 0.15. So {0, 2} has
    # 1/6 x 3/5 + 1/2 x 1/3 = 0.2667, and {1, 2} the rest. The first is sample 2 half of the time.
    rng = np.random.default_rng(0)
    draws = np.array([select_weighted(np.array([1.0, 2, 3]), 2, rng=rng) for _ in range(20_000)])
    left_out = np.bincount(3 - draws.sum(1), minlength=3) / len(draws)
    np.testing.assert_allclose(left_out, [1 - 0.15 - 4 / 15, 4 / 15, 0.15], atol=0.01)
    np.testing.assert_allclose(np.bincount(draws[:, 0]) / len(draws), [1 / 6, 1 / 3, 1 / 2], atol=0.01)


def test_samples_of_weight_zero_are_drawn_last():
    for seed in range(20):
        drawn = select_weighted(np.array([0.0, 1, 0, 2]), 3, rng=np.random.default_rng(seed)).tolist()
        assert set(drawn[:2]) == {1, 3}
        assert drawn[2] in (0, 2)


@pytest.mark.parametrize(("exceeding", "share"), [("highest", 1), ("weighted", 0.75), ("uniform", 0.5)])
def test_of_a_g_high_that_exceeds_its_places_the_highest_are_kept_or_a_sample(exceeding, share):
    # Samples 8 and 9 are in G_high, with 1 and 3 of TCSL_s; one is kept.
    g_high, tcsl_s = np.arange(10) >= 8, np.float32([0, 0, 0, 0, 0, 0, 0, 0, 1, 3])
    settings = SelectSettings(ratio=0.1, fill="global", exceeding=exceeding)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TcslWarning)
        picks = [select_coreset(g_high, tcsl_s, TCSL_C, LABELS, settings, seed=s).item() for s in range(2000)]
    assert set(picks) == ({9} if exceeding == "highest" else {8, 9})
    assert np.mean(np.array(picks) == 9) == pytest.approx(share, abs=0.03)


def test_auto_keeps_three_times_g_high():
    assert choose(ratio="auto", tau=0, fill="global").indices.tolist() == [0, 1, 2, 3, 8, 9]
    # tau is compared with the part that this is, 0.6.
    below = choose(ratio="auto", tau=0.61, bins=4, fill="global").indices
    assert (below[below < 8] // 2).tolist() == [0, 1, 2, 3]
    assert choose(ratio="auto", tau=0.6, bins=4, fill="global").indices.tolist() == [0, 1, 2, 3, 8, 9]
    half = select_coreset(np.arange(10) < 5, TCSL_S, TCSL_C, LABELS, SelectSettings(ratio="auto"), seed=0)
    assert half.tolist() == list(range(10))


def test_auto_needs_a_g_high():
    with pytest.raises(InputError, match=r"three times G_high, and G_high is empty: give a number in \(0, 1\]"):
        select_coreset(np.zeros(10, bool), TCSL_S, TCSL_C, LABELS, SelectSettings(ratio="auto"), seed=0)


def test_everything_is_kept_at_ratio_one():
    assert choose(ratio=1).indices.tolist() == list(range(10))


def test_equal_curves_leave_g_high_empty_and_say_so():
    with pytest.warns(TcslWarning, match="same loss curve"):
        found = select_tcsl_cs(np.ones((10, 2), np.float32), TCSL_C, LABELS, SelectSettings(ratio=0.3, tau=0), seed=0)
    assert not found.g_high.any()
    assert len(found.indices) == 3


def test_a_g_high_that_is_the_larger_part_is_said():
    curves = np.array([[0.1]] * 2 + [[4.0]] * 8, np.float32)
    with pytest.warns(TcslWarning, match="G_high has 8 of 10"):
        assert identify(curves, curves[:, 0], SelectSettings(), seed=0).sum() == 8


def test_a_class_that_is_lost_is_named():
    # Three places: 8 and 9, which are G_high, and the lowest TCSL_c.
    labels, settings = np.array([0] * 7 + [1, 0, 0]), {"select.tau": 0, "select.fill": "global"}
    with pytest.warns(TcslWarning, match=r"no sample of class 1.*or select.fill=equal") as caught:
        assert select(TCSL_C, labels, rule="tcsl_cs", curves=CURVES, ratio=0.3, settings=settings).indices[0] == 0
    assert caught[0].filename == __file__
    scores = Scores(np.arange(10), labels, TCSL_S, TCSL_C, np.zeros(10, bool), CURVES, {"class_names": ["sea", "land"]})
    with pytest.warns(TcslWarning, match="no sample of class land:"):
        select(scores, ratio=0.3, settings=settings)


def test_a_class_with_one_sample_is_kept_or_named():
    labels = np.array([0] * 9 + [1])
    kept = select_coreset(np.zeros(10, bool), TCSL_S, TCSL_C, labels, SelectSettings(ratio=0.9), seed=0)
    assert 9 in kept
    assert len(kept) == 9


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="10 labels but 9 rows of tcsl_c"):
        select_tcsl_cs(CURVES, TCSL_C[:9], LABELS, SelectSettings(), seed=0)
    with pytest.raises(InputError, match="tcsl_c has NaN"):
        select_tcsl_cs(CURVES, np.full(10, np.nan, np.float32), LABELS, SelectSettings(), seed=0)


def test_tcsl_s_is_the_mean_of_the_curve():
    assert tcsl_s_of(np.array([[1, 2, 6], [0, 0, 3]], np.float32)).tolist() == [3, 1]


def test_rgbal_takes_the_minority_first():
    minority = np.array([True] * 3 + [False] * 7)
    assert select_rgbal(minority, ratio=0.5, rng=RNG(0))[:3].tolist() == [0, 1, 2]
    few = select_rgbal(minority, ratio=0.2, rng=RNG(0))
    assert len(few) == 2
    assert set(few) < {0, 1, 2}


def test_rgbal_makes_the_classes_equal_where_asked():
    # The minority has two of class 0 and one of class 2; six are to be kept. Three more make 2, 2, 2: two of class 1
    # (of 4, 5, 6) and one of class 2 (of 8, 9), none of class 0 (of 3, 7).
    minority = np.array([True] * 3 + [False] * 7)
    labels = np.array([0, 0, 2, 0, 1, 1, 1, 0, 2, 2])
    drawn = [select_rgbal(minority, ratio=0.6, rng=RNG(seed), balance=labels) for seed in range(40)]
    assert all(kept[:3].tolist() == [0, 1, 2] for kept in drawn)
    assert all(np.bincount(labels[kept]).tolist() == [2, 2, 2] for kept in drawn)
    assert {int(i) for kept in drawn for i in kept[3:]} == {4, 5, 6, 8, 9}
    # Class 0 has four, the others three: nine are 3, 3, 3.
    assert np.bincount(labels[select_rgbal(minority, ratio=0.9, rng=RNG(0), balance=labels)]).tolist() == [3, 3, 3]
    # A minority of three is too many for two: one of each of its classes.
    few = select_rgbal(minority, ratio=0.2, rng=RNG(0), balance=labels)
    assert labels[few].tolist() == [0, 2]
    # Names of classes are as good as numbers.
    names = np.array(["a", "b", "c"])[labels]
    same = select_rgbal(minority, ratio=0.6, rng=RNG(0), balance=names)
    assert same.tolist() == drawn[0].tolist()


def test_random_draws_every_subset_equally_often():
    rng = RNG(0)
    drawn = Counter(tuple(select_random(5, ratio=0.4, rng=rng).tolist()) for _ in range(10_000))
    assert sorted(drawn) == list(combinations(range(5), 2))
    assert all(abs(times - 1000) < 120 for times in drawn.values())  # four standard deviations
