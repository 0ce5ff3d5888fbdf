"""Both weight updates of stage 1, by hand."""

import math

import pytest
import torch

from tcsl.training.weights import batch_weights, class_balanced, class_update, literal_update


def test_class_balanced_is_one_over_the_class_size():
    weights = class_balanced(torch.tensor([0, 1, 1, 1, 1]), 2).exp()
    assert weights.tolist() == pytest.approx([1, 0.25, 0.25, 0.25, 0.25])


def test_literal_update_divides_by_the_median_of_all():
    # median of 1, 2, 6 is 2; of 1, 2, 4, 8 it is 3
    assert literal_update(torch.tensor([1.0, 2, 6])).exp().tolist() == pytest.approx(
        [math.exp(-0.5), math.exp(-1), math.exp(-3)]
    )
    assert literal_update(torch.tensor([8.0, 1, 4, 2])).tolist() == pytest.approx([-8 / 3, -1 / 3, -4 / 3, -2 / 3])


def test_class_update_by_hand():
    # class 0: losses 1, 3, median 2: e^-0.5, e^-1.5; class 1: losses 2, 4, 6, median 4: e^-0.5, e^-1, e^-1.5
    losses, labels = torch.tensor([1.0, 2, 3, 4, 6]), torch.tensor([0, 1, 0, 1, 1])
    first = math.exp(-0.5) + math.exp(-1.5)
    second = math.exp(-0.5) + math.exp(-1) + math.exp(-1.5)
    assert class_update(losses, labels, 2).exp().tolist() == pytest.approx(
        [
            math.exp(-0.5) / first,
            math.exp(-0.5) / second,
            math.exp(-1.5) / first,
            math.exp(-1) / second,
            math.exp(-1.5) / second,
        ]
    )


def test_a_class_with_one_sample_keeps_the_weight_of_a_class():
    log_weights = class_update(torch.tensor([5.0, 1.0, 2.0]), torch.tensor([0, 1, 1]), 2)
    assert log_weights.exp()[0].item() == pytest.approx(1)


def test_the_two_updates_differ_on_an_imbalanced_set():
    """FINDINGS 1: in the literal form, a class that is learned late loses its weight."""
    losses, labels = torch.tensor([0.01, 0.02, 0.03, 5.0]), torch.tensor([0, 0, 0, 1])
    literal = batch_weights(literal_update(losses))
    preserving = batch_weights(class_update(losses, labels, 2))
    assert literal[3] < 1e-30
    assert preserving[3].item() == pytest.approx(0.5)


@pytest.mark.parametrize("update", [literal_update, lambda x: class_update(x, torch.zeros(len(x), dtype=int), 1)])
def test_a_median_of_zero_is_the_limit_of_a_small_one(update):
    weights = batch_weights(update(torch.tensor([0.0, 0.0, 0.0, 1e-6, 2.0])))
    assert weights.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0])


def test_a_batch_far_above_the_median_still_has_the_weights_of_the_formula():
    """FINDINGS 5: exp(-1000) is 0 in float32, and a whole batch of such samples would be 0 / 0."""
    log_weights = literal_update(torch.tensor([0.001, 0.001, 0.001, 1.0, 1.001]))[3:]
    assert batch_weights(log_weights).tolist() == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e)], rel=1e-3)


def test_a_batch_whose_weights_are_all_zero_has_no_gradient():
    logits = torch.zeros(2, requires_grad=True)
    (batch_weights(torch.full((2,), -torch.inf)) * logits).sum().backward()
    assert logits.grad.tolist() == [0, 0]
