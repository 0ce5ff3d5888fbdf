"""Feeds: what is resident and what is streamed are the same batches, in the same order, to the last bit."""

import gc
import threading

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from tcsl.api import score
from tcsl.config import DeviceSettings, resolve
from tcsl.data.cache import decode
from tcsl.data.convert import as_dataset
from tcsl.data.dataset import make_dataset
from tcsl.data.digits import load
from tcsl.data.images import files
from tcsl.training.device import Hardware, choose
from tcsl.training.feed import Feed
from tcsl.training.views import logits_of

pytestmark = pytest.mark.filterwarnings("ignore:G_high has")  # a few epochs teach no shortcut

CPU = choose(DeviceSettings(device="cpu"))
HOWS = ("resident", "stream")


def digits():
    return load(0, per_class=20).train


def channels_last():
    data = digits()
    return make_dataset(data.inputs.contiguous(memory_format=torch.channels_last), data.labels)


def rows():
    rng = np.random.default_rng(0)
    return as_dataset((rng.normal(size=(200, 5)), np.arange(200) % 3))


def grey():
    return as_dataset((np.random.default_rng(0).integers(0, 256, (200, 1, 6, 7)).astype(np.uint8), np.arange(200) % 2))


def volumes():
    return as_dataset((np.random.default_rng(0).normal(size=(200, 2, 3, 4, 5)), np.arange(200) % 2))


DATA = [digits, channels_last, rows, grey, volumes]


def feeds(data, hardware=CPU):
    return [Feed.of(data, hardware, how=how) for how in HOWS]


def same(batches, others):
    """Tell whether two passes gave the same batches: values, types, and places in memory."""
    batches, others = list(batches), list(others)
    return len(batches) == len(others) and all(
        torch.equal(a, b) and a.dtype == b.dtype and a.stride() == b.stride() and a.device == b.device
        for batch, other in zip(batches, others, strict=True)
        for a, b in zip(batch, other, strict=True)
    )


def shuffled(n, seed=0):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("make", DATA)
def test_resident_and_streamed_feeds_give_the_same_batches(make):
    data = make()
    resident, streamed = feeds(data)
    assert (resident.resident, streamed.resident) == (True, False)
    order = shuffled(len(data))
    sizes = [32, 1, 7, *[9] * 17, 2]  # more than are gathered ahead, and of many sizes
    assert len(resident) == len(streamed) == sum(sizes) + 5
    batches = list(streamed.batches(order, sizes))
    assert same(resident.batches(order, sizes), batches)
    assert [len(batch.labels) for batch in batches] == sizes
    seen = torch.cat([batch.indices for batch in batches])
    assert torch.equal(seen, order[: sum(sizes)])
    assert torch.equal(torch.cat([batch.inputs for batch in batches]), data.inputs[seen])
    assert torch.equal(torch.cat([batch.labels for batch in batches]), data.labels[seen])


def test_decoded_files_are_fed_as_they_lie_in_the_mapped_file(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(90):
        Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).save(tmp_path / f"{i}.png")
    inputs = decode(files(tmp_path, [f"{i}.png" for i in range(90)]), "auto", name="test").inputs
    data = make_dataset(inputs, torch.arange(90) % 2)
    resident, streamed = feeds(data)
    assert streamed.inputs.data_ptr() == inputs.data_ptr()
    assert same(resident.in_order(), streamed.in_order())
    batch = streamed.batch(torch.tensor([5, 3]))
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(batch.inputs, inputs[[5, 3]])


def test_a_batch_of_a_streamed_feed_does_not_share_the_datas_memory():
    data = digits()
    before = data.inputs.clone()
    for batch in Feed.of(data, CPU, how="stream").in_order():
        batch.inputs.zero_()
    assert torch.equal(data.inputs, before)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 600])
