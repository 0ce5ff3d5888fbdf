"""Augmentation: each sample by its seed, epoch and index alone, and against torchvision, one sample at a time."""

import math
import subprocess
import sys

import pytest
import torch
from torchvision.transforms import functional as vision

from tcsl.augmentations import AUGMENTATIONS, check_augment
from tcsl.errors import InputError
from tcsl.training import augment as module
from tcsl.training.augment import (
    augment,
    check_inputs,
    draw_boxes,
    draw_factors,
    draw_keys,
    jitter,
    resized_crop,
    uniform,
)

EVERYTHING = "resized_crop+flip+jitter"
NAMES = ["flip", "crop", "crop+flip", "resized_crop", "jitter", EVERYTHING]
FORMATS = [torch.contiguous_format, torch.channels_last]


def pictures(n=64, channels=3, height=20, width=28, dtype=torch.uint8):
    images = torch.randint(0, 256, (n, channels, height, width), generator=torch.Generator().manual_seed(0))
    return images.to(torch.uint8) if dtype == torch.uint8 else images.to(dtype) / 255


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_does_not_depend_on_its_batch(name, dtype):
    images, index = pictures(dtype=dtype), torch.arange(64) + 1000
    whole = augment(name, images, index, seed=3, epoch=2)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    permuted = augment(name, images[order], index[order], seed=3, epoch=2)
    alone = torch.cat([augment(name, images[i : i + 1], index[i : i + 1], seed=3, epoch=2) for i in range(64)])
    # The mean grey level of an image is a sum, whose order may follow the batch's size.
    atol = 1e-4 if "jitter" in name else 0
    torch.testing.assert_close(permuted, whole[order], atol=atol, rtol=0)
    torch.testing.assert_close(alone, whole, atol=atol, rtol=0)


@pytest.mark.parametrize("seed", range(5))
def test_every_draw_of_a_sample_has_a_key_of_its_own_and_the_first_is_the_sample(seed):
    visited = torch.randint(0, 30, (30,), generator=torch.Generator().manual_seed(seed))
    times, expected = [0] * 30, []
    for sample in visited.tolist():
        expected.append(sample + 30 * times[sample])
        times[sample] += 1
    assert draw_keys(visited).tolist() == expected
    order = torch.randperm(30, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(draw_keys(order), order)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_or_epoch_others(name):
    images, index = pictures(), torch.arange(64)
    first = augment(name, images, index, seed=3, epoch=2)
    assert torch.equal(first, augment(name, images, index, seed=3, epoch=2))
    assert not torch.equal(first, images.to(first.dtype))
    assert not torch.equal(first, augment(name, images, index, seed=3, epoch=3))
    assert not torch.equal(first, augment(name, images, index, seed=4, epoch=2))
    assert not torch.equal(first, augment(name, images, index + 1, seed=3, epoch=2))


def test_flip_and_crop_are_what_they_always_were():
    """Golden: the shifts and flips of the first release, which recorded results rest on."""
    images = torch.arange(16 * 16, dtype=torch.uint8).view(1, 1, 16, 16).repeat(6, 1, 1, 1)
    index = torch.arange(6)
    shifted = augment("crop", images, index, seed=1, epoch=2)[:, 0, 8, 8].long() - 8 * 17
    assert shifted.tolist() == [-17, -15, 0, -31, -14, 18]
    flipped = augment("flip", images, index, seed=1, epoch=2)[:, 0, 0, 0] == 15
    assert flipped.tolist() == [False, True, True, True, False, False]


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["none", *NAMES])
def test_shape_dtype_and_memory_format(name, channels, memory_format):
    for dtype in (torch.uint8, torch.float32, torch.float64):
        images = pictures(8, channels, dtype=dtype).contiguous(memory_format=memory_format)
        before = images.clone()
        out = augment(name, images, torch.arange(8), seed=0, epoch=0)
        assert out.shape == images.shape
        assert out.dtype == (torch.float32 if "resized" in name or "jitter" in name else dtype)
        assert out.is_contiguous(memory_format=memory_format)
        assert torch.equal(images, before)  # the data on the device are not changed


