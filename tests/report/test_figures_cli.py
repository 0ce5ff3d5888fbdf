"""`tcsl figures` as a user types it."""

import json

import numpy as np
import pytest

import tcsl


def test_the_figures_of_a_run_and_what_is_missing(rows, tcsl_command, tmp_path):
    code, out, _ = tcsl_command("figures", rows.path, "--out", tmp_path / "drawn")
    assert code == 0
    *files, said = out.splitlines()
    assert sorted(files) == sorted(map(str, (tmp_path / "drawn").iterdir()))
    assert {file[-4:] for file in files} == {".svg", ".png"}
    assert said == "not drawn: contradicting: the samples are no pictures"
    _, out, _ = tcsl_command("figures", rows.path, "--json", "--quiet")
    found = json.loads(out)
    assert set(found["missing"]) == {"contradicting"}
    assert str(rows.path / "figures" / "accuracy.png") in found["files"]
    assert (rows.path / "figures" / "accuracy.png").read_bytes() == (tmp_path / "drawn" / "accuracy.png").read_bytes()


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Return folders that cannot be drawn: a run without scores, and one that is not finished."""
    path = tmp_path_factory.mktemp("others")
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    tcsl.debias((X, y), 0.5, methods=["cb_erm"], settings={"train.epochs": 2}, out=path / "plain")
    (path / "unfinished").mkdir()
    for name in ("config.toml", "data.json"):
        (path / "unfinished" / name).write_bytes((path / "plain" / name).read_bytes())
    (path / "seeds").mkdir()
    (path / "seeds" / "summary.json").write_text("{}")
    (path / "empty").mkdir()
    return path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "is not a run folder: it has no config.toml"),
        ("nowhere", "is not a run folder: there is nothing at that place"),
        ("seeds", "holds several seeds: name one of them, such as"),
        ("unfinished", "is not finished: go on with the same command and --resume"),
        ("plain", "has no scores.parquet, which figures cannot do without: only a run with the method tcsl_cs"),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_line(others, tcsl_command, name, message):
    code, out, err = tcsl_command("figures", others / name)
    assert code == 2
    assert err.startswith(f"error: {others / name} {message}")
    assert out == ""


def test_a_file_in_the_way_is_said(rows, tcsl_command, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = tcsl_command("figures", rows.path, "--out", tmp_path / "file")
    assert code == 2
    assert "is a file; name a folder for the figures" in err


def test_help_suffices(tcsl_command):
    _, out, _ = tcsl_command("figures", "--help")
    assert "Example: tcsl figures" in out
