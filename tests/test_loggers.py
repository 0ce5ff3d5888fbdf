"""Loggers with the real tools, offline: what they wrote is read back and compared with the run folder.

Without them, tests skip: pip install 'tcsl[tensorboard,wandb,mlflow]' enables them (they are in the extra dev, too).
"""

import json
import struct
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import tcsl
from tcsl.bench.seeds import _run_in_turns, _run_one, run_seeds
from tcsl.config import flat, resolve
from tcsl.errors import InputError, TcslWarning
from tcsl.loggers.base import EPOCH, check_loggers, facts_of, run_name
from tcsl.runs import RunFolder

MODULES = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "sqlalchemy"}
SETTINGS = {"train.epochs": 4, "score.biased_epochs": 3, "train.batch_size": 20, "device.device": "cpu"}
RNG = np.random.default_rng(0)
Y = np.arange(60) % 2
X = RNG.normal(size=(60, 3)) + Y[:, None]


@pytest.fixture(scope="module", autouse=True)
def offline(tmp_path_factory):
    """Let the tools reach no server and write nowhere but into the tests' folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_ERROR_REPORTING", "false")
        for kind in ("CACHE", "CONFIG", "DATA"):
            patch.setenv(f"WANDB_{kind}_DIR", str(tmp_path_factory.mktemp("wandb")))
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
        patch.delenv("WANDB_PROJECT", raising=False)
        patch.delenv("WANDB_NAME", raising=False)
        yield


def needs(name):
    for module in (MODULES[name], name):
        pytest.importorskip(module, reason=f"needs {module}: pip install 'tcsl[tensorboard,wandb,mlflow]'")


def debias(out, **more):
    more = {"settings": SETTINGS, "methods": ["cb_erm", "tcsl_cs"], **more}
    return tcsl.debias((X, Y), 0.5, test=(X, Y), groups=Y, test_groups=Y, out=out, **more)


@pytest.fixture(scope="module", params=list(MODULES))
def logged(request, tmp_path_factory):
    """Return a tool and the folder of a run that was interrupted in two of its stages, and resumed."""
    name = request.param
    needs(name)
    folder = tmp_path_factory.mktemp("runs") / "a ä 100%"
    for stop in (("cb_erm", 3), ("core", 2)):

        def report(epoch, stop=stop):
            if (epoch.stage, epoch.epoch) == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            debias(folder, report=report, resume=True, logger=name)
    if name == "wandb":  # what the tool calls the second of two sessions that begin in the same second
        known = json.loads((folder / "loggers.json").read_text())["wandb"]
        (folder / "wandb" / f"offline-run-20200101_000000-{known}-1").mkdir()
    debias(folder, resume=True, logger=[name, name])
    return name, folder


def read_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    events = EventAccumulator(str(folder / "tensorboard"), {"scalars": 0, "tensors": 0}).Reload()
    epochs = [(tag, e.step, e.value) for tag in events.Tags()["scalars"] for e in events.Scalars(tag)]
    texts = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in events.Tags()["tensors"]}
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    values = HParamsPluginData.FromString(content).session_start_info.hparams
    settings = {name: getattr(value, value.WhichOneof("kind")) for name, value in values.items()}
    final = {tag: value for tag, _, value in epochs if tag.split("/")[-1] not in EPOCH}
    return epochs, final, settings, texts.get("page/text_summary")


def read_wandb(folder):
    """Read a run's only file, which is a log as LevelDB has it, of protocol buffers."""
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    wandb.teardown()  # waits until all is written
    known = json.loads((folder / "loggers.json").read_text())["wandb"]
    (path,) = (place / f"run-{known}.wandb" for place in folder.glob("wandb/offline-run-*"))
    data, at, record, records = path.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        if left < 7 or kind == 0:
            at += left
            continue
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            records.append(Record.FromString(record))
            record = b""
    epochs, final, settings = [], {}, {}
    for one in records:
        row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in one.history.item}
        for name, value in row.items():
            stage, _, what = name.partition("/")
            if what in EPOCH:
                epochs.append((name, row[f"{stage}/epoch"], value))
        settings |= {item.key: json.loads(item.value_json) for item in one.run.config.update}
        final |= {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in one.summary.update}
    (run,) = [one.run for one in records if one.run.run_id]
    assert run.project == "tcsl"
    assert run.display_name == run_name(RunFolder(folder))
    assert [one.exit.exit_code for one in records if one.HasField("exit")] == [0]
    page = path.parent / "files" / "report.html"
    assert not page.is_symlink()
    return epochs, final, settings, page.read_text() if page.exists() else None


def read_mlflow(folder, uri=None):
    from mlflow import MlflowClient
    from mlflow.artifacts import download_artifacts

    uri = uri or f"sqlite:///{folder / 'mlflow.db'}"
    client = MlflowClient(uri, uri)
    known = json.loads((folder / "loggers.json").read_text())["mlflow"]
    runs = client.search_runs([client.get_experiment_by_name("tcsl").experiment_id])
    (run,) = [run for run in runs if run.info.run_name == run_name(RunFolder(folder))]
    assert (run.info.run_id, run.info.status) == (known, "FINISHED")
    history = [point for name in run.data.metrics for point in client.get_metric_history(known, name)]
    epochs = [(point.key, point.step, point.value) for point in history]
    final = {name: value for name, _, value in epochs if name.split("/")[-1] not in EPOCH}
    page = download_artifacts(run_id=known, artifact_path="report.html", tracking_uri=uri)
    return epochs, final, run.data.params, open(page).read()


