"""What must hold for any input to the debiasing methods' formulas."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from tcsl.methods.clusters import george_clusters
from tcsl.methods.cnc import contrast
from tcsl.methods.dfr import balanced_draw, halves
from tcsl.methods.environments import infer_environments, irm_penalty, scale_gradient
from tcsl.methods.groupdro import group_dro
from tcsl.methods.jtt import up_sampled
from tcsl.methods.lc import averaged, own_share, partners, prior_of
from tcsl.methods.lff import learning_from_failure, relative_difficulty
from tcsl.methods.ula import logit_adjustment, uniform_joint
from tcsl.seeds import derive
from tcsl.training.objective import Batch, generalized_cross_entropy

seeds = st.integers(0, 2**32 - 1)
classes_ = st.integers(2, 5)


class Draw:
    """Random tensors from one seed."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def labels(self, high, n):
        return torch.randint(high, (n,), generator=self.generator)

    def order(self, n):
        return torch.randperm(n, generator=self.generator)

    def subset(self, n):
        """Return some of n samples, at least one, each once."""
        return self.order(n)[: int(torch.randint(1, n + 1, (), generator=self.generator))]


def batch_of(labels, indices):
    return Batch(torch.zeros(len(indices), 1), labels[indices], indices)


# GroupDRO.


@given(seeds, st.integers(1, 6), st.floats(0.001, 5), st.floats(0, 3))
def test_group_weights_are_a_distribution_and_move_to_the_larger_losses(seed, groups, step, adjustment):
    draw = Draw(seed)
    group, labels, logits = draw.labels(groups, 30), draw.labels(3, 30), 3 * draw.normal(30, 3)
    before = draw.normal(groups).softmax(0)
    weights = before.clone()
    index = draw.subset(30)
    group_dro(group, weights, step=step, adjustment=adjustment)(logits[index], batch_of(labels, index))
    assert abs(float(weights.sum()) - 1) < 1e-12
    assert (weights > 0).all()
    losses = F.cross_entropy(logits[index], labels[index], reduction="none")
    means = [float(losses[group[index] == g].mean()) if (group[index] == g).any() else 0.0 for g in range(groups)]
    counts = torch.bincount(group, minlength=groups).clamp_min(1)
    adjusted = torch.tensor(means, dtype=torch.float64) + adjustment / counts.sqrt()
    grown = weights / before
    assert torch.equal(grown.argsort(), adjusted.argsort()) or torch.allclose(
        grown[grown.argsort()], grown[adjusted.argsort()]
    )


@given(seeds, st.integers(1, 5))
def test_the_order_of_a_batch_and_a_second_copy_of_it_change_nothing_in_groupdro(seed, groups):
    draw = Draw(seed)
    group, labels, logits = draw.labels(groups, 20), draw.labels(3, 20), draw.normal(20, 3)
    index = draw.subset(20)
    totals, left = [], []
    for way in (index, index[draw.order(len(index))], index.repeat(2)):
        weights = torch.full((groups,), 1 / groups, dtype=torch.float64)
        totals.append(group_dro(group, weights, step=0.5)(logits[way], batch_of(labels, way)).total)
        left.append(weights)
    torch.testing.assert_close(totals[1:], [totals[0]] * 2)
    torch.testing.assert_close(left[1:], [left[0]] * 2)


# LfF, and the generalised cross entropy.


@given(seeds, classes_)
def test_relative_difficulty_is_between_0_and_1_and_moves_with_the_samples(seed, classes):
    draw = Draw(seed)
    losses, labels = draw.normal(2, 40).exp(), draw.labels(classes, 40)
    found = relative_difficulty(losses, labels, classes)
    assert ((found >= 0) & (found <= 1)).all()
    order = draw.order(40)
    assert torch.equal(relative_difficulty(losses[:, order], labels[order], classes), found[order])
    assert torch.equal(relative_difficulty(losses, labels, classes, at=order[:7]), found[order[:7]])
    # Another scale of a net's losses changes nothing: they are divided by the class's largest.
    scaled = relative_difficulty(losses * torch.tensor([[7.0], [0.1]]), labels, classes)
    torch.testing.assert_close(scaled, found)


