"""LC's formulas by hand, and against plain NumPy."""

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tcsl.methods.lc import MixingPair, averaged, group_correction, grown, mixed, own_share, partners, prior_of
from tcsl.training.augment import MIXUP, uniform
from tcsl.training.objective import Batch


def batch_of(labels):
    return Batch(torch.zeros(len(labels), 1), torch.tensor(labels), torch.arange(len(labels)))


def softmax(rows):
    e = np.exp(rows - rows.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_the_prior_of_six_samples_by_hand():
    """Three classes; the biased net says 2 for nobody, so its column stays empty."""
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    pseudo = torch.tensor([0, 0, 1, 1, 1, 0])
    p = torch.tensor([0.9, 0.7, 0.2, 0.6, 0.8, 0.1])
    table = averaged(torch.zeros(3, 3), p, labels, pseudo, 0.9)
    assert table.numpy() == pytest.approx(np.array([[0.8, 0.2, 0], [0, 0.7, 0], [0.1, 0, 0]]))
    assert prior_of(table).numpy() == pytest.approx(np.array([[8 / 9, 2 / 9, 0], [0, 7 / 9, 0], [1 / 9, 0, 0]]))
    # The next batch: one cell moves by a tenth, one is new, the others stay.
    labels, pseudo, p = torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([0.3, 0.4])
    table = averaged(table, p, labels, pseudo, 0.9)
    assert table.numpy() == pytest.approx(np.array([[0.75, 0.2, 0], [0.4, 0.7, 0], [0.1, 0, 0]]))


def test_without_memory_the_prior_is_the_batchs_alone():
    """As its authors' on Waterbirds; a cell that the batch lacks is 0, and in the loss the floor of 1e-4."""
    table = torch.zeros(2, 2)
    objective = group_correction(table, q=0.8, memory=0.0)
    even, sure = [0.0, 0.0], [0.0, float(np.log(3))]  # the first says class 0 with 1/2, the second class 1 with 3/4
    none = [0.0, 0.0]
    first = [even + none + [1.0, 0.0], sure + none + [0.0, 1.0]]
    objective(torch.tensor(first), batch_of([1, 1]))
    assert table.numpy() == pytest.approx(np.array([[0, 0], [0.5, 0.75]]))
    second = [even + none + [1.0, 0.0], sure + none + [0.0, 1.0]]
    found = objective(torch.tensor(second), batch_of([0, 0]))
    assert table.numpy() == pytest.approx(np.array([[0.5, 0.25], [0, 0]]))  # nothing of the first batch
    assert found.minimised.numpy() == pytest.approx(np.full(2, -np.log(1.0001 / 1.0002)), rel=1e-3)
    mixed_batch = [even + none + [1.0, 0.0], even + none + [1.0, 0.0], sure + none + [0.0, 1.0]]
    found = objective(torch.tensor(mixed_batch), batch_of([0, 1, 1]))
    assert table.numpy() == pytest.approx(np.array([[0.5, 0], [0.5, 0.75]]))
    expected = -np.log([0.5, 0.5, 1.0001 / 1.0002])
    assert found.minimised.numpy() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_corrected_loss_after_two_batches(temperature):
    rng = np.random.default_rng(0)
    classes, q, memory = 3, 0.8, 0.6
    kept, table = np.zeros((classes, classes)), torch.zeros(classes, classes)
    objective = group_correction(table, q=q, memory=memory, temperature=temperature)
    for labels in ([0, 1, 2, 1, 0], [2, 2, 0, 1]):
        y = np.array(labels)
        biased, robust = rng.normal(size=(2, len(y), classes))
        shares = rng.dirichlet(np.ones(classes), len(y))
        p = softmax(biased / temperature)[np.arange(len(y)), y]
        a = biased.argmax(1)
        for cell in {(int(i), int(j)) for i, j in zip(y, a, strict=True)}:
            mean = p[(y == cell[0]) & (a == cell[1])].mean()
            kept[cell] = memory * kept[cell] + (1 - memory) * mean if kept[cell] else mean
        with np.errstate(invalid="ignore"):
            prior = np.nan_to_num(kept / kept.sum(0))
        corrected = robust + np.log(shares @ prior.T + 1e-4)
        hard = -np.log(softmax(corrected)[np.arange(len(y)), y])
        easy = (1 - softmax(biased)[np.arange(len(y)), y] ** q) / q
        logits = torch.tensor(np.concatenate([biased, robust, shares], 1), dtype=torch.float32)
        found = objective(logits, batch_of(labels))
        assert table.numpy() == pytest.approx(kept, rel=1e-5)
        assert found.minimised.numpy() == pytest.approx(hard, rel=1e-4)
        assert found.total.item() == pytest.approx(easy.mean() + hard.mean(), rel=1e-5)


def test_gradients_reach_each_net_by_its_own_loss_alone():
    """The biased net by the generalised cross entropy, the robust one by the corrected; not through the prior."""
    rng = np.random.default_rng(1)
    biased, robust = (
        torch.tensor(part, dtype=torch.float32, requires_grad=True) for part in rng.normal(size=(2, 4, 2))
    )
    y = torch.tensor([0, 1, 1, 0])
    shares = torch.eye(2)[biased.argmax(1)]
    found = group_correction(torch.zeros(2, 2), q=0.8, memory=0.9)(
        torch.cat([biased, robust, shares], 1), batch_of([0, 1, 1, 0])
    )
    found.total.backward()
    p = biased.detach().softmax(1)
    target = torch.eye(2)[y]
    weight = p.gather(1, y[:, None]) ** 0.8
    assert biased.grad.numpy() == pytest.approx((weight * (p - target) / 4).numpy(), rel=1e-4, abs=1e-7)
    assert robust.grad.sum(1).abs().max() < 1e-6


def test_partners_are_of_the_same_class_and_of_another_pseudo_attribute():
    draw = torch.Generator().manual_seed(0)
    labels, pseudo = torch.randint(0, 3, (2, 64), generator=draw)
    times = torch.zeros(64, 64)
    for _ in range(200):
        partner = partners(labels, pseudo, torch.rand(64, generator=draw))
        times[torch.arange(64), partner] += 1
        assert (labels[partner] == labels).all()
        assert (pseudo[partner] != labels).all()  # the minority of the class
        majority = pseudo == labels
        assert (pseudo[partner] != pseudo)[majority].all()
    fits = (labels[:, None] == labels) & (pseudo != labels)
    assert torch.equal(times > 0, fits)  # all that fit come, and no others
    expected = 200 / fits.sum(1, keepdim=True)
    assert (times - expected * fits).abs().max() < 6 * expected.max().sqrt()


def test_a_class_without_a_minority_is_not_mixed():
    labels, pseudo = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0, 1])
    assert partners(labels, pseudo, torch.full((4,), 0.99)).tolist() == [0, 1, 2, 2]


