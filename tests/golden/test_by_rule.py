"""Every rule by its name, solved by hand; the methods' coresets are those of the same function."""

import numpy as np
import pytest

import tcsl
from tcsl.seeds import generator

SCORES = [5.0, 1, 4, 2, 8, 7, 3, 6]
LABELS = ["a", "a", "a", "a", "b", "b", "b", "b"]


@pytest.mark.parametrize(
    ("rule", "more", "kept"),
    [
        ("bot", {}, [1, 3, 6]),  # the scores 1, 2, 3
        ("top", {}, [4, 5, 7]),  # 8, 7, 6
        ("bot", {"by_class": True, "ratio": 0.5}, [1, 3, 6, 7]),  # of each class the lower two: 1 2, 3 6
        ("top", {"by_class": True, "ratio": 0.5}, [0, 2, 4, 5]),  # 5 4, 8 7
        ("hist", {"bins": 8}, [1, 3, 6]),  # eight bins of one sample: the three lowest
        ("ccs", {"bins": 3, "beta": 0.625}, [1, 3, 6]),  # 8 7 6 5 4 are dropped; of 1 | 2 | 3, all
        # On a line at 0, 1, 2, ..., the edges are i - (i + 1), of length 1. With e = exp(-1), the scores are raised to
        # 5 + 1 e, 1 + 9 e, 4 + 3 e, 2 + 12 e, 8 + 9 e, 7 + 11 e, 3 + 13 e, 6 + 3 e
        # = 5.4, 4.3, 5.1, 6.4, 11.3, 11.0, 7.8, 7.1. At gamma = 0, neighbours lose all of what is taken: 4 (11.3), and
        # 3 and 5 fall below 0; 6 (7.8), and 7 falls below 0; 0 (5.4).
        ("d2", {"embedding": np.arange(8.0)[:, None], "k": 1, "gamma": 0, "beta": 0}, [0, 4, 6]),
    ],
)
@pytest.mark.filterwarnings("ignore:the coreset has no sample of class")
def test_rules_by_hand(rule, more, kept):
    assert tcsl.select(SCORES, LABELS, rule=rule, **{"ratio": 0.375, **more}).indices.tolist() == kept


def test_tcsl_cs_by_hand():
    # 2 and 7 have high losses in both epochs: G_high. Four of eight: they and, so that classes end equal, one of each
    # class of lowest score: 1 (of a), 6 (of b).
    curves = np.full((8, 2), 0.1)
    curves[[2, 7]] = 4
    settings = {"select.tau": 0.0}
    kept = tcsl.select(SCORES, LABELS, rule="tcsl_cs", curves=curves, ratio=0.5, settings=settings)
    assert kept.indices.tolist() == [1, 2, 6, 7]
    assert kept.g_high.tolist() == [False, True, False, True]
    assert kept.labels.tolist() == ["a", "a", "b", "b"]


def test_random_is_a_uniform_draw_of_the_stream_that_the_method_random_has():
    expected = np.sort(generator(7, "random").choice(8, 4, replace=False))
    assert tcsl.select(SCORES, LABELS, rule="random", ratio=0.5, seed=7).indices.tolist() == expected.tolist()


def test_a_coreset_says_how_it_was_made():
    kept = tcsl.select(SCORES, LABELS, rule="hist", ratio=0.5, bins=4, seed=3)
    assert {name: kept.facts[name] for name in ("rule", "ratio", "seed", "options")} == {
        "rule": "hist",
        "ratio": 0.5,
        "seed": 3,
        "options": {"by_class": False, "bins": 4},
    }
    assert kept.ids.tolist() == kept.indices.tolist()
    assert kept.scores.tolist() == np.array(SCORES)[kept.indices].tolist()