@given(seeds, classes_)
def test_equal_nets_have_equal_difficulty_and_lff_is_half_of_plain_training(seed, classes):
    draw = Draw(seed)
    labels, logits = draw.labels(classes, 30), draw.normal(30, classes)
    index = draw.subset(30)
    averages = torch.zeros(2, 30, dtype=torch.float64)
    objective = learning_from_failure(labels, averages, classes, q=0.7, memory=0.7)
    found = objective(torch.cat([logits, logits], 1)[index], batch_of(labels, index)).total
    difficulty = relative_difficulty(averages, labels, classes, at=index)
    torch.testing.assert_close(difficulty, torch.full_like(difficulty, 0.5))
    half = F.cross_entropy(logits[index], labels[index]) / 2
    torch.testing.assert_close(found, half + generalized_cross_entropy(logits[index], labels[index], 0.7).mean())


@given(seeds, classes_)
def test_the_generalised_cross_entropy_is_the_usual_one_for_q_to_0_and_falls_with_q(seed, classes):
    draw = Draw(seed)
    logits, labels = 3 * draw.normal(20, classes), draw.labels(classes, 20)
    usual = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(generalized_cross_entropy(logits, labels, 1e-7), usual, rtol=1e-4, atol=1e-6)
    values = torch.stack([usual, *(generalized_cross_entropy(logits, labels, q) for q in (0.1, 0.5, 0.9, 1.0))])
    assert (values.diff(dim=0) <= 1e-12).all()
    torch.testing.assert_close(values[-1], 1 - (-usual).exp())  # q = 1: the mean absolute error, halved


# LC and ULA: priors.


@given(seeds, classes_, st.floats(0, 0.99))
def test_lcs_prior_is_a_distribution_for_each_pseudo_attribute_that_was_seen(seed, classes, memory):
    draw = Draw(seed)
    table = torch.zeros(classes, classes, dtype=torch.float64)
    seen = torch.zeros(classes, dtype=torch.bool)
    for _ in range(3):
        labels, pseudo = draw.labels(classes, 12), draw.labels(classes, 12)
        p = draw.normal(12).sigmoid()
        order = draw.order(12)
        moved = averaged(table, p[order], labels[order], pseudo[order], memory)
        table = averaged(table, p, labels, pseudo, memory)
        torch.testing.assert_close(moved, table)
        seen &= memory > 0  # without memory, in this batch
        seen[pseudo] = True
        assert ((table >= 0) & (table <= 1)).all()
        sums = prior_of(table).sum(0)
        torch.testing.assert_close(sums, seen.to(sums.dtype))


@given(seeds, classes_, st.floats(0, 0.5))
def test_lc_mixes_within_a_class_and_by_shares_between_0_and_1(seed, classes, tau):
    draw = Draw(seed)
    labels, pseudo = draw.labels(classes, 25), draw.labels(classes, 25)
    u = torch.rand(25, generator=draw.generator)
    found = partners(labels, pseudo, u)
    assert torch.equal(labels[found], labels)
    share = own_share(u, torch.tensor(tau))
    assert ((share >= -1e-6) & (share <= 1)).all()


@given(seeds, classes_, st.floats(0, 0.999))
def test_ulas_joint_stays_a_distribution_and_the_order_of_a_batch_changes_nothing(seed, classes, memory):
    draw = Draw(seed)
    labels, proxy, logits = draw.labels(classes, 30), draw.normal(30, classes).softmax(1), draw.normal(30, classes)
    joint = uniform_joint(classes).double()
    for _ in range(3):
        before, index = joint.clone(), draw.subset(30)
        order = draw.order(len(index))
        losses = []
        for table, way in ((before, index[order]), (joint, index)):
            objective = logit_adjustment(table, proxy, tau=1.0, memory=memory)
            losses.append(objective(logits[way], batch_of(labels, way)).minimised)
        torch.testing.assert_close(losses[0], losses[1][order])
        torch.testing.assert_close(before, joint)
        assert abs(float(joint.sum()) - 1) < 1e-6
        assert (joint >= 0).all()


@given(seeds, classes_, st.floats(0, 3))
def test_a_bias_that_says_nothing_leaves_plain_training_in_ula(seed, classes, tau):
    """Every label equally frequent, a probe that does not know: log P(y | b) is the same for all y."""
    draw = Draw(seed)
    labels, logits = torch.arange(4 * classes) % classes, draw.normal(4 * classes, classes)
    proxy = torch.full((4 * classes, classes), 1 / classes, dtype=torch.float64)
    objective = logit_adjustment(uniform_joint(classes).double(), proxy, tau=tau, memory=0.9)
    losses = objective(logits, batch_of(labels, draw.order(4 * classes).sort().values))
    torch.testing.assert_close(losses.minimised, F.cross_entropy(logits, labels, reduction="none"))


# JTT.


