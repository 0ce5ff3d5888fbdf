"""What must hold for any input to the rules, the neighbours and D2."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from tcsl.errors import TcslWarning
from tcsl.selection.d2 import forward_messages, neighbour_graph, select_d2, take_greedily
from tcsl.selection.neighbours import nearest_neighbours
from tcsl.selection.quota import quota
from tcsl.selection.rules import divide_among_strata, drop_hardest, select_bot, select_ccs, select_hist, select_top

seeds = st.integers(0, 2**32 - 1)
RNG = np.random.default_rng

RULES = {
    "bot": lambda s, e, y, r, by_class: select_bot(s, y, ratio=r, by_class=by_class),
    "top": lambda s, e, y, r, by_class: select_top(s, y, ratio=r, by_class=by_class),
    "hist": lambda s, e, y, r, by_class: select_hist(s, y, ratio=r, rng=RNG(0), bins=7, by_class=by_class),
    "ccs": lambda s, e, y, r, by_class: select_ccs(s, y, ratio=r, rng=RNG(0), bins=7, beta=min(0.3, 1 - r)),
    "d2": lambda s, e, y, r, by_class: select_d2(s, e, y, ratio=r, k=3, beta=min(0.3, 1 - r)),
}


def select(rule, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TcslWarning)
        return RULES[rule](*arguments)


def samples(seed, n, *, ties=False):
    """Scores, an embedding in two dimensions and labels; with ties, all of them small integers."""
    rng = RNG(seed)
    if ties:
        return rng.integers(0, 4, n).astype(np.float32), rng.integers(0, 4, (n, 2)).astype(float), rng.integers(0, 3, n)
    return rng.exponential(size=n), rng.standard_normal((n, 2)).astype(np.float32), rng.integers(0, 3, n)


@given(st.sampled_from(sorted(RULES)), seeds, st.integers(6, 60), st.floats(0.02, 1), st.booleans(), st.booleans())
def test_the_quota_is_exact_and_nothing_repeats(rule, seed, n, ratio, by_class, ties):
    if int(ratio * n) == 0:
        return
    kept = select(rule, *samples(seed, n, ties=ties), ratio, by_class)
    assert kept.dtype == np.int64
    assert len(kept) == quota(ratio, n)
    assert (np.diff(kept) > 0).all()
    assert 0 <= kept[0] <= kept[-1] < n


@given(st.sampled_from(sorted(RULES)), seeds, st.integers(6, 40), st.floats(0.2, 1))
def test_permuting_samples_permutes_what_is_chosen(rule, seed, n, ratio):
    scores, embedding, labels = samples(seed, n)
    order = RNG(seed).permutation(n)
    here = select(rule, scores, embedding, labels, ratio, False)
    there = select(rule, scores[order], embedding[order], labels[order], ratio, False)
    assert sorted(order[there]) == here.tolist()


@given(st.sampled_from(["bot", "top", "d2"]), seeds, st.integers(6, 40), st.floats(0.2, 1), st.floats(0.001, 1000))
def test_scaled_scores_change_nothing(rule, seed, n, ratio, scale):
    scores, *rest = samples(seed, n)
    assert (
        select(rule, scores, *rest, ratio, False).tolist() == select(rule, scale * scores, *rest, ratio, False).tolist()
    )


@given(seeds, st.integers(6, 60), st.floats(0.05, 1))
def test_by_class_no_class_is_more_than_one_from_its_share(seed, n, ratio):
    if int(ratio * n) == 0:
        return
    scores, embedding, labels = samples(seed, n, ties=True)
    for rule in ("bot", "top", "hist"):
        kept = np.bincount(labels[select(rule, scores, embedding, labels, ratio, True)], minlength=3)
        assert (abs(kept - kept.sum() * np.bincount(labels, minlength=3) / n) < 1).all()


@given(seeds, st.integers(1, 60), st.floats(0.05, 1))
def test_what_bot_leaves_is_no_easier_and_what_top_leaves_no_harder(seed, n, ratio):
    if int(ratio * n) == 0:
        return
    scores, embedding, labels = samples(seed, n, ties=True)
    low = select("bot", scores, embedding, labels, ratio, False)
    high = select("top", scores, embedding, labels, ratio, False)
    assert (np.delete(scores, low) >= scores[low].max()).all()
    assert (np.delete(scores, high) <= scores[high].min()).all()


@given(seeds, st.integers(0, 80), st.integers(1, 12))
def test_strata_give_as_equal_parts_as_they_can(seed, total, strata):
    sizes = RNG(seed).integers(0, 12, strata)
    total = min(total, int(sizes.sum()))
    given_ = divide_among_strata(total, sizes)
    assert given_.sum() == total
    assert (given_ <= sizes).all()
    # A stratum that could give more gives no less than any other, but for the remainder.
    assert given_.max() - min(given_[given_ < sizes], default=total) <= 1


@given(seeds, st.integers(2, 80), st.floats(0.05, 0.5), st.floats(0, 0.5))
def test_ccs_keeps_none_of_the_hardest(seed, n, ratio, beta):
    if int(ratio * n) == 0:
        return
    scores, _, labels = samples(seed, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TcslWarning)
        kept = select_ccs(scores, labels, ratio=ratio, beta=beta, rng=RNG(seed))
    assert np.isin(kept, drop_hardest(scores, beta, len(kept))).all()


# Neighbours.


def brute(rows, k):
    """All distances in float64, sorted; the plain way."""
    rows = rows.astype(np.float32).astype(np.float64)
    squared = np.square(rows[:, None] - rows[None]).sum(-1)
    np.fill_diagonal(squared, np.inf)
    indices = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return indices, np.sqrt(np.take_along_axis(squared, indices, 1))


# The sizes as they are, where all is one tile; several tiles; nearly every row crowded; every row, in small blocks.
SIZES = [
    {},
    {"search._TILE": 8, "search._GROUP": 3},
    {"search._TILE": 8, "search._CROWD": 1},
    {
        "search._TILE": 8,
        "search._CROWD": -100,
        "search._BLOCK_VALUES": 128,
        "search._BLOCK_ROWS": 5,
        "search._PAIR_VALUES": 16,
        "neighbours._BLOCK_ENTRIES": 16,
    },
]


@given(seeds, st.integers(2, 70), st.integers(1, 9), st.booleans(), st.sampled_from(SIZES))
def test_neighbours_are_those_of_all_distances(seed, n, width, ties, sizes):
    rng = RNG(seed)
    k = int(rng.integers(1, n))
    rows = rng.integers(0, 3, (n, width)) if ties else rng.standard_normal((n, width))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sizes.items():
            patch.setattr(f"tcsl.selection.{name}", value)
        found = nearest_neighbours(rows, k)
    indices, distances = brute(rows, k)
    assert found.indices.tolist() == indices.tolist()
    assert found.distances.ravel().tolist() == pytest.approx(distances.ravel().tolist(), rel=1e-12)


@settings(max_examples=20)
@given(seeds, st.sampled_from(["euclidean", "cosine"]))
def test_neighbours_are_scikit_learns(seed, metric):
    rows = RNG(seed).standard_normal((300, 16)).astype(np.float32)
    found = nearest_neighbours(rows, 5, metric=metric)
    theirs = NearestNeighbors(n_neighbors=5, metric=metric, algorithm="brute").fit(rows.astype(np.float64))
    distances, indices = theirs.kneighbors()
    assert found.indices.tolist() == indices.tolist()
    assert np.allclose(found.distances, distances, rtol=1e-5)


@settings(max_examples=40)
@given(seeds, st.sampled_from(["far from zero", "narrow clusters", "huge", "tiny", "one far row"]), st.booleans())
def test_rounding_does_not_decide_who_is_near(seed, case, tiles):
    rng = RNG(seed)
    rows = rng.standard_normal((200, 24))
    if case == "far from zero":
        rows = 1e4 + 0.01 * rows
    elif case == "narrow clusters":
        rows = 1e-4 * rows + rng.standard_normal((4, 24))[rng.integers(0, 4, 200)]
    elif case == "one far row":
        rows[17] *= 1e6
    else:
        rows *= 1e30 if case == "huge" else 1e-30
    with pytest.MonkeyPatch.context() as patch:
        if tiles:
            patch.setattr("tcsl.selection.search._TILE", 32)
        found = nearest_neighbours(rows, 5)
    indices, distances = brute(rows, 5)
    # Coordinates on a coarse grid, as float32 has them far from zero, have ties; those are in order.
    assert found.indices.tolist() == indices.tolist()
    assert found.distances.ravel().tolist() == pytest.approx(distances.ravel().tolist(), rel=1e-12)


@given(seeds, st.integers(2, 60))
def test_distances_are_the_same_from_both_ends(seed, n):
    rows = RNG(seed).standard_normal((n, 33)).astype(np.float32)
    found = nearest_neighbours(rows, n - 1)
    full = np.zeros((n, n))
    np.put_along_axis(full, found.indices, found.distances, 1)
    assert (full == full.T).all()


# D2.


def dense_d2(scores, rows, count, *, k, gamma, forward_gamma):
    """D2 pruning with n x n matrices, as the formulas are written; returns the order of the picks."""
    n = len(rows)
    indices, _ = brute(rows, k)
    rows = rows.astype(np.float32).astype(np.float64)
    distance = np.sqrt(np.square(rows[:, None] - rows[None]).sum(-1))
    edge = np.zeros((n, n), bool)
    np.put_along_axis(edge, indices, True, 1)
    edge |= edge.T
    forward, reverse = np.exp(-forward_gamma * distance), np.exp(-gamma * distance)
    now = np.empty(n)
    for i in range(n):
        received = 0.0
        for j in np.flatnonzero(edge[i]):
            received += forward[i, j] * scores[j]
        now[i] = scores[i] + received
    order = []
    for _ in range(count):
        i = int(np.argmax(np.where(np.isin(np.arange(n), order), -np.inf, now)))
        order.append(i)
        now[edge[i]] -= reverse[i, edge[i]] * now[i]
    return order


@given(seeds, st.integers(2, 40), st.floats(0, 3), st.floats(0, 3), st.booleans(), st.booleans())
def test_d2_is_the_dense_formulation(seed, n, gamma, forward_gamma, ties, negative):
    scores, rows, labels = samples(seed, n, ties=ties)
    scores = scores.astype(np.float64) - 2 * negative
    k, count = int(RNG(seed).integers(1, n)), int(RNG(seed + 1).integers(1, n + 1))
    expected = dense_d2(scores, rows, count, k=k, gamma=gamma, forward_gamma=forward_gamma)
    graph = neighbour_graph(nearest_neighbours(rows, k))
    raised = forward_messages(scores, graph, gamma=forward_gamma)
    assert take_greedily(raised, graph, count, gamma=gamma).tolist() == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TcslWarning)
        kept = select_d2(
            scores,
            rows,
            labels,
            ratio=min(1, (count + 0.5) / n),
            k=k,
            gamma=gamma,
            forward_gamma=forward_gamma,
            beta=0,
        )
    assert kept.tolist() == sorted(expected)


@given(seeds, st.integers(8, 40), st.floats(0, 0.6))
def test_d2_never_sees_what_beta_drops(seed, n, beta):
    scores, rows, labels = samples(seed, n)
    left = np.sort(drop_hardest(scores, beta, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TcslWarning)
        here = select_d2(scores, rows, labels, ratio=3.5 / n, k=2, beta=beta)
        alone = select_d2(scores[left], rows[left], labels[left], ratio=min(1, 3.5 / len(left)), k=2, beta=0)
    assert left[alone].tolist() == here.tolist()


@given(seeds, st.integers(30, 60), st.floats(0.1, 1))
def test_d2_by_class_is_exact_and_keeps_the_classes_shares(seed, n, ratio):
    scores, rows, _ = samples(seed, n)
    labels = np.arange(n) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TcslWarning)
        kept = select_d2(scores, rows, labels, ratio=ratio, k=3, beta=0, by_class=True)
    assert len(np.unique(kept)) == quota(ratio, n)
    assert (abs(np.bincount(labels[kept], minlength=3) - len(kept) * np.bincount(labels) / n) < 1).all()
