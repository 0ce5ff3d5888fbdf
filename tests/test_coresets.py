"""Coreset baselines: what they read, what they refuse before anything is made, and where embeddings come from."""

import sys
import types

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

import tcsl
from tcsl.config import DeviceSettings, resolve
from tcsl.data.convert import as_dataset
from tcsl.embeddings import embed
from tcsl.errors import InputError, RunFolderError
from tcsl.methods.sources import SCORE_TAKES, embedding_of
from tcsl.pipeline import Job
from tcsl.registry import METHODS
from tcsl.scoring.tcsl import train_biased, train_core
from tcsl.selection.by_rule import TAKES, RuleOptions, check_sizes, select_by_rule
from tcsl.selection.tcsl_cs import select_tcsl_cs
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.nets import build_net

RNG = np.random.default_rng
CPU = choose(DeviceSettings(device="cpu"))
N = 60
Y = np.arange(N) % 2
X = (RNG(0).normal(size=(N, 4)) + Y[:, None]).astype(np.float32)
IMAGES = (RNG(1).integers(0, 256, (8, 3, 32, 32), np.uint8), np.arange(8) % 2)
QUICK = {"train.epochs": 2, "train.batch_size": 16, "device.threads": 1, "device.device": "cpu"}
FIXED = [
    name
    for name in METHODS.names()
    if name.startswith(("el2n", "selfsup", "d2", "ccs")) and METHODS.get(name).options is not None
]


def run(method, out, data=(X, Y), *, ratio=0.3, net=None, groups=None, train=None, **options):
    given = {f"method.{method}.{name}": value for name, value in options.items()}
    given |= {f"train.{name}": value for name, value in (train or {}).items()}
    return tcsl.debias(data, ratio, net=net, groups=groups, settings=QUICK | given, methods=[method], out=out)


def refused(tmp_path, message, *args, error=InputError, **more):
    with pytest.raises(error, match=message) as caught:
        run(*args[:1], tmp_path / "refused", *args[1:], **more)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "refused").exists()


# What they read.


def test_a_baseline_has_the_options_that_it_reads_and_no_others():
    read = {name: set(METHODS.get(name).options.model_fields) for name in FIXED}
    assert len(FIXED) == 11
    assert read["el2n_top"] == {"by_class", "seeds"}
    assert read["selfsup_hist"] == {"by_class", "bins", "embedding", "metric"}
    assert read["ccs"] == {"bins", "beta", "seeds"}
    assert read["d2_el2n"] == {"by_class", "beta", "k", "gamma", "metric", "embedding", "seeds"}
    assert read["d2_selfsup_clip"] == read["d2_el2n"] - {"seeds"}
    assert METHODS.get("d2_el2n_clip").options().embedding == "clip:ViT-B-32:openai"
    every = set(METHODS.get("coreset").options.model_fields)
    assert every == {"score", "rule", "seeds", "embedding", *RuleOptions.model_fields}


@pytest.mark.parametrize("method", [*FIXED, "coreset"])
@pytest.mark.parametrize("option", ["lr", "epochs", "batch_size", "weight_decay", "momentum"])
def test_the_final_training_is_the_runs_and_not_a_baselines(method, option, tmp_path):
    refused(tmp_path, f"unknown option of {method} '{option}'", method, **{option: 1})


@pytest.mark.parametrize(
    ("method", "option"), [("el2n_top", "gamma"), ("el2n_top", "k"), ("ccs", "by_class"), ("d2_selfsup", "seeds")]
)
def test_options_of_other_rules_and_scores_are_refused(method, option, tmp_path):
    refused(tmp_path, f"unknown option of {method} '{option}'", method, **{option: 1})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gamma": 0.2}, r"score el2n and rule hist read no method\.coreset\.gamma, which is for d2; leave it out"),
        ({"rule": "ccs", "by_class": True}, r"read no method\.coreset\.by_class, which is for bot, top, hist, d2;"),
        ({"embedding": "erm"}, r"read no method\.coreset\.embedding, which is for selfsup, d2"),
        ({"score": "csl", "seeds": 2}, r"read no method\.coreset\.seeds, which is for el2n, grand"),
    ],
)
def test_a_coreset_by_any_score_and_rule_refuses_what_these_do_not_read(given, message, tmp_path):
    refused(tmp_path, message, "coreset", **given)


