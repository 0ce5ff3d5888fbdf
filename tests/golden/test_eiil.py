"""EIIL: the penalty and its gradients against autograd, and environments where they are known."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import tcsl
from tcsl.errors import InputError, TcslWarning
from tcsl.methods.eiil import environment_groups
from tcsl.methods.environments import ascent, infer_environments, irm_penalty, scale_gradient


def some_logits(n, classes, seed=0):
    draw = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=draw, dtype=torch.float64)
    return logits, torch.randint(classes, (n,), generator=draw)


@pytest.mark.parametrize("classes", [2, 5])
def test_the_gradient_of_a_samples_loss_by_the_scale_of_its_logits(classes):
    logits, labels = some_logits(7, classes)
    for i, found in enumerate(scale_gradient(logits, labels)):
        scale = torch.ones((), dtype=torch.float64, requires_grad=True)
        loss = F.cross_entropy(scale * logits[i : i + 1], labels[i : i + 1])
        assert found.item() == pytest.approx(torch.autograd.grad(loss, scale)[0].item(), rel=1e-12)


def test_two_classes_are_the_originals_one_logit():
    logit, labels = some_logits(9, 2)[0][:, 0], some_logits(9, 2)[1]
    scale = torch.ones(9, dtype=torch.float64, requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(scale * logit, labels.double(), reduction="sum")
    (expected,) = torch.autograd.grad(loss, scale)
    found = scale_gradient(torch.stack([0 * logit, logit], 1), labels)
    assert found.numpy() == pytest.approx(expected.numpy(), rel=1e-12)


def test_the_penalty_and_the_way_up_it():
    """Two environments, as in the paper: the square of each weighted loss's derivative by the scale."""
    logits, labels = some_logits(6, 3)
    w = torch.linspace(-2, 2, 6, dtype=torch.float64, requires_grad=True)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    losses = F.cross_entropy(scale * logits, labels, reduction="none")
    penalty = 0
    for share in (w.sigmoid(), 1 - w.sigmoid()):
        (by_scale,) = torch.autograd.grad((share * losses).mean(), scale, create_graph=True)
        penalty = penalty + by_scale.square()
    gradient, share = scale_gradient(logits, labels), w.detach().sigmoid()
    assert irm_penalty(gradient, share).item() == pytest.approx(penalty.item(), rel=1e-12)
    (by_w,) = torch.autograd.grad(penalty, w)
    assert (ascent(gradient, share) * 2 / 6**2).numpy() == pytest.approx(by_w.numpy(), rel=1e-10)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_highest_penalty_of_all_splits_is_found(seed):
    logits, labels = some_logits(10, 3, seed=3)
    gradient = scale_gradient(logits, labels)
    splits = [torch.tensor([i >> k & 1 for k in range(10)]) for i in range(2**10)]
    best = max(irm_penalty(gradient, split.double()).item() for split in splits)
    found = infer_environments(logits, labels, seed=seed)
    assert irm_penalty(gradient, found.double()).item() == pytest.approx(best, rel=1e-12)
    assert found.tolist() == (gradient > 0).long().tolist()


def shortcut(n=2000, seed=0):
    """Two features, core and spurious; the second agrees with the label for 90 %, and is what a model learns first."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    agrees = rng.random(n) < 0.9
    side = 2 * np.where(agrees, y, 1 - y) - 1
    x = np.stack([(2 * y - 1) + rng.normal(size=n), side + 0.2 * rng.normal(size=n)], 1)
    return torch.from_numpy(x).float(), torch.from_numpy(y), agrees


def test_a_model_of_the_spurious_feature_splits_what_agrees_from_what_conflicts():
    x, y, agrees = shortcut()
    w = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    for _ in range(200):
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(w * x[:, 1], y.float()).backward()
        optimizer.step()
    logits = torch.stack([0 * x[:, 1], w.detach() * x[:, 1]], 1)
    found = infer_environments(logits, y).numpy()
    assert (found[~agrees] == 1).mean() > 0.95
    assert (found[agrees] == 0).mean() > 0.95


def test_samples_in_another_order_are_in_the_same_environments():
    logits, labels = some_logits(300, 4)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1))
    quick = {"steps": 1000, "lr": 0.01}
    found = infer_environments(logits, labels, **quick)
    assert 0 < found.sum() < 300
    assert torch.equal(infer_environments(logits[order], labels[order], **quick), found[order])
    assert torch.equal(infer_environments(logits, labels, **quick), found)


def test_samples_that_are_fitted_well_find_their_environment_too():
    """Adam's epsilon must not keep small gradients where they were drawn."""
    logits = torch.tensor([[9.0, 0.0]]).repeat(3000, 1)
    labels = (torch.arange(3000) >= 2900).long()
    assert torch.equal(infer_environments(logits, labels), labels)


def test_a_model_that_has_learned_nothing():
    with pytest.raises(InputError, match="give no environments: the largest gradient by their scale is 0"):
        infer_environments(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(InputError, match="or diverged"):
        infer_environments(torch.full((4, 2), torch.nan), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(InputError, match=r"got \(4, 2\) and \(3,\)"):
        infer_environments(torch.zeros(4, 2), torch.tensor([0, 1, 0]))


def test_groups_are_numbered_without_gaps():
    group, groups = environment_groups(torch.tensor([2, 0, 2, 1, 0]), torch.tensor([1, 0, 0, 1, 0]))
    assert (group.tolist(), groups) == ([3, 0, 2, 1, 0], 4)


def rows_of(y, wrong):
    """Three far classes; the samples that are `wrong` look like class 2."""
    X = np.eye(3, dtype=np.float32)[np.where(wrong, 2, y)] * 20
    return X + np.random.default_rng(0).normal(size=X.shape).astype(np.float32)


QUICK = {"train.epochs": 3, "train.batch_size": 16, "train.lr": 0.01, "method.eiil.reference": 3, "device.threads": 1}


def test_a_class_in_one_environment_is_one_group_and_told(tmp_path):
    y = np.arange(90) % 3
    wrong = (y == 0) & (np.arange(90) < 9)
    with pytest.warns(TcslWarning, match="EIIL: all samples of 1, 2 are in one environment; the class is one group"):
        tcsl.debias((rows_of(y, wrong), y), methods=["eiil"], settings=QUICK, out=tmp_path / "run")


def test_all_samples_in_one_environment(tmp_path):
    y = np.arange(90) % 3
    settings = {**QUICK, "method.eiil.lr": 0.05, "method.eiil.reference": 10}
    with pytest.raises(InputError, match=r"EIIL: after 10 epochs .* all 90 .* in one environment.*eiil\.reference"):
        tcsl.debias((rows_of(y, y < 0), y), methods=["eiil"], settings=settings, out=tmp_path / "run")
