"""Bot, Top, Hist, CCS, neighbours and D2, solved by hand; and what each says about input that it cannot use."""

import numpy as np
import pytest

from tcsl.errors import InputError, TcslWarning
from tcsl.selection.classes import samples_by_class
from tcsl.selection.coreset import select
from tcsl.selection.d2 import forward_messages, neighbour_graph, select_d2, take_greedily
from tcsl.selection.neighbours import nearest_neighbours
from tcsl.selection.rules import divide_among_strata, drop_hardest, select_bot, select_ccs, select_hist, select_top

RNG = np.random.default_rng
ONE_CLASS = np.zeros(8, np.int64)


# Bot, Top, Hist.


def test_bot_takes_the_lowest_and_top_the_highest():
    scores = np.array([5.0, 1, 4, 2, 8, 7, 3, 6])
    assert select_bot(scores, ONE_CLASS, ratio=0.375).tolist() == [1, 3, 6]
    assert select_top(scores, ONE_CLASS, ratio=0.375).tolist() == [4, 5, 7]


def test_equal_scores_go_in_the_order_of_the_samples_from_both_ends():
    scores = np.array([2.0, 1, 2, 1, 2, 1, 1, 2])
    assert select_bot(scores, ONE_CLASS, ratio=0.25).tolist() == [1, 3]
    assert select_top(scores, ONE_CLASS, ratio=0.25).tolist() == [0, 2]


def test_top_of_unsigned_scores_does_not_wrap_around():
    assert select_top(np.array([0, 1, 2, 3], np.uint8), ONE_CLASS[:4], ratio=0.5).tolist() == [2, 3]


def test_by_class_each_class_gets_its_share():
    # Six of class 0 and two of class 5, which are the hardest; half of eight is four: three and one.
    scores, labels = np.arange(8.0), np.array([0, 0, 0, 0, 0, 0, 5, 5])
    assert select_bot(scores, labels, ratio=0.5, by_class=True).tolist() == [0, 1, 2, 6]
    assert select_top(scores, labels, ratio=0.5, by_class=True).tolist() == [3, 4, 5, 7]


def test_a_lost_class_is_named_with_what_to_do_and_the_line_that_asked():
    scores, labels = np.arange(8.0), np.array([0, 0, 0, 0, 0, 0, 5, 5])
    with pytest.warns(TcslWarning, match=r"no sample of class 5.*by_class=True") as caught:
        select(scores, labels, rule="bot", ratio=0.5)
    assert caught[0].filename == __file__
    with pytest.warns(TcslWarning, match="no sample of class 0") as caught:
        select(scores, labels, rule="d2", embedding=scores[:, None], ratio=0.125, beta=0)
    assert caught[0].filename == __file__


