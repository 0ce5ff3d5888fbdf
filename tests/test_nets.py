"""Nets: by name, by factory, and what does not fit."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import tcsl
from tcsl.data.convert import as_dataset
from tcsl.data.digits import load
from tcsl.errors import InputError
from tcsl.registry import NETS, Registry
from tcsl.training.nets import Normalise, NoWeights, build_net

ROWS = as_dataset((np.random.default_rng(0).normal(5, 3, (50, 4)), np.arange(50) % 2))
IMAGES = load(0, per_class=5).train


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("auto", ROWS),
        ("mlp", IMAGES),
        ("auto", IMAGES),
        ("torchvision:resnet18", IMAGES),
        ("torchvision:densenet121", None),
    ],
)
def test_nets_by_name(name, data):
    if data is None:
        data = as_dataset((np.zeros((4, 3, 32, 32), np.uint8), [0, 1, 0, 1]))
    net = build_net(name, data, seed=0).eval()
    assert net(data.inputs[:2]).shape == (2, data.num_classes)


@pytest.mark.parametrize("size", [(4, 4), (5, 7), (8, 8), (9, 11), (14, 13), (28, 28), (33, 64)])
def test_small_cnn_takes_any_size(size):
    data = as_dataset((np.zeros((4, 2, *size), np.uint8), [0, 1, 0, 1]))
    assert build_net("small_cnn", data, seed=0)(data.inputs[:2]).shape == (2, 2)


def test_a_timm_net_with_one_channel():
    data = as_dataset((np.zeros((4, 1, 32, 32), np.uint8), [0, 1, 0, 1]))
    assert build_net("timm:test_resnet", data, seed=0).eval()(data.inputs[:2]).shape == (2, 2)


def test_the_same_seed_gives_the_same_weights():
    first, second, other = (build_net("mlp", ROWS, seed=s) for s in (1, 1, 2))
    assert torch.equal(first[1][1].weight, second[1][1].weight)
    assert not torch.equal(first[1][1].weight, other[1][1].weight)


def test_rows_and_bytes_are_standardised_and_float_images_are_not():
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            seen.append(x)
            return self.scale * x.flatten(1)[:, :2]

    for data in (
        ROWS,
        as_dataset((np.random.default_rng(0).integers(0, 256, (40, 2, 4, 4)).astype(np.uint8), np.arange(40) % 2)),
    ):
        build_net(lambda classes: Spy(), data, seed=0)(data.inputs)
        values = seen[-1]
        axes = [0, *range(2, values.ndim)]
        assert torch.allclose(values.mean(axes), torch.zeros(values.shape[1]), atol=1e-5)
        assert torch.allclose(values.std(axes, unbiased=False), torch.ones(values.shape[1]), atol=1e-4)
    floats = as_dataset((np.random.default_rng(0).normal(5, 3, (4, 1, 2, 2)), [0, 1, 0, 1]))
    build_net(lambda classes: Spy(), floats, seed=0)(floats.inputs)
    assert torch.equal(seen[-1], floats.inputs)


def test_a_constant_feature_does_not_divide_by_zero():
    data = as_dataset((np.ones((4, 2)), [0, 1, 0, 1]))
    assert torch.isfinite(build_net("auto", data, seed=0)(data.inputs)).all()


@pytest.mark.parametrize(
    ("net", "data", "message"),
    [
        ("small_cn", IMAGES, "did you mean 'small_cnn'"),
        ("small_cnn", ROWS, "takes images"),
        ("torchvision:resnet19", IMAGES, "unknown torchvision net 'resnet19'; did you mean"),
        ("timm:resnet19", IMAGES, "unknown timm net"),
        ("torchvision:resnet18", as_dataset((np.zeros((4, 1, 8, 8)), [0, 1, 0, 1])), "takes 3 channels, got 1"),
        ("torchvision:squeezenet1_0", IMAGES, "no linear head"),
        (lambda classes: 5, ROWS, "must return a torch.nn.Module, got int"),
        (lambda classes: nn.Linear(9, classes), ROWS, "does not take inputs of shape"),
        (lambda classes: nn.Linear(4, classes + 1), ROWS, r"logits of shape \(batch, 2\), got \(2, 3\)"),
        ("small_cnn", as_dataset((np.zeros((4, 1, 3, 3)), [0, 1, 0, 1])), "4 x 4 or more"),
    ],
)
def test_nets_that_do_not_fit(net, data, message):
    with pytest.raises(InputError, match=message):
        build_net(net, data, seed=0)


def test_a_net_can_be_registered():
    registry = Registry("net", {"mlp": "tcsl.training.nets:mlp"})
    registry.add("mine", lambda shape, classes: nn.Linear(shape[0], classes))
    assert registry.names() == ["mlp", "mine"]
    assert "mine" in registry
    with pytest.raises(InputError, match="registered already"):
        registry.add("mlp", None)
    assert callable(NETS.get("small_cnn"))


@pytest.mark.parametrize(
    ("net", "why"),
    [
        ("small_cnn", "small_cnn has no published weights"),
        ("mlp", "mlp has no published weights"),
        (lambda classes: nn.Linear(4, classes), "a factory loads its own weights"),
    ],
)
def test_pretrained_is_for_published_nets(net, why):
    with pytest.raises(InputError, match=f"is for nets of torchvision and timm; {why}: set train.pretrained=false"):
        build_net(net, ROWS, seed=0, pretrained=True)


def breaking(classes):
    raise OSError("no such file")


def frozen(classes):
    return nn.Linear(4, classes).requires_grad_(False)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Linear(4, 2), "got a module: each model needs fresh weights, so give a function that makes it"),
        (lambda: nn.Linear(4, 2), r"the net factory, called with \d, .* failed: TypeError"),
        (breaking, r"failed: OSError\('no such file'\)"),
        (lambda classes: nn.Identity(), "no parameter that could be trained"),
        (frozen, "no parameter that could be trained"),
    ],
)
def test_factories_that_give_no_net(net, message):
    with pytest.raises(InputError, match=message):
        build_net(net, ROWS, seed=0)


def test_a_net_that_refuses_its_inputs_by_an_assertion_is_said():
    with pytest.raises(InputError, match="the net does not take inputs of shape"):
        build_net("torchvision:vit_b_16", IMAGES, seed=0)


def test_outputs_beside_the_logits_in_training_are_said():
    class Two(nn.Linear):
        def forward(self, x):
            logits = super().forward(x)
            return (logits, logits) if self.training else logits

    with pytest.raises(InputError, match="the net returned tuple where logits were expected: if it has auxiliary"):
        tcsl.train((np.zeros((4, 3)), [0, 1, 0, 1]), net=lambda classes: Two(3, classes))


def test_an_error_about_weights_reaches_another_process():
    error = pickle.loads(pickle.dumps(NoWeights("they cannot be had", "no network")))
    assert (str(error), error.why) == ("they cannot be had", "no network")
    assert str(type(error)("seed 1: they cannot be had")) == "seed 1: they cannot be had"


def test_published_weights_that_cannot_be_had_are_said(monkeypatch, tmp_path):
    """A proxy that refuses and an empty cache: a machine without a network."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"torchvision:resnet18 could not be made.*train.pretrained=false"):
        build_net("torchvision:resnet18", IMAGES, seed=0, pretrained=True)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_normalising_is_the_same_in_every_layout_and_leaves_its_inputs_alone(dtype, layout):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (5, 3, 7, 6), generator=generator).to(dtype).contiguous(memory_format=layout)
    before = images.clone()
    mean, std = torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1), torch.tensor([0.2, 0.3, 0.4]).view(3, 1, 1)
    found = Normalise(mean, std, 255.0)(images)
    assert torch.allclose(found, (before / 255 - mean) / std, atol=1e-5)
    assert torch.equal(images, before)
    grey = Normalise(torch.zeros(1), torch.ones(1), 1.0)(images.float())
    assert torch.equal(grey, before.float())