def test_values_stay_in_the_inputs_range():
    for dtype, top in ((torch.uint8, 255), (torch.float32, 1)):
        out = augment(EVERYTHING, pictures(dtype=dtype), torch.arange(64), seed=0, epoch=0)
        assert out.min() >= 0
        assert 0.9 * top < out.max() <= top
        assert 0.3 * top < out.mean() < 0.7 * top


@pytest.mark.parametrize("name", ["flip+resized_crop+jitter", "jitter+flip+resized_crop"])
def test_the_order_of_the_names_changes_nothing(name):
    images, index = pictures(), torch.arange(64)
    expected = augment(EVERYTHING, images, index, seed=0, epoch=0)
    assert torch.equal(augment(name, images, index, seed=0, epoch=0), expected)
    steps = images
    for part in ("resized_crop", "flip"):
        steps = augment(part, steps, index, seed=0, epoch=0)
    assert torch.equal(jitter(steps, draw_factors(index, seed=0, epoch=0), top=255), expected)


def test_boxes_are_those_of_torchvision_for_the_same_random_numbers():
    height, width, index = 60, 50, torch.arange(200)
    u = [uniform(index, 3, 2, stream).double().tolist() for stream in range(7)]
    clamped = 0
    for i, box in enumerate(draw_boxes(index, height, width, seed=3, epoch=2).tolist()):
        area = height * width * (0.08 + 0.92 * u[3][i])
        aspect = math.exp(math.log(3 / 4) + u[4][i] * (math.log(4 / 3) - math.log(3 / 4)))
        rows, columns = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        clamped += rows > height or columns > width
        rows, columns = min(rows, height), min(columns, width)
        assert box == [int(u[5][i] * (height - rows + 1)), int(u[6][i] * (width - columns + 1)), rows, columns]
    assert 0 < clamped < 60


