"""The run folder: identity, locks, torn files, full disks."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

from tcsl.cli import app
from tcsl.cli.show import show
from tcsl.config import resolve
from tcsl.errors import InputError, RunFolderError
from tcsl.files import cut_short, write_atomic
from tcsl.runs import RunFolder
from tcsl.scores import Coreset, Scores
from tcsl.training.checkpoint import load_tensors, save_tensors
from tcsl.training.loop import Epoch

DATA = {"work": "run", "fingerprint": "abc"}


def open_folder(path, resume=False, data=DATA, **overrides):
    return RunFolder.open(path, resolve(overrides=overrides), data, resume=resume, environment={})


def epoch(stage, number, loss=0.5, **more):
    return Epoch(stage, number, 9, number, 9, loss, 1.5, **more)


def test_a_folder_is_made_and_found_again(tmp_path):
    folder = open_folder(tmp_path / "run")
    folder.close()
    again = open_folder(tmp_path / "run", resume=True)
    assert again.settings() == resolve().model_copy(
        update={"score": again.settings().score}  # T_s and T_c are stored resolved
    )
    assert again.data()["schema"] == 1
    assert not again.done


def test_an_existing_folder_is_refused_without_resume(tmp_path):
    open_folder(tmp_path / "run").close()
    with pytest.raises(RunFolderError, match="exists and is unfinished: add --resume to go on from its last epoch"):
        open_folder(tmp_path / "run")
    folder = open_folder(tmp_path / "run", resume=True)
    folder.finish({"x": 1})
    folder.close()
    with pytest.raises(RunFolderError, match=r"is finished: add --resume to show.*\(in Python, resume=True"):
        open_folder(tmp_path / "run")
    assert folder.result() == {"x": 1}


def test_other_settings_or_data_are_refused_with_both_values(tmp_path):
    open_folder(tmp_path / "run").close()
    with pytest.raises(RunFolderError, match=r"train.epochs: the folder has 50, this run asks for 20") as error:
        open_folder(tmp_path / "run", resume=True, **{"train.epochs": 20, "seed": 3})
    assert "seed: the folder has 0, this run asks for 3" in str(error.value)
    with pytest.raises(RunFolderError, match="fingerprint: the folder has 'abc', this run has 'xyz'"):
        open_folder(tmp_path / "run", resume=True, data={"work": "run", "fingerprint": "xyz"})
    with pytest.raises(RunFolderError, match="work: the folder has 'run', this run has 'train'"):
        open_folder(tmp_path / "run", resume=True, data={"work": "train", "fingerprint": "abc"})


def test_a_folder_that_is_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="is not a run folder"):
        open_folder(tmp_path)
    with pytest.raises(RunFolderError, match=r"no config.toml"):
        RunFolder.find(tmp_path)
    file = tmp_path / "thesis.txt"
    with pytest.raises(RunFolderError, match="is not a run folder"):
        open_folder(file)
    with pytest.raises(RunFolderError, match="cannot make the run folder"):
        open_folder(file / "run")


def test_two_processes_do_not_share_a_folder(tmp_path):
    folder = open_folder(tmp_path / "run")
    code = (
        "from pathlib import Path; from tcsl.config import resolve; from tcsl.runs import RunFolder; import sys\n"
        f"RunFolder.open(Path(sys.argv[1]), resolve(), {DATA!r}, resume=True, environment={{}})"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert "another process is working in" in refused.stderr
    folder.close()
    assert subprocess.run(command, capture_output=True, text=True).returncode == 0


def test_a_newer_schema_is_refused(tmp_path):
    open_folder(tmp_path / "run").close()
    path = tmp_path / "run" / "data.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    with pytest.raises(RunFolderError, match="newer tcsl"):
        RunFolder.find(tmp_path / "run")


READ = {
    "data.json": RunFolder.data,
    "environment.json": RunFolder.environment,
    "config.toml": RunFolder.settings,
    "metrics.jsonl": RunFolder.metrics,
}


@pytest.mark.parametrize("content", [b'{"n": 1', b"\xff\xfe"])
@pytest.mark.parametrize("name", READ)
def test_a_file_of_text_that_is_damaged_is_said(name, content, tmp_path):
    folder = open_folder(tmp_path / "run")
    (folder.path / name).write_bytes(content + b"\n")
    cure = "delete it; what it says of losses" if name == "metrics.jsonl" else "run it in another folder"
    with pytest.raises(RunFolderError, match=rf"{name} is damaged \(.*\): {cure}"):
        READ[name](folder)


def test_a_damaged_marker_is_said(tmp_path):
    folder = open_folder(tmp_path / "run")
    (folder.path / "done").write_bytes(b"\xff\xfe")
    with pytest.raises(RunFolderError, match=r"done is damaged \(.*\): delete it, and --resume"):
        _ = folder.whole


def test_a_file_that_is_cut_short_is_told_from_a_whole_one(tmp_path):
    tensors, table = tmp_path / "a.safetensors", tmp_path / "a.parquet"
    save_tensors(tensors, {"a": torch.arange(6.0), "b": torch.ones(2, 2)})
    pl.DataFrame({"a": [1, 2, 3]}).write_parquet(table)
    for file in (tensors, table):
        whole = file.read_bytes()
        assert not cut_short(file)
        for size in range(len(whole)):
            file.write_bytes(whole[:size])
            assert cut_short(file), size
        file.write_bytes(whole + b"x")
        assert cut_short(file)
    save_tensors(tensors, {})
    assert not cut_short(tensors)


def test_a_place_that_cannot_be_written_is_said_whatever_else_fails_there(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(RunFolderError, match=r"could not write .*table.csv: .*choose another place"):
        write_atomic(tmp_path / "file" / "table.csv", "text")
    folder = open_folder(tmp_path / "run")
    folder.close()
    (tmp_path / "run" / "lock").unlink()
    (tmp_path / "run" / "lock").mkdir()
    with pytest.raises(RunFolderError, match=r"cannot write in .*run: Is a directory; copy the folder"):
        open_folder(tmp_path / "run", resume=True)


def test_a_damaged_config_is_said(tmp_path):
    open_folder(tmp_path / "run").close()
    (tmp_path / "run" / "config.toml").write_text("[[[")
    with pytest.raises(RunFolderError, match="damaged"):
        open_folder(tmp_path / "run", resume=True)


def test_metrics_survive_a_kill_in_the_middle_of_a_line(tmp_path):
    folder = open_folder(tmp_path / "run")
    for number in (1, 2, 3):
        folder.report(epoch("biased", number))
    path = tmp_path / "run" / "metrics.jsonl"
    path.write_text(path.read_text()[:-20])  # killed while writing epoch 3
    assert [line["epoch"] for line in folder.metrics()] == [1, 2]
    folder.close()
    again = open_folder(tmp_path / "run", resume=True)
    again.report(epoch("biased", 2, loss=0.25))  # epoch 2's checkpoint was not written either
    assert [(line["epoch"], line["loss"]) for line in again.metrics()] == [(1, 0.5), (2, 0.25)]
    again.report(epoch("core", 1))
    assert again.seconds() == {"biased": 3.0, "core": 1.5}


def test_the_peak_memory_of_a_stage_is_the_largest_of_its_sessions(tmp_path):
    folder = open_folder(tmp_path / "run")
    folder.report(epoch("biased", 1, memory=300))
    folder.report(epoch("biased", 2, memory=500))
    folder.report(epoch("core", 1, memory=None))
    folder.close()
    again = open_folder(tmp_path / "run", resume=True)  # another process, which needs less
    again.report(epoch("biased", 3, memory=200))
    assert again.memory() == {"biased": 500, "core": None}
    assert again.spent() == {"seconds": {"biased": 4.5, "core": 1.5}, "memory": {"biased": 500, "core": None}}
    path = tmp_path / "run" / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "memory"}) + "\n" for line in lines))
    assert again.memory() == {"biased": None, "core": None}  # as of a run that is older than this number


@pytest.mark.parametrize("left", [["lock"], ["lock", ".data.json.7.part"], ["lock", "data.json", "environment.json"]])
def test_a_folder_whose_making_was_killed_can_be_resumed(tmp_path, left):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in left:
        (folder / name).write_text("")
    open_folder(folder, resume=True).close()
    assert not list(folder.glob(".*.part"))


def test_other_test_data_or_groups_are_refused(tmp_path):
    open_folder(tmp_path / "run", data={**DATA, "test": "a", "groups": ["x", None]}).close()
    with pytest.raises(RunFolderError, match="test: the folder has 'a', this run has 'b'"):
        open_folder(tmp_path / "run", resume=True, data={**DATA, "test": "b", "groups": ["x", None]})
    with pytest.raises(RunFolderError, match="groups: the folder has"):
        open_folder(tmp_path / "run", resume=True, data={**DATA, "test": "a", "groups": ["y", None]})


def test_an_unfinished_run_has_no_result_and_says_so(tmp_path):
    folder = open_folder(tmp_path / "run")
    with pytest.raises(RunFolderError, match=r"no result.json: the run is not finished"):
        folder.result()


@pytest.mark.parametrize("name", ["data.json", "environment.json"])
def test_what_nothing_can_make_again_is_said_to_be_gone(name, tmp_path):
    folder = open_folder(tmp_path / "run")
    folder.finish({"x": 1})
    (tmp_path / "run" / name).unlink()
    with pytest.raises(RunFolderError, match=rf"has no {name}: it is gone, run it in another folder"):
        folder.data() if name == "data.json" else folder.environment()


def test_a_run_is_whole_while_it_has_what_it_left(tmp_path):
    folder = open_folder(tmp_path / "run")
    assert not folder.whole
    folder.finish({"x": 1})
    assert folder.whole
    (tmp_path / "run" / "result.json").unlink()
    assert folder.done
    assert not folder.whole


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "table"
    write_atomic(path, "old")

    def fails(place):
        place.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(RunFolderError, match=r"could not write .*table: No space left on device.*--resume"):
        write_atomic(path, fails)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["table"]


def test_tensors_are_safetensors_and_nothing_else_is_read(tmp_path):
    save_tensors(tmp_path / "m.safetensors", {"a": torch.ones(2, 3).T}, stage="x")
    tensors, facts = load_tensors(tmp_path / "m.safetensors")
    assert torch.equal(tensors["a"], torch.ones(3, 2))
    assert facts == {"stage": "x"}
    with pytest.raises(RunFolderError, match="does not exist"):
        load_tensors(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"\x80\x04pickle")
    with pytest.raises(RunFolderError, match="not a safetensors file"):
        load_tensors(tmp_path / "bad")


CURVES = np.arange(12, dtype=np.float32).reshape(4, 3)


def scores(**more):
    values = {
        "ids": np.array(["a", "b", "c", "d"]),
        "labels": np.array([0, 1, 0, 1]),
        "tcsl_s": CURVES.mean(1),
        "tcsl_c": np.ones(4, np.float32),
        "g_high": np.array([False, False, True, True]),
        "curves": CURVES,
        "facts": {"seed": 5},
    }
    return Scores(**values | more)


def test_scores_and_coresets_read_back(tmp_path):
    scores().save(tmp_path / "s.parquet")
    back = Scores.load(tmp_path / "s.parquet")
    assert back.digest == scores().digest
    assert back.ids.tolist() == ["a", "b", "c", "d"]
    assert back.g_high.tolist() == [False, False, True, True]
    assert back.facts == {"seed": 5, "schema": 1}
    coreset = Coreset(np.array([1, 3]), np.array(["b", "d"]), np.array([1, 1]), np.array([False, True]), {"rule": "x"})
    coreset.save(tmp_path / "c.parquet")
    found = Coreset.load(tmp_path / "c.parquet")
    assert found.digest == coreset.digest
    assert found.facts["rule"] == "x"
    assert len(found) == 2


def test_the_same_scores_are_the_same_bytes(tmp_path):
    scores().save(tmp_path / "1")
    scores().save(tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_a_table_that_cannot_be_written_is_said(tmp_path):
    script = (
        "import resource, signal, sys; import numpy as np; from tcsl.scores import Scores\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "n = 5000; x = np.random.default_rng(0).random((n, 3)).astype('f4')\n"
        "Scores(np.arange(n), np.zeros(n, int), x[:, 0], x[:, 0], x[:, 0] > 1, x).save(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "s.parquet")], capture_output=True, text=True)
    assert "RunFolderError: could not write" in done.stderr
    assert not (tmp_path / "s.parquet").exists()


def test_scores_never_hold_groups():
    assert scores().frame().columns == ["id", "label", "tcsl_s", "tcsl_c", "g_high", "curve"]


def test_scores_from_elsewhere(tmp_path):
    import polars as pl

    table = pl.DataFrame({"id": [1, 2], "label": [0, 1], "tcsl_c": [0.5, 1.0], "curve": [[1.0, 2.0], [3.0, 4.0]]})
    table.write_parquet(tmp_path / "s.parquet")
    assert Scores.load(tmp_path / "s.parquet").tcsl_s.tolist() == [1.5, 3.5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"curve": None}, "has no column curve; it has id, label, tcsl_c"),
        ({"curve": [[1.0], [1.0, 2.0]]}, "curves must have one length"),
        ({"label": [0, None]}, "empty cells"),
        ({"label": ["x", "y"]}, "label must be integers"),
        ({"label": [0.5, 1.7]}, "labels must be integers"),
        ({"label": [0, 10**14]}, r"labels must be 0 .. classes - 1, got 100000000000000"),
        ({"curve": [None, [1.0, 2.0]]}, "empty cells"),
        ({"label": [-1, 0]}, "labels must be 0 .. classes - 1, got -1"),
    ],
)
def test_tables_that_do_not_fit(tmp_path, change, message):
    import polars as pl

    columns = {"id": [1, 2], "label": [0, 1], "tcsl_c": [0.5, 1.0], "curve": [[1.0, 2.0], [3.0, 4.0]]} | change
    pl.DataFrame({k: v for k, v in columns.items() if v is not None}).write_parquet(tmp_path / "s.parquet")
    with pytest.raises(InputError, match=message):
        Scores.load(tmp_path / "s.parquet")


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        Scores.load(tmp_path / "none.parquet")
    (tmp_path / "x").write_text("text")
    with pytest.raises(InputError, match="not a Parquet file"):
        Scores.load(tmp_path / "x")
    scores(facts={"schema": 99}).save(tmp_path / "new.parquet")
    with pytest.raises(InputError, match="newer tcsl"):
        Scores.load(tmp_path / "new.parquet")


def test_seeds_that_are_not_finished_are_named(tmp_path):
    (tmp_path / "seed-3").mkdir()
    (tmp_path / "seed-3" / "config.toml").write_text("seed = 3\n")
    with pytest.raises(RunFolderError, match=r"several seeds that are not finished: .* name one of them, .*seed-3"):
        RunFolder.find(tmp_path)


def test_how_far_several_seeds_have_come_is_shown(tmp_path):
    for seed, done in ((2, True), (10, False)):
        folder = open_folder(tmp_path / f"seed-{seed}", seed=seed)
        folder.report(epoch("biased", 3))
        if done:
            folder.finish({})
        folder.close()
    shown = CliRunner().invoke(app, ["show", str(tmp_path)])
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert [line for line in lines if "seed-" in line] == [
        f"{tmp_path / 'seed-2'} is finished",
        f"{tmp_path / 'seed-10'} is not finished; go on with the same command and --resume",
    ]
    assert lines.count("  biased: epoch 3 of 9, loss 0.5000") == 2
    assert "all are finished" not in shown.output
    told = json.loads(CliRunner().invoke(app, ["show", str(tmp_path), "--json"]).output)
    assert {name: one["done"] for name, one in told["seeds"].items()} == {"seed-2": True, "seed-10": False}
    RunFolder.find(tmp_path / "seed-10").finish({})
    assert "all are finished: the same command with --resume" in CliRunner().invoke(app, ["show", str(tmp_path)]).output


@pytest.mark.parametrize("content", ['{"methods": ', "null"])
def test_a_damaged_summary_is_said(content, tmp_path):
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(RunFolderError, match=r"summary.json is damaged \(.*\): the same command with --resume"):
        show(tmp_path)