@given(seeds, st.integers(1, 40), st.integers(1, 30))
def test_jtt_repeats_the_wrong_ones_exactly_and_once_is_plain_training(seed, n, times):
    rng = np.random.default_rng(seed)
    wrong, losses = rng.random(n) < 0.3, rng.exponential(size=n)
    found = up_sampled(wrong, times)
    assert np.bincount(found, minlength=n).tolist() == np.where(wrong, times, 1).tolist()
    assert np.isclose(losses[found].mean(), np.average(losses, weights=np.where(wrong, times, 1)))
    assert up_sampled(wrong, 1).tolist() == list(range(n))


# EIIL.


@given(seeds, classes_)
def test_environments_that_change_names_have_the_same_penalty(seed, classes):
    draw = Draw(seed)
    gradient = scale_gradient(draw.normal(25, classes), draw.labels(classes, 25))
    share = draw.normal(25).sigmoid()
    torch.testing.assert_close(irm_penalty(gradient, share), irm_penalty(gradient, 1 - share))
    order = draw.order(25)
    torch.testing.assert_close(irm_penalty(gradient[order], share[order]), irm_penalty(gradient, share))


@settings(max_examples=6)
@given(st.integers(0, 1000), classes_)
def test_environments_have_a_penalty_above_the_one_they_start_from(seed, classes):
    draw = Draw(seed)
    logits, labels = 2 * draw.normal(40, classes), draw.labels(classes, 40)
    gradient = scale_gradient(logits, labels)
    start = torch.randn(40, generator=torch.Generator().manual_seed(derive(seed, "environments"))).sigmoid()
    found = infer_environments(logits, labels, steps=600, lr=0.02, seed=seed)
    assert irm_penalty(gradient, found.double()) >= irm_penalty(gradient, start.double())
    # All of the environment that the model is wrong on pulls one way.
    assert gradient[found == 1].sum() >= gradient[found == 0].sum()


# GEORGE.


@settings(max_examples=4)
@given(seeds, st.integers(2, 4))
def test_samples_in_another_order_are_in_the_same_clusters_but_for_their_names(seed, blobs):
    rng = np.random.default_rng(seed)
    centre = rng.permutation(blobs)[rng.integers(0, blobs, 90)]
    labels = rng.integers(0, 2, 90)
    features = np.stack([10.0 * centre, 4.0 * (centre % 2)], 1) + 0.3 * rng.standard_normal((90, 2))
    order = rng.permutation(90)
    here = george_clusters(features.astype(np.float32), labels, max_clusters=5, factor=1)
    there = george_clusters(features[order].astype(np.float32), labels[order], max_clusters=5, factor=1)
    pairs = set(zip(here[order].tolist(), there.tolist(), strict=True))
    assert len(pairs) == len(set(here)) == len(set(there))  # one name for one name


# DFR.


@given(seeds, st.integers(1, 6), st.integers(0, 40))
def test_dfrs_draws_are_balanced_and_its_halves_share_every_group(seed, groups, n):
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.r_[np.repeat(np.arange(groups), 2), rng.integers(0, groups, n)])
    drawn = balanced_draw(group, rng)
    counts = np.bincount(group, minlength=groups)
    assert np.bincount(group[drawn], minlength=groups).tolist() == [counts.min()] * groups
    assert len(np.unique(drawn)) == len(drawn)
    first = halves(group, rng)
    assert np.bincount(group[first], minlength=groups).tolist() == (counts // 2).tolist()


# CNC.


@given(seeds, classes_, st.floats(0.05, 2))
def test_cncs_loss_is_that_of_its_definition(seed, classes, temperature):
    """Anchors are predicted rightly; positives: same label, another prediction; negatives: the other way round."""
    draw = Draw(seed)
    x, labels, predicted = draw.normal(14, 5), draw.labels(classes, 14), draw.labels(classes, 14)
    unit = x / x.norm(dim=1, keepdim=True)
    s = (unit @ unit.T / temperature).tolist()
    y, p = labels.tolist(), predicted.tolist()
    terms = []
    for a in range(14):
        positives = [i for i in range(14) if y[i] == y[a] and p[i] != p[a]]
        negatives = [i for i in range(14) if y[i] != y[a] and p[i] == p[a]]
        if p[a] == y[a] and positives and negatives:
            bottom = np.logaddexp.reduce([s[a][i] for i in positives + negatives])
            terms.append(np.mean([bottom - s[a][i] for i in positives]))
    found = contrast(x, labels, predicted, temperature)
    assert np.isclose(found.item(), np.mean(terms) if terms else 0.0, rtol=1e-4, atol=1e-6)
    order = draw.order(14)
    torch.testing.assert_close(contrast(x[order], labels[order], predicted[order], temperature), found)
