"""Backbones: two small nets of our own, any name of torchvision or timm, or any factory of the caller's.

A net takes the raw inputs of the dataset: `Normalise` is its first layer, so a saved model is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from tcsl.config import DeviceSettings
from tcsl.data.dataset import Dataset
from tcsl.errors import InputError
from tcsl.registry import NETS, unknown
from tcsl.seeds import derive
from tcsl.training.device import all_finite, choose, drawing_from
from tcsl.training.features import last_linear
from tcsl.training.feed import Feed

NetFactory: TypeAlias = Callable[[int], nn.Module]  # from the number of classes

# With published weights these have other layers than without: heads to train with, a size of image, a BatchNorm's eps.
_OTHER_LAYERS = (
    "torchvision:googlenet",
    "torchvision:inception_v3",
    "torchvision:quantized_googlenet",
    "torchvision:quantized_inception_v3",
    "torchvision:vit_h_14",
    "timm:fbnetc_100",
)
_NORMALISE_FROM = 2048  # samples at least, where there are more
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class Normalise(nn.Module):
    """Raw inputs to float32: scale and shift, one value a channel or feature, in two passes over the batch."""

    scale: Tensor
    shift: Tensor

    def __init__(self, mean: Tensor, std: Tensor, unit: float) -> None:
        """Take mean and deviation of inputs that were divided by `unit` (255 for bytes)."""
        super().__init__()
        self.register_buffer("scale", 1 / (unit * std))
        self.register_buffer("shift", -mean / std)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised inputs, same shape; arrays and float64 are taken, too."""
        if not isinstance(x, Tensor):
            x = torch.as_tensor(x, device=self.scale.device)
        if x.dtype == torch.float64:
            x = x.float()
        if x.device.type == "cpu" and x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last):
            # Whole rows of pixels at once: a CPU's loop over three channels is slow (128 images of 224: 59 -> 31 ms).
            n, channels, height, width = x.shape
            rows = x.permute(0, 2, 3, 1).reshape(n * height, width * channels)
            scale, shift = (part.expand(channels, 1, 1).flatten().repeat(width) for part in (self.scale, self.shift))
            copied = rows.to(torch.float32, copy=True)  # floats, too: the inputs are not ours to change
            return copied.mul_(scale).add_(shift).view(n, height, width, channels).permute(0, 3, 1, 2)
        return (x * self.scale).add_(self.shift)