@pytest.mark.parametrize("rule", ["bot", "top", "hist", "ccs", "d2"])
@pytest.mark.parametrize("score", list(SCORE_TAKES))
def test_what_a_score_and_a_rule_take_is_accepted(score, rule):
    values = {"by_class": True, "bins": 9, "beta": 0.1, "k": 2, "gamma": 0.3, "metric": "cosine", "seeds": 2}
    values["embedding"] = "erm"
    given = {name: values[name] for name in (*SCORE_TAKES[score], *TAKES[rule])}
    overrides = {f"method.coreset.{name}": value for name, value in {**given, "score": score, "rule": rule}.items()}
    job = Job(Feed.of(as_dataset((X, Y)), CPU), resolve(overrides=overrides), "mlp")
    METHODS.get("coreset").check(job, job.fresh_net("final"))


# Sizes.


@pytest.mark.parametrize("method", ["ccs", "d2_el2n"])
def test_a_beta_that_leaves_too_few(method, tmp_path):
    refused(tmp_path, r"beta 0\.8 leaves 12 of 60 samples, but 18 are .*use a beta of 0\.7 or less", method, beta=0.8)


def test_a_k_that_is_not_below_what_d2_chooses_from(tmp_path):
    refused(tmp_path, r"D2's k must be below the 60 of 60 samples .* got 60", "d2_el2n", k=60, beta=0.0)
    refused(tmp_path, r"below the 39 of 60 samples that beta leaves, got 39", "d2_selfsup", k=39)
    few = (X, (np.arange(N) >= 56).astype(int))
    refused(tmp_path, r"class 1 has 4 samples, and D2 by_class needs more than k = 5", "d2_el2n", few, by_class=True)


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("k", [1, 5, 6, 7, 9, 10])
def test_sizes_are_refused_where_and_only_where_the_rule_refuses_them(k, beta):
    options = RuleOptions(k=k, beta=beta)
    scores, labels, rows = RNG(0).random(10), np.arange(10) % 2, RNG(1).normal(size=(10, 2))

    def fails(call):
        try:
            call()
        except InputError:
            return True
        return False

    given = {"ratio": 0.5, "options": options}
    before = fails(lambda: check_sizes("d2", labels, **given))
    assert before == fails(lambda: select_by_rule("d2", scores, labels, rng=RNG(0), embedding=rows, **given))


# Embeddings.


@pytest.mark.parametrize("method", ["d2_el2n", "selfsup_top"])
def test_a_file_that_is_not_of_the_training_set(method, tmp_path):
    np.save(tmp_path / "short.npy", np.ones((N - 1, 3)))
    refused(tmp_path, "has 59 rows, but there are 60 samples", method, embedding=str(tmp_path / "short.npy"))
    other = pl.DataFrame({"id": np.arange(N) + 1, "f": RNG(0).random(N)})
    other.write_parquet(tmp_path / "other.parquet")
    refused(tmp_path, "1 of the 60 samples have no row there", method, embedding=str(tmp_path / "other.parquet"))
    np.save(tmp_path / "zero.npy", np.zeros((N, 3)))
    zero = {"embedding": str(tmp_path / "zero.npy"), "metric": "cosine"}
    refused(tmp_path, "cosine is not defined for rows of zeros", method, **zero)


def test_clip_of_what_are_no_images(tmp_path):
    refused(tmp_path, r"CLIP takes images .*got inputs of shape \(4,\)", "d2_el2n_clip")


def test_clip_weights_that_cannot_be_downloaded_are_said_before_anything_is_trained(tmp_path, monkeypatch):
    pytest.importorskip("open_clip", reason="needs open_clip: pip install 'tcsl[clip]'")

    def no_network(*args, **more):
        raise OSError("no network")

    monkeypatch.setattr("open_clip.factory.download_pretrained", no_network)
    epochs = []
    message = r"'ViT-B-32' with weights 'openai' cannot be had: .*no network\. .*give the file's path"
    with pytest.raises(InputError, match=message):
        tcsl.debias(
            IMAGES,
            0.5,
            methods=["d2_el2n_clip"],
            settings={**QUICK, "method.d2_el2n_clip.k": 2},
            out=tmp_path / "run",
            report=epochs.append,
        )
    assert not (tmp_path / "run").exists()
    assert epochs == []