def test_in_order_gives_every_sample_once_and_in_order(n):
    data = make_dataset(torch.arange(n)[:, None].float(), torch.arange(n), test=True)
    for feed in feeds(data):
        batches = list(feed.in_order())
        assert torch.cat([batch.indices for batch in batches]).tolist() == list(range(n))
        assert torch.cat([batch.inputs for batch in batches])[:, 0].tolist() == list(range(n))
        assert all(len(batch.labels) == 256 for batch in batches[:-1])


@pytest.mark.parametrize("make", DATA)
def test_subsets_of_subsets_are_numbered_from_0(make):
    data = make()
    first, second = np.arange(190, 0, -3), np.array([5, 0, 40, 5])
    for feed in feeds(data):
        part = feed.subset(first).subset(second)
        assert len(part) == 4
        (batch,) = part.in_order()
        assert batch.indices.tolist() == [0, 1, 2, 3]
        assert torch.equal(batch.inputs, data.inputs[first[second]])
        assert torch.equal(batch.labels, data.labels[first[second]])
        assert torch.equal(part.batch(torch.tensor([2])).inputs, data.inputs[first[second[2:3]]])
        assert part.inputs.data_ptr() == feed.inputs.data_ptr()
    resident, streamed = (feed.subset(first) for feed in feeds(data))
    order = shuffled(len(first))
    assert same(resident.batches(order, [16] * 3), streamed.batches(order, [16] * 3))


@pytest.mark.parametrize("view", ["core", "spurious"])
def test_views_and_subsets_of_views(view):
    data = digits()
    index = np.array([7, 3, 150])
    for feed in feeds(data):
        assert torch.equal(torch.cat([batch.inputs for batch in feed.view(view).in_order()]), data.views[view])
        for part in (feed.subset(index).view(view), feed.view(view).subset(index)):
            (batch,) = part.in_order()
            assert torch.equal(batch.inputs, data.views[view][index])
            assert torch.equal(batch.labels, data.labels[index])


def test_views_that_share_memory_between_channels_are_fed_whole():
    """cMNIST's grey view is one channel shown three times, its colour one pixel shown everywhere."""
    data = digits()
    core = torch.arange(200, dtype=torch.uint8).view(200, 1, 1, 1).expand(200, 3, 8, 8)
    spurious = torch.arange(600, dtype=torch.int64).to(torch.uint8).view(200, 3, 1, 1).expand(200, 3, 8, 8)
    shared = make_dataset(data.inputs, data.labels, views={"core": core, "spurious": spurious})
    order = shuffled(200)
    for name, view in (("core", core), ("spurious", spurious)):
        resident, streamed = (feed.view(name) for feed in feeds(shared))
        assert same(resident.batches(order, [50] * 4), streamed.batches(order, [50] * 4))
        assert torch.equal(streamed.batch(order).inputs, view[order])


def test_a_view_that_is_not_there_is_an_error():
    for feed in feeds(digits()):
        with pytest.raises(KeyError, match="nowhere"):
            feed.view("nowhere")


# --- threads ---


@pytest.fixture
def no_threads_left():
    before = set(threading.enumerate())
    yield
    gc.collect()
    assert set(threading.enumerate()) <= before


@pytest.mark.usefixtures("no_threads_left")
def test_a_loop_that_is_left_early_leaves_no_thread():
    feed = Feed.of(digits(), CPU, how="stream")
    for batch in feed.batches(shuffled(200), [2] * 100):
        assert len(batch.labels) == 2
        break
    assert len(feed.batch(torch.tensor([4])).labels) == 1
    batches = feed.batches(shuffled(200), [2] * 100)
    next(batches)
    batches.close()


@pytest.mark.usefixtures("no_threads_left")
def test_an_exception_inside_the_loop_leaves_no_thread():
    feed = Feed.of(digits(), CPU, how="stream")

    def use():
        for _ in feed.batches(shuffled(200), [2] * 100):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use()


