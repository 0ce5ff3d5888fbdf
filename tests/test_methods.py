"""Every registered method keeps the same contract, on a small dataset with a shortcut."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import tcsl
from tcsl.config import DeviceSettings, resolve
from tcsl.data.convert import as_dataset
from tcsl.data.digits import load
from tcsl.errors import InputError, TcslWarning
from tcsl.methods.base import run_method
from tcsl.methods.ula import twins
from tcsl.pipeline import Job
from tcsl.registry import METHODS
from tcsl.running import load_dataset, planned_stages, run_methods
from tcsl.seeds import derive
from tcsl.training.checkpoint import Checkpoint, load_tensors, under_prefix, with_prefix
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.loop import fit, steps_of
from tcsl.training.nets import build_net

BUILT_IN = METHODS.names()
BALANCED = "balanced_by_bias"
EMBEDDED = np.random.default_rng(5).normal(size=(240, 6)).astype(np.float32)
QUICK = {
    "train.epochs": 8,
    "score.biased_epochs": 2,
    "train.batch_size": 32,
    "train.lr": 0.02,
    "device.threads": 1,
}


@pytest.fixture(autouse=True)
def clip_from_a_file(tmp_path_factory, monkeypatch):
    """CLIP's weights are the user's to have; a file with an embedding takes their place."""
    file = tmp_path_factory.mktemp("embedding") / "clip.npy"
    np.save(file, EMBEDDED)
    for name in ("d2_el2n_clip", "d2_selfsup_clip"):
        monkeypatch.setitem(QUICK, f"method.{name}.embedding", str(file))


def rows(n, seed, alpha):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    attribute = np.where(rng.random(n) < alpha, y, (y + rng.integers(1, 3, n)) % 3)
    X = rng.normal(size=(n, 4)) + np.stack([4.0 * attribute, 1.5 * y, 1.5 * y, 0 * y], 1)
    return X.astype(np.float32), y, attribute


X, Y, ATTRIBUTE = rows(240, 0, 0.9)
X_TEST, Y_TEST, ATTRIBUTE_TEST = rows(300, 1, 0.4)
X_VAL, Y_VAL, ATTRIBUTE_VAL = rows(180, 2, 0.4)


def debias(method, out, **changes):
    given = {
        "ratio": 0.3,
        "test": (X_TEST, Y_TEST),
        "val": (X_VAL, Y_VAL),
        "groups": ATTRIBUTE,
        "test_groups": ATTRIBUTE_TEST,
        "val_groups": ATTRIBUTE_VAL,
        "settings": QUICK,
        "methods": [method],
    }
    return tcsl.debias((X, Y), out=out, **given | changes)


@pytest.mark.parametrize("method", BUILT_IN)
def test_a_method_trains_on_three_classes_and_gives_the_same_bytes_again(method, tmp_path):
    first, second = (debias(method, tmp_path / str(i)) for i in range(2))
    evaluation = first.result["evaluation"][method]
    assert evaluation["average"] > 0.45
    logits = first.models[method](torch.from_numpy(X_TEST))
    assert logits.shape == (300, 3)
    assert torch.equal(logits, second.models[method](torch.from_numpy(X_TEST)))
    assert first.result["evaluation"] == second.result["evaluation"]


@pytest.mark.parametrize("method", BUILT_IN)
def test_a_method_that_is_stopped_goes_on_to_the_same_bytes(method, tmp_path):
    whole = debias(method, tmp_path / "whole")

    def stop(epoch):
        if epoch.epoch == 2 and epoch.stage == stages[-1]:
            raise KeyboardInterrupt

    stages = list(METHODS.get(method).stages(tcsl.Settings.model_validate({}), 240))
    with pytest.raises(KeyboardInterrupt):
        debias(method, tmp_path / "stopped", report=stop)
    again = debias(method, tmp_path / "stopped", resume=True)
    x = torch.from_numpy(X_TEST)
    assert torch.equal(whole.models[method](x), again.models[method](x))


@pytest.mark.parametrize("method", BUILT_IN)
def test_a_method_runs_through_the_stages_that_it_names(method, tmp_path):
    seen = {}
    debias(method, tmp_path / "run", report=lambda epoch: seen.update({epoch.stage: epoch.steps}))
    settings = tcsl.Settings.model_validate({"train": {"epochs": 8, "batch_size": 32}, "score": {"biased_epochs": 2}})
    planned = planned_stages(settings.model_copy(update={"methods": (method,)}), X.shape)
    assert list(seen) == list(planned)
    assert all(seen[stage] >= steps for stage, steps in planned.items())


def last_epochs(folder):
    """Return every tensor of every stage, of final models those of the last epoch: all but what was chosen."""
    out = {}
    for path in (folder / "checkpoints").glob("*.safetensors"):
        tensors, _ = load_tensors(path)
        last = with_prefix("net.", under_prefix("last.", tensors))
        kept = {k: v for k, v in tensors.items() if k != "chosen" and not k.startswith("last.")}
        out |= {(path.name, k): v for k, v in (kept | last).items()}
    return out


@pytest.mark.parametrize("method", BUILT_IN)
def test_model_selection_chooses_the_final_model_and_changes_nothing_else(method, tmp_path):
    short = {**QUICK, "train.epochs": 4, "method.eiil.environment_steps": 500, "method.george.max_clusters": 3}
    debias(method, tmp_path / "last", settings=short)
    expected = last_epochs(tmp_path / "last")
    for by in ("worst_class", "worst_group", BALANCED):
        run = debias(method, tmp_path / by, settings={**short, "train.model_selection": by})
        model = run.result["models"][method]
        if METHODS.get(method).chooses:
            assert model == {"by": "own", "how": METHODS.get(method).chooses}
        else:
            assert (model["by"], model["on"]) == (by, "validation data")
            assert 1 <= model["epoch"] <= model["epochs"]
            found = tcsl.evaluate(run.models[method], (X_VAL, Y_VAL), groups=ATTRIBUTE_VAL)
            value = {"worst_class": found.worst_class, "worst_group": found.wga}.get(by, model["value"])
            assert model["value"] == value
        stages = last_epochs(tmp_path / by)
        assert all(torch.equal(stages[name], tensor) for name, tensor in expected.items())
        assert {name for name, _ in stages} - {name for name, _ in expected} <= {"biased.safetensors"}
        for coreset in (tmp_path / "last").glob("coreset*.parquet"):
            assert coreset.read_bytes() == (tmp_path / by / coreset.name).read_bytes()


@pytest.mark.parametrize(
    ("method", "by"),
    [*((name, "worst_group") for name in ("cb_erm", "tcsl_cs", "groupdro", "lff", "cnc", "lc")), ("cb_erm", BALANCED)],
)
def test_a_chosen_epoch_survives_a_stop_after_every_epoch(method, by, tmp_path, monkeypatch):
    """Stopped in every epoch of the final model, each of which is saved; then all files have the same bytes."""
    monkeypatch.setattr("tcsl.training.checkpoint.Checkpoint", partial(Checkpoint, share=1e9))
    settings = {**QUICK, "train.epochs": 5, "train.lr": 0.1, "train.model_selection": by}
    whole = debias(method, tmp_path / "whole", settings=settings)
    stopped = tmp_path / "stopped"
    sessions = 0
    while True:
        reported = []

        def stop(epoch, reported=reported):
            if epoch.stage == method:
                reported.append(epoch)
                if len(reported) == 2:
                    raise KeyboardInterrupt

        try:
            again = debias(method, stopped, settings=settings, report=stop, resume=True)
            break
        except KeyboardInterrupt:
            sessions += 1
    assert sessions == whole.result["models"][method]["epochs"] - 1
    assert again.result["models"] == whole.result["models"]
    names = [path.name for path in (tmp_path / "whole" / "checkpoints").iterdir()]
    assert names
    for name in names:
        assert (stopped / "checkpoints" / name).read_bytes() == (whole.path / "checkpoints" / name).read_bytes()


@pytest.mark.parametrize("score", ["el2n", "selfsup", "csl", "forgetting", "aum", "grand"])
@pytest.mark.parametrize("rule", ["bot", "top", "hist", "ccs", "d2"])
def test_any_score_with_any_rule(score, rule, tmp_path):
    settings = {**QUICK, "train.epochs": 3, "method.coreset.score": score, "method.coreset.rule": rule}
    run = debias("coreset", tmp_path / "run", settings=settings)
    assert run.result["coresets"]["coreset"]["n"] == 72


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        ("elsewhere.npy", r"embedding 'elsewhere\.npy' is none of erm, net, .*run:FOLDER:MODEL, and no file"),
        ("clip:ViT-B-32", r"is named clip:MODEL:WEIGHTS, such as clip:ViT-B-32:openai, got 'clip:ViT-B-32'"),
    ],
)
def test_an_embedding_that_cannot_be_had_is_said_before_anything_is_made(embedding, message, tmp_path):
    with pytest.raises(InputError, match=message):
        debias("d2_el2n", tmp_path / "run", settings={**QUICK, "method.d2_el2n.embedding": embedding})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", [name for name in BUILT_IN if METHODS.get(name).needs])
def test_a_method_that_needs_groups_says_so_before_anything_is_made(method, tmp_path):
    with pytest.raises(InputError, match=f"{method} needs"):
        debias(method, tmp_path / "run", groups=None, val_groups=None)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["groupdro", "gb_erm"])
def test_a_group_without_samples(method, tmp_path):
    with pytest.raises(InputError, match=r"need samples of every group, and training data has none of 0, 2;"):
        debias(method, tmp_path / "run", groups=np.where((Y == 0) & (ATTRIBUTE == 2), 1, ATTRIBUTE))
    assert not (tmp_path / "run").exists()


# What is trained, against `fit` called by hand: the same bytes.

UNEQUAL = np.repeat([0, 1], [40, 20])
UNEQUAL_ATTRIBUTE = np.repeat([0, 1, 0, 1], [30, 10, 4, 16])
UNEQUAL_X = (np.random.default_rng(6).normal(size=(60, 4)) + UNEQUAL[:, None]).astype(np.float32)


def by_method(method, **options):
    """Return a method's final net, and a function that trains one from the same settings by hand."""
    given = {f"method.{method}.{name}": value for name, value in options.items()}
    settings = resolve(overrides={**QUICK, "train.epochs": 3, **given})
    feed = Feed.of(as_dataset((UNEQUAL_X, UNEQUAL), groups=UNEQUAL_ATTRIBUTE), choose(DeviceSettings(device="cpu")))
    net = run_method(METHODS.get(method), Job(feed, settings, "mlp")).net

    def by_hand(stage, *, rows=range(60), weights="final", epochs=3, **more):
        own = settings.train.model_copy(update={"epochs": epochs})
        visited = Feed.of(as_dataset((UNEQUAL_X[list(rows)], UNEQUAL[list(rows)])), feed.hardware)
        fresh = build_net("mlp", feed.data, seed=derive(0, weights))
        return fit(fresh, visited, own, stage=stage, steps=steps_of(len(rows), own), seed=0, **more)

    return net, by_hand


