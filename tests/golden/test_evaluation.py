"""Accuracies by hand."""

import numpy as np
import pytest
import torch

from tcsl.data.dataset import make_dataset
from tcsl.data.groups import make_groups
from tcsl.evaluation import balanced_by_bias, evaluate_predictions, identification

# Six test samples: class, attribute, prediction.
LABELS = np.array([0, 0, 0, 1, 1, 1])
ATTRIBUTE = np.array([0, 0, 1, 1, 1, 0])
PREDICTED = np.array([0, 0, 1, 1, 0, 0])
# Groups (0,0): 2 of 2; (0,1): 0 of 1; (1,0): 0 of 1; (1,1): 1 of 2.


def groups(labels=LABELS, attribute=ATTRIBUTE, **more):
    return make_groups(labels, attribute, class_names="ab", attribute_names="uv", majority=np.array([0, 1]), **more)


def data(known):
    return make_dataset(torch.zeros(6, 2), torch.from_numpy(LABELS), groups=known)


def test_wga_and_both_averages():
    train = groups(np.array([0] * 8 + [1, 1]), np.array([0] * 7 + [1, 1, 1]))  # counts 7, 1, 0, 2
    found = evaluate_predictions(PREDICTED, data(groups()), train_groups=train)
    assert found.average == pytest.approx(3 / 6)
    assert found.wga == 0
    assert [(g.name, g.n, g.accuracy) for g in found.groups] == [
        ("a, u", 2, 1.0),
        ("a, v", 1, 0.0),
        ("b, u", 1, 0.0),
        ("b, v", 2, 0.5),
    ]
    assert found.weighted_average == pytest.approx((7 * 1 + 1 * 0 + 2 * 0.5) / 10)
    assert found.worst_class == pytest.approx(1 / 3)
    assert found.unknown == ()


def test_groups_by_agreement_and_finer_cells():
    found = evaluate_predictions(PREDICTED, data(groups(agreement=True)))
    assert [g.name for g in found.groups] == ["a, agrees", "a, conflicts", "b, agrees", "b, conflicts"]
    assert [g.accuracy for g in found.groups] == [1, 0, 0.5, 0]
    assert found.wga_cells == 0
    assert found.cells == 4
    assert found.weighted_average is None
    assert "training set has no group labels" in found.unknown[0]


def test_without_groups_it_says_what_cannot_be_known():
    found = evaluate_predictions(PREDICTED, data(None))
    assert found.wga is None
    assert found.average == 0.5
    assert "no group labels" in found.unknown[0]


def test_an_empty_group_is_named_and_not_the_worst():
    known = groups(np.zeros(6, int), np.zeros(6, int))
    sample = make_dataset(torch.zeros(6, 2), torch.zeros(6, dtype=int), groups=known, class_names="ab", test=True)
    found = evaluate_predictions(np.zeros(6, int), sample, train_groups=groups())
    assert found.wga == 1
    assert "a, v, b, u, b, v: no test sample" in found.unknown[0]
    assert found.weighted_average is None


def test_identification_by_hand():
    minority = np.array([1, 1, 0, 0, 0], bool)
    g_high = np.array([1, 0, 1, 1, 0], bool)
    tcsl_s = np.array([5, 2, 3, 1, 0], np.float32)
    # AUC: pairs (5 > 3, 1, 0), (2 > 1, 0; 2 < 3): 5 of 6.
    found = identification(tcsl_s, g_high, minority)
    assert found == {
        "g_high": 3,
        "minority": 2,
        "recall": 0.5,
        "precision": pytest.approx(1 / 3),
        "auc": pytest.approx(5 / 6),
    }


def test_identification_without_a_minority():
    found = identification(np.zeros(2, np.float32), np.zeros(2, bool), np.zeros(2, bool))
    assert (found["recall"], found["precision"], found["auc"]) == (None, None, None)


def test_the_criterion_without_groups_is_the_mean_over_label_and_whether_the_biased_model_is_right():
    labels = np.array([0, 0, 0, 0, 1, 1, 1])
    biased = np.array([0, 0, 0, 1, 1, 0, 0])
    predicted = np.array([0, 0, 1, 0, 0, 1, 0])
    # label 0: right 2 of 3, wrong 1 of 1; label 1: right 0 of 1, wrong 1 of 2
    assert balanced_by_bias(predicted, biased, labels) == pytest.approx((2 / 3 + 1 + 0 + 1 / 2) / 4)
    order = np.array([6, 0, 3, 1, 5, 2, 4])
    assert balanced_by_bias(predicted[order], biased[order], labels[order]) == pytest.approx(13 / 24)