def test_weights_from_a_file(tmp_path):
    """Everything but the head is taken from the file, whatever head it has; inputs are normalised as published."""
    from safetensors.torch import save_file
    from torchvision.models import resnet18

    donor = resnet18(num_classes=7)
    save_file(donor.state_dict(), tmp_path / "w.safetensors")
    torch.save(donor.state_dict(), tmp_path / "w.pth")
    for name in ("w.safetensors", "w.pth"):
        net = build_net("torchvision:resnet18", IMAGES, seed=0, weights=str(tmp_path / name))
        assert torch.equal(net[1].layer3[0].conv1.weight, donor.layer3[0].conv1.weight)
        assert net[1].fc.out_features == IMAGES.num_classes
        assert net[0].scale.flatten()[0].item() == pytest.approx(1 / (255 * 0.229))
    again = build_net("torchvision:resnet18", IMAGES, seed=0, weights=str(tmp_path / "w.pth"))
    assert torch.equal(net[1].fc.weight, again[1].fc.weight)


class HeadFirst(nn.Module):
    """A net that defines its layers in another order than it runs them."""

    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(7, classes)
        self.body = nn.Linear(3 * 8 * 8, 7)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)).relu())


class Halved(HeadFirst):
    """A net of which no layer gives the logits."""

    def forward(self, x):
        return super().forward(x) / 2