def same_bytes(net, other):
    return all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in net.state_dict().items())


def test_gb_erm_weights_groups_and_not_classes():
    net, by_hand = by_method("gb_erm")
    by_group = -torch.tensor([30.0, 10.0, 4.0, 16.0]).log()[2 * UNEQUAL + UNEQUAL_ATTRIBUTE]
    by_class = -torch.tensor([40.0, 20.0]).log()[UNEQUAL]
    assert same_bytes(net, by_hand("gb_erm", log_weights=by_group))
    assert not same_bytes(net, by_hand("gb_erm", log_weights=by_class))
    assert not same_bytes(net, by_hand("gb_erm"))


def test_jtt_trains_on_what_its_first_model_gets_wrong_so_many_times():
    net, by_hand = by_method("jtt", early=8, times=4)
    logits = by_hand("jtt-early", weights="jtt-early", epochs=8)(torch.from_numpy(UNEQUAL_X)).detach().numpy()
    wrong = [i for i in range(60) if logits[i, UNEQUAL[i]] < logits[i, 1 - UNEQUAL[i]]]
    assert len(wrong) < 20
    assert set(UNEQUAL[wrong]) == {0, 1}  # some of both classes, and neither as a whole
    assert same_bytes(net, by_hand("jtt", rows=[i for i in range(60) for _ in range(4 if i in wrong else 1)]))
    assert not same_bytes(net, by_hand("jtt"))