@pytest.mark.parametrize(("height", "width"), [(20, 28), (64, 64), (5, 3), (1, 1)])
def test_resized_crop_is_torchvisions(height, width):
    images = pictures(40, height=height, width=width)
    boxes = draw_boxes(torch.arange(40), height, width, seed=0, epoch=0)
    floats = images.float() / 255
    expected = torch.stack(
        [
            vision.resized_crop(image, *box, [height, width], antialias=True)
            for image, box in zip(floats, boxes.tolist(), strict=True)
        ]
    )
    torch.testing.assert_close(resized_crop(floats, boxes), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(resized_crop(images, boxes) / 255, expected, atol=1e-4, rtol=0)


def test_what_lies_outside_the_box_plays_no_part():
    boxes = draw_boxes(torch.arange(40), 20, 28, seed=0, epoch=0)
    images = torch.ones(40, 1, 20, 28)
    for image, (top, left, rows, columns) in zip(images, boxes.tolist(), strict=True):
        image[:, top : top + rows, left : left + columns] = 0
    assert images.mean() > 0.2
    assert resized_crop(images, boxes).max() < 1e-4


@pytest.mark.parametrize("side", [8, 32, 224])
def test_a_box_of_the_full_area_is_the_image(monkeypatch, side):
    monkeypatch.setattr(module, "AREA", (1.0, 1.0))
    monkeypatch.setattr(module, "ASPECT", (1.0, 1.0))
    images = pictures(4, height=side, width=side)
    out = augment("resized_crop", images, torch.arange(4), seed=0, epoch=0)
    torch.testing.assert_close(out, images.float(), atol=1e-2, rtol=0)


def by_torchvision(image, factors):
    brightness, contrast, saturation = factors.tolist()
    image = vision.adjust_contrast(vision.adjust_brightness(image, brightness), contrast)
    return vision.adjust_saturation(image, saturation)


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_is_torchvisions(channels):
    images, index = pictures(40, channels), torch.arange(40)
    floats = images.float() / 255
    factors = draw_factors(index, seed=0, epoch=0)
    expected = torch.stack([by_torchvision(image, f) for image, f in zip(floats, factors, strict=True)])
    assert (expected - floats).abs().mean() > 0.05
    torch.testing.assert_close(augment("jitter", floats, index, seed=0, epoch=0), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(augment("jitter", images, index, seed=0, epoch=0) / 255, expected, atol=1e-5, rtol=0)


def test_factors_of_one_change_nothing():
    images = pictures(4)
    assert torch.equal(jitter(images, torch.ones(4, 3), top=255), images.float())


def test_jitter_needs_one_or_three_channels():
    with pytest.raises(InputError, match="'jitter' is for images of 1 or 3 channels, got 4"):
        augment("flip+jitter", pictures(2, 4), torch.arange(2), seed=0, epoch=0)


def test_draws_have_the_distribution_they_should():
    index = torch.arange(4000)
    top, left, rows, columns = draw_boxes(index, 64, 64, seed=11, epoch=5).double().unbind(1)
    assert min(top.min(), left.min()) >= 0
    assert max((top + rows).max(), (left + columns).max()) <= 64
    area = rows * columns / 64**2
    assert area.min() < 0.1
    assert area.max() > 0.95
    assert 0.49 < area.mean() < 0.56  # uniform from 0.08 to 1 is 0.54; less for those that were clamped
    small = area < 0.5  # these fit without clamping
    logs = (columns / rows).log()[small]
    assert abs(logs.mean()) < 0.02
    assert logs.abs().max() < math.log(4 / 3) + 0.1  # whole pixels
    assert 0.14 < logs.std() < 0.19  # 2 log(4/3) / sqrt(12) = 0.166
    assert 0.46 < (top / (64 - rows))[small].mean() < 0.54
    assert 0.46 < (left / (64 - columns))[small].mean() < 0.54

    factors = draw_factors(index, seed=11, epoch=5)
    assert factors.min() >= 0.6
    assert factors.max() <= 1.4
    assert (factors.mean(0) - 1).abs().max() < 0.02
    assert (torch.corrcoef(factors.T) - torch.eye(3)).abs().max() < 0.06

    ramp = torch.arange(2.0).expand(4000, 1, 1, 2)
    assert 0.46 < augment("flip", ramp, index, seed=11, epoch=5)[:, 0, 0, 0].mean() < 0.54


@pytest.mark.parametrize("name", [*AUGMENTATIONS, EVERYTHING, "jitter+crop"])
def test_known_names(name):
    check_augment(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flip+jiter", r"unknown augmentation 'jiter'; did you mean 'jitter'\? Known: crop, flip, jitter, none, resi"),
        ("random_crop", "unknown augmentation 'random_crop'; did you mean 'resized_crop'"),
        ("", "unknown augmentation ''. Known: crop"),
        ("flip+", "unknown augmentation ''"),
        ("flip+jitter+flip", r"'flip\+jitter\+flip' has 'flip' 2 times: name it once"),
        ("none+flip", r"'none' stands alone, got 'none\+flip': leave out 'none'"),
        ("resized_crop+crop", r"'resized_crop\+crop' crops twice: choose crop or resized_crop"),
    ],
)
def test_names_that_cannot_be_had(name, message):
    with pytest.raises(InputError, match=message):
        check_augment(name)
    with pytest.raises(InputError, match=message):
        augment(name, pictures(2), torch.arange(2), seed=0, epoch=0)


def test_names_are_checked_without_torch():
    code = "import sys, tcsl.augmentations; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU: run `pytest -m gpu` on a machine with one")
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_agrees_with_a_cpu_and_is_not_waited_for(name, memory_format):
    images, index = pictures().contiguous(memory_format=memory_format), torch.arange(64)
    there, index_there = images.cuda(), index.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = augment(name, there, index_there, seed=0, epoch=0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert out.is_contiguous(memory_format=memory_format)
    torch.testing.assert_close(out.cpu(), augment(name, images, index, seed=0, epoch=0), atol=1e-2, rtol=0)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("flip", torch.zeros(4, 3), "augment='flip' is for images, got inputs of 1 dimensions"),
        ("jitter", torch.zeros(2, 4, 3, 3), "'jitter' is for images of 1 or 3 channels, got 4"),
        ("flip+jitter", torch.full((2, 3, 3, 3), 200.0), "'jitter' needs bytes, or floats from 0 to 1, got 200 to 200"),
    ],
)
def test_inputs_that_an_augmentation_is_not_for_are_refused(name, inputs, message):
    with pytest.raises(InputError, match=message):
        check_inputs(name, inputs)
    check_inputs("none", inputs)
    check_inputs("flip+jitter", torch.zeros(2, 3, 4, 4))
