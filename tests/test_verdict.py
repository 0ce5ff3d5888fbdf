"""The verdict: is there a shortcut, told without groups."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

import tcsl
from tcsl.data.digits import load
from tcsl.verdict import LEVEL, departure_test, judge, sign_test, verdict_of

SETTINGS = {"train.epochs": 12, "train.lr": 0.05, "score.biased_epochs": 8, "device.threads": 1}


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_scipys(gained, lost):
    expected = binomtest(gained, gained + lost, 0.5, "greater").pvalue if gained + lost else 1.0
    assert sign_test(gained, lost) == pytest.approx(expected, rel=1e-12)


def predictions_of(*rows):
    """Columns: label, biased, before, after; the first entry of a row is how often it is repeated.

    Beside them are as many samples on which all agree and are right, with the same confidence.
    """
    table = np.concatenate([np.tile(row[1:], (row[0], 1)) for row in rows])
    right = np.repeat(table[:, :1], 4, axis=1)
    both = np.concatenate([table, right]).T
    return *both, np.full(both.shape[1], 0.9, np.float32)


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


@given(st.lists(st.integers(0, 3 * 3 * 3 - 1), min_size=5, max_size=40), st.randoms())
def test_the_order_of_samples_does_not_matter(codes, random):
    rows = [(0, code % 3, code // 3 % 3, code // 9, i % 4) for i, code in enumerate(codes)]
    one, other = (np.array(order).T for order in (rows, random.sample(rows, len(rows))))
    assert judge(*one[:4], one[4] / 4) == judge(*other[:4], other[4] / 4)


def test_too_few_samples_say_that_nothing_can_be_told():
    few = judge(*predictions_of((4, 0, 1, 1, 0), (90, 1, 1, 1, 1)))
    assert few.found is None
    assert few.p is None
    assert "gets 4 of the 188 held-out samples wrong, and with fewer than 5" in few.sentence
    assert judge(*predictions_of((5, 0, 1, 1, 0))).found is True


def test_the_level_is_kept_where_gains_and_losses_are_equally_likely():
    """Of 2,000 draws without a shortcut, no more than 5 % and what chance adds (a binomial's 99.9 % point)."""
    rng = np.random.default_rng(0)
    labels, biased, sure = np.zeros(120, np.int64), np.repeat([1, 0], 60), np.full(120, 0.9, np.float32)
    gained = both = 0
    for _ in range(2000):
        before, after = rng.integers(0, 2, (2, 120))
        found = judge(labels, biased, before, after, sure)
        gained += found.p_gained <= LEVEL
        both += found.found
    assert both <= gained <= 132
    assert LEVEL == 0.05


def test_departures_by_hand():
    # Two strata. At 0.6: of 10 that are wrong 8 depart, of 10 that are right 4. At 0.9: 3 of 10, and 1 of 30.
    wrong = np.repeat([True, False, True, False], [10, 10, 10, 30])
    departs = np.concatenate([np.arange(n) < k for n, k in ((10, 8), (10, 4), (10, 3), (30, 1))])
    sure = np.repeat([0.6, 0.9], [20, 40])
    # Expected where it is wrong: 10 x 12 / 20 = 6, and 10 x 4 / 40 = 1; variances 10 x 10 x 12 x 8 / (400 x 19) and
    # 10 x 30 x 4 x 36 / (1600 x 39).
    z = (11 - 7 - 0.5) / np.sqrt(9600 / 7600 + 43200 / 62400)
    assert departure_test(wrong, departs, sure) == pytest.approx(norm.sf(z))
    assert departure_test(~wrong, departs, sure) > 0.99
    assert departure_test(np.zeros(9, bool), np.ones(9, bool), np.ones(9)) == 1
    assert departure_test(np.ones(9, bool), np.ones(9, bool), np.ones(9)) == 1


def test_departures_that_only_confidence_explains_are_none():
    """The less sure, the more often wrong, and the more often the third model departs: no more than 5 % are found."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(500):
        sure = rng.uniform(0.5, 1, 600)
        found += departure_test(rng.random(600) > sure, rng.random(600) > sure, sure) <= LEVEL
    assert found <= 42


@pytest.mark.parametrize("kind", ["wrong labels", "overlap"])
def test_a_coreset_that_turns_the_rule_around_is_no_shortcut(kind, tmp_path):
    """Real runs on rows of two classes in which nothing is spurious; the first test alone would be sure."""
    rng = np.random.default_rng(1)
    truth = np.arange(1200) % 2
    labels = np.where(rng.random(1200) < 0.1, 1 - truth, truth) if kind == "wrong labels" else truth
    rows = rng.normal(size=(1200, 3))
    rows[:, 0] += (6 if kind == "wrong labels" else 3) * truth
    given = {"train.epochs": 30, "device.threads": 1}
    train, test = (rows[:600], labels[:600]), (rows[600:], labels[600:])
    verdict = tcsl.debias(train, 0.2, test=test, settings=given, out=tmp_path / "run", page=False).verdict
    assert verdict.p_gained < 0.01
    assert verdict.found is False
    assert "as often where they are right, as with wrong labels or classes that overlap" in verdict.sentence


def test_without_confidence_there_is_no_verdict():
    verdict = verdict_of({name: np.zeros(9) for name in ("cb_erm", "tcsl_cs", "biased")}, np.zeros(9))
    assert verdict.found is None
    assert "the confidence of cb_erm was not kept" in verdict.sentence


@pytest.mark.parametrize(
    ("models", "labels", "says"),
    [
        (("cb_erm", "tcsl_cs", "biased"), None, "no held-out samples"),
        (("cb_erm",), np.zeros(9), "no biased model; add --method tcsl_cs"),
        (("tcsl_cs", "biased"), np.zeros(9), "no plain training on everything to compare with; add --method cb_erm"),
    ],
)
def test_where_there_is_no_verdict_the_reason_is_said(models, labels, says):
    verdict = verdict_of({name: np.zeros(9) for name in models}, labels, np.ones(9))
    assert verdict.found is None
    assert says in verdict.sentence


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tcsl.debias(load(0, per_class=60), 0.3, settings=SETTINGS, out=tmp_path_factory.mktemp("verdict") / "run")


def test_a_run_keeps_its_predictions_and_the_verdict_follows_from_them(run):
    table = pl.read_parquet(run.path / "predictions.parquet")
    test = load(0, per_class=60).test
    assert table.columns == ["id", "label", "cb_erm", "tcsl_cs", "biased", "cb_erm_sure"]
    assert (table["id"].to_numpy() == test.ids).all()
    assert (table["label"].to_numpy() == test.numpy_labels).all()
    for name in ("cb_erm", "tcsl_cs"):
        right = (table[name] == table["label"]).mean()
        assert right == run.result["evaluation"][name]["average"]
    columns = {name: table[name].to_numpy() for name in table.columns[2:]}
    assert verdict_of(columns, table["label"].to_numpy(), columns["cb_erm_sure"]) == run.verdict
    assert json.loads((run.path / "result.json").read_text())["verdict"] == run.verdict.as_dict()


def test_groups_are_not_among_the_predictions_nor_looked_at(run, tmp_path):
    """The same run without groups has the same verdict and the same predictions."""
    train, test = (tcsl.make_dataset(part.inputs, part.labels, ids=part.ids) for part in load(0, per_class=60)[:2])
    bare = tcsl.debias(train, 0.3, test=test, settings=SETTINGS, out=tmp_path / "run")
    assert bare.verdict == run.verdict
    ours, theirs = (pl.read_parquet(one.path / "predictions.parquet") for one in (bare, run))
    assert ours.equals(theirs)


def test_the_command_line_says_the_same(run, tcsl_command):
    _, said, _ = tcsl_command("show", run.path)
    assert run.verdict.sentence in " ".join(said.split())
    _, said, _ = tcsl_command("show", run.path, "--json")
    assert json.loads(said)["verdicts"] == [run.verdict.as_dict()]
