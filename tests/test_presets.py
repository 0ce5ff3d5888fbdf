"""Presets of methods: what is published for a dataset, and what counts more."""

import tomllib

import pytest

from tcsl.config import flat, resolve, to_toml
from tcsl.methods.options import options_of
from tcsl.registry import DATASETS, METHODS
from tcsl.running import load_dataset, run_methods

PAIRS = [(method, dataset) for method in METHODS.names() for dataset in METHODS.get(method).presets]


def of(method, dataset, **overrides):
    named = {name.replace("__", "."): value for name, value in overrides.items()}
    return resolve(dataset=dataset, overrides={"methods": [method], **named}).method.get(method, {})


@pytest.mark.parametrize("method", METHODS.names())
def test_every_method_resolves_on_every_dataset(method):
    kind = METHODS.get(method).options
    for dataset in DATASETS.names():
        settings = resolve(dataset=dataset, overrides={"methods": [method]})
        assert set(settings.method) <= {method}
        if kind is not None:
            options_of(settings, method, kind)  # refuses unknown options and values out of range


@pytest.mark.parametrize(("method", "dataset"), PAIRS)
def test_a_preset_is_of_a_known_dataset_has_a_source_and_is_what_the_method_gets(method, dataset):
    preset, kind = METHODS.get(method).presets[dataset], METHODS.get(method).options
    assert dataset in DATASETS
    assert preset.source
    settings = resolve(dataset=dataset, overrides={"methods": [method]})
    found = options_of(settings, method, kind)
    assert {name: getattr(found, name) for name in preset.options} == dict(preset.options)


@pytest.mark.parametrize(
    ("method", "dataset", "published"),
    [
        (
            "jtt",
            "waterbirds",
            {"lr": 1e-5, "weight_decay": 1, "batch_size": 64, "epochs": 300, "early": 60, "times": 100},
        ),
        ("jtt", "urbancars", {"lr": 1e-3, "weight_decay": 1e-4, "early": 1, "times": 100}),
        ("groupdro", "waterbirds", {"lr": 1e-5, "weight_decay": 1, "step": 0.01, "adjustment": 2, "batch_size": 128}),
        ("george", "waterbirds", {"lr": 1e-5, "weight_decay": 1, "adjustment": 2, "reduce": "hardness"}),
        ("lc", "waterbirds", {"lr": 1e-3, "momentum": 0, "batch_size": 32, "q": 0.8, "temperature": 0.1, "ramp": 50}),
        ("dfr", "waterbirds", {"lr": 1e-3, "weight_decay": 1e-3, "epochs": 100, "batch_size": 32, "draws": 20}),
        ("cnc", "waterbirds", {"temperature": 0.1, "share": 0.75}),
        ("cnc", "cmnist", {"temperature": 0.05, "share": 0.75, "early": 5}),
        ("eiil", "waterbirds", {"reference": 1, "environment_steps": 10_000, "environment_lr": 1e-3}),
        ("ula", "waterbirds", {"tau": 1, "epochs": 200, "probe": 50, "pretraining": 100, "batch_size": 64}),
        ("lff", "cmnist", {"q": 0.7, "memory": 0.7}),
    ],
)
def test_published_values(method, dataset, published):
    found = of(method, dataset)
    assert {name: found[name] for name in published} == published


def test_nothing_is_set_where_nothing_is_published():
    assert of("jtt", "cmnist") == of("jtt", "metashift") == of("groupdro", "urbancars_b") == {}
    assert of("cb_erm", "waterbirds") == {}
    assert resolve(dataset="waterbirds").method == {}  # of methods that are not named neither


def test_the_user_counts_more_than_a_preset_and_a_preset_more_than_the_field(tmp_path):
    assert of("jtt", "waterbirds")["times"] == 100 != METHODS.get("jtt").options().times
    assert of("jtt", "waterbirds", method__jtt__times=7)["times"] == 7
    file = tmp_path / "mine.toml"
    file.write_text('methods = ["jtt"]\n[data]\nname = "waterbirds"\n[method.jtt]\ntimes = 5\n')
    assert resolve(file=file).method["jtt"]["times"] == 5
    assert resolve(file=file, overrides={"method.jtt.times": 6}).method["jtt"]["times"] == 6
    assert resolve(file=file).method["jtt"]["early"] == 60
    assert of("jtt", "waterbirds", method_presets=False) == {}
    assert of("jtt", "waterbirds", method_presets=False, method__jtt__times=7) == {"times": 7}


def test_train_settings_that_the_user_changed_count_more_than_a_methods_preset(tmp_path):
    assert "lr" not in of("jtt", "waterbirds", train__lr=0.5)
    assert of("jtt", "waterbirds", train__lr=0.5)["early"] == 60
    # As long as the run, and what follows from it does again: not 60 epochs before 3.
    short = of("jtt", "waterbirds", train__epochs=3)
    assert short == {"batch_size": 64, "lr": 1e-5, "weight_decay": 1.0, "times": 100}
    assert not {"epochs", "probe", "pretraining"} & set(of("ula", "waterbirds", train__epochs=3))
    assert of("jtt", "waterbirds", train__epochs=3, method__jtt__early=2)["early"] == 2
    # A file that names all settings, as `tcsl config show` writes it, changes none.
    file = tmp_path / "all.toml"
    file.write_text(to_toml(resolve(dataset="waterbirds")))
    assert resolve(file=file, overrides={"methods": ["jtt"]}).method["jtt"]["lr"] == 1e-5


@pytest.mark.filterwarnings("ignore::tcsl.errors.TcslWarning")  # two epochs teach LC's biased net nothing
def test_a_run_holds_what_was_resolved(tmp_path):
    overrides = {"train.epochs": 2, "data.options.per_class": 6, "methods": ["lc"], "device.device": "cpu"}
    settings = resolve(dataset="digits", overrides=overrides)
    splits = load_dataset(settings)
    run_methods(splits.train, splits.test, settings, val_set=splits.val, out=tmp_path / "run")
    stored = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert stored["method"]["lc"] == dict(METHODS.get("lc").presets["digits"].options)
    assert flat(resolve(file=tmp_path / "run" / "config.toml")) == flat(settings)
