"""Augmentation on the device, a batch at once.

What happens to a sample depends on the seed, the epoch and a number, not on the batch it is in: the random numbers are
a hash of these three, so nothing is stored and a resumed or re-batched run repeats them. The number is the sample's
index, and where an epoch draws it again another (`draw_keys`). Nothing here waits for the device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from tcsl.augmentations import check_augment, parts
from tcsl.errors import InputError

AREA = (0.08, 1.0)  # of a resized crop, as a part of the image's
ASPECT = (3 / 4, 4 / 3)  # width over height of a resized crop
FACTOR = (0.6, 1.4)  # of brightness, contrast and saturation
_PAD = 8  # crops move by up to 1/8 of the side
_GREY = (0.2989, 0.587, 0.114)

# Which random numbers decide what. A new use takes new ones, below 31, where the next epoch's begin.
_SHIFT, _FLIP, _BOX, _JITTER = range(2), range(2, 3), range(3, 7), range(7, 10)
MIXUP = range(10, 12)  # of LC: the partner, and its share


def augment(name: str, images: Tensor, index: Tensor, *, seed: int, epoch: int | Tensor) -> Tensor:
    """Return augmented images, same shape and memory format.

    Parameters
    ----------
    name : `none`, or some of these joined with +; they are applied in this order, whatever the order of the names

        - crop: shifted by up to an eighth of the side, edges repeated
        - resized_crop: a random box (`draw_boxes`), stretched to the whole image
        - flip: left to right, half of the samples
        - jitter: brightness, contrast and saturation (`draw_factors`)
    images : (batch, channels, height, width), uint8 or float. flip and crop keep the dtype; resized_crop and jitter
        return float32 in the same range, 0..255 for uint8. jitter takes other images to be in 0..1, and clamps them
    index : (batch,) the samples' indices, or their draws' keys

    >>> images = torch.arange(6, dtype=torch.uint8).view(1, 1, 2, 3)
    >>> augment("flip", images, torch.tensor([4]), seed=0, epoch=0).tolist()
    [[[[2, 1, 0], [5, 4, 3]]]]
    """
    check_augment(name)
    chosen = parts(name)
    top = 255.0 if images.dtype == torch.uint8 else 1.0
    if "crop" in chosen:
        images = _shift(images, *_draw(index, seed, epoch, _SHIFT))
    if "resized_crop" in chosen:
        height, width = images.shape[2:]
        images = resized_crop(images, draw_boxes(index, height, width, seed=seed, epoch=epoch))
    if "flip" in chosen:
        (u,) = _draw(index, seed, epoch, _FLIP)
        images = torch.where((u < 0.5)[:, None, None, None], images.flip(3), images)
    if "jitter" in chosen:
        images = jitter(images, draw_factors(index, seed=seed, epoch=epoch), top=top)
    return images


def draw_keys(visited: Tensor) -> Tensor:
    """Return a number for each draw of an epoch, (n,), by which it is augmented: the sample's, where it is its first.

    Parameters
    ----------
    visited : (n,) the samples' indices, below n, in the order in which they are drawn

    >>> draw_keys(torch.tensor([2, 0, 2, 2])).tolist()
    [2, 0, 6, 10]
    """
    n = len(visited)
    order = visited.argsort(stable=True)
    same = visited[order]
    first = torch.searchsorted(same, same)  # where the draws of a sample begin
    before = torch.empty_like(visited)
    before[order] = torch.arange(n) - first
    return visited + n * before


def check_inputs(name: str, inputs: Tensor) -> None:
    """Refuse inputs (n, ...) that an augmentation is not for.

    >>> check_inputs("flip", torch.zeros(4, 3))
    Traceback (most recent call last):
    tcsl.errors.InputError: augment='flip' is for images, got inputs of 1 dimensions
    """
    if name == "none":
        return
    if inputs.ndim != 4:
        raise InputError(f"augment={name!r} is for images, got inputs of {inputs.ndim - 1} dimensions")
    if "jitter" in parts(name):
        _check_channels(inputs)
        if inputs.dtype != torch.uint8:
            low, high = (float(value) for value in inputs.aminmax())
            if low < 0 or high > 1:
                raise InputError(f"augment 'jitter' needs bytes, or floats from 0 to 1, got {low:g} to {high:g}")


def _check_channels(images: Tensor) -> None:
    if images.shape[1] not in (1, 3):
        raise InputError(f"augmentation 'jitter' is for images of 1 or 3 channels, got {images.shape[1]}")


def uniform(index: Tensor, seed: int, epoch: int | Tensor, stream: int | Tensor) -> Tensor:
    """Return one number in [0, 1) for each sample, by integer hashing; float32, the same on every device.

    Parameters
    ----------
    index : (batch,) the samples' indices
    stream : which of a sample's numbers; (k, 1) of them give (k, batch)

    >>> uniform(torch.arange(2), 0, 0, torch.tensor([[3], [4], [5]])).shape
    torch.Size([3, 2])
    """
    key = (((seed * 1_000_003) & 0x7FFFFFFF) + epoch * 31 + stream) & 0x7FFFFFFF
    h = (index * 0x9E3779B1 + key * 0x85EBCA77) & 0xFFFFFFFF
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97), (15, 1)):
        h = ((h ^ (h >> shift)) * factor) & 0xFFFFFFFF
    return (h >> 8).float() / 2**24


def draw_boxes(index: Tensor, height: int, width: int, *, seed: int, epoch: int | Tensor) -> Tensor:
    """Draw a box for each sample, as torchvision's RandomResizedCrop: area uniform, aspect uniform in its logarithm.

    A box that does not fit is not drawn again: its sides are clamped to the image's, so it is smaller than drawn and
    of another aspect. Drawing again would need the host to look, or a fixed number of spare draws.

    Parameters
    ----------
    index : (batch,) the samples' indices

    Returns
    -------
    (batch, 4) top, left, height and width in whole pixels; int64

    >>> draw_boxes(torch.arange(2), 32, 32, seed=0, epoch=0).shape
    torch.Size([2, 4])
    """
    u_area, u_aspect, u_top, u_left = _draw(index, seed, epoch, _BOX)
    area = height * width * _between(AREA, u_area)
    aspect = _between((math.log(ASPECT[0]), math.log(ASPECT[1])), u_aspect).exp()
    rows = (area / aspect).sqrt().round().clamp(1, height).long()
    columns = (area * aspect).sqrt().round().clamp(1, width).long()
    top = (u_top * (height - rows + 1)).long()
    left = (u_left * (width - columns + 1)).long()
    return torch.stack([top, left, rows, columns], 1)


def resized_crop(images: Tensor, boxes: Tensor) -> Tensor:
    """Stretch a box of each image to the whole image, bilinearly; pixels outside the box play no part.

    The same as to cut out the box and `interpolate` it, but for rounding (2e-5 of the range at 224 x 224). Boxes are
    never larger than the image, so there is nothing to antialias.

    Parameters
    ----------
    images : (batch, channels, height, width)
    boxes : (batch, 4) top, left, height and width in whole pixels

    Returns
    -------
    (batch, channels, height, width) float32

    >>> resized_crop(torch.tensor([[[[0, 8, 50, 50]]]]), torch.tensor([[0, 0, 1, 2]])).round(decimals=3)
    tensor([[[[0., 2., 6., 8.]]]])
    """
    batch, _, height, width = images.shape
    top, left, rows, columns = boxes.unbind(1)
    y = _positions(top, rows, height)[:, :, None].expand(batch, height, width)
    x = _positions(left, columns, width)[:, None, :].expand(batch, height, width)
    # 32 images of 224 x 224 take 16 ms on one CPU core; gathering the four neighbours of each pixel took 160.
    stretched = grid_sample(images.float(), torch.stack([x, y], 3), align_corners=False)
    return stretched.contiguous(memory_format=_layout(images))


def draw_factors(index: Tensor, *, seed: int, epoch: int | Tensor) -> Tensor:
    """Draw the factors of brightness, contrast and saturation for each sample: (batch, 3) float32.

    >>> draw_factors(torch.arange(2), seed=0, epoch=0).shape
    torch.Size([2, 3])
    """
    return _between(FACTOR, torch.stack(_draw(index, seed, epoch, _JITTER), 1))


def jitter(images: Tensor, factors: Tensor, *, top: float) -> Tensor:
    """Change brightness, then contrast, then saturation, as torchvision's adjust_brightness and so on.

    Each blends the image with another: black, its mean grey level, its grey image. One channel is grey already.

    Parameters
    ----------
    images : (batch, 1 or 3, height, width)
    factors : (batch, 3) of brightness, contrast and saturation; 1 changes nothing
    top : values are clamped to 0..top after each

    Returns
    -------
    (batch, 1 or 3, height, width) float32

    >>> jitter(torch.tensor([[[[0.2, 0.4]]]]), torch.tensor([[2.0, 0.5, 1.0]]), top=1.0)
    tensor([[[[0.5000, 0.7000]]]])
    """
    _check_channels(images)
    brightness, contrast, saturation = factors[:, :, None, None, None].unbind(1)
    images = (images.float() * brightness).clamp_(0, top)  # a copy, changed in place from here on
    images = _blend(images, _grey(images).mean((1, 2, 3), keepdim=True), contrast, top)
    return images if images.shape[1] == 1 else _blend(images, _grey(images), saturation, top)


def _draw(index: Tensor, seed: int, epoch: int | Tensor, streams: range) -> tuple[Tensor, ...]:
    """Return one `uniform` for each stream, hashed together: on a GPU the launches are what a small batch costs."""
    numbers = torch.arange(streams.start, streams.stop, device=index.device)
    return uniform(index, seed, epoch, numbers[:, None]).unbind(0)


def _between(limits: tuple[float, float], u: Tensor) -> Tensor:
    return limits[0] + (limits[1] - limits[0]) * u


def _layout(images: Tensor) -> torch.memory_format:
    last = images.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def _shift(images: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Move each image by up to 1/8 of its side in both directions; pixels from outside repeat the edge."""
    batch, channels, height, width = images.shape

    def positions(side: int, move: Tensor) -> Tensor:
        reach = max(1, side // _PAD)
        offset = (move * (2 * reach + 1)).long() - reach
        return (torch.arange(side, device=images.device) + offset[:, None]).clamp(0, side - 1)

    rows, columns = positions(height, u), positions(width, v)
    moved = images.gather(2, rows[:, None, :, None].expand(batch, channels, height, width))
    moved = moved.gather(3, columns[:, None, None, :].expand(batch, channels, height, width))
    return moved.contiguous(memory_format=_layout(images))


def _positions(start: Tensor, length: Tensor, side: int) -> Tensor:
    """Return where each of `side` output pixels lies in the input, -1..1 from edge to edge: (batch, side)."""
    # Counted in 1 / (2 side) of a pixel, these are whole numbers, so that they are rounded once. Clamped to the
    # centres of the box's first and last pixel, they mix in nothing from outside the box or the image.
    unit = 2 * side
    at = (torch.arange(1, unit, 2, device=start.device) * length[:, None] - side).clamp_min(0)
    at = unit * start[:, None] + torch.minimum(at, unit * (length[:, None] - 1))
    return (at + side - side * side).float() / (side * side)


def _blend(images: Tensor, other: Tensor, factor: Tensor, top: float) -> Tensor:
    """Return factor images + (1 - factor) other, clamped to 0..top."""
    # In place: jitter of 32 images of 224 x 224 takes 30 ms on one CPU core, rather than 50.
    return images.mul_(factor).add_(other * (1 - factor)).clamp_(0, top)


def _grey(images: Tensor) -> Tensor:
    """Return the grey level of each pixel, (batch, 1, height, width)."""
    if images.shape[1] == 1:
        return images
    # Three numbers, not a tensor of weights: to copy one to the device would wait for it.
    red, green, blue = images.unbind(1)
    return (_GREY[0] * red + _GREY[1] * green + _GREY[2] * blue)[:, None]