def test_hist_takes_one_of_each_bin_in_turn():
    # Four bins of two by rank, whatever the scores' spacing; three samples come of the three easiest bins.
    scores = np.array([0.0, 1, 2, 3, 50, 60, 700, 800])
    picked = select_hist(scores, ONE_CLASS, ratio=0.375, bins=4, rng=RNG(0))
    assert (picked // 2).tolist() == [0, 1, 2]


def test_hist_by_class_has_bins_of_each_class():
    # Each class has two bins of two samples (0 1, 2 3 and 4 5, 6 7), and gives one of each.
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    picked = select_hist(np.arange(8.0), labels, ratio=0.5, bins=2, by_class=True, rng=RNG(0))
    assert (picked // 2).tolist() == [0, 1, 2, 3]


def test_samples_by_class_are_ascending_and_only_of_classes_that_occur():
    parts = samples_by_class(np.array([3, 1, 3, 1, 9]))
    assert {label: part.tolist() for label, part in parts.items()} == {1: [1, 3], 3: [0, 2], 9: [4]}


# CCS.


def test_strata_are_served_from_the_smallest():
    # 10 among 1, 6, 3, 8: 10 // 4 = 2, but 1 is all there is; 9 // 3 = 3; 6 // 2 = 3; 3.
    assert divide_among_strata(10, np.array([1, 6, 3, 8])).tolist() == [1, 3, 3, 3]
    # 11: 1; 10 // 3 = 3; 7 // 2 = 3; the last gets 4.
    assert divide_among_strata(11, np.array([1, 6, 3, 8])).tolist() == [1, 3, 3, 4]
    assert divide_among_strata(18, np.array([1, 6, 3, 8])).tolist() == [1, 6, 3, 8]
    with pytest.raises(InputError, match="cannot take 19 from strata that hold 18"):
        divide_among_strata(19, np.array([1, 6, 3, 8]))


def test_ccs_by_hand():
    # beta = 0.2 of ten drops the scores 90 and 99. The range 10 .. 18 is cut at 12, 14 and 16; what is on a cut belongs
    # above it. Strata: 10 10.1 10.2 10.3 | none | 14 | 16 17 18. Four samples: of none 0, of one 4 // 3 = 1, of three
    # 3 // 2 = 1, and of four the 2 that are left.
    scores = np.array([99.0, 18, 17, 16, 14, 10.3, 10.2, 10.1, 10, 90])
    for seed in range(10):
        picked = select_ccs(scores, np.zeros(10, int), ratio=0.4, beta=0.2, bins=4, rng=RNG(seed)).tolist()
        assert len(picked) == 4
        assert len({1, 2, 3} & set(picked)) == 1
        assert 4 in picked
        assert len({5, 6, 7, 8} & set(picked)) == 2


def test_ccs_gives_every_sample_of_a_stratum_a_chance():
    picks = {int(select_ccs(np.zeros(8), ONE_CLASS, ratio=0.125, beta=0.5, rng=RNG(s))[0]) for s in range(60)}
    assert picks == {0, 1, 2, 3}  # all scores are equal: one stratum; the later half counts as the harder


def test_ccs_at_beta_zero_keeps_all_at_ratio_one():
    assert select_ccs(np.arange(8.0), ONE_CLASS, ratio=1, beta=0, rng=RNG(0)).tolist() == list(range(8))


def test_beta_is_read_as_the_decimal_number_that_it_was_written_as():
    # In binary floating point, 0.29 * 100 is below 29.
    assert len(drop_hardest(np.arange(100.0), 0.29, 1)) == 71


def test_a_beta_that_leaves_too_few_names_the_largest():
    with pytest.raises(InputError, match=r"beta 0.4 leaves 5 of 8 samples, but 6 .*use a beta of 0.25 or less"):
        select_ccs(np.arange(8.0), ONE_CLASS, ratio=0.75, beta=0.4, rng=RNG(0))
    assert len(select_ccs(np.arange(8.0), ONE_CLASS, ratio=0.75, beta=0.25, rng=RNG(0))) == 6
    # 2 / 3 is rounded down: what the message says works.
    with pytest.raises(InputError, match=r"use a beta of 0\.6666 or less"):
        drop_hardest(np.arange(30_000.0), 0.7, 10_000)
    assert len(drop_hardest(np.arange(30_000.0), 0.6666, 10_000)) == 10_002


@pytest.mark.parametrize(("ratio", "left"), [(0.1, 6), (0.2, 6), (0.3, 7), (0.6, 8), (0.8, 9), (1, 10)])
def test_without_a_beta_two_fifths_are_dropped_or_half_of_what_the_ratio_leaves(ratio, left):
    scores, labels = np.arange(10.0), np.zeros(10, int)
    for seed in range(20):
        assert select_ccs(scores, labels, ratio=ratio, rng=RNG(seed)).max() < left
    # Without messages, D2 takes the hardest of what is left.
    kept = select_d2(scores, scores[:, None], labels, ratio=ratio, k=1, gamma=1e9, forward_gamma=1e9)
    assert kept.tolist() == list(range(left))[-round(10 * ratio) :]


# Neighbours.


def test_neighbours_by_hand():
    # On a line: 0, 1, 3, 7.
    found = nearest_neighbours(np.array([[0.0], [1], [3], [7]]), 3)
    assert found.indices.tolist() == [[1, 2, 3], [0, 2, 3], [1, 0, 3], [2, 1, 0]]
    assert found.distances.tolist() == [[1, 3, 7], [1, 2, 6], [2, 3, 4], [4, 6, 7]]


def test_neighbours_at_equal_distances_are_in_order():
    # The corners of a square and its centre, twice.
    corners = np.array([[1.0, 1], [-1, 1], [0, 0], [-1, -1], [1, -1], [0, 0]])
    found = nearest_neighbours(corners, 4)
    assert found.indices[0].tolist() == [2, 5, 1, 4]
    assert found.distances[0].tolist() == pytest.approx([2**0.5, 2**0.5, 2, 2])
    assert found.indices[2].tolist() == [5, 0, 1, 3]
    assert found.indices[5].tolist() == [2, 0, 1, 3]
    assert found.distances[5, 0] == 0


def test_a_row_is_no_neighbour_of_itself_but_equal_rows_are():
    found = nearest_neighbours(np.ones((4, 3)), 2)
    assert found.indices.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]
    assert not found.distances.any()


def test_the_cosine_does_not_see_lengths():
    # Directions 0, 90 and 180 degrees; lengths 1, 5, 3.
    found = nearest_neighbours(np.array([[1.0, 0], [0, 5], [-3, 0]]), 2, metric="cosine")
    assert found.indices.tolist() == [[1, 2], [0, 2], [1, 0]]
    assert found.distances.tolist() == [[1, 2], [1, 1], [1, 2]]


# D2. Five points on a line at 0, 1, 3, 7, 8. The nearest of each, k = 1: 1, 0, 1, 4, 3. Edges, from either end: 0 - 1
# of length 1, 1 - 2 of length 2, 3 - 4 of length 1. With gamma = log 2, a message is halved for each unit of length.
LINE = np.array([[0.0], [1], [3], [7], [8]])
SCORES = np.array([1.0, 2, 4, 3, 2])
HALVE = float(np.log(2))


def graph_of_line():
    return neighbour_graph(nearest_neighbours(LINE, 1))


def test_the_graph_has_each_edge_once_from_each_end():
    graph = graph_of_line()
    assert graph.start.tolist() == [0, 1, 3, 4, 5, 6]
    assert graph.target.tolist() == [1, 0, 2, 1, 4, 3]
    assert graph.distance.tolist() == [1, 1, 2, 2, 1, 1]


def test_forward_messages_by_hand():
    # 1 + 2/2 | 2 + 1/2 + 4/4 | 4 + 2/4 | 3 + 2/2 | 2 + 3/2
    assert forward_messages(SCORES, graph_of_line(), gamma=HALVE).tolist() == pytest.approx([2, 3.5, 4.5, 4, 3.5])
    # With gamma = 1: exp(-1) = 0.3679 and exp(-2) = 0.1353.
    plain = forward_messages(SCORES, graph_of_line(), gamma=1)
    assert plain.tolist() == pytest.approx([1.7358, 2.9092, 4.2707, 3.7358, 3.1036], abs=1e-4)


def test_the_greedy_order_by_hand():
    # Scores           2      3.5    4.5    4    3.5
    # take 2 (4.5):    2      2.375   -     4    3.5     3.5 - 4.5/4
    # take 3 (4):      2      2.375   -     -    1.5     3.5 - 4/2
    # take 1 (2.375):  0.8125  -      -     -    1.5     2 - 2.375/2
    # take 4 (1.5), then 0.
    raised = np.array([2, 3.5, 4.5, 4, 3.5])
    assert take_greedily(raised, graph_of_line(), 5, gamma=HALVE).tolist() == [2, 3, 1, 4, 0]
    # Without messages it is the order of the scores; of the two 3.5, the earlier first.
    assert take_greedily(raised, graph_of_line(), 5, gamma=1e9).tolist() == [2, 3, 1, 4, 0]
    # At gamma = 0, neighbours lose all of it. 4.5: 1 falls to -1; 4: 4 to -0.5; 2: 1 to -3; -0.5; -3.
    assert take_greedily(raised, graph_of_line(), 5, gamma=0).tolist() == [2, 3, 0, 4, 1]


def test_a_negative_score_raises_its_neighbours():
    # On a line at 0, 1, 2.5, 5: edges 0 - 1, 1 - 2, 2 - 3. At gamma = 0, take 1 (-1): 0 rises from -3 to -2, before 3
    # (-2.5), and 2 from -4 to -3. Take 0 (-2), 3 (-2.5), 2. Without messages, 3 comes before 0.
    graph = neighbour_graph(nearest_neighbours(np.array([[0.0], [1], [2.5], [5]]), 1))
    scores = np.array([-3.0, -1, -4, -2.5])
    assert take_greedily(scores, graph, 4, gamma=0).tolist() == [1, 0, 3, 2]
    assert take_greedily(scores, graph, 4, gamma=1e9).tolist() == [1, 3, 0, 2]


def test_d2_by_hand():
    labels = np.zeros(5, int)
    halved = {"k": 1, "gamma": HALVE, "forward_gamma": HALVE}
    assert select_d2(SCORES, LINE, labels, ratio=0.6, beta=0, **halved).tolist() == [1, 2, 3]
    # beta = 0.2 drops sample 2, of score 4, before the graph is made: edges 0 - 1 and 3 - 4. Raised: 2, 2.5, 4 and 3.5;
    # take 3 (4): 4 falls to 1.5; take 1 (2.5): 0 falls to 0.75; take 4.
    assert select_d2(SCORES, LINE, labels, ratio=0.6, beta=0.2, **halved).tolist() == [1, 3, 4]


def test_d2_by_class_has_a_graph_of_each_class():
    # Two classes that lie on each other; each of four has two pairs of points, and gives the harder of each pair.
    place = np.array([[0.0], [0.1], [9], [9.1]] * 2)
    scores, labels = np.array([2.0, 1, 4, 3, 1, 2, 3, 4]), np.repeat([0, 1], 4)
    assert select_d2(scores, place, labels, ratio=0.5, k=1, beta=0, by_class=True).tolist() == [0, 2, 5, 7]


# Bad input.


def rules(**more):
    """Every rule, with arguments that fit eight samples."""
    common = {"ratio": 0.5, **more}
    return [
        lambda s, y: select_bot(s, y, **common),
        lambda s, y: select_top(s, y, **common),
        lambda s, y: select_hist(s, y, rng=RNG(0), **common),
        lambda s, y: select_ccs(s, y, rng=RNG(0), **common),
        lambda s, y: select_d2(s, np.arange(8.0)[:, None], y, k=2, **common),
    ]


@pytest.mark.parametrize("rule", range(5))
@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (np.arange(7.0), ONE_CLASS, r"one score a sample: 8 labels, scores of shape \(7,\)"),
        (np.ones((8, 1)), ONE_CLASS, r"scores of shape \(8, 1\)"),
        (
            np.array([0, 1, np.nan, 3, np.inf, 5, 6, 7]),
            ONE_CLASS,
            "2 of 8 are NaN or infinite, the first that of sample 2",
        ),
        (np.zeros(0), np.zeros(0, int), "one sample or more"),
    ],
)
def test_every_rule_says_what_is_wrong_with_the_scores(rule, scores, labels, message):
    with pytest.raises(InputError, match=message):
        rules()[rule](scores, labels)


