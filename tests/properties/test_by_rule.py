"""What must hold for every rule, on any score, through the function that all go through."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcsl
from tcsl.errors import TcslWarning
from tcsl.selection.quota import quota

RULES = ["bot", "top", "hist", "ccs", "d2", "random", "rgbal", "tcsl_cs"]
seeds = st.integers(0, 2**32 - 1)
ratios = st.floats(0.02, 1)


def samples(seed, n, dtype=np.float64):
    """Scores of which no two are equal, labels, an embedding and loss curves, all in a random order."""
    rng = np.random.default_rng(seed)
    scores = rng.permutation(n).astype(dtype) + np.asarray(3, dtype)
    curves = rng.exponential(size=(n, 4)).astype(np.float32) * rng.choice([0.1, 3], (n, 1), p=[0.8, 0.2])
    return scores, rng.choice(["cat", "dog", "owl"], n), rng.standard_normal((n, 3)), curves


def chosen(rule, scores, labels, embedding, curves, *, ratio, **more):
    """Select, with what the rule needs."""
    if rule == "rgbal":
        more["minority"] = scores < np.sort(scores)[3]
    if rule == "d2":
        more |= {"embedding": embedding, "k": 3}
    if rule == "tcsl_cs":
        more["curves"] = curves
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TcslWarning)
        return tcsl.select(scores, labels, rule=rule, ratio=ratio, **more)


@given(st.sampled_from(RULES), seeds, st.integers(6, 80), ratios)
def test_the_quota_is_exact_and_nothing_repeats(rule, seed, n, ratio):
    if int(ratio * n) == 0:
        return
    scores, labels, *rest = samples(seed, n)
    kept = chosen(rule, scores, labels, *rest, ratio=ratio)
    assert len(kept) == quota(ratio, n)
    assert (np.diff(kept.indices) > 0).all()
    assert 0 <= kept.indices[0] <= kept.indices[-1] < n
    assert kept.labels.tolist() == labels[kept.indices].tolist()
    if rule != "tcsl_cs":
        assert kept.scores.tolist() == scores[kept.indices].tolist()


@settings(max_examples=14)
@given(st.sampled_from(RULES), seeds, st.integers(1000, 4000))
def test_the_quota_is_exact_for_thousands(rule, seed, n):
    kept = chosen(rule, *samples(seed, n), ratio=0.137)
    assert len(np.unique(kept.indices)) == len(kept) == quota(0.137, n)


@given(st.sampled_from(RULES), seeds, st.integers(6, 60))
def test_all_is_kept_at_ratio_one(rule, seed, n):
    assert chosen(rule, *samples(seed, n), ratio=1).indices.tolist() == list(range(n))


@given(st.sampled_from(RULES), seeds, st.integers(6, 60), st.floats(0.2, 1), st.integers(0, 3))
def test_the_same_seed_keeps_the_same(rule, seed, n, ratio, draw):
    given_ = samples(seed, n)
    first, second = (chosen(rule, *given_, ratio=ratio, seed=draw).indices.tolist() for _ in range(2))
    assert first == second


# Random and the clustering draw positions, not scores: for those, another order is another draw.
@given(st.sampled_from(["bot", "top", "hist", "ccs", "d2"]), seeds, st.integers(6, 60), st.floats(0.2, 1))
def test_permuting_samples_permutes_what_is_kept(rule, seed, n, ratio):
    arrays = samples(seed, n)
    order = np.random.default_rng(seed + 1).permutation(n)
    here = chosen(rule, *arrays, ratio=ratio).indices
    there = chosen(rule, *(array[order] for array in arrays), ratio=ratio).indices
    assert sorted(order[there].tolist()) == here.tolist()


@given(st.sampled_from(RULES), seeds, st.integers(6, 60), st.floats(0.2, 1))
def test_the_type_of_the_scores_does_not_matter(rule, seed, n, ratio):
    kinds = (np.float64, np.float32, np.float16, np.int64, np.int16, np.uint8)
    found = [chosen(rule, *samples(seed, n, kind), ratio=ratio).indices.tolist() for kind in kinds]
    assert all(one == found[0] for one in found)
    scores, *rest = samples(seed, n)
    assert chosen(rule, scores.tolist(), *rest, ratio=ratio).indices.tolist() == found[0]


@given(st.sampled_from(RULES), seeds, st.integers(6, 60), st.floats(0.2, 1))
def test_what_classes_are_called_does_not_matter_as_long_as_their_order_is_the_same(rule, seed, n, ratio):
    scores, labels, *rest = samples(seed, n)
    by_class = {"by_class": True} if rule in ("bot", "top", "hist") else {}
    found = [
        chosen(rule, scores, names, *rest, ratio=ratio, **by_class).indices.tolist()
        for names in (
            labels,
            labels.astype(object),
            np.unique(labels, return_inverse=True)[1],
            10**14 + np.unique(labels, return_inverse=True)[1],
        )
    ]
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("rule", ["hist", "ccs", "random"])
def test_another_seed_keeps_others(rule):
    given_ = samples(0, 200)
    assert len({tuple(chosen(rule, *given_, ratio=0.3, seed=seed).indices) for seed in range(5)}) == 5
