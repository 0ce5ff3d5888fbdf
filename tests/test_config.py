"""Settings: where they come from, and what is refused."""

import tomllib

import pytest

from tcsl.config import PROFILES, Settings, flat, flatten, from_flat, parse_override, resolve, to_toml
from tcsl.errors import InputError


def test_later_sources_win(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[train]\nepochs = 7\nlr = 0.5\n")
    found = resolve(profile="paper", dataset="digits", file=file, overrides={"train.lr": 0.25})
    assert (found.train.epochs, found.train.lr, found.train.batch_size) == (7, 0.25, 32)
    assert found.score.weight_update == "literal"


def test_the_paper_profile_is_literal_everywhere():
    paper = flat(resolve(profile="paper"))
    assert paper["score.weight_update"] == "literal"
    assert paper["score.record"] == "evaluation"
    assert paper["select.losses"] == "raw"
    assert paper["select.fill"] == "global"
    assert (paper["select.tau"], paper["select.bins"], paper["select.max_iterations"]) == (0.4, 50, 200)


@pytest.mark.parametrize(
    ("profile", "epochs", "biased", "core"),
    [
        ("default", 300, 9, 300),
        ("default", 50, 5, 50),
        ("default", 25, 5, 25),
        ("default", 3, 3, 3),
        ("paper", 300, 30, 300),
        ("paper", 25, 2, 25),
        ("paper", 9, 1, 9),
        ("fast", 300, 9, 18),
        ("fast", 50, 5, 5),
    ],
)
def test_t_s_and_t_c_follow_from_t(profile, epochs, biased, core):
    found = resolve(profile=profile, overrides={"train.epochs": epochs})
    assert (found.biased_epochs, found.core_epochs) == (biased, core)
    found = resolve(profile=profile, overrides={"train.epochs": epochs, "score.biased_epochs": 1})
    assert found.biased_epochs == 1


@pytest.mark.parametrize("profile", PROFILES)
def test_toml_holds_every_setting_and_reads_back(profile, tmp_path):
    settings = resolve(profile=profile, dataset="digits", overrides={"train.lr": 1e-5, "data.options.alpha": 0.9})
    stored = flatten(tomllib.loads(to_toml(settings)))
    assert stored == flat(settings)
    assert flat(from_flat(stored)) == flat(settings)
    file = tmp_path / "settings.toml"
    file.write_text(to_toml(settings))
    assert flat(resolve(file=file)) == flat(settings)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"train.epoch": 3}, "unknown setting 'train.epoch'; did you mean 'train.epochs'"),
        ({"trian.epochs": 3}, "unknown setting 'trian'"),
        ({"train.epochs": 0}, "train.epochs = 0: input should be greater than or equal to 1"),
        ({"train.epochs": "many"}, "valid integer"),
        ({"train.lr": float("nan")}, "finite number"),
        ({"method.jtt.lr": float("nan")}, "^setting method.jtt.lr = nan: input should be a finite number$"),
        ({"select.ratio": 10}, r"ratio must be in \(0, 1\], got 10; did you mean 0.10\?"),
        ({"select.fill": "classes"}, "'class' or 'global'"),
        ({"seed.x": 1}, "valid integer"),
        ({"seed": 2, "seed.x": 1}, "is a value, not a section"),
        ({"profile": "papr"}, "unknown profile 'papr'; did you mean 'paper'"),
    ],
)
def test_settings_that_are_refused(overrides, message):
    with pytest.raises(InputError, match=message):
        resolve(overrides=overrides)


def test_files_that_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        resolve(file=tmp_path / "none.toml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        resolve(file=tmp_path)
    bad = tmp_path / "bad.toml"
    bad.write_text("[train\nepochs=3")
    with pytest.raises(InputError, match="not valid TOML"):
        resolve(file=bad)
    bad.write_text("[train]\nepoch = 3")
    with pytest.raises(InputError, match=r"unknown setting 'train.epoch'; did you mean .*bad.toml"):
        resolve(file=bad)
    with pytest.raises(InputError, match="unknown setting"):
        from_flat({"nonsense": 1})


def test_overrides_are_toml_or_text():
    assert parse_override("seed=3") == ("seed", 3)
    assert parse_override("train.net=timm:resnet18") == ("train.net", "timm:resnet18")
    assert parse_override('methods=["cb_erm"]') == ("methods", ["cb_erm"])
    with pytest.raises(InputError, match=r"looks like train.epochs=20"):
        parse_override("train.epochs")


def test_what_a_command_names_beats_the_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(to_toml(resolve(profile="paper", overrides={"seed": 5})))
    found = resolve(profile="default", dataset="digits", file=file)
    assert (found.profile, found.data.name, found.seed) == ("default", "digits", 5)
    assert resolve(file=file).profile == "paper"


def test_a_stored_file_with_another_t_follows_it(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(to_toml(resolve(dataset="digits")))
    assert "# biased_epochs = 5, or more for least_steps" in file.read_text()
    assert "# biased_epochs = 6 " in to_toml(resolve(dataset="digits"), n=1200)
    found = resolve(file=file, overrides={"train.epochs": 200})
    assert (found.biased_epochs, found.core_epochs) == (6, 200)


def test_a_profile_is_its_settings_however_it_is_made():
    assert Settings(profile="paper") == resolve(profile="paper")
    assert Settings(profile="paper", select={"ratio": 0.3}).select.losses == "raw"


def test_presets_do_not_change_with_what_is_put_on_top():
    before = flat(resolve(dataset="digits"))
    resolve(dataset="digits", overrides={"data.options.alpha": 0.5, "data.options.more": 1})
    assert flat(resolve(dataset="digits")) == before


def test_tau_is_zero_on_cmnist():
    assert resolve(dataset="cmnist").select.tau == 0
    assert resolve().select.tau == 0.4


def test_the_root_is_kept_as_a_full_path(tmp_path, monkeypatch):
    """So that a run finds its data from another folder."""
    monkeypatch.chdir(tmp_path)
    assert resolve(overrides={"data.root": "."}).data.root == str(tmp_path)
    assert resolve().data.root == ""