def test_the_embedding_of_a_random_net_is_refused(tmp_path):
    message = r"embedding 'net' is what auto sees .*random; set train\.pretrained=true or train\.weights=FILE"
    refused(tmp_path, message, "d2_el2n", embedding="net")


def without_linear(classes):
    return nn.Sequential(nn.Unflatten(1, (4, 1)), nn.Conv1d(4, classes, 1), nn.Flatten())


@pytest.mark.parametrize("embedding", ["erm", "net"])
def test_a_factorys_net_without_a_linear_layer_is_said_before_anything_is_made(embedding, tmp_path):
    refused(tmp_path, "has no Linear layer", "d2_el2n", net=without_linear, embedding=embedding)
    refused(tmp_path, "has no Linear layer", "selfsup_top", net=without_linear, embedding=embedding)
    run("el2n_top", tmp_path / "run", net=without_linear)  # needs none


def test_a_published_net_without_a_linear_layer(tmp_path):
    pytest.importorskip("timm", reason="needs timm")  # its head is a convolution
    refused(tmp_path, "has no Linear layer", "d2_el2n", IMAGES, ratio=0.5, k=2, train={"net": "timm:resnetv2_18"})


def mlp(classes):
    """A factory that loads its own weights, and has the name of one of our nets."""
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, classes))
    nn.init.constant_(net[0].weight, 0.5)
    nn.init.zeros_(net[0].bias)
    return net


def test_the_net_of_a_factory_has_its_own_weights(tmp_path):
    data = as_dataset((X, Y))
    found = embedding("net", data, net=mlp)
    scaled = (X - X.mean(0)) / X.std(0)
    np.testing.assert_allclose(found, np.repeat(scaled.sum(1, keepdims=True) / 2, 3, 1).clip(0), rtol=1e-4, atol=1e-5)
    made = run("d2_el2n", tmp_path / "run", net=mlp, embedding="net")
    assert set(made.result["seconds"]) == {"early-1", "d2_el2n"}  # no CB ERM
    # The same as a file of the same rows.
    np.save(tmp_path / "rows.npy", found)
    same = run("d2_el2n", tmp_path / "same", net=mlp, embedding=str(tmp_path / "rows.npy"))
    assert kept(made).equals(kept(same))


def embedding(name, data, *, net=None, **train):
    overrides = {**QUICK, **{f"train.{key}": value for key, value in train.items()}}
    settings = resolve(overrides=overrides)
    return embedding_of(Job(Feed.of(data, CPU), settings, net or settings.train.net), name)


def kept(made, method="d2_el2n"):
    return pl.read_parquet(made.path / f"coreset-{method}.parquet")


def test_the_net_with_weights_of_a_file(tmp_path):
    data = as_dataset(IMAGES)
    start = build_net("small_cnn", data, seed=5)
    torch.save(start[1].state_dict(), tmp_path / "w.pth")
    train = {"net": "small_cnn", "weights": str(tmp_path / "w.pth")}
    same = build_net("small_cnn", data, seed=9, weights=train["weights"])
    assert np.array_equal(embedding("net", data, **train), embed(same, Feed.of(data, CPU)))
    made = run("d2_el2n", tmp_path / "run", IMAGES, ratio=0.5, embedding="net", k=2, train=train)
    assert made.result["coresets"]["d2_el2n"]["n"] == 4


@pytest.fixture
def published(tmp_path, monkeypatch):
    """torchvision's cache with weights of our own, where it looks for the published ones of a small net."""
    from torchvision import models

    name = "shufflenet_v2_x0_5"
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    cache = tmp_path / "home" / "hub" / "checkpoints"
    cache.mkdir(parents=True)
    torch.manual_seed(3)
    net = models.get_model(name, weights=None).eval()
    torch.save(net.state_dict(), cache / models.get_model_weights(name).DEFAULT.url.split("/")[-1])
    return name, net