def test_jtt_says_where_nothing_is_wrong(tmp_path):
    clear = (np.eye(3, dtype=np.float32)[Y] * 50, Y)
    with pytest.raises(InputError, match=r"JTT: after 6 epochs .* is right on all 240 .*method\.jtt\.early"):
        tcsl.debias(clear, methods=["jtt"], settings={**QUICK, "method.jtt.early": 6}, out=tmp_path / "run")


def test_cnc_says_where_nothing_is_wrong(tmp_path):
    clear = (np.eye(3, dtype=np.float32)[Y] * 50, Y)
    with pytest.raises(InputError, match=r"CNC: after 6 epochs .* is right on all 240 .*method\.cnc\.early"):
        tcsl.debias(clear, methods=["cnc"], settings={**QUICK, "method.cnc.early": 6}, out=tmp_path / "run")


def test_cnc_names_classes_without_a_wrong_sample(tmp_path):
    """Far classes, but a few samples of class 0 look like class 2."""
    shown = np.where((Y == 0) & (np.arange(240) < 24), 2, Y)
    clear = (np.eye(3, dtype=np.float32)[shown] * 50, Y)
    with pytest.warns(TcslWarning, match="CNC: the first model gets no sample of 1, 2 wrong, so such a class has no"):
        tcsl.debias(clear, methods=["cnc"], settings={**QUICK, "method.cnc.early": 6}, out=tmp_path / "run")