@pytest.mark.usefixtures("no_threads_left")
@pytest.mark.parametrize("at", [0, 3, 99])
def test_an_error_in_a_thread_comes_out_where_its_batch_was_due(at):
    feed = Feed.of(digits(), CPU, how="stream")
    order = torch.arange(200)
    order[2 * at] = 200  # there is no such sample
    seen = []

    def use():
        for batch in feed.batches(order, [2] * 100):
            seen.append(batch.indices[0].item())

    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        use()
    assert seen == list(range(0, 2 * at, 2))
    assert len(list(feed.in_order())) == 1  # the feed itself is not the worse for it


@pytest.mark.usefixtures("no_threads_left")
def test_feeds_can_be_read_side_by_side():
    feed = Feed.of(digits(), CPU, how="stream")
    order = shuffled(200)
    pairs = zip(feed.batches(order, [20] * 10), feed.batches(order, [20] * 10), strict=True)
    assert all(same([first], [second]) for first, second in pairs)


# --- which of the two ---


@pytest.mark.parametrize(("free", "how"), [(76_800, "resident"), (76_799, "stream"), (float("inf"), "resident")])
def test_auto_streams_what_takes_more_than_half_of_the_free_memory(monkeypatch, free, how):
    data = digits()
    assert data.inputs.nbytes == 38_400
    monkeypatch.setattr("tcsl.training.feed.free_memory", lambda device: free)
    assert Feed.of(data, CPU).resident == (how == "resident")
    assert Feed.of(data, CPU, how="resident").resident
    assert not Feed.of(data, CPU, how="stream").resident


def test_a_feed_says_what_it_is():
    resident, streamed = feeds(digits())
    assert resident.describe() == "digits, training: 200 inputs, 0.0 MB, resident on cpu (device.feed)"
    assert streamed.describe() == "digits, training: 200 inputs, 0.0 MB, streamed to cpu (device.feed)"
    large = make_dataset(
        torch.zeros(2, 1, dtype=torch.uint8).expand(2, 1_200_000_000), torch.tensor([0, 0]), name="large", test=True
    )
    assert "2 inputs, 2.4 GB, streamed to cpu" in Feed(large, CPU, large.inputs, large.labels, False).describe()


# --- the whole of Algorithm 1 ---

SMALL = {"train.epochs": 4, "score.biased_epochs": 2, "train.lr": 0.01, "train.batch_size": 16}


def scores(data, feed, **more):
    overrides = {
        **SMALL,
        "device.device": "cpu",
        "device.feed": feed,
        **{k.replace("__", "."): v for k, v in more.items()},
    }
    return score(data, settings=resolve(overrides=overrides))


@pytest.mark.parametrize("make", [digits, channels_last, rows])
@pytest.mark.parametrize("record", ["training", "evaluation"])
def test_scores_do_not_depend_on_the_feed(make, record):
    data = make()
    resident, streamed = (scores(data, how, score__record=record) for how in HOWS)
    assert resident.digest == streamed.digest
    assert resident.curves.tobytes() == streamed.curves.tobytes()
    assert resident.tcsl_c.tobytes() == streamed.tcsl_c.tobytes()


@pytest.mark.parametrize("augment", ["crop+flip", "resized_crop+flip+jitter"])
def test_scores_do_not_depend_on_the_feed_with_augmentation(augment):
    data = digits()
    resident, streamed = (scores(data, how, train__augment=augment) for how in HOWS)
    assert resident.digest == streamed.digest
    assert resident.digest != scores(data, "resident").digest


def test_a_dropout_nets_random_numbers_do_not_depend_on_the_feed():
    def net(classes):
        return nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, classes))

    settings = {**SMALL, "device.device": "cpu"}
    first, second = (score(rows(), net=net, settings={**settings, "device.feed": how}).digest for how in HOWS)
    assert first == second


# --- on a GPU: pytest -m gpu ---

GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA GPU: run `pytest -m gpu` on a machine with one"
    ),
]


def on_gpu(test):
    for mark in GPU:
        test = mark(test)
    return test


def gpu():
    return Hardware(torch.device("cuda", torch.cuda.current_device()), bfloat16=False)


