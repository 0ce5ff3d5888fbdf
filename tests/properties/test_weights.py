"""What must hold for any losses in the weight updates."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tcsl.training.weights import batch_weights, class_update, literal_update

losses = hnp.arrays("float32", st.integers(1, 40), elements=st.floats(0, 1e4, width=32))


@given(losses, st.integers(0, 2**31))
def test_each_class_keeps_its_total(values, seed):
    labels = torch.randint(0, 3, (len(values),), generator=torch.Generator().manual_seed(seed))
    weights = class_update(torch.from_numpy(values), labels, 3).double().exp()
    for k in labels.unique():
        assert abs(weights[labels == k].sum() - 1) < 1e-3


@given(losses, st.integers(0, 2**31))
def test_permuting_samples_permutes_weights(values, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.from_numpy(values)
    labels = torch.randint(0, 3, (len(x),), generator=generator)
    order = torch.randperm(len(x), generator=generator)
    assert torch.equal(literal_update(x)[order], literal_update(x[order]))
    torch.testing.assert_close(class_update(x, labels, 3)[order], class_update(x[order], labels[order], 3))


@given(losses)
def test_a_higher_loss_never_has_a_higher_weight(values):
    x = torch.from_numpy(values).sort().values
    assert (literal_update(x).diff() <= 0).all()
    assert (class_update(x, torch.zeros(len(x), dtype=torch.int64), 1).diff() <= 0).all()


@given(hnp.arrays("float32", st.integers(1, 40), elements=st.floats(-(2.0**100), 50, width=32)))
def test_batch_weights_sum_to_one(logs):
    weights = batch_weights(torch.from_numpy(logs))
    assert abs(weights.sum() - 1) < 1e-4
    assert (weights >= 0).all()


@given(losses, st.integers(0, 2**31))
def test_weight_two_is_the_sample_twice(values, seed):
    x = torch.from_numpy(values) + 0.1
    twice = torch.rand(len(x), generator=torch.Generator().manual_seed(seed)) < 0.5
    once = (batch_weights((1 + twice.float()).log()) * x).sum()
    repeated = torch.cat([x, x[twice]])
    torch.testing.assert_close(once, (batch_weights(torch.zeros(len(repeated))) * repeated).sum())
