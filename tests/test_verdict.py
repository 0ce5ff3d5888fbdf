"""The verdict: is there a shortcut, told without groups."""

import json
import re

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, mannwhitneyu, norm, t

import tcsl
from tcsl.data.digits import load
from tcsl.errors import InputError, RunFolderError
from tcsl.verdict import KEPT, LEVEL, SURE, departure_test, judge, sign_test, verdict_of

SETTINGS = {"train.epochs": 12, "train.lr": 0.05, "score.biased_epochs": 8, "device.threads": 1}


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_scipys(gained, lost):
    expected = binomtest(gained, gained + lost, 0.5, "greater").pvalue if gained + lost else 1.0
    assert sign_test(gained, lost) == pytest.approx(expected, rel=1e-12)


def predictions_of(*rows):
    """Columns: label, biased, before, after; the first entry of a row is how often it is repeated.

    Beside them are as many samples of the class that plain training predicts, on which all agree and are right, with
    the same confidence. Where the coreset's model departs it gives plain training's class 0.1, else 0.8.
    """
    table = np.concatenate([np.tile(row[1:], (row[0], 1)) for row in rows])
    right = np.repeat(table[:, 2:3], 4, axis=1)
    both = np.concatenate([table, right]).T
    return *both, np.full(both.shape[1], 0.9), np.where(both[2] == both[3], 0.8, 0.1)


def test_only_samples_that_the_biased_model_gets_wrong_are_counted():
    found = judge(*predictions_of((9, 0, 1, 1, 0), (2, 0, 1, 0, 1), (4, 1, 0, 1, 1), (50, 1, 1, 1, 0), (3, 0, 0, 1, 0)))
    assert (found.held_out, found.wrong, found.gained, found.lost) == (136, 15, 9, 2)
    assert found.p_gained == pytest.approx((1 + 11 + 55) / 2**11)  # 11, 10 or 9 of 11
    assert found.found is True


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 1),  # both repeat it
        (0, 0),  # both are right
        (1, 2),  # set wrong in another way
        (2, 1),  # and the reverse
        (2, 0),  # plain training made a mistake of its own
        (0, 2),  # and so did the coreset's
    ],
)
def test_only_the_biased_models_own_mistake_counts_and_only_against_the_right_class(before, after):
    found = judge(*predictions_of((20, 0, 1, before, after)))
    assert (found.wrong, found.gained, found.lost, found.p, found.found) == (20, 0, 0, 1.0, False)