@pytest.mark.parametrize("rule", range(5))
@pytest.mark.parametrize(
    ("ratio", "message"), [(0, r"in \(0, 1\], got 0"), (50, "did you mean 0.50"), (0.01, "no sample: use a ratio of")]
)
def test_every_rule_refuses_a_ratio_that_is_none(rule, ratio, message):
    with pytest.raises(InputError, match=message):
        rules(ratio=ratio)[rule](np.arange(8.0), ONE_CLASS)


@pytest.mark.parametrize("beta", [-0.1, 1, 40, float("nan")])
def test_beta_is_a_share(beta):
    for rule in rules(beta=beta)[3:]:
        with pytest.raises(InputError, match=r"beta, .* must be in \[0, 1\), got"):
            rule(np.arange(8.0), ONE_CLASS)


def test_bins_are_one_or_more():
    for rule in rules(bins=0)[2:4]:
        with pytest.raises(InputError, match="bins must be 1 or more, got 0"):
            rule(np.arange(8.0), ONE_CLASS)


@pytest.mark.parametrize(
    ("embedding", "more", "message"),
    [
        (np.zeros((7, 2)), {}, r"one row a sample: 8 labels, an embedding of shape \(7, 2\)"),
        (np.zeros(8), {}, r"one row a sample: 8 labels, an embedding of shape \(8,\)"),
        (np.zeros((8, 0)), {}, r"shape \(samples, dimensions\), got \(8, 0\)"),
        (np.eye(8), {"k": 8}, "below the number of samples, 8; got 8"),
        (np.eye(8), {"k": 0}, "at least 1"),
        (
            np.eye(8),
            {"k": 6, "beta": 0.25},
            "below the number of samples that beta leaves, 6 of 8; got 6: use a smaller k or beta",
        ),
        (np.diag([1, 1, np.nan, 1, np.inf, 1, 1, 1]), {}, "2 of 8 rows have NaN, infinite .*first row 2"),
        (np.full((8, 2), 1e300), {}, "8 of 8 rows .* too large"),
        (np.diag([1, 0, 1, 1, 1, 1, 1, 1]), {"metric": "cosine"}, "rows of zeros: 1 of 8, the first row 1"),
        (np.eye(8), {"metric": "manhattan"}, "'euclidean' or 'cosine', got 'manhattan'"),
        (np.eye(8), {"gamma": -1}, "gamma must be finite and not negative, got -1"),
        (np.eye(8), {"forward_gamma": np.inf}, "forward_gamma must be finite and not negative, got inf"),
        (np.eye(8), {"by_class": True, "k": 4}, r"class 0 has 4 samples .* more than k = 4 of each class"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_d2_says_what_is_wrong(embedding, more, message):
    labels = np.repeat([0, 1], 4)
    with pytest.raises(InputError, match=message):
        select_d2(np.arange(8.0), embedding, labels, ratio=0.5, **{"k": 2, "beta": 0, **more})
