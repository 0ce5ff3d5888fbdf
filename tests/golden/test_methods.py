"""The debiasing methods' formulas against plain NumPy, written from their papers."""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tcsl.methods.cnc import contrast, correct_and_contrast
from tcsl.methods.groupdro import balanced_order, group_dro
from tcsl.methods.jtt import up_sampled
from tcsl.methods.lff import learning_from_failure
from tcsl.methods.ula import logit_adjustment, twins, uniform_joint
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
    """A moving average starts at its first value; a class's largest is over all its samples, visited or not."""
    rng = np.random.default_rng(1)
    labels = np.array([0, 0, 1, 1])
    averages = torch.zeros(2, 4)
    objective = learning_from_failure(torch.from_numpy(labels), averages, 2, q=0.7, memory=0.7)
    kept = np.zeros((2, 4))
    for index in ([0, 2, 3], [1, 0, 2]):
        logits = rng.normal(size=(len(index), 4))
        both = [[cross_entropy(row[part], labels[i]) for row, i in zip(logits, index, strict=True)] for part in
                (slice(0, 2), slice(2, 4))]  # fmt: skip
        before = kept[:, index]
        kept[:, index] = np.where(before > 0, 0.7 * before + 0.3 * np.array(both), both)
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


# CNC's six points. Anchors are samples 0, 4 and 5: predicted rightly, with a positive and a negative in the batch.
SIX_LABELS, SIX_PREDICTED = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 1, 0, 0, 1, 0])
SIX_ANCHORS = ((0, [1], [2, 3]), (4, [2, 3], [1]), (5, [1], [2, 3]))


def contrast_of_six(x, temperature):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    s = unit @ unit.T / temperature
    each = []
    for anchor, positives, negatives in SIX_ANCHORS:
        bottom = np.exp(s[anchor, positives + negatives]).sum()
        each.append(np.mean([-np.log(np.exp(s[anchor, p]) / bottom) for p in positives]))
    return np.mean(each)


def test_cncs_loss_on_six_points():
    x = np.random.default_rng(2).normal(size=(6, 3))
    found = contrast(torch.tensor(x), torch.from_numpy(SIX_LABELS), torch.from_numpy(SIX_PREDICTED), 0.5)
    assert found.item() == pytest.approx(contrast_of_six(x, 0.5), rel=1e-5)


def test_cncs_objective_is_a_share_of_the_contrast_and_the_rest_of_the_cross_entropy():
    """The six points are in a batch of another order than the data's, of which they are a part."""
    rng = np.random.default_rng(4)
    logits, features = rng.normal(size=(6, 2)), rng.normal(size=(6, 3))
    index = [7, 0, 3, 5, 1, 4]
    predicted = torch.ones(8, dtype=torch.int64)
    predicted[index] = torch.from_numpy(SIX_PREDICTED)
    losses = [cross_entropy(row, label) for row, label in zip(logits, SIX_LABELS, strict=True)]
    objective = correct_and_contrast(predicted, 2, share=0.3, temperature=0.5)
    outputs = torch.tensor(np.concatenate([logits, features], 1), requires_grad=True)
    found = objective(outputs, batch_of(SIX_LABELS.tolist(), index))
    assert found.total.item() == pytest.approx(0.3 * contrast_of_six(features, 0.5) + 0.7 * np.mean(losses), rel=1e-5)
    assert found.recorded.numpy() == pytest.approx(losses, rel=1e-5)
    (gradient,) = torch.autograd.grad(found.total, outputs)
    usual = np.exp(logits) / np.exp(logits).sum(1, keepdims=True) - np.eye(2)[SIX_LABELS]
    assert gradient[:, :2].numpy() == pytest.approx(0.7 * usual / 6, rel=1e-5)
    assert gradient[:, 2:].abs().sum() > 0


def test_cnc_without_an_anchor_is_0_and_has_a_gradient():
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.tensor([0, 0, 1, 1])
    found = contrast(x, labels, labels, 0.1)
    found.backward()
    assert found.item() == 0
    assert torch.isfinite(x.grad).all()


def test_ulas_adjusted_loss_after_two_batches():
    """The average of P(b, y) starts uniform; b of a sample is the probe's most likely class."""
    rng = np.random.default_rng(3)
    labels, classes, memory, tau = np.array([0, 1, 2, 1, 0, 2]), 3, 0.8, 0.7
    proxy = rng.dirichlet(np.ones(classes), 6)
    joint, kept = uniform_joint(classes).double(), np.full((3, 3), 1 / 9)
    objective = logit_adjustment(joint, torch.from_numpy(proxy), tau=tau, memory=memory)
    for index in ([0, 2, 3, 5], [1, 4, 5]):
        logits = rng.normal(size=(len(index), classes))
        now = np.zeros((3, 3))
        for i in index:
            now[:, labels[i]] += proxy[i] / len(index)
        kept = memory * kept + (1 - memory) * now
        expected = []
        for row, i in zip(logits, index, strict=True):
            given_b = kept[proxy[i].argmax()]
            expected.append(cross_entropy(row + tau * np.log(given_b / given_b.sum()), labels[i]))
        found = objective(torch.from_numpy(logits), batch_of(labels[index].tolist(), index))
        assert joint.numpy() == pytest.approx(kept, rel=1e-6)
        assert found.minimised.numpy() == pytest.approx(np.array(expected), rel=1e-6)


def test_barlow_twins_loss_on_five_samples():
    """c_ij is the correlation of feature i of the first views with feature j of the second ones."""
    rng = np.random.default_rng(5)
    first = rng.normal(size=(5, 3))
    second = 3 * first + 9 * rng.normal(size=(5, 3)) + 7
    c = np.array([[np.corrcoef(first[:, i], second[:, j])[0, 1] for j in range(3)] for i in range(3)])
    invariance = sum((1 - c[i, i]) ** 2 for i in range(3))
    redundant = sum(c[i, j] ** 2 for i in range(3) for j in range(3) if i != j)
    assert min(invariance, redundant) > 0.05
    projected = torch.tensor(np.concatenate([first, second]))
    for weight in (0.0, 0.005, 0.4):
        found = twins(weight)(projected, batch_of([0] * 10, list(range(10))))
        assert found.total.item() == pytest.approx((invariance + weight * redundant) / 3, rel=1e-9)


def test_a_step_of_lff_or_ula_asks_nothing_of_the_host():
    """Fake tensors have no values: a step that looked at one, and so could not be captured on a GPU, would fail."""
    with FakeTensorMode():
        labels, index = torch.zeros(20, dtype=torch.int64), torch.zeros(8, dtype=torch.int64)
        batch = Batch(torch.zeros(8, 4), labels[index], index)
        lff = learning_from_failure(labels, torch.zeros(2, 20), 3, q=0.7, memory=0.7)
        ula = logit_adjustment(uniform_joint(3), torch.zeros(20, 3), tau=1.0, memory=0.9)
        for objective, width in ((lff, 6), (ula, 3)):
            losses = objective(torch.zeros(8, width, requires_grad=True), batch)
            assert losses.minimised.shape == (8,)