def test_torchvisions_published_weights_whatever_the_runs_net_is(published, tmp_path):
    name, net = published
    found = embedding(f"torchvision:{name}", as_dataset(IMAGES))
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    net.fc = nn.Identity()
    with torch.no_grad():
        expected = net((torch.tensor(IMAGES[0]) / 255 - mean) / std).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    made = run("d2_el2n", tmp_path / "run", IMAGES, ratio=0.5, embedding=f"torchvision:{name}", k=2)
    assert made.result["coresets"]["d2_el2n"]["n"] == 4
    assert set(made.result["seconds"]) == {"early-1", "d2_el2n"}  # no CB ERM


def test_the_net_with_published_weights(published, tmp_path):
    name = f"torchvision:{published[0]}"
    train = {"net": name, "pretrained": True}
    data = as_dataset(IMAGES)
    assert np.array_equal(embedding("net", data, **train), embedding(name, data))
    made = run("d2_el2n", tmp_path / "run", IMAGES, ratio=0.5, embedding="net", k=2, train=train)
    same = run("d2_el2n", tmp_path / "same", IMAGES, ratio=0.5, embedding=name, k=2, train=train)
    assert kept(made).equals(kept(same))


class BrightnessOfPixels(nn.Module):
    """What an open_clip model is to us: an encoder that knows its preprocessing."""

    def __init__(self):
        super().__init__()
        self.visual = nn.Module()
        self.visual.preprocess_cfg = {"size": 4, "mean": (0.5,) * 3, "std": (0.25,) * 3}

    def encode_image(self, images):
        return images.flatten(1)


def test_what_an_embedding_needs_is_loaded_once_for_all_methods_and_their_checks(published, tmp_path, monkeypatch):
    from torchvision import models

    def counted(what, make):
        return lambda *args, **more: loaded.append(what) or make(*args, **more)

    loaded, methods = [], ["d2_selfsup", "d2_el2n", "selfsup_top"]
    monkeypatch.setattr(models, "get_model", counted("net", models.get_model))
    monkeypatch.setattr(np, "load", counted("file", np.load))
    open_clip = types.ModuleType("open_clip")
    open_clip.list_models, open_clip.list_pretrained_tags_by_model = lambda: ["pixels"], lambda name: ["none"]
    open_clip.create_model = counted("clip", lambda *args, **more: BrightnessOfPixels())
    monkeypatch.setitem(sys.modules, "open_clip", open_clip)
    np.save(tmp_path / "rows.npy", RNG(0).normal(size=(8, 3)))
    for name in (f"torchvision:{published[0]}", str(tmp_path / "rows.npy"), "clip:pixels:none"):
        settings = {f"method.{method}.embedding": name for method in methods}
        settings |= {f"method.{method}.k": 2 for method in methods[:2]}
        tcsl.debias(IMAGES, 0.5, settings=QUICK | settings, methods=methods, out=tmp_path / f"run-{len(loaded)}")
    assert loaded == ["net", "file", "clip"]


