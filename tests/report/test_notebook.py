"""A run shows itself: as text, and in a notebook."""

import base64
import re
from html.parser import HTMLParser

import numpy as np

import tcsl


class Page(HTMLParser):
    """What a browser makes of HTML: its tags, its text, its images."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.said, self.images = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attributes))

    def handle_data(self, data):
        self.said.append(data)


def test_a_run_as_text(rows):
    lines = repr(rows).splitlines()
    found = rows.result["identification"]
    assert lines[0] == f"Run in {rows.path}, seed 0"
    assert lines[1] == rows.verdict.sentence
    assert lines[2] == f"{found['g_high']} of 120 samples stand apart by their losses (G_high); the coreset keeps 30"
    assert re.match(rf"Take care: the coreset has places for \d+ of the {found['g_high']} in G_high; ", lines[3])
    table = lines[lines.index("accuracy on test data, %") + 1 :]
    assert table[0].split("  ")[0] == "method"
    before = rows.result["evaluation"]["cb_erm"]
    wanted = [f"{100 * before[metric]:.1f}" for metric in ("wga", "average", "weighted_average")]
    assert re.split(r"\s{2,}", table[1]) == ["CB ERM", *wanted]
    assert len({len(line) for line in table}) == 1
    assert str(rows) == repr(rows)


def test_a_run_in_a_notebook(rows):
    page = Page(rows._repr_html_())
    assert {"table", "img"} <= set(page.tags)
    assert "CB ERM" in page.said
    assert f"{100 * rows.result['evaluation']['tcsl_cs']['wga']:.1f}" in page.said
    kind, _, content = page.images[0]["src"].partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(content)[:4] == b"\x89PNG"
    assert page.images[0]["alt"].startswith("120 samples by TCSL_s and TCSL_c")
    assert rows._repr_html_() == rows._repr_html_()


def test_the_verdict_comes_first(rows):
    sentence = "There is a shortcut: 7 of <12> samples"
    told = tcsl.Run(rows.path, {**rows.result, "verdict": {"found": True, "sentence": sentence}}, {})
    assert repr(told).splitlines()[1] == sentence
    page = Page(told._repr_html_())
    assert page.said[0] == sentence


def test_names_are_text(hostile):
    page = Page(hostile._repr_html_())
    assert "script" not in page.tags
    assert "accuracy on <script>alert(1)</script>, %" in page.said
    assert len(repr(hostile).splitlines()) == 8


def test_a_large_run_is_no_larger_on_the_screen(rows, tmp_path):
    n = 20_000
    rng = np.random.default_rng(0)
    curves = rng.exponential(size=(n, 2)).astype(np.float32)
    many = tcsl.Scores(np.arange(n), np.arange(n) % 2, curves.mean(1), curves[:, 0], curves[:, 0] > 3, curves)
    many.save(tmp_path / "scores.parquet")
    assert len(tcsl.Run(tmp_path, {}, {})._repr_html_()) < 600_000


def test_a_run_without_scores_or_folder(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    run = tcsl.debias((X, y), 0.5, methods=["cb_erm"], settings={"train.epochs": 2}, out=tmp_path / "run")
    assert repr(run).splitlines() == [f"Run in {tmp_path / 'run'}, seed 0", run.verdict.sentence]
    assert Page(run._repr_html_()).images == []


def test_a_figure_in_a_notebook(rows):
    assert tcsl.figures(rows)["map"]._repr_png_()[:4] == b"\x89PNG"
