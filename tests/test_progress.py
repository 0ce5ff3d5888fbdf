"""Progress as a terminal shows it, 80 columns wide."""

import io
import re

import pytest

from tcsl.progress import ProgressBars
from tcsl.training.loop import Epoch

PLAN = {"biased": 50, "core": 500, "cb_erm": 500, "tcsl_cs": 500}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """Return a function from seeds and reports, a minute apart, to the last lines of a terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")

    def show(seeds, epochs):
        terminal, minutes = Terminal(), 0.0
        monkeypatch.setattr("sys.stderr", terminal)
        bars = ProgressBars(dict.fromkeys(seeds, PLAN))
        bars._bars.get_time = lambda: 60 * minutes
        with bars:
            for minutes, epoch in enumerate(epochs):  # noqa: B007
                for seed in seeds:
                    bars.report(seed, epoch)
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
        return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()][-len(seeds) :]

    return show


def biased(epoch):
    return Epoch("biased", epoch, 5, 10 * epoch, 50, 0.1234, 60.0, separation=0.876)


def test_stage_epoch_loss_separation_and_time_left_fit_into_80_columns(shown):
    """Ten steps a minute, 1,510 of 1,550 to go: epochs of a minute, of which rich by itself would know no speed."""
    lines = shown([0, 1], [biased(epoch) for epoch in (1, 2, 3, 4)])
    for seed, line in enumerate(lines):
        assert line.startswith(f"seed {seed}  biased  epoch 4/5  loss 0.1234  separation 0.88")
        assert line.endswith("3 % left 2:31:00")
        assert len(line) == 80


def test_other_stages_have_no_separation(shown):
    (line,) = shown([0], [biased(5), Epoch("core", 1, 50, 10, 500, 2.5, 60.0)])
    assert line.startswith("core    epoch  1/50  loss 2.5000 ")
    assert "separation" not in line


def test_a_file_has_a_line_a_stage(capsys):
    with ProgressBars({0: PLAN}) as bars:
        for epoch in (1, 5):
            bars.report(0, biased(epoch))
    assert capsys.readouterr().err == "biased  epoch 5/5  loss 0.1234  separation 0.88  3 % done\n"


def test_a_stage_of_other_steps_than_planned_ends_where_it_was_to_end(capsys):
    with ProgressBars({0: {"first": 50, "second": 50}}) as bars:
        bars.report(0, Epoch("first", 1, 1, 500, 500, 0.5, 1.0))
        bars.report(0, Epoch("second", 1, 1, 10, 10, 0.5, 1.0))
    assert re.findall(r"(\d+) % done", capsys.readouterr().err) == ["50", "100"]