READERS = {"tensorboard": read_tensorboard, "wandb": read_wandb, "mlflow": read_mlflow}


def expected(folder):
    lines = RunFolder.find(folder).metrics()
    return {
        (f"{line['stage']}/{name}", line["epoch"]): line[name]
        for line in lines
        for name in EPOCH
        if line[name] is not None
    }


def of_epochs(epochs):
    """Return the points of epochs by name and epoch, each of which there must be once."""
    found = [(name, step, value) for name, step, value in epochs if name.split("/")[-1] in EPOCH]
    assert len({(name, step) for name, step, _ in found}) == len(found)
    return {(name, step): value for name, step, value in found}


def same_but_for_the_time(found, wanted):
    """Compare points; epochs that were trained again are the same but for what they took."""
    assert found.keys() == wanted.keys()
    exact = [key for key in wanted if key[0].split("/")[1] not in ("seconds", "memory")]
    assert [found[key] for key in exact] == pytest.approx([wanted[key] for key in exact], rel=1e-6)


def test_every_epoch_is_there_once_with_the_numbers_of_the_run_folder(logged):
    name, folder = logged
    epochs, *_ = READERS[name](folder)
    wanted = expected(folder)
    assert {key[0] for key in wanted} >= {"biased/separation", "core/loss", "cb_erm/seconds", "tcsl_cs/memory"}
    same_but_for_the_time(of_epochs(epochs), wanted)


def test_the_end_has_accuracies_g_high_coreset_settings_and_page(logged):
    name, folder = logged
    _, final, settings, page = READERS[name](folder)
    result = RunFolder.find(folder).result()
    numbers, _ = facts_of(result)
    assert numbers["tcsl_cs/samples"] == 30
    assert numbers["g_high"] == result["identification"]["g_high"]
    assert numbers["cb_erm/wga"] == result["evaluation"]["cb_erm"]["wga"]
    assert {key: final[key] for key in numbers} == pytest.approx(numbers, rel=1e-6)
    stored = flat(RunFolder.find(folder).settings())
    if name == "tensorboard":  # which has numbers, truth values and texts, but no integers
        stored = {key: float(value) if isinstance(value, int) else value for key, value in stored.items()}
    assert stored.pop("methods") == ["cb_erm", "tcsl_cs"]
    assert {key: str(settings[key]) for key in stored} == {key: str(value) for key, value in stored.items()}
    assert page == (str(folder / "report.html") if name == "tensorboard" else (folder / "report.html").read_text())


def test_a_finished_run_can_be_sent_later_and_again(logged, tmp_path, monkeypatch):
    name, first = logged
    if name == "mlflow":  # another run of the store that is set
        uri = f"sqlite:///{first / 'mlflow.db'}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    folder = tmp_path / "run"
    debias(folder, methods=["cb_erm"])
    (folder / "report.html").write_text("<p>a page</p>")
    for _ in range(2):
        debias(folder, methods=["cb_erm"], resume=True, logger=name)
        epochs, final, *_ = read_mlflow(folder, uri) if name == "mlflow" else READERS[name](folder)
        assert of_epochs(epochs) == pytest.approx(expected(folder), rel=1e-6)
        assert final["cb_erm/average"] == pytest.approx(
            RunFolder.find(folder).result()["evaluation"]["cb_erm"]["average"]
        )
        assert len([1 for key, *_ in epochs if key == "cb_erm/average"]) <= 1
    assert not (folder / "mlflow.db").exists()


@pytest.mark.parametrize("how", ["processes", "turns"])
def test_every_seed_is_a_run_of_its_own(how, tmp_path):
    """Also where seeds are threads of one process, as on a GPU, whose epochs come in turns."""
    needs("tensorboard")
    needs("wandb")
    small = {"train.epochs": 2, "data.options.per_class": 6, "device.device": "cpu", "device.threads": 1}
    settings = resolve(dataset="digits", overrides=small | {"methods": ["cb_erm"]})
    folders = {seed: tmp_path / "two" / f"seed-{seed}" for seed in (0, 1)}
    if how == "processes":
        run_seeds(settings, [0, 1], out=tmp_path / "two", jobs=2, loggers=["tensorboard", "wandb"])
    else:
        _run_in_turns(partial(_run_one, loggers=["tensorboard", "wandb"]), settings, folders, 2, None)
    for seed, folder in folders.items():
        epochs, _, stored, _ = read_tensorboard(folder)
        assert of_epochs(epochs) == pytest.approx(expected(folder), rel=1e-6)
        assert stored["seed"] == seed
        epochs, _, stored, _ = read_wandb(folder)
        assert of_epochs(epochs) == expected(folder)
        assert stored["seed"] == seed
    ids = {json.loads((folder / "loggers.json").read_text())["wandb"] for folder in folders.values()}
    assert len(ids) == 2