def small_cnn(inputs: tuple[int, ...], num_classes: int) -> nn.Module:
    """Return four convolutions and a linear layer, without BatchNorm, for small images (channels, height, width).

    >>> small_cnn((3, 8, 8), 10)(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 10])
    """
    channels, height, width = inputs
    if min(height, width) < 4:
        raise InputError(f"small_cnn needs images of 4 x 4 or more, got {height} x {width}; use net='mlp'")

    def block(fan_in: int, fan_out: int) -> list[nn.Module]:
        return [nn.Conv2d(fan_in, fan_out, 3, padding=1), nn.ReLU()]

    return nn.Sequential(
        *block(channels, 32),
        *block(32, 32),
        nn.MaxPool2d(2),
        *block(32, 64),
        *block(64, 64),
        # To 2 x 2. Adaptive pooling would do it, too, but is not repeatable on CUDA.
        nn.MaxPool2d(((height // 2 + 1) // 2, (width // 2 + 1) // 2), ceil_mode=True),
        nn.Flatten(),
        nn.Linear(256, num_classes),
    )


def mlp(inputs: tuple[int, ...], num_classes: int) -> nn.Module:
    """Return two hidden layers of 64, for rows of features.

    >>> mlp((5,), 3)(torch.zeros(2, 5)).shape
    torch.Size([2, 3])
    """
    width = int(torch.tensor(inputs).prod())
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(width, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, num_classes),
    )


def linear(inputs: tuple[int, ...], num_classes: int) -> nn.Module:
    """Return a linear layer, for embeddings.

    >>> linear((5,), 3)(torch.zeros(2, 5)).shape
    torch.Size([2, 3])
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(int(torch.tensor(inputs).prod()), num_classes))


def resnet50_v1(inputs: tuple[int, ...], num_classes: int) -> nn.Module:
    """Return the ResNet50 of the original paper, which strides in the first 1 x 1 convolution of a stage.

    torchvision's strides in the 3 x 3 one (v1.5). Weights converted from other libraries may need the original.
    """
    if inputs[0] != 3:
        raise InputError(f"resnet50_v1 takes 3 channels, got {inputs[0]}")
    net: Any = _torchvision("resnet50", num_classes, 3, pretrained=False)
    for stage in (net.layer2, net.layer3, net.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    made: nn.Module = net
    return made


def build_net(
    net: str | NetFactory,
    data: Dataset,
    *,
    seed: int,
    pretrained: bool = False,
    weights: str = "",
    start: bool = True,
) -> nn.Module:
    """Return a fresh net for this dataset, `Normalise` first; the same seed gives the same weights.

    Parameters
    ----------
    net : a name (`small_cnn`, `mlp`, `linear`, `torchvision:NAME`, `timm:NAME`, `auto`), or a factory from the
        number of classes to a module
    weights : a file of weights to start from, .safetensors or .pth; those of the linear layer that gives the logits are
        used where they fit
    start : whether `pretrained` or `weights` are loaded; not where a trained model's are next, and these may be gone.
        A few nets have other layers with published weights than without, and these are loaded
    """
    pretrained = pretrained and not weights
    if pretrained and (callable(net) or net.partition(":")[0] not in ("torchvision", "timm")):
        mine = "a factory loads its own weights" if callable(net) else f"{net} has no published weights"
        raise InputError(f"train.pretrained is for nets of torchvision and timm; {mine}: set train.pretrained=false")
    if isinstance(net, nn.Module):
        raise InputError(
            "net must be a name or a factory from the number of classes to a module, got a module: each model needs "
            "fresh weights, so give a function that makes it"
        )
    with drawing_from(derive(seed, "weights")):
        if callable(net):
            module = _from_factory(net, data.num_classes)
        else:  # timm has names with a tag, such as fbnetc_100.rmsp_in1k
            module = _by_name(net, data, pretrained and (start or net.partition(".")[0] in _OTHER_LAYERS))
    published = (pretrained or bool(weights)) and data.inputs.ndim > 2  # of rows, nothing is published
    model = nn.Sequential(_published_normalise(module, data) if published else _normalise(data), module)
    check_output(model, data)
    if weights and start:
        _load_weights(module, Path(weights), may_differ=_last_layer(model, data))
    return model


def _from_factory(make: NetFactory, classes: int) -> nn.Module:
    try:
        module = make(classes)
    except Exception as error:
        raise InputError(f"the net factory, called with {classes}, the number of classes, failed: {error!r}") from error
    if not isinstance(module, nn.Module):
        raise InputError(f"the net factory must return a torch.nn.Module, got {type(module).__name__}")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError("the net that the factory made has no parameter that could be trained")
    return module


def settled_name(name: str, shape: tuple[int, ...]) -> str:
    """Return the name of the net that `auto` stands for with inputs of this shape; other names stay.

    >>> settled_name("auto", (3, 8, 8))
    'small_cnn'
    """
    return name if name != "auto" else "small_cnn" if len(shape) == 3 else "mlp"


def _by_name(name: str, data: Dataset, pretrained: bool) -> nn.Module:
    shape = tuple(data.inputs.shape[1:])
    name = settled_name(name, shape)
    library, colon, model = name.partition(":")
    if colon and library in ("torchvision", "timm"):
        _need_images(name, shape)
        make = _torchvision if library == "torchvision" else _timm
        return make(model, data.num_classes, shape[0], pretrained)
    if name in ("small_cnn", "resnet50_v1"):
        _need_images(name, shape)
    if name not in NETS:
        raise unknown("net", name, [*NETS.names(), "auto", "torchvision:resnet50", "timm:resnet18"])
    module: nn.Module = NETS.get(name)(shape, data.num_classes)
    return module


def _need_images(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 3:
        raise InputError(f"net {name!r} takes images (channels, height, width), got inputs of shape {shape}")


def _torchvision(name: str, num_classes: int, channels: int, pretrained: bool) -> nn.Module:
    from torchvision import models

    if name not in models.list_models():
        raise unknown("torchvision net", name, models.list_models())
    if channels != 3:
        raise InputError(f"torchvision:{name} takes 3 channels, got {channels}; timm's nets take any number")
    with _downloading(f"torchvision:{name}"):
        module: nn.Module = models.get_model(name, weights="DEFAULT" if pretrained else None)
    for attribute in ("fc", "classifier", "head", "heads"):
        head = getattr(module, attribute, None)
        if isinstance(head, nn.Linear):
            setattr(module, attribute, nn.Linear(head.in_features, num_classes))
            return module
        if isinstance(head, nn.Sequential) and isinstance(head[-1], nn.Linear):
            head[-1] = nn.Linear(head[-1].in_features, num_classes)
            return module
    raise InputError(f"torchvision:{name} has no linear head to replace; pass a factory instead")


def _timm(name: str, num_classes: int, channels: int, pretrained: bool) -> nn.Module:
    import timm

    if not timm.is_model(name):
        raise unknown("timm net", name, timm.list_models())
    with _downloading(f"timm:{name}"):
        module: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=num_classes, in_chans=channels)
    return module


def _last_layer(model: nn.Module, data: Dataset) -> nn.Linear | None:
    """Return the linear layer that gives the logits; None where the net does not end in one."""
    try:
        return last_linear(model, Feed.of(data, choose(DeviceSettings(device="cpu")), how="stream"))
    except InputError:
        return None


def _load_weights(module: nn.Module, path: Path, *, may_differ: nn.Module | None) -> None:
    """Load a file of weights into a net; only tensors of one layer may be missing or have another shape.

    Values that are not finite are refused: an infinite running variance shows in no loss of the training, whose
    batches have statistics of their own, and puts out a channel in every evaluation.
    """
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            stored = load_file(path)
        else:
            stored = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"train.weights: {path} does not exist") from None
    except Exception as error:  # both libraries raise many kinds on damaged files
        line = str(error).strip().split("\n")[0][:200]
        raise InputError(f"train.weights: {path} is not a file of weights: {line}") from None
    own = module.state_dict()
    heads = [name for name, part in module.named_modules(remove_duplicate=False) if part is may_differ]
    fits = {k: v for k, v in stored.items() if k in own and isinstance(v, Tensor) and v.shape == own[k].shape}
    missing = [
        name
        for name in own
        if name not in fits and not name.endswith("num_batches_tracked") and name.rpartition(".")[0] not in heads
    ]
    if missing:
        raise InputError(
            f"train.weights: {path} does not fit the net: {len(missing)} of its {len(own)} tensors are missing or have "
            f"another shape, such as {missing[0]}"
        )
    if spoiled := [name for name, tensor in fits.items() if not all_finite([tensor]) and all_finite([own[name]])]:
        others = f" and {len(spoiled) - 1} other tensors" if len(spoiled) > 1 else ""
        raise InputError(
            f"train.weights: {path} has infinite or NaN values in {spoiled[0]}{others}. float16 holds nothing above "
            "65,504: if the file was made smaller that way, make it again in float32 or bfloat16"
        )
    module.load_state_dict(fits, strict=False)


class NoWeights(InputError):
    """A net whose published weights cannot be had, and why."""

    def __init__(self, message: str, why: str = "") -> None:
        """Take the whole message, and what the library said; another process makes it anew of the message alone."""
        super().__init__(message)
        self.why = why


@contextmanager
def _downloading(name: str) -> Iterator[None]:
    """Say what to do where published weights cannot be had."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise NoWeights(
            f"{name} could not be made: {error}. Its published weights need a network or a filled cache; "
            "train.pretrained=false starts from random ones",
            str(error),
        ) from None


def _published_normalise(module: nn.Module, data: Dataset) -> Normalise:
    """Return the shift and scale that the published weights were trained with; ImageNet's where nothing is said."""
    config = getattr(module, "pretrained_cfg", {})
    mean, std = (torch.tensor(config.get(key, values)) for key, values in zip(("mean", "std"), _IMAGENET, strict=True))
    channels = data.inputs.shape[1]
    if len(mean) != channels:
        mean, std = mean.mean().expand(channels), std.mean().expand(channels)
    unit = 255.0 if data.inputs.dtype == torch.uint8 else 1.0
    return Normalise(mean.view(-1, 1, 1), std.view(-1, 1, 1), unit)


def _normalise(data: Dataset) -> Normalise:
    """Choose shift and scale: the data's own for bytes and rows, none for float images."""
    # Every k-th sample is enough for a mean, and does not read a large mapped file from end to end.
    x = data.inputs[:: max(1, len(data) // _NORMALISE_FROM)]
    unit = 255.0 if x.dtype == torch.uint8 else 1.0
    if x.dtype != torch.uint8 and x.ndim > 2:
        return Normalise(torch.zeros(1), torch.ones(1), unit)
    axes = [0, *range(2, x.ndim)]
    shape = (-1, *[1] * (x.ndim - 2))
    if x.dtype == torch.uint8:
        # From a histogram of the 256 values: exact, and no float copy of the data.
        values = torch.arange(256, dtype=torch.float64) / unit
        counts = torch.stack([torch.bincount(x[:, c].flatten(), minlength=256) for c in range(x.shape[1])]).double()
        share = counts / counts.sum(1, keepdim=True)
        mean = share @ values
        std = (share @ values.square() - mean.square()).clamp_min(0).sqrt()
    else:
        mean, std = x.double().mean(axes), x.double().std(axes, unbiased=False)
    # A constant channel or feature is only shifted.
    std = torch.where(std > 1e-8, std, torch.ones_like(std))
    return Normalise(mean.float().view(shape), std.float().view(shape), unit)


def check_output(
    model: nn.Module, data: Dataset, *, device: torch.device | str = "cpu", more: bool = False, cure: str = ""
) -> None:
    """Run two samples through the net before all others; it may know `more` classes than the data have.

    `cure` is what to do where it has another number of them.
    """
    model.eval()
    try:
        with torch.inference_mode():
            out = model(data.inputs[:2].to(device))
    except Exception as error:
        raise InputError(
            f"the net does not take inputs of shape {tuple(data.inputs.shape[1:])} from {data.name}: {error}"
        ) from None
    batch, classes = min(2, len(data)), data.num_classes
    shape = tuple(out.shape) if isinstance(out, Tensor) else ()
    if shape != (batch, classes) and not (more and len(shape) == 2 and shape[0] == batch and shape[1] > classes):
        came = shape if isinstance(out, Tensor) else type(out).__name__
        or_more = " or more" * more
        what_to_do = f"; {cure}" * bool(cure)
        raise InputError(
            f"the net must return logits of shape (batch, {classes}{or_more}), got {came} for {batch}{what_to_do}"
        )