class HeadFirst(nn.Module):
    """A net that defines its layers in another order than it runs them."""

    def __init__(self, classes, size=4):
        super().__init__()
        self.head = nn.Linear(7, classes)
        self.body = nn.Linear(size, 7)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)).relu())


class Halved(HeadFirst):
    """A net that changes what its last layer says."""

    def forward(self, x):
        return super().forward(x) / 2


class NoLinear(nn.Module):
    """A net whose one layer is a convolution."""

    def __init__(self, classes):
        super().__init__()
        self.layer = nn.Conv1d(4, classes, 1)

    def forward(self, x):
        return self.layer(x[:, :, None])[:, :, 0]


def hooks_of(net):
    return [hook for part in net.modules() for hook in (*part._forward_hooks, *part._forward_pre_hooks)]


@pytest.mark.parametrize("method", ["dfr", "cnc"])
def test_the_last_layer_is_the_one_that_runs_last(method, tmp_path):
    run = debias(method, tmp_path / "run", net=HeadFirst)
    assert run.result["evaluation"][method]["average"] > 0.3
    assert not hooks_of(run.models[method])


@pytest.mark.parametrize("method", ["dfr", "cnc"])
@pytest.mark.parametrize(
    ("net", "message"),
    [(Halved, "what Halved returns is not"), (NoLinear, "NoLinear has none")],
)
def test_a_net_without_a_last_layer_is_said_before_anything_is_made(method, net, message, tmp_path):
    with pytest.raises(InputError, match=message):
        debias(method, tmp_path / "run", net=net)
    assert not (tmp_path / "run").exists()


def test_a_last_layer_without_a_bias_is_not_for_dfr(tmp_path):
    with pytest.raises(InputError, match="dfr fits the last layer with a bias, and the net's has none"):
        debias("dfr", tmp_path / "run", net=lambda classes: nn.Linear(4, classes, bias=False))
    assert not (tmp_path / "run").exists()


def test_george_clusters_features_of_a_net_that_has_some_and_its_losses_of_any(tmp_path):
    with pytest.raises(InputError, match="has no Linear layer"):
        debias("george", tmp_path / "run", net=NoLinear, settings={**QUICK, "method.george.reduce": "pca"})
    assert not (tmp_path / "run").exists()
    debias("george", tmp_path / "run", net=NoLinear)


