"""The Python functions, on real training runs that are small."""

import io
import json
import shutil
import warnings

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn
from torch.utils.data import Subset, TensorDataset

import tcsl
from tcsl.bench.seeds import summarise_results
from tcsl.config import resolve
from tcsl.data.convert import as_dataset
from tcsl.errors import GroupsHidden, InputError, NonFiniteLoss, RunFolderError, TcslError, TcslWarning
from tcsl.methods.base import Method, Outcome
from tcsl.registry import METHODS
from tcsl.report.material import read_material
from tcsl.running import load_models
from tcsl.tables import render_summary
from tcsl.training.nets import build_net

QUICK = {"train.epochs": 20, "score.biased_epochs": 2, "train.batch_size": 32, "train.lr": 0.02}


def shortcut_rows(n=200, seed=0, alpha=0.9):
    """Two classes; feature 0 is the shortcut, which agrees for alpha of the samples; 1 and 2 are the core."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    attribute = np.where(rng.random(n) < alpha, y, 1 - y)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 6 * (attribute - 0.5)
    X[:, 1:] += 1.5 * (y[:, None] - 0.5)
    return X, y, attribute


def debias_rows(out, **changes):
    """Run all four methods on 200 rows with a shortcut and evaluate on 400 without."""
    X, y, attribute = shortcut_rows()
    X_test, y_test, attribute_test = shortcut_rows(400, seed=1, alpha=0.5)
    given = {
        "ratio": 0.3,
        "test": (X_test, y_test),
        "groups": attribute,
        "test_groups": attribute_test,
        "settings": QUICK,
        "methods": ["cb_erm", "random", "rgbal", "tcsl_cs"],
    }
    return tcsl.debias((X, y), out=out, **given | changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return debias_rows(tmp_path_factory.mktemp("runs") / "rows")


def test_debias_returns_everything(run):
    assert len(run.coreset) == 60
    assert len(run.scores) == 200
    assert run.scores.curves.shape == (200, 2)
    for name in ("cb_erm", "random", "rgbal", "tcsl_cs"):
        evaluation = run.result["evaluation"][name]
        assert 0 <= evaluation["wga"] <= evaluation["average"] <= 1
        assert len(evaluation["groups"]) == 4
    assert run.result["identification"]["auc"] > 0.9
    assert run.result["identification"]["recall"] > 0.7
    assert run.result["unknown"] == []
    assert set(run.result["seconds"]) == {"cb_erm", "random", "rgbal", "biased", "core", "tcsl_cs"}


def test_the_coreset_drops_into_a_subset(run):
    X, y, _ = shortcut_rows()
    kept = Subset(TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), run.coreset.indices)
    assert len(kept) == 60
    assert [int(label) for _, label in kept] == run.coreset.labels.tolist()


def test_the_model_takes_raw_inputs(run):
    X, y, _ = shortcut_rows(400, seed=1, alpha=0.5)
    predicted = run.model(torch.from_numpy(X).float()).argmax(1).numpy()
    assert (predicted == y).mean() == pytest.approx(run.result["evaluation"]["tcsl_cs"]["average"])


def test_selecting_again_gives_the_same_ids(run):
    again = tcsl.select(run.path / "scores.parquet", ratio=0.3)
    assert again.ids.tolist() == run.coreset.ids.tolist()
    assert len(tcsl.select(run.scores, ratio="auto")) == min(200, 3 * run.scores.g_high.sum())
    assert len(tcsl.select(run.scores, ratio=0.5)) == 100


def test_selecting_takes_seed_and_profile_from_the_scores():
    X, y, _ = shortcut_rows()
    scores = tcsl.score((X, y), settings=QUICK, seed=7, profile="paper")
    by_default = tcsl.select(scores, ratio=0.3)
    assert by_default.facts["seed"] == 7
    assert by_default.facts["select"]["losses"] == "raw"
    assert by_default.ids.tolist() == tcsl.select(scores, ratio=0.3, seed=7, profile="paper").ids.tolist()
    assert tcsl.select(scores, ratio=0.3, profile="default", seed=3).facts["select"]["losses"] == "bounded"


def test_a_folder_with_another_test_set_is_refused(run):
    X, y, attribute = shortcut_rows()
    with pytest.raises(RunFolderError, match="test: the folder has"):
        debias_rows(run.path, test=(X, y), test_groups=attribute, resume=True)


def test_evaluate_takes_a_test_set_of_one_class_and_arrays_to_weigh_by(run):
    X, y, attribute = shortcut_rows()
    one = tcsl.evaluate(run.model, (X[y == 1], y[y == 1]))
    assert one.n == 100
    assert [part.accuracy is None for part in one.classes] == [True, False]
    weighed = tcsl.evaluate(
        run.model, (X, y), groups=attribute, train=(X, y), train_groups=attribute, settings={"device.device": "cpu"}
    )
    assert weighed.weighted_average == pytest.approx(weighed.average)


def test_a_profile_and_settings_of_another_are_refused():
    X, y, _ = shortcut_rows()
    with pytest.raises(InputError, match="give one of them"):
        tcsl.score((X, y), profile="paper", settings=resolve(overrides=QUICK))


def test_every_method_trains_for_the_same_number_of_steps(run):
    from tcsl.runs import RunFolder

    last = {line["stage"]: line["step"] for line in RunFolder.find(run.path).metrics()}
    assert last["cb_erm"] == last["random"] == last["rgbal"] == last["tcsl_cs"] == 20 * 7


def test_a_finished_run_is_shown_and_not_trained_again(run):
    def forbidden(epoch):
        raise AssertionError("it trained again")

    again = debias_rows(run.path, resume=True, report=forbidden)
    assert again.result == run.result
    probe = torch.zeros(1, 3)
    assert torch.equal(again.model(probe), run.model(probe))


def test_without_groups_and_test_everything_runs_and_says_what_is_unknown(tmp_path):
    X, y, _ = shortcut_rows()
    found = tcsl.debias((X, y), settings=QUICK, out=tmp_path / "run").result
    assert found["evaluation"] == {}
    assert set(found["identification"]) == {"n", "g_high"}
    assert found["unknown"][1] == "accuracy: there is no test set"


def test_without_groups_the_worst_class_is_known(tmp_path):
    X, y, _ = shortcut_rows()
    found = tcsl.debias((X, y), test=(X, y), settings=QUICK, out=tmp_path / "run").result
    assert found["evaluation"]["tcsl_cs"]["wga"] is None
    assert found["evaluation"]["tcsl_cs"]["worst_class"] > 0.5
    assert any("worst-group accuracy" in what for what in found["unknown"])


def test_a_group_that_the_test_set_lacks_is_said_where_the_result_is_read(tmp_path):
    X, y, attribute = shortcut_rows()
    tested = ~((y == 1) & (attribute == 0))
    given = {"test": (X[tested], y[tested]), "groups": attribute, "test_groups": attribute[tested]}
    run = tcsl.debias((X, y), **given, settings=QUICK, out=tmp_path / "run", page=False)
    lacks = ["accuracy of 1, 0: no test sample", "average weighted by training groups: test data lacks one of them"]
    assert run.result["unknown"] == lacks
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_summary(summarise_results([run.result])))
    shown = console.export_text()
    assert "WGA: the worst of 3 groups of 4, those with a sample there" in shown
    assert "weighted average: groups" not in shown
    assert all(f"not known: {what}" in shown for what in lacks)


def test_a_class_of_which_nothing_but_g_high_is_kept_is_in_the_result(tmp_path):
    X, y, _ = shortcut_rows()
    labels, high = np.array(["gull", "wren"])[y], (y == 0) & (np.arange(200) < 60)  # 30 of the 50 places
    settings = QUICK | {"select.high_share": 1.0}
    given = {"groups": np.where(high, 1 - y, y), "methods": ["tcsl_cs_groups"], "settings": settings}
    for ratio, one_sided in ((0.25, ["gull"]), (0.4, [])):
        made = tcsl.debias((X, labels), ratio, out=tmp_path / str(ratio), **given)
        assert made.result["coresets"]["tcsl_cs_groups"]["one_sided"] == one_sided


def test_any_factory_is_a_net(tmp_path):
    def linear(classes):
        return nn.Linear(3, classes)

    X, y, _ = shortcut_rows()
    data = TensorDataset(torch.from_numpy(X).float(), torch.from_numpy(y))
    found = tcsl.debias(data, ratio=0.2, net=linear, settings=QUICK, out=tmp_path / "run")
    assert isinstance(found.model[1], nn.Linear)
    assert "linear" in (found.path / "config.toml").read_text()


@pytest.mark.parametrize("profile", ["paper", "default"])
def test_images_by_both_profiles(tmp_path, profile):
    from tcsl.data.digits import load

    train, test = load(0, per_class=20)[:2]
    found = tcsl.debias(train, 0.5, test=test, profile=profile, settings={"train.epochs": 10}, out=tmp_path / "run")
    assert len(found.coreset) == 100
    assert found.result["evaluation"]["tcsl_cs"]["cells"] == 100


def test_the_parts_give_what_the_whole_gives(tmp_path):
    X, y, _ = shortcut_rows()
    whole = tcsl.debias((X, y), ratio=0.3, settings=QUICK, out=tmp_path / "run", methods=["tcsl_cs"])
    scores = tcsl.score((X, y), settings=QUICK)
    assert scores.digest == whole.scores.digest
    coreset = tcsl.select(scores, ratio=0.3)
    assert coreset.indices.tolist() == whole.coreset.indices.tolist()
    model = tcsl.train((X, y), coreset, settings=QUICK)
    found = tcsl.evaluate(model, (X, y))
    assert found.n == 200
    assert found.average > 0.6


def test_scores_can_be_kept_and_resumed(tmp_path):
    X, y, _ = shortcut_rows()
    first = tcsl.score((X, y), settings=QUICK, out=tmp_path / "run")
    again = tcsl.score((X, y), settings=QUICK, out=tmp_path / "run", resume=True)
    assert first.digest == again.digest
    with pytest.raises(RunFolderError, match="exists and is finished"):
        tcsl.score((X, y), settings=QUICK, out=tmp_path / "run")


def test_a_run_that_goes_on_elsewhere_says_so(tmp_path):
    X, y, _ = shortcut_rows()

    def stop(epoch):
        if epoch.stage == "core":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tcsl.score((X, y), settings=QUICK, out=tmp_path / "run", report=stop)
    path = tmp_path / "run" / "environment.json"
    began = json.loads(path.read_text())
    here = {"device": "cpu", "gpu": None, "precision": "float32", "feed": "resident"}
    assert {name: began[name] for name in here} == here
    path.write_text(json.dumps(began | {"device": "cuda", "precision": "bfloat16", "feed": "stream", "threads": 99}))
    expected = "began with device cuda, precision bfloat16, threads 99 and goes on with device cpu, precision float32, "
    with pytest.warns(TcslWarning, match=expected):
        tcsl.score((X, y), settings=QUICK, out=tmp_path / "run", resume=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*began with")  # what is finished is only read
        tcsl.score((X, y), settings=QUICK, out=tmp_path / "run", resume=True)


def test_a_run_that_lost_its_environment_goes_on(tmp_path):
    X, y, _ = shortcut_rows()

    def stop(epoch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tcsl.score((X, y), settings=QUICK, out=tmp_path / "run", report=stop)
    (tmp_path / "run" / "environment.json").unlink()
    assert len(tcsl.score((X, y), settings=QUICK, out=tmp_path / "run", resume=True)) == len(y)


def test_the_models_of_a_run_on_arrays_are_loaded_with_them(tmp_path):
    X, y, _ = shortcut_rows()
    made = tcsl.debias((X, y), 0.5, settings=QUICK, out=tmp_path / "run", page=False)
    with pytest.raises(InputError, match="not loaded, since its data came from Python: give them, as in"):
        _ = tcsl.load_run(tmp_path / "run").model
    again = tcsl.load_run(tmp_path / "run", (X, y))
    inputs = torch.as_tensor(X, dtype=torch.float32)
    assert torch.equal(again.model(inputs), made.model(inputs))
    with pytest.raises(InputError, match=r"the training data of .* have changed since the run"):
        tcsl.load_run(tmp_path / "run", (X + 1, y))


def weights_of_an_mlp(X, y, seed, path):
    """Write weights to start from, of a net for these rows."""
    data = as_dataset((X, y))
    torch.save(build_net("mlp", data, seed=seed)[1].state_dict(), path)
    return str(path)


def test_a_finished_run_needs_the_weights_no_more_that_it_started_from(tmp_path):
    X, y, _ = shortcut_rows()
    start = QUICK | {"train.net": "mlp", "train.weights": weights_of_an_mlp(X, y, 0, tmp_path / "start.pth")}
    made = tcsl.debias((X, y), 0.5, settings=start, out=tmp_path / "run", page=False)
    (tmp_path / "start.pth").unlink()
    inputs = torch.as_tensor(X, dtype=torch.float32)
    assert torch.equal(tcsl.load_run(tmp_path / "run", (X, y)).model(inputs), made.model(inputs))
    again = tcsl.debias((X, y), 0.5, settings=start, out=tmp_path / "run", page=False, resume=True)
    assert torch.equal(again.model(inputs), made.model(inputs))
    with pytest.raises(InputError, match=r"train.weights: .*start.pth does not exist"):
        tcsl.debias((X, y), 0.5, settings=start, out=tmp_path / "other", page=False)


def test_a_finished_run_works_nothing_out_again(tmp_path):
    X, y, _ = shortcut_rows()
    start = {"train.net": "mlp", "train.weights": weights_of_an_mlp(X, y, 0, tmp_path / "start.pth")}
    # These two start from more than a stored net: features of the weights, and a probe.
    start |= QUICK | {"method.coreset.score": "selfsup", "method.coreset.embedding": "net"}
    start |= {"train.model_selection": "balanced_by_bias"}  # by the biased model, which is no method's
    given = {"settings": start, "methods": ["coreset", "ula"], "out": tmp_path / "run", "page": False}
    given |= {"val": (X[:100], y[:100])}
    made = tcsl.debias((X, y), 0.5, **given)
    (tmp_path / "start.pth").unlink()
    (tmp_path / "run" / "checkpoints" / "biased.safetensors").unlink()
    again = tcsl.debias((X, y), 0.5, **given, resume=True, report=lambda epoch: pytest.fail(f"{epoch} was run again"))
    inputs = torch.as_tensor(X, dtype=torch.float32)
    assert all(torch.equal(again.models[name](inputs), made.models[name](inputs)) for name in ("coreset", "ula"))


def test_a_model_that_a_finished_run_lost_is_made_again(tmp_path):
    X, y, _ = shortcut_rows()
    given = {"settings": QUICK, "methods": ["cb_erm", "tcsl_cs"], "out": tmp_path / "run", "page": False}
    made = tcsl.debias((X, y), 0.5, **given)
    (tmp_path / "run" / "checkpoints" / "cb_erm.safetensors").unlink()
    told = []
    again = tcsl.debias((X, y), 0.5, **given, resume=True, report=told.append)
    assert {epoch.stage for epoch in told} == {"cb_erm"}
    inputs = torch.as_tensor(X, dtype=torch.float32)
    assert torch.equal(again.models["cb_erm"](inputs), made.models["cb_erm"](inputs))


@pytest.mark.parametrize("lost", [["scores.parquet"], ["coreset.parquet"], ["scores.parquet", "coreset.parquet"]])
def test_a_table_that_a_finished_run_lost_is_made_from_the_rest(lost, tmp_path):
    X, y, _ = shortcut_rows()
    given = {"settings": QUICK, "methods": ["tcsl_cs"], "out": tmp_path / "run"}
    made = tcsl.debias((X, y), 0.5, **given)
    expected = made.scores.digest, made.coreset.digest
    for name in lost:
        (tmp_path / "run" / name).unlink()
    with pytest.raises(RunFolderError, match=rf"{lost[0]} is gone: --resume \(in Python, resume=True\) makes it from"):
        _ = [getattr(tcsl.load_run(tmp_path / "run"), part) for part in ("scores", "coreset")]
    again = tcsl.debias((X, y), 0.5, **given, resume=True, report=lambda epoch: pytest.fail(f"{epoch} was run again"))
    assert (again.scores.digest, again.coreset.digest) == expected


DAMAGED = ["result.json", "predictions.parquet", "scores.parquet", "coreset.parquet", "checkpoints/tcsl_cs.safetensors"]


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_of_a_finished_run_that_is_cut_short_is_said_and_made_again_once_it_is_deleted(name, tmp_path):
    X, y, _ = shortcut_rows()
    given = {"test": (X[:100], y[:100]), "settings": QUICK, "methods": ["cb_erm", "tcsl_cs"], "out": tmp_path / "run"}
    file = tcsl.debias((X, y), 0.5, **given).path / name
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])

    def read():
        run = tcsl.load_run(tmp_path / "run", (X, y))
        _ = run.model, run.scores, run.coreset
        read_material(run.path)

    for failing in (read, lambda: tcsl.debias((X, y), 0.5, **given, resume=True)):
        with pytest.raises(RunFolderError, match=rf"{file} is damaged \(.*\): delete it, and --resume") as kept:
            failing()
    file.unlink()
    assert kept  # as a notebook keeps an error, and all that it holds
    tcsl.debias((X, y), 0.5, **given, resume=True, report=lambda epoch: None)
    read()
    assert name.startswith("checkpoints") or file.read_bytes() == whole  # of a stage its last session is in it, too


@pytest.mark.parametrize("lost", ["result.json", "predictions.parquet"])
def test_numbers_that_a_finished_run_lost_are_made_from_its_models(lost, tmp_path):
    X, y, _ = shortcut_rows()
    given = {"test": (X[:100], y[:100]), "settings": QUICK, "methods": ["cb_erm", "tcsl_cs"], "out": tmp_path / "run"}
    made = tcsl.debias((X, y), 0.5, **given)
    before = (made.path / lost).read_bytes()
    (made.path / lost).unlink()
    if lost == "result.json":
        with pytest.raises(RunFolderError, match=r"result.json is gone: --resume .* makes it from the rest"):
            tcsl.load_run(made.path)
    again = tcsl.debias((X, y), 0.5, **given, resume=True, report=lambda epoch: pytest.fail(f"{epoch} was run again"))
    assert again.result == made.result
    assert (made.path / lost).read_bytes() == before
    assert again.page is not None
    assert (made.path / "done").read_text().split("\n")[:-1] == [
        "checkpoints/cb_erm.safetensors",
        "checkpoints/tcsl_cs.safetensors",
        "coreset.parquet",
        "predictions.parquet",
        "result.json",
        "scores.parquet",
    ]


def test_what_a_trained_or_scored_run_lost_is_made_again(tmp_path):
    X, y, _ = shortcut_rows()
    scores = tcsl.score((X, y), settings=QUICK, out=tmp_path / "scores")
    (tmp_path / "scores" / "scores.parquet").unlink()
    assert tcsl.score((X, y), settings=QUICK, out=tmp_path / "scores", resume=True).digest == scores.digest
    assert (tmp_path / "scores" / "scores.parquet").exists()
    start = QUICK | {"train.net": "mlp", "train.weights": weights_of_an_mlp(X, y, 0, tmp_path / "start.pth")}
    model = tcsl.train((X, y), settings=start, out=tmp_path / "model")
    inputs = torch.as_tensor(X, dtype=torch.float32)
    kept = (tmp_path / "start.pth").read_bytes()
    (tmp_path / "start.pth").unlink()
    again = tcsl.train((X, y), settings=start, out=tmp_path / "model", resume=True)  # finished: they are not read
    assert torch.equal(again(inputs), model(inputs))
    (tmp_path / "model" / "checkpoints" / "final.safetensors").unlink()
    with pytest.raises(InputError, match=r"train.weights: .*start.pth does not exist"):
        tcsl.train((X, y), settings=start, out=tmp_path / "model", resume=True)
    (tmp_path / "start.pth").write_bytes(kept)
    again = tcsl.train((X, y), settings=start, out=tmp_path / "model", resume=True)
    assert torch.equal(again(inputs), model(inputs))


def test_what_cannot_be_made_again_leaves_a_finished_run_as_it_was(tmp_path):
    X, y, _ = shortcut_rows()
    start = QUICK | {"train.net": "mlp", "train.weights": weights_of_an_mlp(X, y, 0, tmp_path / "start.pth")}
    given = {"test": (X[:100], y[:100]), "settings": start, "methods": ["cb_erm", "tcsl_cs"], "out": tmp_path / "run"}
    made = tcsl.debias((X, y), 0.5, **given)
    for lost in (
        tmp_path / "start.pth",
        made.path / "predictions.parquet",
        made.path / "checkpoints/biased.safetensors",
    ):
        lost.unlink()
    kept = {path: path.read_bytes() for path in made.path.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"train.weights: .*start.pth does not exist"):
        tcsl.debias((X, y), 0.5, **given, resume=True)
    assert {path: path.read_bytes() for path in made.path.rglob("*") if path.is_file()} == kept
    assert tcsl.load_run(made.path, (X, y)).result == made.result


def test_a_coreset_that_is_there_is_not_chosen_again(tmp_path):
    X, y, _ = shortcut_rows()
    np.save(tmp_path / "seen.npy", X)
    start = {"method.coreset.rule": "d2", "method.coreset.embedding": str(tmp_path / "seen.npy")}
    given = {"test": (X[:100], y[:100]), "methods": ["coreset"], "settings": QUICK | start, "out": tmp_path / "run"}
    made = tcsl.debias((X, y), 0.5, **given)
    expected = {name: (made.path / name).read_bytes() for name in ("predictions.parquet", "coreset-coreset.parquet")}
    for lost in ("predictions.parquet", "checkpoints/early-1.safetensors"):
        (made.path / lost).unlink()
    (tmp_path / "seen.npy").unlink()
    again = tcsl.debias((X, y), 0.5, **given, resume=True, report=lambda epoch: pytest.fail(f"{epoch} was run again"))
    assert again.result["coresets"] == made.result["coresets"]
    assert {name: (made.path / name).read_bytes() for name in expected} == expected


def test_a_marker_that_lists_nothing_has_all_looked_through_again(tmp_path):
    X, y, _ = shortcut_rows()
    given = {"test": (X[:100], y[:100]), "settings": QUICK, "methods": ["tcsl_cs"], "out": tmp_path / "run"}
    made = tcsl.debias((X, y), 0.5, **given)
    listed = (made.path / "done").read_bytes()
    (made.path / "done").write_text("")
    for lost in ("result.json", "coreset.parquet", "report.html"):
        (made.path / lost).unlink()
    again = tcsl.debias((X, y), 0.5, **given, resume=True, report=lambda epoch: pytest.fail(f"{epoch} was run again"))
    assert again.result == made.result
    assert again.coreset.digest == made.coreset.digest
    assert again.page is not None
    assert (made.path / "done").read_bytes() == listed


def test_what_somebody_else_puts_into_a_run_is_no_part_of_it(tmp_path):
    X, y, _ = shortcut_rows()
    given = {"settings": QUICK, "methods": ["tcsl_cs"], "out": tmp_path / "run"}
    made = tcsl.debias((X, y), 0.5, **given)
    listed = (made.path / "done").read_bytes()
    made.coreset.save(made.path / "coreset-0.3.parquet")
    (made.path / "coreset.parquet").unlink()
    tcsl.debias((X, y), 0.5, **given, resume=True)
    assert (made.path / "done").read_bytes() == listed


def test_an_embedding_of_a_run_that_was_run_again_is_told(tmp_path):
    X, y, _ = shortcut_rows()
    tcsl.debias((X, y), 0.5, settings=QUICK | {"train.net": "mlp"}, methods=["cb_erm"], out=tmp_path / "one")
    start = {"method.coreset.score": "selfsup", "method.coreset.embedding": f"run:{tmp_path / 'one'}:cb_erm"}
    given = {"methods": ["coreset"], "settings": QUICK | start, "out": tmp_path / "two"}
    tcsl.debias((X, y), 0.5, **given)
    shutil.rmtree(tmp_path / "one")
    tcsl.debias((X, y), 0.5, settings=QUICK | {"train.net": "mlp"}, seed=1, methods=["cb_erm"], out=tmp_path / "one")
    with pytest.raises(RunFolderError, match=r"cb_erm\.safetensors: its content has changed since"):
        tcsl.debias((X, y), 0.5, **given, resume=True)


def test_a_run_that_knows_no_files_goes_on(tmp_path):
    """Older folders do not have the digests of the files that they started from."""
    X, y, _ = shortcut_rows()
    start = QUICK | {"train.net": "mlp", "train.weights": weights_of_an_mlp(X, y, 0, tmp_path / "start.pth")}
    made = tcsl.debias((X, y), 0.5, settings=start, out=tmp_path / "run", page=False)
    facts = json.loads((made.path / "data.json").read_text())
    assert list(facts.pop("files")) == [str(tmp_path / "start.pth")]
    (made.path / "data.json").write_text(json.dumps(facts))
    again = tcsl.debias((X, y), 0.5, settings=start, out=tmp_path / "run", page=False, resume=True)
    assert again.result == made.result


def test_a_run_with_one_model_says_that_there_are_no_scores(tmp_path):
    X, y, _ = shortcut_rows()
    tcsl.train((X, y), settings=QUICK, out=tmp_path / "model")
    for found in (tcsl.load_run(tmp_path / "model"), tcsl.load_run(tmp_path / "model", (X, y))):
        for part in ("scores", "coreset", "model"):
            with pytest.raises(InputError, match=r"has neither scores nor a coreset of its own, only a model"):
                getattr(found, part)


def test_a_run_of_scores_alone_says_what_to_do_with_them(tmp_path):
    X, y, _ = shortcut_rows()
    tcsl.score((X, y), settings=QUICK, out=tmp_path / "scores")
    tcsl.score("digits", settings=QUICK | {"data.options.per_class": 10}, out=tmp_path / "digits")
    for found in (tcsl.load_run(tmp_path / "scores", (X, y)), tcsl.load_run(tmp_path / "digits")):
        assert len(found.scores) == found.result["n"]
        with pytest.raises(InputError, match=r"has scores alone: select from them with tcsl.select\(run.scores\)"):
            _ = found.coreset


def test_a_run_does_not_go_on_with_other_embeddings_in_the_same_file(tmp_path):
    X, y, _ = shortcut_rows()
    np.save(tmp_path / "seen.npy", X)
    given = {"methods": ["coreset"], "out": tmp_path / "run", "page": False}
    given["settings"] = QUICK | {
        "method.coreset.score": "selfsup",
        "method.coreset.embedding": str(tmp_path / "seen.npy"),
    }
    made = tcsl.debias((X, y), 0.5, **given)
    np.save(tmp_path / "seen.npy", X + 1)
    with pytest.raises(RunFolderError, match=r"seen\.npy: its content has changed since"):
        tcsl.debias((X, y), 0.5, **given, resume=True)
    (tmp_path / "seen.npy").unlink()
    again = tcsl.debias((X, y), 0.5, **given, resume=True)  # finished: it is not read
    assert again.result == made.result


def test_a_run_does_not_go_on_from_other_weights_in_the_same_file(tmp_path):
    X, y, _ = shortcut_rows()
    start = QUICK | {"train.net": "mlp", "train.weights": weights_of_an_mlp(X, y, 0, tmp_path / "start.pth")}

    def stop(epoch):
        if epoch.stage == "core":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tcsl.debias((X, y), 0.5, settings=start, out=tmp_path / "run", page=False, report=stop)
    kept = (tmp_path / "start.pth").read_bytes()
    weights_of_an_mlp(X, y, 1, tmp_path / "start.pth")
    with pytest.raises(RunFolderError, match=r"start\.pth: its content has changed since"):
        tcsl.debias((X, y), 0.5, settings=start, out=tmp_path / "run", page=False, resume=True)
    (tmp_path / "start.pth").write_bytes(kept)
    assert tcsl.debias((X, y), 0.5, settings=start, out=tmp_path / "run", page=False, resume=True).model


def test_a_class_that_a_coreset_lost_is_named_by_every_method_and_in_the_result(tmp_path):
    X, y, _ = shortcut_rows()
    names = np.array(["land", "sea"])[y].astype(object)
    names[:3] = "rare"
    few = QUICK | {"select.fill": "class", "train.epochs": 10}
    with pytest.warns(TcslWarning) as caught:
        run = tcsl.debias(
            (X, names), 0.03, settings=few, methods=["random", "tcsl_cs"], out=tmp_path / "run", page=False
        )
    said = [str(warning.message) for warning in caught if "no sample" in str(warning.message)]
    assert [message.partition(":")[0] for message in said] == [
        "the coreset of random has no sample of class rare",
        "the coreset of tcsl_cs has no sample of class rare",
    ]
    assert run.result["coresets"]["tcsl_cs"]["lost"] == ["rare"]
    assert "Take care: nothing is kept of class rare: its model cannot predict that" in repr(run)


def test_csl_is_the_mean_loss_of_plain_training():
    X, y, attribute = shortcut_rows()
    found = tcsl.csl((X, y), settings=QUICK)
    assert found.shape == (200,)
    assert found[attribute != y].mean() > found[attribute == y].mean()


def test_a_coreset_of_other_data_is_refused(run):
    X, y, _ = shortcut_rows(seed=9)
    with pytest.raises(InputError, match="chosen from other data"):
        tcsl.train((X, y), run.coreset, settings=QUICK)
    stray = tcsl.Coreset(np.array([10**6]), np.array([0]), np.array([0]), np.array([False]))
    with pytest.raises(InputError, match=r"has indices 1000000 .. 1000000"):
        tcsl.train((X, y), stray, settings=QUICK)


@pytest.fixture
def methods(monkeypatch):
    """The registry, which forgets at the end what a test adds."""
    monkeypatch.setattr(METHODS, "_places", dict(METHODS._places))
    return METHODS


def test_a_method_without_a_declaration_cannot_read_groups(run, methods, tmp_path):
    def peeks(job):
        return Outcome(nn.Linear(1, 1), job.data.groups)

    def checks(job, net):
        peeks(job)

    methods.add("thief", Method("Thief", "reads the groups without saying so", peeks, lambda settings, n: {}))
    methods.add("spy", Method("Spy", "reads them in its check", peeks, lambda settings, n: {}, check=checks))
    X, y, attribute = shortcut_rows()
    for name in ("thief", "spy"):
        with pytest.raises(GroupsHidden):
            tcsl.debias((X, y), groups=attribute, methods=[name], settings=QUICK, out=tmp_path / name)
    assert not (tmp_path / "spy").exists()


def test_a_method_is_handed_the_validation_set_and_its_groups_only_if_it_says_so(methods, tmp_path):
    def method(*needs):
        def looks(job):
            seen[needs] = job.val
            return Outcome(nn.Linear(3, 2))

        def checks(job, net):
            checked[needs] = job.val

        title = "looks at the validation set"
        return Method("Looks", title, looks, lambda settings, n: {}, needs=needs, check=checks)

    X, y, attribute = shortcut_rows()
    seen, checked = {}, {}
    for i, needs in enumerate([(), ("val",), ("val groups",)]):
        methods.add(f"looks{i}", method(*needs))
        given = {"val": (X, y), "val_groups": attribute, "settings": QUICK, "out": tmp_path / str(i)}
        tcsl.debias((X, y), methods=[f"looks{i}"], **given)
    for handed in (seen, checked):
        assert handed[()] is None
        with pytest.raises(GroupsHidden):
            _ = handed["val",].groups
        assert len(handed["val groups",].groups.group) == len(y)
    with pytest.raises(InputError, match="looks1 needs a validation set, and there is none; pass val="):
        tcsl.debias((X, y), methods=["looks1"], out=tmp_path / "run")
    with pytest.raises(InputError, match="looks2 needs the groups of the validation set"):
        tcsl.debias((X, y), val=(X, y), methods=["looks2"], out=tmp_path / "run")
    with pytest.raises(InputError, match=r"validation inputs have shape \(2,\)"):
        tcsl.debias((X, y), val=(X[:, :2], y), methods=["looks1"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_method_that_needs_groups_and_gets_none(tmp_path):
    X, y, _ = shortcut_rows()
    with pytest.raises(InputError, match="rgbal needs the groups of the training set"):
        tcsl.debias((X, y), methods=["rgbal"], settings=QUICK, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_errors_before_any_training(tmp_path):
    X, y, _ = shortcut_rows()
    with pytest.raises(InputError, match="unknown method 'tcsl'"):
        tcsl.debias((X, y), methods=["tcsl"], out=tmp_path / "run")
    with pytest.raises(InputError, match="is no sample"):
        tcsl.debias((X, y), ratio=0.001, out=tmp_path / "run")
    with pytest.raises(InputError, match=r"test inputs have shape \(2,\)"):
        tcsl.debias((X, y), test=(X[:, :2], y), out=tmp_path / "run")
    with pytest.raises(InputError, match="does not take inputs"):
        tcsl.debias((X, y), net=lambda classes: nn.Linear(9, classes), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_loss_that_explodes_leaves_a_folder_that_can_be_looked_at(tmp_path):
    X, y, _ = shortcut_rows()
    with pytest.raises(NonFiniteLoss, match=r"train.lr is 1e"):
        tcsl.debias((X, y), settings={**QUICK, "train.lr": 1e30}, out=tmp_path / "run")


def test_settings_come_whole_or_as_overrides(tmp_path):
    X, y, _ = shortcut_rows()
    whole = resolve(overrides=QUICK)
    first = tcsl.score((X, y), settings=whole, seed=3)
    second = tcsl.score((X, y), settings=QUICK, seed=3)
    assert first.digest == second.digest
    assert first.facts["seed"] == 3


def test_runs_of_known_datasets_are_loaded_with_their_models(tmp_path):
    from tcsl.running import load_dataset, run_methods

    settings = resolve(
        dataset="digits",
        overrides={"train.epochs": 10, "data.options.per_class": 10, "methods": ["cb_erm"], "device.device": "cpu"},
    )
    splits = load_dataset(settings)
    made = run_methods(splits.train, splits.test, settings, out=tmp_path / "run")
    found = tcsl.load_run(tmp_path / "run")
    assert found.result == made.result
    assert torch.equal(found.models["cb_erm"](splits.test.inputs[:3]), made.models["cb_erm"](splits.test.inputs[:3]))
    (tmp_path / "run" / "checkpoints" / "cb_erm.safetensors").unlink()
    with pytest.raises(RunFolderError, match=r"cb_erm\.safetensors is gone: --resume"):
        load_models(tmp_path / "run")


def test_runs_of_a_callers_data_are_loaded_without_models(run):
    found = tcsl.load_run(run.path)
    assert found.models == {}
    assert found.coreset.digest == run.coreset.digest


def test_dataset_options_are_checked():
    from tcsl.running import load_dataset

    with pytest.raises(InputError, match="unknown option of dataset digits 'alhpa'; did you mean 'alpha'"):
        load_dataset(resolve(dataset="digits", overrides={"data.options.alhpa": 1}))
    with pytest.raises(InputError, match="wrong type"):
        load_dataset(resolve(dataset="digits", overrides={"data.options.alpha": "high"}))


def test_the_module_has_what_it_lists_and_no_more():
    for name in tcsl.__all__:
        assert getattr(tcsl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'debais'"):
        _ = tcsl.debais
    assert issubclass(InputError, TcslError)
    assert issubclass(InputError, ValueError)


@pytest.mark.parametrize("methods", ["cb_erm", []])
def test_methods_are_a_list_of_some(methods):
    with pytest.raises(InputError, match="give a list of names, such as"):
        tcsl.debias(([[0.0], [1.0]], [0, 1]), methods=methods)


def test_a_run_without_tcsl_cs_says_so(tmp_path):
    data = (np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2)
    run = tcsl.debias(data, methods=["cb_erm"], settings={"train.epochs": 1}, out=tmp_path / "run")
    for name in ("model", "coreset", "scores"):
        with pytest.raises(InputError, match="the run has no TCSL-CS, only cb_erm: name tcsl_cs among its methods"):
            getattr(run, name)


def test_a_coreset_that_is_none_is_said():
    with pytest.raises(InputError, match=r"coreset must be what tcsl\.select or a run gives, got list"):
        tcsl.train(([[0.0], [1.0]], [0, 1]), coreset=[1, 0])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("model.pth", "the model must be a torch.nn.Module, such as run.model, got str"),
        (torch.nn.Linear(3, 2), r"the net does not take inputs of shape \(2,\)"),
        (torch.nn.Linear(2, 2), r"logits of shape \(batch, 3 or more\), got \(2, 2\) for 2"),
    ],
)
def test_models_that_cannot_be_evaluated(model, message):
    with pytest.raises(InputError, match=message):
        tcsl.evaluate(model, (np.zeros((6, 2), np.float32), [0, 1, 2] * 2))


def test_a_model_may_know_more_classes_than_the_samples_have():
    assert tcsl.evaluate(torch.nn.Linear(2, 5), (np.zeros((4, 2), np.float32), [0, 1, 0, 1])).n == 4


def test_a_model_takes_arrays_and_float64():
    X, y, _ = shortcut_rows()
    model = tcsl.train((X, y), settings=QUICK)
    expected = model(torch.as_tensor(X, dtype=torch.float32))
    for given in (X, X.astype(np.float64), torch.as_tensor(X, dtype=torch.float64)):
        torch.testing.assert_close(model(given), expected)


def test_datasets_are_made_of_arrays():
    X, y, _ = shortcut_rows()
    made = tcsl.make_dataset(X, y, units=np.arange(len(y)) // 2)
    assert made.fingerprint == tcsl.make_dataset(torch.as_tensor(X), torch.as_tensor(y)).fingerprint
    assert len(np.unique(made.units)) == len(y) // 2


def test_runs_on_other_test_data_have_places_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, attribute = shortcut_rows()
    how = {"methods": ["cb_erm"], "settings": QUICK | {"train.epochs": 1}}
    paths = {
        tcsl.debias((X, y), 0.5, **how, **more).path
        for more in ({}, {"test": (X, y)}, {"test": (X, y), "test_groups": attribute})
    }
    assert len(paths) == 3
    with pytest.raises(RunFolderError, match="resume=True"):
        tcsl.debias((X, y), 0.5, **how)


def test_all_that_is_public_is_listed():
    assert set(tcsl.__all__) <= set(dir(tcsl))
