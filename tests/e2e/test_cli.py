"""The commands as a user types them, on a small run of the embedded digits."""

import json
import re
import subprocess
import sys

import polars as pl
import pytest

import tcsl

SMALL = ["--set", "train.epochs=10", "--set", "data.options.per_class=20", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    command = [sys.executable, "-m", "tcsl", "run", "digits", "--ratio", "0.2", "--out", str(path), *SMALL]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "TCSL-CS" in done.stdout
    assert "conflicts" in done.stdout
    assert f"the run is in {path}" in done.stdout
    assert "100 % done" in done.stderr
    return path


def test_a_run_has_its_files(folder):
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "config.toml",
        "data.json",
        "environment.json",
        "metrics.jsonl",
        "scores.parquet",
        "coreset.parquet",
        "coreset-rgbal.parquet",
        "result.json",
        "checkpoints",
        "done",
    }
    assert not list(folder.rglob("*.part*"))
    assert pl.read_parquet(folder / "scores.parquet").columns == ["id", "label", "tcsl_s", "tcsl_c", "g_high", "curve"]
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["packages"]["torch"]


def test_show(folder, tcsl_command):
    code, out, _ = tcsl_command("show", folder)
    assert code == 0
    assert "WGA: the worst of 20 groups; all cells: 100" in " ".join(out.split())
    code, out, _ = tcsl_command("show", folder, "--json")
    assert json.loads(out)["methods"]["tcsl_cs"]["wga"]["mean"] >= 0