def test_options_of_a_method_are_checked(tmp_path):
    with pytest.raises(InputError, match=r"unknown option of jtt 'time'; did you mean 'times'"):
        debias("jtt", tmp_path / "run", settings={**QUICK, "method.jtt.time": 3})
    with pytest.raises(InputError, match=r"method\.groupdro\.step = -1: input should be greater than 0"):
        debias("groupdro", tmp_path / "run", settings={**QUICK, "method.groupdro.step": -1})
    with pytest.raises(InputError, match=r"unknown method 'jt'; did you mean 'jtt'"):
        debias("jtt", tmp_path / "run", settings={**QUICK, "method.jt.times": 3})
    with pytest.raises(InputError, match=r"cb_erm has no options of its own, got method\.cb_erm\.lr"):
        debias("cb_erm", tmp_path / "run", settings={**QUICK, "method.cb_erm.lr": 3})
    assert not (tmp_path / "run").exists()


def test_options_of_a_method_replace_the_runs_settings(tmp_path):
    run = debias("groupdro", tmp_path / "run", settings={**QUICK, "method.groupdro.epochs": 3})
    assert run.result["seconds"].keys() == {"groupdro"}
    seen = []
    settings = {**QUICK, "method.groupdro.epochs": 3}
    debias("groupdro", tmp_path / "again", settings=settings, report=lambda epoch: seen.append(epoch.epochs))
    assert seen == [3, 3, 3]


def test_lc_says_where_its_biased_net_learns_nothing(tmp_path):
    settings = {**QUICK, "method.lc.biased_lr": 1e-6}
    with pytest.warns(TcslWarning, match=r"LC: the biased net is right on \d+% .* raise method\.lc\.biased_lr"):
        debias("lc", tmp_path / "run", settings=settings)


def test_dfr_says_which_validation_group_is_too_small(tmp_path):
    single = np.flatnonzero((Y_VAL == 0) & (ATTRIBUTE_VAL == 2))
    with pytest.raises(InputError, match=r"dfr needs 2 samples or more of every group .* '0, 2' has 1"):
        debias("dfr", tmp_path / "run", val_groups=np.where(np.isin(np.arange(180), single[1:]), 1, ATTRIBUTE_VAL))
    assert not (tmp_path / "run").exists()


def test_a_run_with_dfr_and_lc_is_loaded_with_their_models(tmp_path):
    settings = resolve(
        dataset="digits",
        overrides={"train.epochs": 3, "data.options.per_class": 10, "methods": ["dfr", "lc"], "device.device": "cpu"},
    )
    splits = load_dataset(settings)
    made = run_methods(splits.train, splits.test, settings, val_set=splits.val, out=tmp_path / "run")
    found = tcsl.load_run(tmp_path / "run")
    x = splits.test.inputs[:5]
    assert all(torch.equal(found.models[name](x), made.models[name](x)) for name in ("dfr", "lc"))


def test_views_of_a_pair_are_the_debiased_nets(tmp_path):
    for method in ("lff", "lc"):
        seen = []
        settings = {**QUICK, "train.views_every": 8}
        debias(method, tmp_path / method, settings=settings, report=lambda epoch, seen=seen: seen.append(epoch.views))
        assert len(seen[-1]["x"]["mean_logits"][0]) == 3


# ULA on images: rows have no views, so the contract above never pretrains.


class DigitsHeadFirst(HeadFirst):
    def __init__(self, classes):
        super().__init__(classes, size=3 * 8 * 8)


def on_digits(method, out, *, epochs=4, net=None, report=None, **changes):
    settings = resolve(
        dataset="digits",
        overrides={
            "train.epochs": epochs,
            "data.options.per_class": 6,
            "methods": [method],
            "device.device": "cpu",
            "device.threads": 1,
            **changes,
        },
    )
    splits = load_dataset(settings)
    return run_methods(splits.train, splits.test, settings, net=net, out=out, resume=True, report=report)