@given(st.lists(st.integers(0, 3**4 - 1), min_size=5, max_size=40), st.randoms())
def test_the_order_of_samples_does_not_matter(codes, random):
    rows = [(code // 27, code % 3, code // 3 % 3, code // 9 % 3, i % 4, i % 5) for i, code in enumerate(codes)]
    one, other = (np.array(order).T for order in (rows, random.sample(rows, len(rows))))
    one, other = (judge(*order[:4], order[4] / 4, order[5] / 5).as_dict() for order in (one, other))
    for name in ("p", "p_departed"):
        assert one.pop(name) == (None if other[name] is None else pytest.approx(other[name]))
        del other[name]
    assert one == other


def test_a_rule_that_plain_training_does_not_follow_is_no_shortcut_and_that_is_said():
    found = judge(*predictions_of((300, 0, 1, 0, 0), (8, 0, 1, 1, 1)))
    assert found.found is False
    assert "; training on everything repeats 8 of all: it does not rely on what misled the biased one" in found.sentence
    assert "of all" not in judge(*predictions_of((300, 0, 1, 0, 0), (20, 0, 1, 1, 1))).sentence


def test_too_few_samples_say_that_nothing_can_be_told():
    few = judge(*predictions_of((4, 0, 1, 1, 0), (90, 1, 1, 1, 1)))
    assert few.found is None
    assert few.p is None
    assert "gets 4 of the 188 held-out samples wrong, and with fewer than 5" in few.sentence
    assert judge(*predictions_of((5, 0, 1, 1, 0))).found is True


def test_the_level_is_kept_where_gains_and_losses_are_equally_likely():
    """Of 2,000 draws without a shortcut, no more than 5 % and what chance adds (a binomial's 99.9 % point)."""
    rng = np.random.default_rng(0)
    sure = np.full(120, 0.9)
    gained = both = 0
    for _ in range(2000):
        labels, before, after = rng.integers(0, 2, (3, 120))
        biased = np.where(np.arange(120) < 60, 1 - labels, labels)
        found = judge(labels, biased, before, after, sure, np.where(before == after, 0.8, 0.1))
        gained += found.p_gained <= LEVEL
        both += found.found is True
    assert both <= gained <= 132
    assert LEVEL == 0.05


def test_departures_by_hand():
    # Two strata. At 0.6 wrong ones have 0.1, 0.2, 0.3, 0.4 and right ones 0.4, 0.5; at 0.9 wrong ones 0.2, 0.3, 0.4,
    # 0.6 and a right one 0.5. What is surer or less sure than these is left out.
    wrong = np.array([True] * 4 + [False] * 2 + [True] * 4 + [False] * 3)
    kept = np.array([0.1, 0.2, 0.3, 0.4, 0.4, 0.5, 0.2, 0.3, 0.4, 0.6, 0.5, 0.1, 0.1])
    sure = np.r_[np.repeat([0.6, 0.9], [6, 5]), 0.95, 0.5]
    # Ranks of the wrong ones 1, 2, 3, 4.5 and of the right ones 4.5, 6 about 3.5, each times 1/3 or -2/3 (2/3 are
    # wrong): they sum to 3.5, their squares to (9.75 + 4 x 7.25) / 9. Then 1, 2, 3, 5 and 4 about 3, times 0.2 or -0.8:
    # sum 1, squares 1. Weights 1 / 7 and 1 / 6.
    alone, same = np.arange(13), np.zeros(13, int)
    # Eight units are wrong somewhere: the variance is taken 8 / 7 times, and seven degrees of freedom are left.
    z = (3.5 / 7 + 1 / 6) / np.sqrt(8 / 7 * (38.75 / 9 / 49 + 1 / 36))
    assert departure_test(wrong, kept, sure, alone, same) == pytest.approx(t.sf(z, 7))
    assert departure_test(wrong, 1 - kept, sure, alone, same) == pytest.approx(t.cdf(z, 7))
    # Classes are strata of their own: with the same confidence for all, those of the first six and of the next five.
    assert departure_test(wrong[:11], kept[:11], np.ones(11), alone[:11], sure[:11] > 0.7) == pytest.approx(t.sf(z, 7))
    # Of one unit are the last of the first stratum and the first of the second: -2.5 x -2/3 / 7 and 2 x 0.2 / 6.
    first, second = 5 / 3 / 7, 0.4 / 6
    z = (3.5 / 7 + 1 / 6) / np.sqrt(8 / 7 * (38.75 / 9 / 49 + 1 / 36 + 2 * first * second))
    assert departure_test(wrong, kept, sure, np.where(alone == 6, 5, alone), same) == pytest.approx(t.sf(z, 7))


def test_where_nothing_can_be_compared_there_are_no_departures():
    ranks, alone, same = np.linspace(0, 1, 9), np.arange(9), np.zeros(9, int)
    assert departure_test(np.zeros(9, bool), ranks, np.ones(9), alone, same) is None
    assert departure_test(np.ones(9, bool), ranks, np.ones(9), alone, same) is None
    assert departure_test(np.arange(9) < 4, np.ones(9), np.ones(9), alone, same) is None
    assert departure_test(np.arange(9) < 1, ranks, np.ones(9), alone, same) is None
    assert departure_test(np.arange(9) < 4, ranks, np.ones(9), alone, (np.arange(9) < 4).astype(int)) is None
    # Twelve equal units, each of whose sums is 0 but for rounding.
    wrong, kept = np.tile([False, True, True, False, False, False, False], 12), [0.8, 0.6, 0.2, 0.2, 0.2, 0.8, 0]
    assert departure_test(wrong, np.tile(kept, 12), np.full(84, 0.9), np.arange(84) // 7, np.zeros(84, int)) is None


def test_gains_without_anything_to_compare_with_tell_nothing():
    """All held-out samples contradict the shortcut: the verdict asks for others."""
    everywhere = np.ones(100, int)
    verdict = judge(0 * everywhere, everywhere, everywhere, 0 * everywhere, np.full(100, 2.0), np.full(100, -2.0))
    assert verdict.found is None
    assert verdict.p is None
    assert verdict.p_gained < 1e-9
    assert verdict.sentence.endswith("hold out some in which the suspected shortcut holds, too")


@pytest.mark.parametrize("column", [SURE, KEPT])
def test_a_confidence_that_is_not_finite_tells_nothing(column):
    columns = dict(zip(("biased", "cb_erm", "tcsl_cs", SURE, KEPT), predictions_of((9, 0, 1, 1, 0))[1:], strict=True))
    labels = np.repeat([0, 1], 9)
    assert verdict_of(columns, labels).found is True
    columns[column] = np.where(np.arange(18) == 4, np.nan, columns[column])
    verdict = verdict_of(columns, labels)
    assert verdict.found is None
    assert "for 1 of the 18 held-out samples a model gives no finite number, first at index 4" in verdict.sentence


def test_in_one_stratum_departures_are_nearly_those_of_mann_and_whitney():
    """Theirs takes the variance from the ranks, ours from the samples."""
    rng = np.random.default_rng(0)
    wrong = rng.random(4000) < 0.3
    kept = rng.integers(0, 50, 4000) / 50 - 0.02 * wrong
    theirs = mannwhitneyu(kept[wrong], kept[~wrong], alternative="less", method="asymptotic", use_continuity=False)
    ours = departure_test(wrong, kept, np.full(4000, 0.9), np.arange(4000), np.zeros(4000, int))
    assert norm.isf(ours) == pytest.approx(norm.isf(theirs.pvalue), rel=0.03)
    assert 1 < norm.isf(ours) < 4


@pytest.mark.parametrize("steady", [2, 20, 200])
@pytest.mark.parametrize(("n", "each"), [(20, 1), (100, 1), (1000, 1), (20, 10), (200, 10)])
def test_departures_that_only_confidence_explains_are_none(n, each, steady):
    """The less sure, the more often wrong, and the more the third model departs: no more than 5 % are found."""
    rng = np.random.default_rng(0)
    unit = np.arange(n * each) // each
    found = 0
    for _ in range(500):
        sure = 1 - 0.5 * rng.random(n) ** 2
        kept = rng.beta(steady * sure, steady * (1 - sure) + 1e-9)
        wrong = rng.random(n) > sure
        noise = 0.01 * rng.random((2, n * each))  # samples of one unit are nearly the same
        p = departure_test(wrong[unit], kept[unit] + noise[0], sure[unit] + noise[1], unit, rng.integers(0, 2, n)[unit])
        found += p is not None and p <= LEVEL
    assert found <= 42


def test_departures_that_only_the_class_explains_are_none():
    """Of one predicted class more is wrong, and the third model departs more from it: as where it is rare."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(500):
        predicted = rng.integers(0, 2, 200)
        wrong = rng.random(200) < np.where(predicted, 0.5, 0.1)
        p = departure_test(wrong, rng.normal(size=200) - 3 * predicted, rng.random(200), np.arange(200), predicted)
        found += p is not None and p <= LEVEL
    assert found <= 42


@given(
    st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=5, max_size=30),
    st.integers(1, 4),
)
def test_a_sample_repeated_in_its_unit_counts_once(rows, times):
    """Of one class and equal confidence; with more strata, the repeated ones would make others, of other weights."""
    labels, biased, after = np.array(rows).T
    before, sure, kept = np.ones_like(biased), np.full(len(biased), 0.9), np.where(after == 1, 0.8, 0.1)
    columns = (labels, biased, before, after, sure, kept)
    once = judge(*columns, np.arange(len(biased)))
    again = judge(*(np.repeat(column, times) for column in columns), np.repeat(np.arange(len(biased)), times))
    assert once.found == again.found
    assert (once.units, once.units_gained, once.units_lost) == (again.units, again.units_gained, again.units_lost)
    assert once.p_gained == again.p_gained
    assert once.p_departed == (None if again.p_departed is None else pytest.approx(again.p_departed))
    assert times * once.gained == again.gained


def test_a_unit_votes_with_most_of_its_samples():
    # Three samples a unit: two gained and one lost, a gain; one of each, none; one lost.
    labels, biased = np.zeros(15, int), np.ones(15, int)
    before = np.array([1, 1, 0] * 3 + [1, 0, 1] + [1, 0, 1])
    after = np.array([0, 0, 1] * 3 + [0, 1, 1] + [1, 1, 1])
    verdict = judge(labels, biased, before, after, np.full(15, 0.9), np.full(15, 0.5), np.arange(15) // 3)
    assert (verdict.gained, verdict.lost, verdict.units) == (7, 5, 5)
    assert (verdict.units_gained, verdict.units_lost, verdict.p_gained) == (3, 1, 5 / 16)
    assert "of the 5 held-out units, 3 gain and 1 lose" in verdict.sentence


def test_too_few_units_say_that_nothing_can_be_told():
    columns = predictions_of((40, 0, 1, 1, 0))
    verdict = judge(*columns, np.arange(80) % 4)
    assert verdict.found is None
    assert "gets 40 of the 80 held-out samples (4 of 4 units) wrong, and with fewer than 5" in verdict.sentence


@pytest.mark.parametrize("kind", ["wrong labels", "overlap", "a rare class"])
def test_of_a_coreset_that_turns_the_rule_around_nothing_is_told(kind, tmp_path):
    """Real runs on rows of two classes in which nothing is spurious; the first test alone would be sure."""
    rng = np.random.default_rng(1)
    truth = (np.arange(1200) % 10 == 0).astype(int) if kind == "a rare class" else np.arange(1200) % 2
    labels = np.where(rng.random(1200) < 0.1, 1 - truth, truth) if kind == "wrong labels" else truth
    rows = rng.normal(size=(1200, 3))
    rows[:, 0] += (6 if kind == "wrong labels" else 3) * truth
    given = {"train.epochs": 30, "device.threads": 1}
    train, test = (rows[:600], labels[:600]), (rows[600:], labels[600:])
    verdict = tcsl.debias(train, 0.2, test=test, settings=given, out=tmp_path / "run", page=False).verdict
    assert verdict.p_gained < 0.01
    assert verdict.found is None
    assert verdict.p == verdict.p_departed > 0.05
    assert verdict.sentence.startswith("Cannot tell whether there is a shortcut: of the ")
    assert "as much where that is right, as with wrong labels, classes that overlap, or a shortcut" in verdict.sentence


@pytest.mark.parametrize(
    ("models", "labels", "says"),
    [
        (("cb_erm", "tcsl_cs", "biased", SURE, KEPT), None, "no held-out samples"),
        (("cb_erm", SURE), np.zeros(9), "no biased model; add --method tcsl_cs"),
        (("tcsl_cs", "biased"), np.zeros(9), "no plain training on everything to compare with; add --method cb_erm"),
        (("cb_erm", "tcsl_cs", "biased"), np.zeros(9), "the confidence of cb_erm was not kept"),
        (("cb_erm", "tcsl_cs", "biased", SURE), np.zeros(9), "the confidence of tcsl_cs was not kept"),
    ],
)
def test_where_there_is_no_verdict_the_reason_is_said(models, labels, says):
    verdict = verdict_of({name: np.zeros(9) for name in models}, labels)
    assert verdict.found is None
    assert says in verdict.sentence


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tcsl.debias(load(0, per_class=60), 0.3, settings=SETTINGS, out=tmp_path_factory.mktemp("verdict") / "run")


def test_a_run_keeps_its_predictions_and_the_verdict_follows_from_them(run):
    table = pl.read_parquet(run.path / "predictions.parquet")
    test = load(0, per_class=60).test
    assert table.columns == ["id", "label", "cb_erm", "tcsl_cs", "biased", SURE, KEPT, "unit"]
    assert (table["id"].to_numpy() == test.ids).all()
    assert (table["label"].to_numpy() == test.numpy_labels).all()
    for name in ("cb_erm", "tcsl_cs"):
        right = (table[name] == table["label"]).mean()
        assert right == run.result["evaluation"][name]["average"]
    columns = {name: table[name].to_numpy() for name in table.columns[2:]}
    assert verdict_of(columns, table["label"].to_numpy()) == run.verdict
    assert json.loads((run.path / "result.json").read_text())["verdict"] == run.verdict.as_dict()


def test_groups_are_not_among_the_predictions_nor_looked_at(run, tmp_path):
    """The same run without groups has the same verdict and the same predictions."""
    parts = load(0, per_class=60)[:2]
    train, test = (tcsl.make_dataset(part.inputs, part.labels, ids=part.ids, units=part.units) for part in parts)
    bare = tcsl.debias(train, 0.3, test=test, settings=SETTINGS, out=tmp_path / "run")
    assert bare.verdict == run.verdict
    ours, theirs = (pl.read_parquet(one.path / "predictions.parquet") for one in (bare, run))
    assert ours.equals(theirs)


def test_the_command_line_says_the_same(run, tcsl_command):
    _, said, _ = tcsl_command("show", run.path)
    assert run.verdict.sentence in " ".join(said.split())
    _, said, _ = tcsl_command("show", run.path, "--json")
    assert json.loads(said)["verdicts"] == [run.verdict.as_dict()]


@pytest.mark.parametrize(
    ("units", "says"),
    [
        (["a", "b", None, "a"], "none missing, got None at index 2"),
        ([1.0, 1.0, float("nan"), 2.0], "none missing, got nan at index 2"),
        (["a", " ", "b", "b"], "none missing, got ' ' at index 1"),
        ([0.5, 1, 2, 3], "whole numbers or text, none missing, got 0.5 at index 0"),
        ([1, 2, 3], "4 samples but units of shape (3,)"),
        (np.zeros((4, 1)), "4 samples but units of shape (4, 1)"),
    ],
)
def test_units_that_are_missing_or_odd_are_refused(units, says):
    with pytest.raises(InputError, match=re.escape(says)):
        tcsl.make_dataset(torch.zeros(4, 2), torch.arange(4) % 2, units=units)


def test_units_are_numbered_and_a_run_with_others_is_not_gone_on_with(tmp_path):
    rng = np.random.default_rng(0)
    inputs, labels = torch.from_numpy(rng.normal(size=(40, 3))), torch.arange(40) % 2
    patients = np.array([f"patient {i // 4}" for i in range(40)], object)
    assert tcsl.make_dataset(inputs, labels, units=patients).units.tolist() == [i // 4 for i in range(40)]

    def run(units, **given):
        test = tcsl.make_dataset(inputs, labels, units=units, test=True)
        given |= {"settings": {"train.epochs": 4, "device.threads": 1}, "out": tmp_path / "run", "page": False}
        return tcsl.debias((inputs, labels), 0.5, test=test, **given)

    assert run(patients).verdict.units == 10
    assert run(patients, resume=True).verdict.units == 10
    with pytest.raises(RunFolderError, match="units: the folder has"):
        run(None, resume=True)