def test_scoring_and_training_alone_are_logged(tmp_path):
    needs("tensorboard")
    scores = tcsl.score((X, Y), settings=SETTINGS, out=tmp_path / "scores", logger="tensorboard")
    epochs, final, *_ = read_tensorboard(tmp_path / "scores")
    assert of_epochs(epochs) == pytest.approx(expected(tmp_path / "scores"), rel=1e-6)
    assert final == {"g_high": scores.g_high.sum()}
    tcsl.train((X, Y), settings=SETTINGS, out=tmp_path / "model", logger=["tensorboard"])
    epochs, final, *_ = read_tensorboard(tmp_path / "model")
    assert of_epochs(epochs) == pytest.approx(expected(tmp_path / "model"), rel=1e-6)


def test_a_tool_that_fails_does_not_stop_the_run(tmp_path):
    needs("tensorboard")
    debias(tmp_path / "run", methods=["cb_erm"])
    (tmp_path / "run" / "tensorboard").write_text("a file where the tool wants a folder")
    with pytest.warns(TcslWarning, match=r"the logger 'tensorboard' failed and is left out.*--resume --logger tensorb"):
        run = debias(tmp_path / "run", methods=["cb_erm"], resume=True, logger="tensorboard")
    assert run.result["evaluation"]["cb_erm"]["average"] >= 0


@pytest.mark.parametrize("name", list(MODULES))
def test_a_tool_that_is_not_installed_is_said_before_anything_is_made(name, tmp_path, monkeypatch):
    module = {"tensorboard": "torch.utils.tensorboard"}.get(name, name)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not there
    with pytest.raises(InputError, match=rf"the logger '{name}' needs .*: pip install 'tcsl\[{name}\]'"):
        debias(tmp_path / "run", logger=name)
    assert not (tmp_path / "run").exists()


def test_mlflow_without_a_database_and_without_a_server_is_said(monkeypatch):
    needs("mlflow")
    monkeypatch.setitem(sys.modules, "alembic", None)
    with pytest.raises(
        InputError, match=r"needs more than mlflow-skinny .*pip install 'tcsl\[mlflow\]', or set MLFLOW"
    ):
        check_loggers(["mlflow"])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    check_loggers(["mlflow"])


def test_a_server_that_does_not_answer_is_said_before_training(tmp_path, monkeypatch):
    needs("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(InputError, match=r"the logger 'mlflow' could not be opened: .*go on in it with --resume"):
        debias(tmp_path / "run", logger="mlflow")
    assert RunFolder.find(tmp_path / "run").metrics() == []
    debias(tmp_path / "run", methods=["cb_erm", "tcsl_cs"], resume=True)


def test_mlflow_in_a_folder_whose_name_is_no_address_is_said(tmp_path):
    needs("mlflow")
    with pytest.raises(InputError, match=r"in a folder with \? in its name, got .*: choose another place with --out"):
        debias(tmp_path / "what?", logger="mlflow")
    assert not (tmp_path / "what").exists()


def test_wandb_that_is_not_logged_in_is_said(tmp_path):
    needs("wandb")
    code = "from tcsl.loggers.base import check_loggers; check_loggers(['wandb'])"
    home = {"HOME": str(tmp_path), "WANDB_MODE": "online", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=home, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert "the logger 'wandb' is not logged in: No API key configured" in done.stderr
    assert "set WANDB_MODE=offline" in done.stderr


def test_a_logger_needs_a_run_folder_and_a_name_that_exists(tmp_path):
    needs("tensorboard")
    with pytest.raises(InputError, match=r"a logger keeps its files in the run folder: say where with out="):
        tcsl.score((X, Y), settings=SETTINGS, logger="tensorboard")
    with pytest.raises(InputError, match="unknown logger 'tensorflow'; did you mean 'tensorboard'"):
        debias(tmp_path / "run", logger=["tensorflow"])
    assert not (tmp_path / "run").exists()


def test_the_command_line_says_how_to_look_at_it(tcsl_command, tmp_path):
    needs("tensorboard")
    words = ["run", "digits", "--method", "cb_erm", "--set", "train.epochs=2", "--set", "data.options.per_class=6"]
    code, _, err = tcsl_command(*words, "--device", "cpu", "--out", tmp_path / "run", "--logger", "tensorboard")
    assert code == 0, err
    assert f"tensorboard: tensorboard --logdir {tmp_path / 'run' / 'tensorboard'}\n" in err
    assert of_epochs(read_tensorboard(tmp_path / "run")[0]) == pytest.approx(expected(tmp_path / "run"), rel=1e-6)
    code, _, err = tcsl_command(*words, "--logger", "tensorbord", "--out", tmp_path / "other")
    assert code == 2
    assert "did you mean 'tensorboard'" in err
    for command in ("run", "score", "train"):
        assert "--logger" in tcsl_command(command, "--help")[1]