def test_of_weights_from_a_file_the_layer_that_gives_the_logits_may_differ_and_no_other(tmp_path):
    donor = HeadFirst(5).state_dict()
    torch.save(donor, tmp_path / "w.pth")
    net = build_net(HeadFirst, IMAGES, seed=0, weights=str(tmp_path / "w.pth"))[1]
    assert torch.equal(net.body.weight, donor["body.weight"])
    assert torch.equal(net.head.weight, build_net(HeadFirst, IMAGES, seed=0)[1].head.weight)
    with pytest.raises(InputError, match=r"2 of its 4 tensors are missing or have another shape, such as head\.weight"):
        build_net(Halved, IMAGES, seed=0, weights=str(tmp_path / "w.pth"))
    torch.save({name: tensor for name, tensor in donor.items() if name.startswith("head")}, tmp_path / "head.pth")
    with pytest.raises(InputError, match=r"2 of its 4 tensors are missing or have another shape, such as body\.weight"):
        build_net(HeadFirst, IMAGES, seed=0, weights=str(tmp_path / "head.pth"))


def test_rows_keep_their_own_normalisation_with_weights_from_a_file(tmp_path):
    donor = build_net("mlp", ROWS, seed=1)
    torch.save(donor[1].state_dict(), tmp_path / "w.pth")
    net = build_net("mlp", ROWS, seed=0, weights=str(tmp_path / "w.pth"))
    assert torch.equal(net[0](ROWS.inputs), donor[0](ROWS.inputs))