@on_gpu
@pytest.mark.parametrize("make", DATA)
def test_a_gpu_gets_the_same_batches_from_both(make):
    data = make()
    resident, streamed = feeds(data, gpu())
    assert resident.inputs.is_cuda
    assert not streamed.inputs.is_cuda
    order = shuffled(len(data))
    for one, other in ((resident, streamed), (resident.subset(np.arange(150)), streamed.subset(np.arange(150)))):
        sizes = [9] * (len(one) // 9)
        assert same(one.batches(order[order < len(one)], sizes), other.batches(order[order < len(one)], sizes))
        assert same(one.in_order(), other.in_order())
    batch = next(streamed.batches(order, [32]))
    assert batch.inputs.is_cuda
    assert torch.equal(batch.inputs.cpu(), data.inputs[order[:32]])
    for view in data.views:
        assert same(resident.view(view).in_order(), streamed.view(view).in_order())


@on_gpu
def test_a_gpu_that_is_busy_gets_each_batch_whole():
    """Copies run ahead of a slow consumer, whose memory is used again and again: no batch may be overwritten."""
    n = 20_000
    data = make_dataset(torch.arange(n, dtype=torch.float32)[:, None].repeat(1, 1000), torch.arange(n) % 2)
    feed = Feed.of(data, gpu(), how="stream")
    order = shuffled(n)
    work = torch.randn(2000, 2000, device="cuda")
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    seen = []
    for batch in feed.batches(order, [100] * 200):
        for _ in range(20):
            work = torch.tanh(work @ work)  # the copy of a later batch arrives while this is under way
        wrong += (batch.inputs != batch.indices[:, None]).sum()
        wrong += (batch.labels != batch.indices % 2).sum()
        seen.append(batch.indices)
    assert int(wrong) == 0
    assert torch.equal(torch.cat(seen).cpu(), order)


@on_gpu
def test_a_streamed_feed_does_not_wait_for_the_gpu():
    feed = Feed.of(digits(), gpu(), how="stream")
    order = shuffled(200)
    total = torch.zeros((), device="cuda")
    for batch in feed.batches(order, [8] * 25):  # memory is taken, kernels are loaded
        total += batch.inputs.float().sum()
    expected = float(total)
    total.zero_()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in feed.batches(order, [8] * 25):
            total += batch.inputs.float().sum()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert float(total) == expected


@on_gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("augment", ["none", "resized_crop+flip+jitter"])
def test_scores_on_a_gpu_do_not_depend_on_the_feed(precision, augment):
    more = {"device__device": "cuda", "device__precision": precision, "train__augment": augment}
    resident, streamed = (scores(digits(), how, **more) for how in HOWS)
    assert resident.digest == streamed.digest
    assert resident.curves.tobytes() == streamed.curves.tobytes()


@on_gpu
def test_logits_on_a_gpu_do_not_depend_on_the_feed():
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 10)).cuda()
    resident, streamed = feeds(make_dataset(digits().inputs.float(), digits().labels), gpu())
    assert torch.equal(logits_of(net, resident), logits_of(net, streamed))


@pytest.mark.parametrize(
    ("shape", "sizes"), [((3, 8, 8), [256, 256, 88]), ((3, 224, 224), [16, 16, 6]), ((5,), [256, 44])]
)
def test_evaluation_batches_hold_as_much_as_a_cpu_likes(shape, sizes):
    n = sum(sizes)
    feed = Feed.of(make_dataset(torch.zeros(n, *shape, dtype=torch.uint8), torch.arange(n) % 2), CPU)
    batches = list(feed.in_order())
    assert [len(batch.labels) for batch in batches] == sizes
    assert torch.equal(torch.cat([batch.indices for batch in batches]), torch.arange(n))


def test_one_enormous_sample_is_a_batch():
    feed = Feed.of(make_dataset(torch.zeros(2, 3, 1400, 1400, dtype=torch.uint8), torch.arange(2)), CPU)
    assert [len(batch.labels) for batch in feed.in_order()] == [1, 1]