def test_a_number_just_below_one_does_not_point_past_the_last_partner():
    labels, pseudo = torch.zeros(100, dtype=torch.int64), torch.ones(100, dtype=torch.int64)
    last = torch.full((100,), 1 - 2**-24)
    assert partners(labels, pseudo, last).tolist() == [99] * 100


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_the_own_share_is_uniform_between_its_limits(tau):
    share = own_share(uniform(torch.arange(20000), 0, 0, MIXUP[1]), torch.tensor(tau))
    assert 1 - 2 * tau <= share.min() < 1 - 2 * tau + 0.01 * tau
    assert 1 - tau - 0.01 * tau < share.max() <= 1 - tau
    assert share.mean().item() == pytest.approx(1 - 1.5 * tau, abs=0.01)


def test_tau_grows_to_its_value():
    values = [grown(torch.tensor(epoch), 0.4, 5).item() for epoch in range(8)]
    assert values[:5] == pytest.approx([0.4 * np.exp(-5 * (1 - e / 5) ** 2) for e in range(5)], rel=1e-5)
    assert values[5:] == pytest.approx([0.4] * 3)
    assert grown(torch.tensor(0), 0.4, 0).item() == pytest.approx(0.4)


def test_bytes_are_mixed_as_numbers():
    x = torch.tensor([[0, 255], [100, 50]], dtype=torch.uint8)
    assert mixed(x, torch.tensor([1, 0]), torch.tensor([0.5, 1.0])).tolist() == [[50.0, 152.5], [100.0, 50.0]]


class Sees(nn.Module):
    """A net that remembers its inputs and gives fixed logits."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, x):
        self.seen = x
        return self.logits[: len(x)]


def test_only_the_robust_net_sees_mixes():
    biased = Sees(torch.tensor([[2.0, 0], [0, 2.0], [0, 2.0]]))  # pseudo-attributes 0, 1, 1
    robust = Sees(torch.arange(6.0).view(3, 2))
    pair = MixingPair(biased, robust, tau=0.5, ramp=0, seed=3)
    x, labels, indices = torch.tensor([[0.0], [10.0], [7.0]]), torch.tensor([0, 0, 1]), torch.tensor([5, 6, 9])
    out = pair(x, labels, indices)
    assert torch.equal(biased.seen, x)
    own = own_share(uniform(indices, 3, 0, MIXUP[1]), torch.tensor(0.5))
    assert robust.seen[:, 0].tolist() == pytest.approx([10 * (1 - own[0].item()), 10.0, 7.0])
    assert torch.equal(out[:, :4], torch.cat([biased.logits, robust.logits], 1))
    assert out[:, 4:].numpy() == pytest.approx(np.array([[own[0], 1 - own[0]], [0, 1], [0, 1]]))
    assert torch.equal(pair(x), robust.logits)
    assert torch.equal(robust.seen, x)
    pair.epoch.fill_(1)
    pair(x, labels, indices)
    assert robust.seen[0, 0].item() != pytest.approx(10 * (1 - own[0].item()))  # another epoch, another mix


def test_without_tau_nothing_is_mixed():
    biased, robust = Sees(torch.tensor([[2.0, 0], [0, 2.0]])), Sees(torch.zeros(2, 2))
    x = torch.tensor([[1.0], [2.0]])
    out = MixingPair(biased, robust, tau=0, ramp=0, seed=0)(x, torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert torch.equal(robust.seen, x)
    assert out[:, 4:].tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_a_step_asks_nothing_of_the_host(tau):
    """Fake tensors have no values: a step that looked at one, and so could not be captured on a GPU, would fail."""
    with FakeTensorMode():
        pair = MixingPair(nn.Linear(4, 3), nn.Linear(4, 3), tau=tau, ramp=5, seed=0)
        table = torch.zeros(3, 3)
        batch = Batch(torch.zeros(8, 4), torch.zeros(8, dtype=torch.int64), torch.zeros(8, dtype=torch.int64))
        losses = group_correction(table, q=0.8, memory=0.9)(pair(*batch), batch)
        losses.total.backward()
    assert losses.minimised.shape == (8,)
