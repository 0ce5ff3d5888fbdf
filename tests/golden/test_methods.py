"""The debiasing methods' formulas against plain NumPy, written from their papers."""

import numpy as np
import pytest
import torch

from tcsl.methods.cnc import contrast
from tcsl.methods.groupdro import balanced_order, group_dro
from tcsl.methods.jtt import up_sampled
from tcsl.methods.lff import learning_from_failure
from tcsl.training.objective import Batch, generalized_cross_entropy
from tcsl.training.pair import Pair


def batch_of(labels, indices):
    return Batch(torch.zeros(len(labels), 1), torch.tensor(labels), torch.tensor(indices))


def cross_entropy(logits, label):
    return float(np.log(np.exp(logits).sum()) - logits[label])


def test_group_weights_after_three_batches():
    rng = np.random.default_rng(0)
    group, labels = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 1, 0, 1, 0])
    q, eta, c = np.full(3, 1 / 3), 0.3, 0.5
    weights = torch.full((3,), 1 / 3)
    objective = group_dro(torch.from_numpy(group), weights, step=eta, adjustment=c)
    for index in ([0, 2, 3], [1, 0, 5, 4], [2, 4]):  # the second lacks group 1, the third group 0
        logits = rng.normal(size=(len(index), 2))
        loss = np.zeros(3)
        for g in range(3):
            own = [cross_entropy(logits[i], labels[at]) for i, at in enumerate(index) if group[at] == g]
            loss[g] = (np.mean(own) if own else 0) + c / np.sqrt((group == g).sum())
        q = q * np.exp(eta * loss)
        q = q / q.sum()
        found = objective(torch.tensor(logits, dtype=torch.float32), batch_of(labels[index].tolist(), index))
        assert weights.numpy() == pytest.approx(q, rel=1e-5)
        assert found.total.item() == pytest.approx(q @ loss, rel=1e-5)


def test_groups_are_drawn_equally_often():
    group = torch.tensor([0] * 90 + [1] * 9 + [2])
    drawn = torch.cat([balanced_order(group, 3, torch.Generator().manual_seed(i)) for i in range(60)])
    shares = torch.bincount(group[drawn]).double() / len(drawn)
    assert shares.tolist() == pytest.approx([1 / 3] * 3, abs=0.03)  # 6,000 draws: sd 0.006


def test_lff_weights_after_two_visits():
    """Both moving averages start at 0; a class's largest is over all its samples, visited or not."""
    rng = np.random.default_rng(1)
    labels = np.array([0, 0, 1, 1])
    averages = torch.zeros(2, 4)
    objective = learning_from_failure(torch.from_numpy(labels), averages, 2, q=0.7, memory=0.7)
    kept = np.zeros((2, 4))
    for index in ([0, 2, 3], [1, 0, 2]):
        logits = rng.normal(size=(len(index), 4))
        both = [[cross_entropy(row[part], labels[i]) for row, i in zip(logits, index, strict=True)] for part in
                (slice(0, 2), slice(2, 4))]  # fmt: skip
        kept[:, index] = 0.7 * kept[:, index] + 0.3 * np.array(both)
        largest = np.array([[kept[net][labels == label].max() for label in (0, 1)] for net in (0, 1)])
        share = kept[:, index] / largest[:, labels[index]]
        weight = share[0] / (share[0] + share[1])
        p = np.exp(-np.array(both[0]))
        expected = ((1 - p**0.7) / 0.7).mean() + (weight * both[1]).mean()
        found = objective(torch.tensor(logits, dtype=torch.float32), batch_of(labels[index].tolist(), index))
        assert averages.numpy() == pytest.approx(kept, rel=1e-5)
        assert found.total.item() == pytest.approx(expected, rel=1e-5)


def test_a_pair_puts_both_nets_logits_side_by_side():
    first, second = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    pair = Pair(first, second)
    assert torch.equal(pair(x), torch.cat([first(x), second(x)], 1))
    assert torch.equal(pair.eval()(x), second(x))


@pytest.mark.parametrize("q", [0.3, 0.7, 1.0])
def test_the_gradient_of_the_generalised_cross_entropy_is_p_to_the_q_times_the_usual_one(q):
    logits = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([1, 0])
    losses = generalized_cross_entropy(logits, labels, q)
    p = logits.detach().softmax(1).gather(1, labels[:, None])[:, 0]
    assert losses.detach().numpy() == pytest.approx(((1 - p**q) / q).numpy(), rel=1e-12)
    (ours,) = torch.autograd.grad(losses.sum(), logits)
    usual = logits.detach().softmax(1) - torch.nn.functional.one_hot(labels, 3)
    assert ours.numpy() == pytest.approx((p[:, None] ** q * usual).numpy(), rel=1e-10)


def test_a_probability_of_nearly_0_or_1_stays_finite_in_the_generalised_cross_entropy():
    logits = torch.tensor([[-200.0, 200.0], [200.0, -200.0]], requires_grad=True)
    losses = generalized_cross_entropy(logits, torch.tensor([0, 0]), 0.7)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([1 / 0.7, 0.0])
    assert torch.isfinite(logits.grad).all()


def test_jtt_repeats_what_is_wrong():
    wrong = np.array([True, False, False, True])
    assert up_sampled(wrong, 4).tolist() == [0, 0, 0, 0, 1, 2, 3, 3, 3, 3]
    assert up_sampled(~wrong & wrong, 4).tolist() == [0, 1, 2, 3]


def test_cncs_loss_on_six_points():
    """Anchors are samples 0, 4 and 5: predicted rightly, with a positive and a negative in the batch."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6, 3))
    labels, predicted = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 1, 0, 0, 1, 0])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    s = unit @ unit.T / 0.5
    expected = []
    for anchor, positives, negatives in ((0, [1], [2, 3]), (4, [2, 3], [1]), (5, [1], [2, 3])):
        bottom = np.exp(s[anchor, positives + negatives]).sum()
        expected.append(np.mean([-np.log(np.exp(s[anchor, p]) / bottom) for p in positives]))
    found = contrast(torch.tensor(x), torch.from_numpy(labels), torch.from_numpy(predicted), 0.5)
    assert found.item() == pytest.approx(np.mean(expected), rel=1e-5)


def test_cnc_without_an_anchor_is_0_and_has_a_gradient():
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.tensor([0, 0, 1, 1])
    found = contrast(x, labels, labels, 0.1)
    found.backward()
    assert found.item() == 0
    assert torch.isfinite(x.grad).all()