def test_timms_published_weights(tmp_path, monkeypatch):
    timm = pytest.importorskip("timm", reason="needs timm")
    name = "test_resnet"
    torch.manual_seed(3)
    net = timm.create_model(name).eval()
    torch.save(net.state_dict(), tmp_path / "timm.pth")
    make = timm.create_model

    def from_the_file(*args, **more):
        return make(*args, **more, pretrained_cfg_overlay={"file": str(tmp_path / "timm.pth")})

    monkeypatch.setattr(timm, "create_model", from_the_file)
    found = embedding(f"timm:{name}", as_dataset(IMAGES))
    mean, std = (torch.tensor(net.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    with torch.no_grad():
        expected = net.forward_head(net.forward_features((torch.tensor(IMAGES[0]) / 255 - mean) / std), pre_logits=True)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_published_nets_that_cannot_be_had(published, tmp_path, monkeypatch):
    refused(tmp_path, r"unknown torchvision net 'resnet81'", "d2_el2n", IMAGES, embedding="torchvision:resnet81", k=2)
    refused(tmp_path, r"unknown timm net 'resnet81'", "d2_el2n", IMAGES, embedding="timm:resnet81", k=2)
    rows = r"takes images \(channels, height, width\), got inputs of shape \(4,\)"
    refused(tmp_path, rows, "d2_el2n", embedding=f"torchvision:{published[0]}")

    def no_network(*args, **more):
        raise OSError("no network")

    monkeypatch.setattr("torch.hub.download_url_to_file", no_network)
    message = r"needs the net's published weights, which cannot be had: no network\. .*give it as \.npy or \.parquet"
    refused(tmp_path, message, "d2_el2n", IMAGES, embedding="torchvision:resnet18", k=2)


def test_a_final_model_of_another_run(tmp_path):
    first = run("cb_erm", tmp_path / "first")
    data = as_dataset((X[::-1].copy(), np.arange(N) % 3))  # other samples, and classes
    found = embedding(f"run:{tmp_path / 'first'}:cb_erm", data)
    assert np.array_equal(found, embed(first.models["cb_erm"], Feed.of(data, CPU)))
    made = run("d2_el2n", tmp_path / "run", embedding=f"run:{tmp_path / 'first'}:cb_erm")
    assert set(made.result["seconds"]) == {"early-1", "d2_el2n"}
    # The same as a file of the same rows.
    np.save(tmp_path / "rows.npy", embed(first.models["cb_erm"], Feed.of(as_dataset((X, Y)), CPU)))
    same = run("d2_el2n", tmp_path / "same", embedding=str(tmp_path / "rows.npy"))
    assert kept(made).equals(kept(same))


def test_the_model_of_a_training_without_methods(tmp_path):
    data = as_dataset((X, Y))
    model = tcsl.train((X, Y), settings=QUICK, out=tmp_path / "first")
    found = embedding(f"run:{tmp_path / 'first'}:final", data)
    assert np.array_equal(found, embed(model, Feed.of(data, CPU)))


def test_the_model_of_a_run_is_that_of_its_last_epoch(tmp_path):
    settings = QUICK | {"train.epochs": 4, "train.lr": 0.2}
    nets = {
        by: tcsl.debias(
            (X, Y),
            methods=["cb_erm"],
            val=(X, Y),
            settings={**settings, "train.model_selection": by},
            out=tmp_path / by,
        ).models["cb_erm"]
        for by in ("last", "worst_class")
    }
    data = as_dataset((X, Y))
    found = embedding(f"run:{tmp_path / 'worst_class'}:cb_erm", data)
    assert np.array_equal(found, embed(nets["last"], Feed.of(data, CPU)))


def test_models_of_runs_that_cannot_be_used(tmp_path):
    place = np.where(np.arange(N) % 10 < 2, 1 - Y, Y)
    groups = {"groups": place}
    first = tcsl.debias((X, Y), methods=["cb_erm", "gb_erm"], settings=QUICK, out=tmp_path / "a", **groups).path
    refused(tmp_path, r"named run:FOLDER:MODEL, such as .* got 'run:a'", "d2_el2n", embedding="run:a")
    nothing = f"run:{tmp_path / 'none'}:cb_erm"
    refused(tmp_path, "none is not a run folder", "d2_el2n", embedding=nothing, error=RunFolderError)
    refused(
        tmp_path, r"unknown final model of .* 'jtt'.* Known: cb_erm, gb_erm", "d2_el2n", embedding=f"run:{first}:jtt"
    )
    refused(tmp_path, r"gb_erm of .* was told train groups", "d2_el2n", embedding=f"run:{first}:gb_erm")
    wide = (np.concatenate([X, X], 1), Y)
    shapes = r"takes inputs of shape \(4,\), and training data has \(8,\)"
    refused(tmp_path, shapes, "d2_el2n", wide, embedding=f"run:{first}:cb_erm")
    run("cb_erm", tmp_path / "own", net=lambda classes: nn.Linear(4, classes))
    refused(
        tmp_path, "came from Python and cannot be made again", "d2_el2n", embedding=f"run:{tmp_path / 'own'}:cb_erm"
    )
    (first / "checkpoints" / "cb_erm.safetensors").unlink()
    refused(tmp_path, "has no model 'cb_erm' yet", "d2_el2n", embedding=f"run:{first}:cb_erm")


# RGbal, and TCSL-CS with the true minority.


@pytest.mark.parametrize(("method", "instead"), [("rgbal", "random"), ("tcsl_cs_groups", "tcsl_cs")])
def test_no_minority_is_refused_by_who_keeps_it(method, instead, tmp_path):
    message = f"{method} keeps every minority sample, and training data has none.*; use the method {instead}, or other"
    refused(tmp_path, message, method, groups=Y)


def test_the_true_minority_takes_the_place_of_g_high(tmp_path):
    """The quota is filled by the lowest TCSL_c of the others; the scores are those of who knows no groups."""
    minority = np.isin(np.arange(N), [2, 3, 11, 24, 37, 50, 51])
    settings = QUICK | {"select.fill": "global"}
    given = {"groups": np.where(minority, 1 - Y, Y), "settings": settings, "out": tmp_path / "run", "page": False}
    made = tcsl.debias((X, Y), 0.7, methods=["tcsl_cs_groups"], **given)
    blind = tcsl.debias((X, Y), 0.7, methods=["tcsl_cs"], settings=settings, out=tmp_path / "blind", page=False).scores
    others = np.flatnonzero(~minority)
    filled = others[np.argsort(blind.tcsl_c[others])[: 42 - 7]]
    chosen = kept(made, "tcsl_cs_groups")
    assert chosen["id"].to_list() == sorted([*np.flatnonzero(minority), *filled])
    assert chosen["g_high"].to_list() == minority[chosen["id"].to_numpy()].tolist()
    assert not np.array_equal(blind.g_high, minority)


def test_the_ablations_biased_model_has_its_q_and_leaves_the_other_scores_alone(tmp_path):
    """TCSL_s and TCSL_c are those of stages 1 and 2 by GCE; scores.parquet stays what TCSL-CS makes of it."""
    q = {"method.tcsl_cs_gce.q": 0.4, "select.fill": "global", "score.biased_epochs": 3}
    made = tcsl.debias((X, Y), 0.5, methods=["tcsl_cs", "tcsl_cs_gce"], settings=QUICK | q, out=tmp_path / "run")
    alone = tcsl.debias((X, Y), 0.5, methods=["tcsl_cs"], settings=QUICK | q, out=tmp_path / "alone")
    assert np.array_equal(made.scores.curves, alone.scores.curves)
    settings = resolve(overrides=QUICK | q | {"select.ratio": 0.5})
    feed = Feed.of(as_dataset((X, Y)), CPU)
    job = Job(feed, settings, "mlp")
    biased, core = job.fresh_net("biased"), job.fresh_net("core")
    curves = train_biased(biased, feed, settings, seed=0, stage="biased-gce", gce=0.4)
    tcsl_c = train_core(core, biased, feed, settings, seed=0, stage="core-gce")
    expected = select_tcsl_cs(curves.numpy(), tcsl_c.numpy(), Y, settings.select, seed=0)
    assert kept(made, "tcsl_cs_gce")["id"].to_list() == expected.indices.tolist()
    by_gce = tcsl.Scores.load(made.path / "scores-tcsl_cs_gce.parquet")
    assert np.array_equal(by_gce.curves, curves.numpy())
    found = {name: one["identification"]["g_high"] for name, one in made.result["coresets"].items()}
    assert found == {"tcsl_cs": int(made.scores.g_high.sum()), "tcsl_cs_gce": int(by_gce.g_high.sum())}
    other = train_biased(job.fresh_net("biased"), feed, settings, seed=0, stage="biased-gce", gce=0.7)
    assert not torch.equal(other, curves)


def test_rgbal_by_class(tmp_path):
    labels = (np.arange(N) >= 40).astype(int)
    place = np.where(np.isin(np.arange(N), [0, 1, 2, 50]), 1 - labels, labels)
    made = {
        by_class: run("rgbal", tmp_path / str(by_class), (X, labels), groups=place, by_class=by_class).result[
            "coresets"
        ]
        for by_class in (False, True)
    }
    assert made[True]["rgbal"]["class_counts"] == [9, 9]
    assert made[False]["rgbal"]["class_counts"] != [9, 9]
    assert made[True]["rgbal"]["minority"] == made[False]["rgbal"]["minority"] == 4
