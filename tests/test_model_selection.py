"""Which epoch of a final model is evaluated: who judges it, on what, how often, and what is refused."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import tcsl
from tcsl.config import resolve
from tcsl.errors import GroupsHidden, InputError, RunFolderError, TcslWarning
from tcsl.methods.base import Method, Outcome
from tcsl.pipeline import train_final
from tcsl.registry import METHODS
from tcsl.running import load_dataset, planned_stages, run_methods
from tcsl.training.best import Best
from tcsl.training.checkpoint import load_tensors

QUICK = {"train.epochs": 6, "train.batch_size": 16, "train.lr": 0.1, "score.biased_epochs": 1, "device.threads": 1}
CRITERIA = ["worst_class", "worst_group", "balanced_by_bias"]


def rows(n, seed, alpha):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    attribute = np.where(rng.random(n) < alpha, y, 1 - y)
    X = rng.normal(size=(n, 3)) + np.stack([4 * attribute, 1.5 * y, 0 * y], 1)
    return X.astype(np.float32), y, attribute


X, Y, A = rows(120, 0, 0.9)
X_VAL, Y_VAL, A_VAL = rows(80, 1, 0.6)


def debias(out, by, **changes):
    given = {
        "ratio": 0.3,
        "val": (X_VAL, Y_VAL),
        "groups": A,
        "val_groups": A_VAL,
        "methods": ["cb_erm"],
        "settings": {**QUICK, "train.model_selection": by},
    }
    return tcsl.debias((X, Y), out=out, **given | changes)


def test_of_equally_good_epochs_the_first_is_taken():
    net = nn.Linear(1, 1)
    values = iter([0.5, 0.75, 0.75, 0.5])
    best = Best(net, lambda net: next(values), every=1)
    states = []
    for epoch in range(1, 5):
        nn.init.constant_(net.weight, epoch)
        best.look(epoch, 4)
        states.append(net.weight.item())
    assert best.take()["chosen"].tolist() == [2, 4, 0.75]
    assert net.weight.item() == states[1]


def test_the_last_epochs_weights_are_stored_beside_others_only():
    net = nn.Linear(1, 1)
    best = Best(net, lambda net: net.weight.item(), every=1)
    nn.init.constant_(net.weight, 1.0)
    best.look(1, 2)
    assert set(best.take()) == {"chosen", "last.weight", "last.bias"}
    nn.init.constant_(net.weight, 2.0)
    best.look(2, 2)
    assert set(best.take()) == {"chosen"}


def test_a_coreset_is_judged_as_often_as_everything(tmp_path):
    """120 samples in batches of 16 are 8 steps an epoch; 36 of them are 3, and 48 steps are 16 such epochs."""
    seen = []
    debias(tmp_path / "run", "worst_group", methods=["cb_erm", "random"], report=seen.append)
    for name, epochs in (("cb_erm", [1, 2, 3, 4, 5, 6]), ("random", [3, 6, 8, 11, 14, 16])):
        assert [epoch.epoch for epoch in seen if epoch.stage == name and epoch.judged is not None] == epochs


@pytest.mark.parametrize("by", CRITERIA)
def test_the_batch_size_of_judging_does_not_matter(by, tmp_path, monkeypatch):
    whole = debias(tmp_path / "whole", by)
    monkeypatch.setattr("tcsl.training.feed._EVALUATION_BATCH", 7)
    parts = debias(tmp_path / "parts", by)
    assert whole.result["models"] == parts.result["models"]
    x = torch.from_numpy(X_VAL)
    assert torch.equal(whole.models["cb_erm"](x), parts.models["cb_erm"](x))


def test_the_last_epoch_needs_no_validation_set_and_writes_nothing_of_it(tmp_path):
    seen = []
    run = debias(tmp_path / "run", "last", val=None, val_groups=None, report=seen.append)
    assert run.result["models"] == {"cb_erm": {"by": "last"}}
    assert all(epoch.judged is None for epoch in seen)
    tensors, _ = load_tensors(run.path / "checkpoints" / "cb_erm.safetensors")
    assert all(name.startswith("net.") for name in tensors)
    assert "judged_on" not in json.loads((run.path / "data.json").read_text())


@pytest.mark.parametrize("by", CRITERIA)
def test_a_method_is_handed_no_more_than_it_declared(by, tmp_path, monkeypatch):
    seen = []

    def looks(job):
        seen.append(job)
        return Outcome(train_final(job, "looks"))

    monkeypatch.setitem(METHODS._places, "looks", Method("Looks", "looks around", looks, lambda settings, n: {}))
    run = debias(tmp_path / "run", by, methods=["looks"])
    assert seen[0].val is None
    with pytest.raises(GroupsHidden):
        _ = seen[0].data.groups
    assert run.result["models"]["looks"]["by"] == by


def test_a_method_that_trains_by_itself_has_its_own_way(tmp_path, monkeypatch):
    def stubborn(job):
        return Outcome(nn.Linear(3, 2))

    method = Method("Stubborn", "trains nothing", stubborn, lambda settings, n: {})
    monkeypatch.setitem(METHODS._places, "stubborn", method)
    run = debias(tmp_path / "run", "worst_class", methods=["stubborn"])
    assert run.result["models"]["stubborn"] == {"by": "own", "how": "the method does not say"}


def small_digits(by):
    overrides = {"train.epochs": 3, "data.options.per_class": 20, "methods": ["cb_erm"], "train.model_selection": by}
    settings = resolve(dataset="digits", overrides={**overrides, "device.device": "cpu"})
    return settings, load_dataset(settings)


@pytest.mark.parametrize(
    ("by", "on"),
    [
        ("worst_class", "digits, validation"),
        ("worst_group", "digits, validation"),
        ("balanced_by_bias", "digits, validation like training"),
    ],
)
def test_the_criterion_without_groups_takes_the_set_that_is_like_the_training_set(by, on, tmp_path):
    settings, splits = small_digits(by)
    given = {"val_set": splits.validation, "val_iid": splits.val_iid}
    run = run_methods(splits.train, splits.test, settings, out=tmp_path / "run", **given)
    assert run.result["models"]["cb_erm"]["on"] == on
    again = tcsl.debias("digits", settings=settings, out=tmp_path / "again")
    assert again.result["models"] == run.result["models"]
    # The groups of a set are seen by the criterion that is named after them alone.
    hidden = {name: data.without_groups() for name, data in given.items()}
    if by == "worst_group":
        with pytest.raises(GroupsHidden):
            run_methods(splits.train, splits.test, settings, out=tmp_path / "hidden", **hidden)
    else:
        found = run_methods(splits.train, splits.test, settings, out=tmp_path / "hidden", **hidden)
        assert found.result["models"] == run.result["models"]


def test_training_alone_follows_it_too(tmp_path):
    given = {"val": (X_VAL, Y_VAL), "val_groups": A_VAL, "settings": {**QUICK, "train.model_selection": "worst_group"}}
    model = tcsl.train((X, Y), out=tmp_path / "model", **given)
    facts = json.loads((tmp_path / "model" / "result.json").read_text())["models"]["final"]
    assert 1 <= facts["epoch"] < facts["epochs"] == 6
    assert facts["value"] == tcsl.evaluate(model, (X_VAL, Y_VAL), groups=A_VAL).wga
    x = torch.from_numpy(X_VAL)
    assert torch.equal(tcsl.train((X, Y), **given)(x), model(x))  # without a folder
    with pytest.raises(InputError, match=r"'worst_group' needs a validation set, and there is none"):
        tcsl.train((X, Y), settings=given["settings"])
    settings, _ = small_digits("balanced_by_bias")
    tcsl.train("digits", settings=settings, out=tmp_path / "digits")
    result = json.loads((tmp_path / "digits" / "result.json").read_text())
    assert result["models"]["final"]["on"] == "digits, validation like training"


def test_another_set_to_judge_on_is_refused(tmp_path):
    run = debias(tmp_path / "run", "worst_group")
    assert debias(tmp_path / "run", "worst_group", resume=True).result == run.result
    with pytest.raises(RunFolderError, match=r"judged_on: the folder has \{'name': 'validation data'"):
        debias(tmp_path / "run", "worst_group", val_groups=1 - A_VAL, resume=True)
    with pytest.raises(
        RunFolderError, match=r"train\.model_selection: the folder has 'worst_group', this run asks for"
    ):
        debias(tmp_path / "run", "worst_class", resume=True)


@pytest.mark.parametrize(
    ("by", "changes", "message"),
    [
        (
            "worst_klass",
            {},
            r"train\.model_selection = 'worst_klass': input should be 'last', 'average', 'worst_class'",
        ),
        *(
            (by, {"val": None, "val_groups": None}, f"'{by}' needs a validation set, and there is none")
            for by in CRITERIA
        ),
        (
            "worst_group",
            {"val_groups": None},
            "'worst_group' needs the groups of the validation set, and validation data",
        ),
        (
            "worst_group",
            {"val_groups": np.where(Y_VAL == 0, 0, A_VAL)},
            "'worst_group' needs 1 or more validation samples of every group, and of validation data '0, 1' has 0;",
        ),
        (
            "worst_class",
            {"val": (X_VAL[::2], Y_VAL[::2]), "val_groups": A_VAL[::2]},
            "'worst_class' needs 1 or more validation samples of every class, and of validation data '1' has 0;",
        ),
        (
            "balanced_by_bias",
            {"val": (X_VAL[[0, 1, 2]], Y_VAL[[0, 1, 2]]), "val_groups": None},
            "'balanced_by_bias' needs 2 or more validation samples of every class, and of validation data '1' has 1;",
        ),
        ("worst_class", {"val": (X_VAL[:, :2], Y_VAL)}, r"validation inputs have shape \(2,\), training inputs \(3,\)"),
    ],
)
def test_what_cannot_judge_is_said_before_anything_is_made(by, changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        debias(tmp_path / "run", by, **changes)
    assert not (tmp_path / "run").exists()


def test_data_without_a_test_set_are_evaluated_on_their_validation_set_which_then_cannot_judge(tmp_path):
    settings, splits = small_digits("worst_class")
    with pytest.raises(InputError, match=r"\(one that models are evaluated on does not count\)"):
        tcsl.debias(splits._replace(test=None), settings=settings, out=tmp_path / "run")


def test_a_biased_model_that_is_wrong_nowhere_tells_nothing(tmp_path):
    """It says so before any final model is trained; where it is wrong in one class only, it warns."""
    clear = (np.eye(2, dtype=np.float32)[Y] * 50, Y)
    settings = {**QUICK, "train.model_selection": "balanced_by_bias", "score.biased_epochs": 4}
    given = {"methods": ["cb_erm"], "settings": settings, "ratio": 0.3}
    seen = []
    with pytest.raises(InputError, match=r"the biased model is right on all 120 samples of validation data, so that"):
        tcsl.debias(clear, val=clear, out=tmp_path / "run", report=seen.append, **given)
    assert {epoch.stage for epoch in seen} == {"biased"}
    spoiled = (clear[0].copy(), Y)
    spoiled[0][:4] = spoiled[0][1]  # samples of class 0 that look like class 1
    with pytest.warns(
        TcslWarning, match=r"is right on all samples of 1 in validation data; these classes have one cell"
    ):
        tcsl.debias(clear, val=spoiled, out=tmp_path / "warned", **given)


@pytest.mark.parametrize(
    ("by", "methods", "stages"),
    [
        ("balanced_by_bias", ["cb_erm"], {"biased": 2, "cb_erm": 12}),
        ("balanced_by_bias", ["cb_erm", "tcsl_cs"], {"biased": 2, "cb_erm": 12, "core": 12, "tcsl_cs": 12}),
        ("worst_group", ["cb_erm"], {"cb_erm": 12}),
    ],
)
def test_the_biased_model_is_planned_where_the_criterion_asks_it(by, methods, stages):
    settings = resolve(overrides={**QUICK, "methods": methods, "train.model_selection": by})
    assert list(planned_stages(settings, (32, 6)).items()) == list(stages.items())
