"""Each figure shows the numbers of its run, and nothing else."""

import io
import shutil
import subprocess
import sys
import warnings
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from PIL import Image

import tcsl
from tcsl.errors import InputError, TcslWarning
from tcsl.report.comparisons import accuracy_figure, composition_figure
from tcsl.report.composition import Composition
from tcsl.report.drawing import draw, save_figures
from tcsl.report.figures import curves_figure, densities_figure, group_densities_figure, map_figure
from tcsl.report.strip import strip_figure, strip_rows
from tcsl.report.style import encoded
from tcsl.scores import load_table, save_table
from tcsl.statistics import wilson

ALL = ["map", "loss-curves", "densities", "densities-by-group", "composition", "accuracy", "contradicting"]


@pytest.fixture(scope="module")
def drawn(digits):
    return tcsl.figures(digits)


def legend_of(figure):
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    return [text.get_text() for legend in legends if legend for text in legend.get_texts()]


def names_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def dots_of(axes):
    """Return the x of every point that is drawn as a marker, by the row that it is nearest to."""
    lines = [line for line in axes.lines if line.get_linestyle() == "None"]
    return [dict(zip(np.round(line.get_ydata()).astype(int), line.get_xdata(), strict=True)) for line in lines]


def test_a_run_on_images_with_groups_has_every_figure(drawn, digits):
    assert list(drawn) == ALL
    assert list(tcsl.figures(digits.path)) == ALL
    assert list(tcsl.figures(str(digits.path))) == ALL


def test_the_map_has_every_sample_in_its_place(drawn, digits):
    scores = digits.scores
    axes = drawn["map"].axes[0]
    points = np.concatenate([part.get_offsets() for part in axes.collections])
    expected = np.stack([scores.tcsl_s, scores.tcsl_c], axis=1)
    assert np.array_equal(points[np.lexsort(points.T)], expected[np.lexsort(expected.T)])
    kept = sum(len(part.get_offsets()) for part in axes.collections if len(part.get_edgecolors()))
    assert kept == len(digits.coreset)
    high = int(scores.g_high.sum())
    assert legend_of(drawn["map"]) == [
        f"G$_{{low}}$, {len(scores) - high}",
        f"G$_{{high}}$, {high}",
        f"dark edge: kept, {len(digits.coreset)}",
    ]


def test_the_loss_curves_are_medians(drawn, digits):
    scores = digits.scores
    low, high = drawn["loss-curves"].axes[0].lines
    assert np.allclose(low.get_ydata(), np.median(scores.curves[~scores.g_high], axis=0))
    assert np.allclose(high.get_ydata(), np.median(scores.curves[scores.g_high], axis=0))
    assert low.get_xdata().tolist() == list(range(1, scores.curves.shape[1] + 1))


def test_the_composition_is_that_of_the_tables(rows):
    figure = tcsl.figures(rows)["composition"]
    panels = {axes.get_title("left"): axes for axes in figure.axes if axes.get_title("left")}
    assert set(panels) == {"class", "cluster", "tenth of TCSL$_c$", "group"}
    full, kept = dots_of(panels["cluster"])
    high = 100 * rows.scores.g_high.mean()
    assert full == pytest.approx({0: 100 - high, 1: high})
    high = 100 * rows.scores.g_high[rows.coreset.indices].mean()
    assert kept == pytest.approx({0: 100 - high, 1: high})
    full, kept = dots_of(panels["tenth of TCSL$_c$"])
    assert full == pytest.approx(dict.fromkeys(range(10), 10))
    assert sum(kept.values()) == pytest.approx(100)
    easiest = np.argsort(rows.scores.tcsl_c)[:12]  # of 120
    assert kept[0] == pytest.approx(100 * np.isin(easiest, rows.coreset.indices).sum() / len(rows.coreset))


def test_the_accuracy_is_that_of_the_result(rows):
    axes = tcsl.figures(rows)["accuracy"].axes[0]
    before, after = (rows.result["evaluation"][name] for name in ("cb_erm", "tcsl_cs"))
    assert names_of(axes) == [group["name"] for group in before["groups"]]
    for dots, evaluation in zip(dots_of(axes), (before, after), strict=True):
        assert dots == pytest.approx({i: 100 * group["accuracy"] for i, group in enumerate(evaluation["groups"])})
    said = legend_of(axes.figure)
    assert said[0] == f"CB ERM: worst {100 * before['wga']:.1f}, average {100 * before['average']:.1f}"
    assert said[1] == f"TCSL-CS: worst {100 * after['wga']:.1f}, average {100 * after['average']:.1f}"


def test_the_intervals_of_accuracy_are_wilsons():
    axes = accuracy_figure(["a", "b"], [10, 0], {"one": [0.8, None]}).axes[0]
    ends = [line.get_xdata() for line in axes.lines if line.get_linestyle() == "-"]
    assert len(ends) == 1
    assert ends[0] == pytest.approx(100 * np.array(wilson(8, 10)))
    assert names_of(axes) == ["a"]  # b has no test sample