def test_weights_that_do_not_fit_are_refused(tmp_path):
    from safetensors.torch import save_file
    from torchvision.models import resnet18

    save_file(resnet18().state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(
        InputError, match=r"does not fit the net: \d+ of its \d+ tensors .* such as layer1.0.conv1.weight"
    ):
        build_net("torchvision:resnet50", IMAGES, seed=0, weights=str(tmp_path / "w.safetensors"))
    with pytest.raises(InputError, match=r"missing\.pth does not exist"):
        build_net("torchvision:resnet18", IMAGES, seed=0, weights=str(tmp_path / "missing.pth"))
    (tmp_path / "bad.pth").write_bytes(b"no weights")
    with pytest.raises(InputError, match="is not a file of weights"):
        build_net("torchvision:resnet18", IMAGES, seed=0, weights=str(tmp_path / "bad.pth"))
    torch.save({"layer": nn.Linear(2, 2)}, tmp_path / "object.pth")  # a pickled object: never loaded
    with pytest.raises(InputError, match="is not a file of weights"):
        build_net("torchvision:resnet18", IMAGES, seed=0, weights=str(tmp_path / "object.pth"))


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_weights_that_are_not_finite_are_refused(value, tmp_path):
    from safetensors.torch import save_file
    from torchvision.models import resnet18

    weights = resnet18().state_dict()
    weights["bn1.running_var"][45] = value
    save_file(weights, tmp_path / "w.safetensors")
    message = r"w\.safetensors has infinite or NaN values in bn1\.running_var\. float16 holds nothing above 65,504"
    with pytest.raises(InputError, match=message):
        build_net("torchvision:resnet18", IMAGES, seed=0, weights=str(tmp_path / "w.safetensors"))
    weights["bn1.running_var"][45] = 83_614.7
    save_file({name: tensor.to(torch.float16) for name, tensor in weights.items()}, tmp_path / "half.safetensors")
    with pytest.raises(InputError, match=r"half\.safetensors has infinite"):
        build_net("torchvision:resnet18", IMAGES, seed=0, weights=str(tmp_path / "half.safetensors"))


class Masked(nn.Linear):
    """Has a table whose values are infinite on purpose, as masks of attention are."""

    def __init__(self, classes):
        super().__init__(8, classes)
        self.register_buffer("mask", torch.full((2,), -torch.inf))

    def forward(self, x):
        return super().forward(x.flatten(1)[:, :8])


def test_a_mask_may_be_infinite(tmp_path):
    torch.save(Masked(10).state_dict(), tmp_path / "w.pth")
    assert build_net(Masked, IMAGES, seed=0, weights=str(tmp_path / "w.pth"))[1].mask.isinf().all()


def test_the_original_resnet50_strides_in_its_first_convolutions():
    net = build_net("resnet50_v1", IMAGES, seed=0)[1]
    for stage in (net.layer2, net.layer3, net.layer4):
        assert (stage[0].conv1.stride, stage[0].conv2.stride) == ((2, 2), (1, 1))
    with pytest.raises(InputError, match="takes images"):
        build_net("resnet50_v1", ROWS, seed=0)


def test_published_nets_keep_their_own_normalisation():
    import timm

    from tcsl.training.nets import _published_normalise

    inception = timm.create_model("inception_v3", pretrained=False)
    mean, std = inception.pretrained_cfg["mean"], inception.pretrained_cfg["std"]
    white = as_dataset((np.full((4, 3, 8, 8), 255, np.uint8), [0, 1, 0, 1]))
    found = _published_normalise(inception, white)(white.inputs)[0, :, 0, 0]
    assert found.tolist() == pytest.approx([(1 - m) / s for m, s in zip(mean, std, strict=True)], rel=1e-4)
    grey = as_dataset((np.zeros((4, 1, 8, 8), np.uint8), [0, 1, 0, 1]))
    assert _published_normalise(nn.Identity(), grey)(grey.inputs)[0, 0, 0, 0].item() == pytest.approx(-0.449 / 0.226)


@pytest.fixture
def published(monkeypatch, tmp_path):
    """Return a function that lays weights of a torchvision net where a download would, and returns their file."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)

    def lay(name, **options):
        from torchvision import models

        url = models.get_model_weights(name).DEFAULT.url
        place = tmp_path / "hub" / "checkpoints" / url.rpartition("/")[2]
        torch.save(models.get_model(name, weights=None, **options).state_dict(), place)
        return place

    return lay


def test_a_trained_net_is_loaded_where_its_published_weights_are_gone(published):
    place = published("resnet18")
    trained = build_net("torchvision:resnet18", IMAGES, seed=0, pretrained=True)
    place.unlink()
    empty = build_net("torchvision:resnet18", IMAGES, seed=1, pretrained=True, start=False)
    empty.load_state_dict(trained.state_dict())
    x = torch.rand(2, 3, 64, 64)
    assert torch.equal(empty.eval()(x), trained.eval()(x))


def test_a_net_that_has_other_layers_with_published_weights_has_these_when_a_trained_one_is_loaded(published):
    published("googlenet", aux_logits=True, init_weights=False)
    photos = as_dataset((np.zeros((4, 3, 64, 64), np.uint8), [0, 1, 0, 1]))
    trained, empty = (
        build_net("torchvision:googlenet", photos, seed=0, pretrained=True, start=start) for start in (True, False)
    )
    assert str(empty) == str(trained)
    empty.load_state_dict(trained.state_dict())