def test_select_needs_the_scores_alone(folder, tcsl_command, tmp_path):
    scores = tmp_path / "scores.parquet"
    scores.write_bytes((folder / "scores.parquet").read_bytes())
    code, out, _ = tcsl_command("select", scores, "--ratio", "0.2", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["n"] == 40
    assert found["ids"] == tcsl.select(scores, ratio=0.2).ids.tolist()
    assert found["ids"] == pl.read_parquet(folder / "coreset.parquet")["id"].to_list()
    assert pl.read_parquet(tmp_path / "coreset-0.2.parquet")["id"].to_list() == found["ids"]
    code, out, _ = tcsl_command("select", folder, "--ratio", "0.5", "--out", tmp_path / "half.parquet")
    assert "kept 100 of 200 samples" in out


def test_score_then_select_then_train_then_evaluate(tcsl_command, tmp_path):
    code, out, _ = tcsl_command("score", "digits", "--out", tmp_path / "scores", "--quiet", *SMALL)
    assert code == 0
    assert "scored 200 samples" in out
    code, out, _ = tcsl_command("show", tmp_path / "scores")
    assert "g_high" in out
    coreset = tmp_path / "coreset.parquet"
    assert tcsl_command("select", tmp_path / "scores", "--ratio", "0.3", "--out", coreset)[0] == 0
    words = ["train", "digits", "--coreset", coreset, "--out", tmp_path / "model", "--quiet", *SMALL]
    code, out, _ = tcsl_command(*words)
    assert code == 0
    assert "plain average" in out
    code, out, _ = tcsl_command("evaluate", tmp_path / "model", "--json")
    first = json.loads(out)["final"]
    assert first["n"] == 12970  # 3,000 are for validation
    code, out, err = tcsl_command("train", "digits", "--out", tmp_path / "model", "--resume", *SMALL)
    assert code == 2
    assert "coreset: the folder has" in err
    code, out, _ = tcsl_command(*words, "--resume", "--json")
    assert json.loads(out)["final"] == first
    code, out, err = tcsl_command("evaluate", tmp_path / "scores")
    assert "has scores but no final model" in err


def test_evaluate_on_a_view(folder, tcsl_command):
    code, out, _ = tcsl_command("evaluate", folder, "--view", "core")
    assert code == 0
    assert "tcsl_cs" in out
    code, _, err = tcsl_command("evaluate", folder, "--view", "cor")
    assert code == 2
    assert "did you mean 'core'" in err


def test_several_seeds_side_by_side(tcsl_command, tmp_path):
    words = [
        "run",
        "digits",
        "--seeds",
        "2",
        "--out",
        tmp_path / "two",
        "--method",
        "cb_erm",
        "--method",
        "tcsl_cs",
        *SMALL,
    ]
    code, out, err = tcsl_command(*words, "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert summary["seeds"] == [0, 1]
    values = summary["methods"]["tcsl_cs"]["wga"]["values"]
    other = summary["methods"]["cb_erm"]["wga"]["values"]
    difference = summary["tcsl_cs_minus"]["cb_erm"]["wga"]
    assert difference["mean"] == pytest.approx(sum(values) / 2 - sum(other) / 2)
    assert difference["low"] <= difference["mean"] <= difference["high"]
    code, out, _ = tcsl_command("show", tmp_path / "two")
    assert "TCSL-CS minus the other methods, paired by seed" in " ".join(out.split())
    assert tcsl_command(*words)[0] == 2  # exists
    assert tcsl_command(*words, "--resume", "--json")[1] == json.dumps(summary, indent=2) + "\n"
    # A seed run beside others is the seed run alone, byte for byte.
    tcsl_command("run", "digits", "--seed", "1", "--out", tmp_path / "one", *words[6:], "--quiet")
    for name in ("scores.parquet", "coreset.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / "seed-1" / name).read_bytes()


def test_model_selection_is_printed_with_every_result(tcsl_command, tmp_path):
    short = ["--set", "train.epochs=3", "--set", "data.options.per_class=20", "--device", "cpu", "--quiet"]
    words = ["--model-selection", "worst_group", *short]
    code, out, err = tcsl_command("run", "digits", "--method", "cb_erm", *words, "--out", tmp_path / "run")
    assert code == 0, err
    assert "model: best worst-group accuracy on digits, validation\n" in out
    assert re.search(r"\d of 3", out)
    shown = tcsl_command("show", tmp_path / "run")[1]
    assert out[: out.index("the run is in")] in shown
    assert "peak memory, MB" in shown
    model = json.loads(tcsl_command("show", tmp_path / "run", "--json")[1])["models"][0]["cb_erm"]
    code, out, _ = tcsl_command("evaluate", tmp_path / "run")
    assert f"epoch {model['epoch']} of 3 ({100 * model['value']:.1f} %)" in " ".join(out.split())
    code, out, _ = tcsl_command("train", "digits", *words, "--out", tmp_path / "model", "--json")
    assert code == 0
    assert json.loads(out)["final"]["model"]["by"] == "worst_group"
    assert "model final best worst-group accuracy on" in " ".join(tcsl_command("show", tmp_path / "model")[1].split())
    code, out, _ = tcsl_command("train", "digits", *short, "--out", tmp_path / "last")
    assert "model final: last epoch" in out
    code, _, err = tcsl_command(
        "run", "digits", *words, "--set", "data.options.val_per_class=0", "--out", tmp_path / "x"
    )
    assert code == 2
    assert "train.model_selection = 'worst_group' needs a validation set" in err
    for command in ("run", "train"):
        assert "balanced_by_bias" in tcsl_command(command, "--help")[1]
    assert 'model_selection = "last"' in tcsl_command("config", "show")[1]


def test_one_seed_and_several_have_folders_of_their_own(tcsl_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["run", "digits", "--method", "cb_erm", *SMALL, "--quiet", "--json"]
    several = json.loads(tcsl_command(*words, "--seeds", "1")[1])["path"]
    one = json.loads(tcsl_command(*words)[1])["path"]
    assert one != several


def test_the_seed_of_a_settings_file_is_used(tcsl_command, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(tcsl_command("config", "show", "--dataset", "digits", "--set", "seed=3")[1])
    words = ["run", "digits", "--config", file, "--method", "cb_erm", *SMALL, "--quiet", "--json"]
    assert json.loads(tcsl_command(*words, "--out", tmp_path / "a")[1])["seeds"] == [3]
    assert json.loads(tcsl_command(*words, "--out", tmp_path / "b", "--seed", "4")[1])["seeds"] == [4]


def test_a_run_in_which_all_samples_conflict_is_shown(tcsl_command, tmp_path):
    words = ["run", "digits", *SMALL, "--set", "data.options.alpha=0", "--quiet", "--out", tmp_path / "x"]
    code, out, _ = tcsl_command(*words)
    assert code == 0
    assert "of the 200 that truly contradict the shortcut" in " ".join(out.split())


def test_an_error_in_a_seed_is_the_error_of_the_command(tcsl_command, tmp_path):
    code, _, err = tcsl_command(
        "run", "digits", "--seeds", "2", "--out", tmp_path / "x", *SMALL, "--set", "train.lr=1e30"
    )
    assert code == 2
    assert re.search(r"error: seed [01]: the loss or the weights became infinite or NaN in epoch 1", err)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "digit"], "unknown dataset 'digit'; did you mean 'digits'?"),
        (["run", "digits", "--ratio", "10"], "did you mean 0.10?"),
        (["run", "digits", "--ratio", "much"], "ratio 'much' is neither a number in (0, 1] nor auto"),
        (["run", "digits", "--ratio", "auto", "--method", "rgbal"], "only TCSL-CS finds: give a number in (0, 1]"),
        (["run", "digits", "--ratio", "auto", "--method", "el2n_top"], "leave the other coresets out"),
        (["run", "digits", "--seeds", "0"], "--seeds must be 1 or more"),
        (["run", "digits", "--seeds", "2", "--jobs", "0"], "--jobs must be 1 or more"),
        (["run", "digits", "--set", "train.lrr=1"], "did you mean 'train.lr'"),
        (["run", "digits", "--config", "none.toml"], "none.toml cannot be read: No such file"),
        (["run", "digits", "--method", "rgball"], "did you mean 'rgbal'"),
        (["config", "show", "--dataset", "waterbird"], "unknown dataset 'waterbird'; did you mean 'waterbirds'?"),
        (["show", "/"], "is not a run folder"),
        (["select", "none.parquet"], "does not exist"),
        (["evaluate", "/"], "is not a run folder"),
    ],
)
def test_misuse_is_one_clear_line(tcsl_command, words, message):
    code, out, err = tcsl_command(*words)
    assert code == 2
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_config_show(tcsl_command):
    _, out, _ = tcsl_command("config", "show", "--profile", "paper", "--dataset", "digits")
    assert 'weight_update = "literal"' in out
    assert "alpha = 0.95" in out
    _, out, _ = tcsl_command("config", "show", "--compare")
    assert "select.losses: default 'bounded', fast 'bounded', paper 'raw'" in out
    _, out, _ = tcsl_command("config", "show", "--compare", "--json")
    assert json.loads(out)["select.fill"] == {"default": "equal", "fast": "equal", "paper": "global"}
    _, out, _ = tcsl_command("config", "show", "--json", "--set", "train.epochs=100")
    assert json.loads(out)["train.epochs"] == 100
    assert "# biased_epochs = 6" in tcsl_command("config", "show", "--set", "train.epochs=200")[1]


def test_methods_are_listed_with_what_they_need(tcsl_command):
    _, out, _ = tcsl_command("methods", "--json")
    found = json.loads(out)
    assert found["groupdro"]["needs"] == ["train groups"]
    assert found["cb_erm"]["needs"] == []
    assert "times" in found["jtt"]["options"]
    assert found["jtt"]["presets"]["waterbirds"]["options"]["early"] == 60
    assert all(method["reference"] for method in found.values())
    _, out, _ = tcsl_command("methods")
    assert "train groups" in out
    assert "lff" in out


@pytest.mark.parametrize(
    "words",
    [[], ["run"], ["score"], ["select"], ["train"], ["evaluate"], ["show"], ["explore"], ["config", "show"]],
)
def test_help_suffices(tcsl_command, words):
    code, out, _ = tcsl_command(*words, "--help")
    assert code == 0
    assert "Usage: tcsl" in out
    if words:
        assert "Example: tcsl" in out


def test_version(tcsl_command):
    assert tcsl_command("--version")[1].strip() == tcsl.__version__


def test_torch_is_imported_only_where_it_is_needed(folder):
    code = (
        "import sys; from tcsl.cli import main; sys.argv = ['tcsl', *sys.argv[1:]]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    )
    by_rule = ["select", str(folder), "--rule", "bot", "--score", "tcsl_c"]
    select = ["select", str(folder), "--ratio", "0.2"]
    for words in (["--help"], ["config", "show"], select, by_rule, ["show", str(folder)]):
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