def test_without_groups_accuracy_is_by_class(hostile):
    axes = tcsl.figures(hostile)["accuracy"].axes[0]
    assert len(names_of(axes)) == 4
    assert axes.get_xlabel().startswith("accuracy by class, %\n")


def test_the_strip_has_the_highest_tcsl_s_of_each_class(drawn, digits):
    scores, axes = digits.scores, drawn["contradicting"].axes[0]
    assert names_of(axes) == list(map(str, range(10)))
    rows = strip_rows(scores.tcsl_s, scores.labels, scores.g_high, np.ones(len(scores), bool))
    assert len(axes.images) == sum(len(row.follow) + len(row.contradict) for row in rows) == 110
    data = tcsl.load("digits", options={"per_class": 20}).train
    for row in rows:
        members = np.flatnonzero(scores.labels == row.label)
        assert scores.tcsl_s[row.contradict].tolist() == sorted(scores.tcsl_s[members].tolist(), reverse=True)[:8]
        assert scores.tcsl_s[row.follow].tolist() == sorted(scores.tcsl_s[members].tolist())[:3]
    first = data.inputs[int(rows[0].follow[0])].permute(1, 2, 0).numpy()
    assert np.array_equal(axes.images[0].get_array(), first)


def test_a_strip_takes_those_that_have_a_picture_and_the_classes_with_most_of_g_high():
    labels = np.repeat(np.arange(12), 4)
    s = np.tile([4.0, 3.0, 2.0, 1.0], 12)
    pictured = s < 4
    rows = strip_rows(s, labels, (s > 2) & (labels > 1), pictured)
    assert [row.label for row in rows] == list(range(2, 12))
    assert all(s[row.contradict].tolist() == [3, 2, 1] and len(row.follow) == 0 for row in rows)
    grey = np.zeros((4, 8), np.uint8)
    assert len(strip_figure(["a"], [[]], [[grey]], [[True]]).axes[0].images) == 1


def test_groups_are_drawn_with_their_share_of_g_high():
    s = np.array([0.1] * 30 + [5.0] * 4, np.float32)
    group = np.array([0] * 30 + [2] * 4)
    figure = group_densities_figure({"tcsl_s": s}, s > 1, group, ["a", "nobody", "b"])
    assert names_of(figure.axes[0]) == ["b", "a"]
    assert {"0 % of 30", "100 % of 4"} <= {text.get_text() for text in figure.axes[0].texts}
    assert [len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() == "o"] == [4]  # too few


def test_of_many_kinds_some_are_drawn_and_that_is_said():
    names = [f"class {i}" for i in range(100)]
    full = np.full(100, 10)
    kept = np.where(np.arange(100) < 30, 2, 1)
    axes = composition_figure({"class": Composition(names, full, kept)}).axes[0]
    assert names_of(axes) == names[:24]
    assert axes.get_title("left") == "class (24 of 100, whose share changes most)"
    axes = accuracy_figure(names, [10] * 100, {"one": [0.5] * 10 + [0.9] * 90}).axes[0]
    assert names_of(axes)[:10] == names[:10]
    assert "24 of 100, the lowest" in axes.get_xlabel()
    s = np.linspace(0.1, 1, 5000).astype(np.float32)
    axes = group_densities_figure({"tcsl_s": s}, s > 2, np.arange(5000) % 100, names).axes[0]
    assert len(names_of(axes)) == 24
    assert axes.get_title("left") == "the 24 largest of 100 groups"
    points = encoded(map_figure(s, s, s > 0.5), "svg").decode()
    assert "<image" in points  # not 5,000 shapes
    assert len(points) < 400_000


@pytest.mark.parametrize("high", [[], [0], [0, 1, 2]])
def test_empty_and_equal_clusters_are_drawn(high):
    scores = np.array([0.0, 1.0, 1.0], np.float32)  # one mean loss of zero
    g_high = np.isin(np.arange(3), high)
    for figure in (
        map_figure(scores, scores, g_high),
        map_figure(0 * scores, 0 * scores, g_high),
        curves_figure(scores[:, None], g_high),
        densities_figure({"tcsl_s": scores}, g_high),
        group_densities_figure({"tcsl_s": scores}, g_high, np.zeros(3, int), ["a"]),
    ):
        assert encoded(figure, "png", dpi=40)[:4] == b"\x89PNG"


def test_names_from_the_data_are_text(hostile, tmp_path):
    files, missing = save_figures(hostile, tmp_path)
    assert set(missing) == {"densities-by-group", "contradicting"}
    for file in files:
        if file.suffix == ".svg":
            tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(file).iter()}
            assert "script" not in tags
    names = names_of(tcsl.figures(hostile)["accuracy"].axes[0])
    assert names == ["<script>alert(1)</script>", r"\$\frac{", "two\ufffdlines \ufffd", names[3]]
    assert len(names[3]) == 28


