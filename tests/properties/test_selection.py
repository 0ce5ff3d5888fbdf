"""What must hold for any input to wKMeans and the selection rules."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcsl.config import SelectSettings
from tcsl.errors import TcslWarning
from tcsl.selection.baselines import select_rgbal
from tcsl.selection.fill import select_histogram
from tcsl.selection.quota import level, quota, shares
from tcsl.selection.tcsl_cs import select_coreset
from tcsl.selection.wkmeans import wkmeans

seeds = st.integers(0, 2**32 - 1)


def curves_of(rng, n, epochs=4):
    return rng.exponential(size=(n, epochs)).astype(np.float32)


def cluster(rows, weights, start, **more):
    return wkmeans(rows, weights.astype(np.float32), rng=np.random.default_rng(0), initial=start[None], **more)


@given(
    seeds,
    st.integers(1, 60),
    st.floats(0.02, 1),
    st.sampled_from(["equal", "class", "global"]),
    st.booleans(),
    st.sampled_from(["highest", "weighted", "uniform"]),
    st.sampled_from([0.3, 0.5, 1.0]),
)
def test_the_quota_is_exact_nothing_repeats_and_g_high_has_its_part(
    seed, n, ratio, fill, bottom, exceeding, high_share
):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    g_high = rng.random(n) < rng.random()
    tcsl_s, tcsl_c = rng.integers(0, 5, (2, n)).astype(np.float32)  # many ties
    chosen = SelectSettings(
        ratio=ratio,
        fill=fill,
        exceeding=exceeding,
        high_share=high_share,
        tau=0 if bottom else 2,
        bins=int(rng.integers(1, 60)),
    )
    if int(ratio * n) == 0:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TcslWarning)
        kept = select_coreset(g_high, tcsl_s, tcsl_c, labels, chosen, seed=seed)
    assert len(kept) == quota(ratio, n)
    assert len(np.unique(kept)) == len(kept)
    assert np.array_equal(kept, np.sort(kept))
    for k in {0} if fill == "global" else set(labels.tolist()):
        mine = np.ones(n, bool) if fill == "global" else labels == k
        high, low = int((g_high & mine).sum()), int((~g_high & mine).sum())
        places, rare = int(mine[kept].sum()), int((g_high & mine)[kept].sum())
        allowed = -(-int(10 * high_share) * places // 10)
        if rare < high:  # some were left out: no more than their part was kept, unless G_low has no others
            assert rare == allowed or places - rare == low
        else:
            assert places - rare <= low
    if fill == "equal":
        counts = np.bincount(labels[kept], minlength=4)
        short = counts < np.bincount(labels, minlength=4)
        assert not short.any() or counts[short].min() >= counts.max() - 1


@given(seeds, st.integers(2, 80), st.sampled_from(["raw", "bounded"]))
def test_permuting_rows_permutes_clusters(seed, n, losses):
    rng = np.random.default_rng(seed)
    rows = curves_of(rng, n)
    weights = rows.mean(1)
    start = rows[[0, n - 1]] if losses == "raw" else 1 - np.exp(-rows[[0, n - 1]])
    order = rng.permutation(n)
    here = cluster(rows, weights, start, losses=losses)
    there = cluster(rows[order], weights[order], start, losses=losses)
    assert np.array_equal(here.second[order], there.second)


@given(seeds, st.integers(2, 40))
def test_weight_two_is_the_row_twice(seed, n):
    rng = np.random.default_rng(seed)
    rows = curves_of(rng, n)
    twice = rng.random(n) < 0.5
    start = rows[[0, n - 1]]
    weighted = cluster(rows, 1 + twice, start)
    repeated = cluster(np.concatenate([rows, rows[twice]]), np.ones(n + int(twice.sum())), start)
    assert np.array_equal(weighted.second, repeated.second[:n])
    assert weighted.inertia == pytest.approx(repeated.inertia, rel=1e-4, abs=1e-4)


@given(seeds, st.integers(2, 40), st.floats(0.01, 100))
def test_scaled_weights_change_nothing(seed, n, scale):
    rng = np.random.default_rng(seed)
    rows = curves_of(rng, n)
    weights = rows.mean(1)
    start = rows[[0, n - 1]]
    assert np.array_equal(cluster(rows, weights, start).second, cluster(rows, scale * weights, start).second)


@given(seeds, st.integers(3, 40))
def test_weight_zero_moves_no_centre(seed, n):
    rng = np.random.default_rng(seed)
    rows = curves_of(rng, n)
    weights = np.where(rng.random(n) < 0.3, 0, 1.0)
    weights[[0, n - 1]] = 1
    start = rows[[0, n - 1]]
    with_them = cluster(rows, weights, start)
    without = cluster(rows[weights > 0], weights[weights > 0], start)
    assert np.array_equal(with_them.second[weights > 0], without.second)
    assert np.allclose(with_them.centres, without.centres, rtol=1e-4, atol=1e-5)


@given(seeds, st.integers(2, 300))
def test_blocks_do_not_change_the_answer(seed, n):
    rng = np.random.default_rng(seed)
    rows = curves_of(rng, n)
    weights = rows.mean(1)
    start = rows[[0, n - 1]]
    whole = cluster(rows, weights, start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tcsl.selection.wkmeans._BLOCK_VALUES", 32)
        parts = cluster(rows, weights, start)
    assert np.array_equal(whole.second, parts.second)


@given(seeds, st.integers(0, 60), st.integers(1, 8))
def test_level_gives_one_at_a_time_to_the_lowest_that_is_open(seed, total, parts):
    rng = np.random.default_rng(seed)
    held, limits = rng.integers(0, 9, parts), rng.integers(0, 9, parts)
    total = min(total, int(limits.sum()))
    given_ = np.zeros_like(limits)
    for _ in range(total):
        height = np.where(given_ < limits, held + given_, 10**6)
        given_[height.argmin()] += 1
    assert level(total, held, limits).tolist() == given_.tolist()


@given(seeds, st.integers(0, 30), st.integers(1, 12))
def test_bins_filled_to_one_level_are_the_loop_of_the_appendix(seed, total, bins):
    sizes = np.random.default_rng(seed).integers(0, 6, bins)
    total = min(total, int(sizes.sum()))
    left, taken, count = sizes.copy(), np.zeros_like(sizes), 0
    while count < total:
        for b in range(bins):
            if count == total:
                break
            if left[b]:
                left[b] -= 1
                taken[b] += 1
                count += 1
    assert level(total, np.zeros_like(sizes), sizes).tolist() == taken.tolist()


@given(seeds, st.integers(1, 50), st.integers(1, 60))
def test_select_histogram_picks_without_repeats_from_each_bin(seed, n, bins):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, n + 1))
    scores = rng.integers(0, 7, n).astype(np.float32)
    picked = select_histogram(scores, count, bins=bins, rng=rng)
    assert len(picked) == len(set(picked)) == count
    parts = np.array_split(np.argsort(scores, kind="stable"), min(bins, n))
    from_each = [int(np.isin(part, picked).sum()) for part in parts]
    sizes = np.array([len(part) for part in parts])
    assert from_each == level(count, np.zeros_like(sizes), sizes).tolist()


@given(seeds, st.integers(0, 200), st.integers(1, 9))
def test_shares_sum_to_the_total_within_their_limits(seed, total, parts):
    rng = np.random.default_rng(seed)
    sizes, limits = rng.integers(0, 50, parts), rng.integers(0, 50, parts)
    total = min(total, int(limits.sum()))
    out = shares(total, sizes, limits)
    assert out.sum() == total
    assert (out <= limits).all()
    if (limits >= total).all() and sizes.min() > 0:
        assert (abs(out - total * sizes / sizes.sum()) < 1).all()


@settings(max_examples=30)
@given(seeds, st.integers(1, 60), st.floats(0.05, 1))
def test_rgbal_is_exact_and_keeps_the_minority(seed, n, ratio):
    rng = np.random.default_rng(seed)
    minority = rng.random(n) < 0.2
    if int(ratio * n) == 0:
        return
    labels = rng.integers(0, 4, n)
    for balance in (None, labels):
        kept = select_rgbal(minority, ratio=ratio, rng=rng, balance=balance)
        assert len(np.unique(kept)) == quota(ratio, n)
        assert minority[kept].sum() == min(minority.sum(), len(kept))
    # Balanced: no class could have one more, of what is drawn, in place of one of a class that has two more than it.
    drawn = minority if minority.sum() >= len(kept) else ~minority
    has = np.bincount(labels[kept], minlength=4)
    gave = np.bincount(labels[kept[drawn[kept]]], minlength=4)
    could = gave < np.bincount(labels[drawn], minlength=4)
    assert all(has[low] >= has[high] - 1 for low in np.flatnonzero(could) for high in np.flatnonzero(gave))
