"""The logit-corrected loss, by hand, and what is recorded beside it."""

import math

import pytest
import torch

from tcsl.training.objective import Batch, cross_entropy, logit_correction

BATCH = Batch(torch.zeros(2, 1), torch.tensor([0, 1]), torch.tensor([0, 1]))


def test_cross_entropy_is_minimised_and_recorded():
    losses = cross_entropy(torch.tensor([[0.0, 0.0], [0.0, math.log(3)]]), BATCH)
    assert losses.minimised.tolist() == pytest.approx([math.log(2), math.log(4 / 3)])
    assert losses.recorded is losses.minimised


def test_the_correction_is_minimised_and_the_own_logits_are_recorded():
    # f_c says nothing (logits 0, 0); f_s says 0.9, 0.1. Corrected probabilities are f_s's own.
    log_biased = torch.tensor([[0.9, 0.1], [0.9, 0.1]]).log()
    losses = logit_correction(lambda batch: log_biased)(torch.zeros(2, 2, requires_grad=True), BATCH)
    assert losses.minimised.tolist() == pytest.approx([-math.log(0.9), -math.log(0.1)], rel=1e-5)
    assert losses.recorded.tolist() == pytest.approx([math.log(2), math.log(2)])
    assert losses.minimised.requires_grad
    assert not losses.recorded.requires_grad


def test_the_correction_is_finite_where_a_probability_underflows():
    log_biased = torch.tensor([[-200.0, 0.0], [0.0, -200.0]])  # exp(-200) is 0 in float32
    losses = logit_correction(lambda batch: log_biased)(torch.zeros(2, 2), BATCH)
    assert losses.minimised.tolist() == pytest.approx([200, 200])