def test_letters_that_the_font_lacks_are_said():
    figure = accuracy_figure(["水鸟"], [10], {"one": [0.5]})
    with pytest.warns(TcslWarning, match="does not have: they are drawn as boxes"):
        encoded(figure, "png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoded(accuracy_figure(["Wasservögel"], [10], {"one": [0.5]}), "png")


def kept_for_the_page(run, tmp_path, pictures):
    """Return a copy of a run's folder with other samples and groups: pictures of some samples, and EL2N."""
    path = shutil.copytree(run.path, tmp_path / "run")
    n = len(run.scores)
    out = io.BytesIO()
    Image.new("RGB", (6, 4), "red").save(out, "WEBP", lossless=True)
    webp = [out.getvalue() if i in pictures else None for i in range(n)]
    table, facts = load_table(path / "samples.parquet", set())
    other = {"webp": pl.Series(webp, dtype=pl.Binary), "el2n": pl.Series(run.scores.tcsl_s / 10)}
    save_table(table.drop("el2n_biased").with_columns(**other), path / "samples.parquet", facts)
    groups = pl.DataFrame({"index": np.arange(n), "group": np.arange(n) % 2, "minority": np.arange(n) % 2 == 1})
    save_table(groups, path / "groups.parquet", {"names": ["even", "odd"]})
    return path


def test_the_same_run_gives_the_same_bytes(rows, tmp_path):
    path = kept_for_the_page(rows, tmp_path, set(range(40)))
    files, missing = save_figures(path)
    assert not missing
    assert files == [path / "figures" / f"{name}.{form}" for name in ALL for form in ("svg", "png")]
    code = (
        "import sys, matplotlib; from pathlib import Path; from tcsl.report.drawing import save_figures\n"
        "matplotlib.rcParams['font.size'] = 30\n"  # the user's own settings do not matter
        "save_figures(*map(Path, sys.argv[1:]))\n"
        "assert matplotlib.rcParams['font.size'] == 30\n"
        "assert not {'matplotlib.pyplot', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, path, tmp_path / "again"], check=True, capture_output=True)
    for file in files:
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name


def test_what_newer_runs_keep_is_drawn_without_their_data(rows, tmp_path):
    highest = np.argsort(-rows.scores.tcsl_s)
    path = kept_for_the_page(rows, tmp_path, set(highest[:9].tolist()))
    drawn = tcsl.figures(path)
    assert list(drawn) == ALL
    assert len(drawn["contradicting"].axes[0].images) == 9
    assert drawn["contradicting"].axes[0].images[0].get_array()[0, 0].tolist() == [255, 0, 0]
    assert names_of(drawn["densities-by-group"].axes[0]) == ["odd", "even"]
    assert [axes.get_xlabel() for axes in drawn["densities"].axes] == ["TCSL$_s$", "TCSL$_c$", "EL2N"]
    own = tcsl.figures(rows)["densities"].axes
    assert [axes.get_xlabel() for axes in own] == ["TCSL$_s$", "TCSL$_c$", "EL2N of the biased model"]


def test_tables_of_another_run_are_refused(rows, tmp_path):
    path = kept_for_the_page(rows, tmp_path, set())
    save_table(pl.read_parquet(path / "groups.parquet").head(7), path / "groups.parquet", {"names": ["even", "odd"]})
    with pytest.raises(InputError, match=r"groups\.parquet has 7 rows, and scores\.parquet 120"):
        tcsl.figures(path)


def test_what_is_not_drawn_is_said(rows, digits, tmp_path):
    assert draw(rows)[1] == {"contradicting": "the samples are no pictures"}
    bare = shutil.copytree(rows.path, tmp_path / "bare")
    for name in ("samples.parquet", "groups.parquet"):
        (bare / name).unlink()
    assert draw(bare)[1] == dict.fromkeys(
        ["densities-by-group", "contradicting"], "the data came from Python, and the run has no samples.parquet"
    )
    path = kept_for_the_page(digits, tmp_path, set())
    assert draw(path)[1] == {"contradicting": "the samples are no pictures"}
    (path / "groups.parquet").unlink()
    assert draw(path)[1]["densities-by-group"] == "the training set has no groups"
    (path / "samples.parquet").unlink()
    assert draw(path)[1] == {}
    facts = (path / "data.json").read_text().replace('"fingerprint": "', '"fingerprint": "0')
    (path / "data.json").write_text(facts)
    assert f"the training data of {path} have changed since the run" in draw(path)[1]["contradicting"]
    config = (path / "config.toml").read_text().replace('name = "digits"', 'name = "/nowhere/digits.csv"')
    (path / "config.toml").write_text(config)
    assert "its data cannot be loaded again: " in draw(path)[1]["contradicting"]


def test_one_method_alone_and_scores_alone(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    settings = {"train.epochs": 10}
    tcsl.score((X, y), settings=settings, out=tmp_path / "scores")
    assert list(tcsl.figures(tmp_path / "scores")) == ["map", "loss-curves", "densities"]
    run = tcsl.debias((X, y), 0.5, test=(X, y), methods=["tcsl_cs"], settings=settings, out=tmp_path / "one")
    assert [text.split(":")[0] for text in legend_of(tcsl.figures(run)["accuracy"])] == ["TCSL-CS"]