@pytest.mark.parametrize(
    ("n", "size"),  # 98 by 32 would end with 17 and 17, 100 with 18 and 18; of one pair there is no correlation
    [(48, 32), (49, 32), (50, 32), (51, 32), (49, 31), (41, 4), (41, 3), (40, 2), (41, 1)],
)
def test_ula_sees_the_two_views_of_a_sample_in_the_two_halves_of_a_batch(n, size, tmp_path, monkeypatch):
    batches = []

    def seen(redundancy):
        objective = twins(redundancy)
        return lambda projected, batch: (batches.append(batch.indices), objective(projected, batch))[1]

    monkeypatch.setattr("tcsl.methods.ula.twins", seen)
    images = torch.randint(256, (n, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    settings = {
        "train.epochs": 2,
        "train.batch_size": size,
        "train.lr": 1e-3,
        "device.device": "cpu",
        "method_presets": False,
    }
    planned = {}
    tcsl.debias(
        (images.numpy(), np.arange(n) % 2),
        settings=settings,
        methods=["ula"],
        out=tmp_path / "run",
        page=False,
        report=lambda epoch: planned.update({epoch.stage: epoch.steps}),
    )
    assert batches
    for batch in batches:
        first, second = batch.chunk(2)
        assert len(first) > 1
        assert torch.equal(first + n, second)
    assert planned == planned_stages(resolve(overrides={**settings, "methods": ["ula"]}), images.shape)


@pytest.mark.parametrize("stage", ["ula-pretraining", "ula"])
def test_ula_on_images_goes_on_to_the_same_bytes_where_it_is_stopped(stage, tmp_path, monkeypatch):
    monkeypatch.setattr("tcsl.training.checkpoint.Checkpoint", partial(Checkpoint, share=1e9))
    on_digits("ula", tmp_path / "whole")

    def stop(epoch):
        if epoch.epoch == 2 and epoch.stage == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_digits("ula", tmp_path / "stopped", report=stop)
    run = on_digits("ula", tmp_path / "stopped")
    files = sorted((tmp_path / "whole" / "checkpoints").iterdir())
    assert {"ula-pretraining.safetensors", "ula.safetensors"} <= {file.name for file in files}
    for file in files:
        assert file.read_bytes() == (tmp_path / "stopped" / "checkpoints" / file.name).read_bytes()
    assert not hooks_of(run.models["ula"])


@pytest.mark.parametrize(("pretraining", "message"), [(1, "NoLinearOfDigits has none"), (0, "has no Linear layer")])
def test_ula_needs_features_of_images_and_says_so_before_anything_is_made(pretraining, message, tmp_path):
    class NoLinearOfDigits(NoLinear):
        def forward(self, x):
            return super().forward(x.mean((2, 3))[:, [0, 1, 2, 0]])

    with pytest.raises(InputError, match=message):
        on_digits("ula", tmp_path / "run", net=NoLinearOfDigits, **{"method.ula.pretraining": pretraining})
    assert not (tmp_path / "run").exists()


def test_ula_pretrains_a_net_whose_head_is_defined_first(tmp_path):
    """The body learns from the views; the head, which their loss does not reach, stays as it was made."""
    run = on_digits("ula", tmp_path / "run", net=DigitsHeadFirst, epochs=2)
    fresh = build_net(DigitsHeadFirst, load(0, per_class=6).train, seed=derive(0, "final")).state_dict()
    pretrained, _ = load_tensors(run.path / "checkpoints" / "ula-pretraining.safetensors")
    assert torch.equal(pretrained["net.1.head.weight"], fresh["1.head.weight"])
    assert not torch.equal(pretrained["net.1.body.weight"], fresh["1.body.weight"])


def test_ula_pretrains_with_a_learning_rate_of_its_own(tmp_path):
    kept = {}
    for name, lr in (("same", {}), ("given", {"method.ula.pretraining_lr": 1e-3})):
        on_digits("ula", tmp_path / name, epochs=2, **lr)
        kept[name], _ = load_tensors(tmp_path / name / "checkpoints" / "ula-pretraining.safetensors")
    assert any(not torch.equal(kept["same"][name], kept["given"][name]) for name in kept["same"])


@pytest.mark.parametrize(("method", "stages"), [("cnc", {"cnc-early", "cnc"}), ("ula", {"ula-pretraining", "ula"})])
@pytest.mark.filterwarnings("ignore::tcsl.errors.TcslWarning")  # an early model may get a class all right
def test_views_of_a_net_with_its_features_are_the_nets(method, stages, tmp_path):
    seen = {}
    on_digits(
        method,
        tmp_path / "run",
        epochs=2,
        report=lambda epoch: seen.update({epoch.stage: epoch.views}),
        **{"train.views_every": 1},
    )
    assert stages <= seen.keys()
    assert all(len(seen[stage]["x"]["mean_logits"][0]) == 10 for stage in stages)
