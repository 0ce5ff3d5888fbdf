"""EIIL on its paper's example in two dimensions: a feature v that can be relied on and a spurious one z, all binary.

v is the label for 3 of 4 samples everywhere; z for 19 of 20 in the first environment, which has 640 samples, and for 1
of 20 in the second, which has 160. The paper's proposition: given a model of z, invariance is violated most by the
samples with z = y as one environment and those with z != y as the other. What is expected here comes from the counts,
from all splits of the eight kinds of sample, and from scipy, with derivatives by differences; nothing from our code.
"""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from tcsl.methods.environments import infer_environments, irm_penalty, scale_gradient

AGREES = 616 / 800  # z with the label, in both environments together: 0.95 x 640 + 0.05 x 160 samples


def example():
    """Return v, z and y, of -1 or 1, and the planted environments, with the shares above met exactly."""
    cells = [
        (v * y, z * y, y, second, round(size / 2 * (0.75 if v > 0 else 0.25) * (share if z > 0 else 1 - share)))
        for second, size, share in ((0, 640, 0.95), (1, 160, 0.05))
        for y, v, z in product((-1, 1), repeat=3)
    ]
    rows = np.repeat([cell[:4] for cell in cells], [cell[4] for cell in cells], axis=0)
    return np.random.default_rng(0).permutation(rows).T


def inferred(logit, y, **how):
    """Return the environments of a model with one logit, for y = 1."""
    logits = torch.tensor(np.stack([0 * logit, logit], 1))
    return infer_environments(logits, torch.from_numpy((y + 1) // 2), **how).numpy()


def loss(scale, logit, y):
    return np.logaddexp(0, -y * scale * logit)


def penalty(share, logit, y):
    """IRMv1's penalty by its definition: each environment's mean loss, derived by the scale of the logits."""
    step = 1e-4
    slope = [
        np.mean(part * (loss(1 + step, logit, y) - loss(1 - step, logit, y))) / (2 * step)
        for part in (share, 1 - share)
    ]
    return slope[0] ** 2 + slope[1] ** 2


def of_spurious(z):
    """The best model that sees z alone: its log-odds of y = 1."""
    return z * np.log(AGREES / (1 - AGREES))


def test_the_shares_are_those_of_the_example():
    v, z, y, planted = example()
    assert len(y) == 800
    assert np.mean(v == y) == 0.75
    assert [np.mean((z == y)[planted == e]) for e in (0, 1)] == [0.95, 0.05]
    assert np.mean(z == y) == AGREES


@pytest.mark.parametrize("seed", [0, 1])
def test_a_model_of_the_spurious_feature_gives_the_papers_environments(seed):
    _, z, y, planted = example()
    found = inferred(of_spurious(z), y, seed=seed)
    assert np.array_equal(found, z != y)
    # 19 of 20 samples are where they were planted; two independent splits of these sizes agree for 66 %.
    assert np.mean(found == planted) == 0.95


def test_the_penalty_there_is_the_closed_form_and_above_that_of_the_planted_environments():
    """The gradient is -(1 - p) a where z = y, and p a elsewhere, where p = P(z = y) and a = log(p / (1 - p))."""
    _, z, y, planted = example()
    logit, p = of_spurious(z), AGREES
    a = np.log(p / (1 - p))
    logits = torch.tensor(np.stack([0 * logit, logit], 1))
    gradient = scale_gradient(logits, torch.from_numpy((y + 1) // 2))
    expected = {
        "inferred": (inferred(logit, y), 2 * (p * (1 - p) * a) ** 2),
        "planted": (planted, 2 * ((608 * (1 - p) - 32 * p) / 800 * a) ** 2),
    }
    for environments, value in expected.values():
        assert irm_penalty(gradient, torch.from_numpy(environments)).item() == pytest.approx(value, rel=1e-12)
        assert penalty(environments, logit, y) == pytest.approx(value, rel=1e-6)
    assert expected["inferred"][1] > 1.5 * expected["planted"][1]


def test_no_split_of_the_eight_kinds_of_sample_is_higher():
    v, z, y, _ = example()
    logit = of_spurious(z)
    kind = (4 * (v > 0) + 2 * (z > 0) + (y > 0)).astype(int)
    splits = [np.array(bits)[kind] for bits in product((0, 1), repeat=8)]
    best = max(splits, key=lambda split: penalty(split, logit, y))
    assert np.array_equal(best == best[z != y][0], z != y)
    assert penalty(inferred(logit, y), logit, y) == pytest.approx(penalty(best, logit, y), rel=1e-9)


def test_scipy_goes_to_the_same_environments_from_a_soft_start():
    _, z, y, _ = example()
    logit = of_spurious(z)
    part = np.r_[np.flatnonzero(z == y)[:30], np.flatnonzero(z != y)[:10]]  # so that differences are quickly taken
    start = np.random.default_rng(3).random(len(part))
    found = minimize(lambda q: -penalty(q, logit[part], y[part]), start, bounds=[(0, 1)] * len(part)).x
    assert np.minimum(found, 1 - found).max() < 1e-6  # a corner: no sample is in both
    second = found > 0.5
    expected = inferred(logit[part], y[part])
    assert np.array_equal(second if second[-1] else ~second, expected == 1)
    assert np.array_equal(expected == 1, (z != y)[part])


def test_plain_training_on_both_features_gives_them_too():
    """z says more than v, so the side of the model's logit is that of z."""
    v, z, y, planted = example()
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(np.stack([v, z], 1), y)
    # v and z are independent given y: the log-odds add up.
    assert model.coef_[0] == pytest.approx([np.log(3), np.log(AGREES / (1 - AGREES))], rel=1e-4)
    found = inferred(model.decision_function(np.stack([v, z], 1)), y)
    assert np.array_equal(found, z != y)
    assert np.mean(found == planted) == 0.95


def test_a_model_of_the_other_feature_finds_nothing_of_them():
    v, _, y, planted = example()
    found = inferred(v * np.log(3), y)
    assert np.array_equal(found, v != y)
    # What two independent splits have: 0.75 x 0.8 + 0.25 x 0.2.
    assert np.mean(found == planted) == pytest.approx(0.65)
