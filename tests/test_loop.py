"""The training loop: what is recorded, how many steps, resume, errors."""

import gc

import numpy as np
import pytest
import torch
from torch import nn

from tcsl.config import DeviceSettings, TrainSettings, resolve
from tcsl.data.convert import as_dataset
from tcsl.data.digits import load
from tcsl.errors import InputError, NonFiniteLoss, TcslWarning
from tcsl.scoring.separation import separation
from tcsl.scoring.tcsl import train_biased, train_core
from tcsl.training.augment import augment, uniform
from tcsl.training.checkpoint import Checkpoint, load_tensors
from tcsl.training.device import choose, settled
from tcsl.training.feed import Feed, batch_sizes
from tcsl.training.loop import fit, steps_of
from tcsl.training.nets import build_net
from tcsl.training.objective import cross_entropy
from tcsl.training.recording import LossCurves, LossSum
from tcsl.training.views import evaluate_batches, logits_of
from tcsl.training.weights import class_balanced

CPU = choose(DeviceSettings(device="cpu"))


def rows_feed(n=21, classes=3, features=4):
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    return Feed.of(as_dataset((rng.normal(size=(n, features)) + y[:, None], y)), CPU)


def digits_feed():
    return Feed.of(load(0, per_class=10).train, CPU)


def train(feed, *, net=None, steps=None, recorder=None, settings=None, **more):
    settings = settings or TrainSettings(epochs=3, batch_size=4, lr=0.05)
    net = net or build_net("auto", feed.data, seed=0)
    fit(
        net,
        feed,
        settings,
        stage="test",
        steps=steps_of(len(feed), settings) if steps is None else steps,
        seed=5,
        log_weights=class_balanced(feed.labels, feed.data.num_classes),
        recorder=recorder,
        **more,
    )
    return net


class Counter:
    """A recorder that counts how often each sample comes in each epoch."""

    def __init__(self, n, epochs):
        self.table = torch.zeros(epochs, n)

    def record(self, epoch, index, losses):
        assert losses.shape == index.shape
        self.table[epoch].index_add_(0, index, torch.ones(len(index)))


@pytest.mark.parametrize("n", [20, 21, 22, 23])
@pytest.mark.parametrize("record", ["training", "evaluation"])
def test_each_sample_is_recorded_once_an_epoch(n, record):
    counter = Counter(n, 3)
    train(rows_feed(n), recorder=counter, record=record)
    assert (counter.table == 1).all()


@pytest.mark.parametrize(("n", "size"), [(10, 4), (9, 4), (8, 4), (3, 4), (1, 4), (5, 2), (7, 1)])
def test_batches_are_ceil_n_over_batch_and_cover_everything(n, size):
    sizes = batch_sizes(n, size)
    assert sum(sizes) == n
    assert len(sizes) == -(-n // size)
    assert max(sizes) <= size
    assert min(sizes) >= min(n, 2, size) or size == 2


@pytest.mark.parametrize("left", range(1, 32))
def test_no_batch_is_small_beside_the_others(left):
    sizes = batch_sizes(64 + left, 32)
    assert min(sizes) >= 8
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == left or sizes[-2] - sizes[-1] in (0, 1)


@pytest.mark.parametrize(("size", "left"), [(13, 1), (13, 2), (13, 3), (12, 3), (8, 2), (8, 3), (7, 2)])
def test_a_residual_net_on_small_images_learns_whatever_is_left_for_the_last_batch(size, left):
    """Its last maps are 1 x 1: of a batch of two, BatchNorm would know two numbers, and weights would explode."""
    digits = load(0, per_class=10).train
    n = 40 // size * size + left
    feed = Feed.of(as_dataset((digits.inputs[:n], digits.labels[:n])), CPU)
    net = build_net("torchvision:resnet18", feed.data, seed=0)
    train(feed, net=net, settings=TrainSettings(epochs=4, batch_size=size, lr=0.01))
    assert max(float(weight.detach().abs().max()) for weight in net.parameters()) < 3


def test_training_takes_exactly_the_steps_it_was_given():
    feed = rows_feed(20)
    seen = []

    class Spy(nn.Linear):
        def forward(self, x):
            if self.training:
                seen.append(len(x))
            return super().forward(x)

    events = []
    train(feed, net=Spy(4, 3), steps=13, report=events.append)  # five batches an epoch
    assert len(seen) == 13
    assert [(e.epoch, e.epochs, e.step, e.steps) for e in events] == [(1, 3, 5, 13), (2, 3, 10, 13), (3, 3, 13, 13)]


def test_without_weights_all_samples_weigh_the_same():
    feed, events = rows_feed(22), []  # of which class 0 has one more
    net = build_net("auto", feed.data, seed=0)
    mean = nn.functional.cross_entropy(logits_of(net, feed), feed.labels).item()
    fit(net, feed, TrainSettings(batch_size=22), stage="test", steps=1, seed=5, report=events.append)
    assert events[0].loss == pytest.approx(mean, rel=1e-5)


def test_stage_1_reports_how_far_its_losses_are_apart_and_every_stage_its_memory():
    feed, events = rows_feed(40), []
    settings = resolve(overrides={"train.epochs": 3, "score.biased_epochs": 3, "train.batch_size": 8})
    biased = build_net("auto", feed.data, seed=0)
    curves = train_biased(biased, feed, settings, seed=0, report=events.append)
    assert [event.separation for event in events] == [float(separation(curves[:, t])) for t in range(3)]
    assert all(0 < event.separation < 1 for event in events)
    train_core(build_net("auto", feed.data, seed=1), biased, feed, settings, seed=0, report=events.append)
    assert [event.separation for event in events[3:]] == [None] * 3
    assert all(event.memory > 10_000_000 for event in events)  # that of the process


def test_the_recorded_loss_is_the_one_before_the_step():
    feed = rows_feed()
    net = build_net("auto", feed.data, seed=0)
    curves = LossCurves(len(feed), 1, torch.device("cpu"))
    before = cross_entropy(logits_of(net, feed), feed.batch(torch.arange(len(feed)))).recorded
    one_batch = TrainSettings(epochs=1, batch_size=100, lr=0.05)
    train(feed, net=net, recorder=curves, settings=one_batch)
    torch.testing.assert_close(curves.curves()[:, 0], before)


def test_the_loss_recorded_in_evaluation_is_the_one_after_the_epoch():
    feed = rows_feed()
    curves = LossCurves(len(feed), 3, torch.device("cpu"))
    net = train(feed, recorder=curves, record="evaluation")
    after = cross_entropy(logits_of(net, feed), feed.batch(torch.arange(len(feed)))).recorded
    torch.testing.assert_close(curves.curves()[:, 2], after)


def test_batch_size_does_not_change_a_loss_recorded_in_evaluation(monkeypatch):
    feed = digits_feed()
    net = build_net("small_cnn", feed.data, seed=0)
    whole = logits_of(net, feed)
    monkeypatch.setattr("tcsl.training.feed._EVALUATION_BATCH", 7)
    torch.testing.assert_close(logits_of(net, feed), whole, rtol=1e-5, atol=1e-6)


def test_loss_sum_is_the_sum_of_the_curves():
    feed = rows_feed()
    curves, total = LossCurves(len(feed), 3, torch.device("cpu")), LossSum(len(feed), torch.device("cpu"))
    train(feed, recorder=curves)
    train(feed, recorder=total)
    torch.testing.assert_close(total.mean(3), curves.curves().mean(1))


def test_the_order_of_the_data_does_not_leak_into_the_scores():
    """Permuting samples permutes scores: with one batch an epoch there is no order to depend on."""
    feed = rows_feed(12)
    order = np.random.default_rng(1).permutation(12)
    whole_batch = TrainSettings(epochs=3, batch_size=12, lr=0.05)
    here, there = (LossSum(12, torch.device("cpu")) for _ in range(2))
    train(feed, recorder=here, settings=whole_batch)
    train(feed.subset(order), recorder=there, settings=whole_batch)
    torch.testing.assert_close(here.table[order], there.table, rtol=1e-4, atol=1e-5)


def test_a_lone_last_sample_does_not_break_batchnorm():
    def with_batchnorm(classes):
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, classes))

    feed = rows_feed(13)
    counter = Counter(13, 3)
    train(feed, net=build_net(with_batchnorm, feed.data, seed=0), recorder=counter)
    assert (counter.table == 1).all()


def test_batchnorm_with_a_batch_of_one_is_said_before_training():
    feed = rows_feed(13)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    with pytest.raises(InputError, match="has one sample, and BatchNorm needs two"):
        train(feed, net=net, settings=TrainSettings(epochs=1, batch_size=2, lr=0.1))


def test_a_net_of_any_dimension_trains():
    volumes = as_dataset((np.random.default_rng(0).normal(size=(8, 1, 4, 4, 4)), np.arange(8) % 2))
    net = nn.Sequential(nn.Conv3d(1, 2, 3), nn.Flatten(), nn.Linear(16, 2))
    train(Feed.of(volumes, CPU), net=net)


def with_dropout(classes):
    return nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, classes))


@pytest.mark.parametrize(
    ("factory", "feed_of"), [("mlp", rows_feed), (with_dropout, rows_feed), ("small_cnn", digits_feed)]
)
def test_resume_ends_with_the_same_bytes(tmp_path, factory, feed_of):
    feed = feed_of()

    def state(net, recorder):
        return [*(p.detach().numpy().tobytes() for p in net.parameters()), recorder.table.numpy().tobytes()]

    whole = LossCurves(len(feed), 3, torch.device("cpu"))
    expected = state(train(feed, net=build_net(factory, feed.data, seed=0), recorder=whole), whole)

    class Stopped(Exception):
        pass

    def stop(epoch):
        if epoch.epoch == 2:
            raise Stopped

    checkpoint = Checkpoint(tmp_path / "part.safetensors")
    first = LossCurves(len(feed), 3, torch.device("cpu"))
    with pytest.raises(Stopped):  # epoch 2 is lost: it was not saved yet
        train(feed, net=build_net(factory, feed.data, seed=0), recorder=first, report=stop, checkpoint=checkpoint)
    second = LossCurves(len(feed), 3, torch.device("cpu"))
    epochs = []
    net = train(
        feed,
        net=build_net(factory, feed.data, seed=9),
        recorder=second,
        checkpoint=checkpoint,
        report=lambda e: epochs.append(e.epoch),
    )
    assert epochs == [2, 3]
    assert state(net, second) == expected


def test_the_same_seed_gives_the_same_bytes_and_leaves_the_callers_random_numbers_alone():
    feed = rows_feed()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first, second = train(feed), train(feed)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_a_stage_killed_after_its_last_short_epoch_can_be_resumed(tmp_path):
    """20 samples in 5 batches, 13 steps: the third epoch has 3 batches, and its checkpoint is at step 13."""
    feed = rows_feed(20)
    checkpoint = Checkpoint(tmp_path / "part.safetensors")
    finished = train(feed, steps=13, checkpoint=checkpoint)
    events = []
    again = train(feed, net=build_net("auto", feed.data, seed=9), steps=13, checkpoint=checkpoint, report=events.append)
    assert events == []
    assert all(torch.equal(a, b) for a, b in zip(finished.parameters(), again.parameters(), strict=True))


def test_a_loss_that_is_not_finite_names_the_epoch_and_keeps_the_last_good_state(tmp_path):
    feed = rows_feed(20)
    checkpoint = Checkpoint(tmp_path / "part.safetensors", share=1e9)  # every epoch is saved
    batches = []

    def spoiled(logits, batch):
        """From the last batch of the third epoch on, there is no loss to speak of."""
        batches.append(batch)
        losses = cross_entropy(logits, batch)
        return losses if len(batches) < 15 else losses._replace(minimised=losses.minimised * torch.nan)

    message = r"in epoch 3 of stage 'test'. The state after epoch 2 is kept in .*part.safetensors. Try a lower learning"
    with pytest.raises(NonFiniteLoss, match=message):
        train(feed, checkpoint=checkpoint, objective=spoiled, steps=25)
    tensors, facts = load_tensors(checkpoint.path)
    assert facts["step"] == 10
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


def test_a_step_that_explodes_at_the_end_of_an_epoch_is_not_saved(tmp_path):
    """The loss of the third epoch's last batch is finite, and its gradient is not."""
    feed, batches = rows_feed(20), []
    checkpoint = Checkpoint(tmp_path / "part.safetensors", share=1e9)

    def steep(logits, batch):
        batches.append(batch)
        losses = cross_entropy(logits, batch)
        nothing = (logits - logits.detach()).sum(1)
        return losses if len(batches) != 15 else losses._replace(minimised=losses.minimised + nothing.abs().sqrt())

    with pytest.raises(NonFiniteLoss, match=r"in epoch 3 of stage 'test'. The state after epoch 2 is kept"):
        train(feed, checkpoint=checkpoint, objective=steep, steps=25)
    tensors, facts = load_tensors(checkpoint.path)
    assert facts["step"] == 10
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 1e30}, r"train.lr is 1e\+30; 0.01 is a good next try\), in a new"),
        ({"lr": 0.01, "weight_decay": 1e6}, r"a smaller train.weight_decay: it is 1e\+06, and times train.lr"),
    ],
)
def test_the_advice_is_about_what_made_the_loss_infinite(settings, message):
    with pytest.raises(NonFiniteLoss, match=message):
        train(rows_feed(), settings=TrainSettings(**{"epochs": 30, "batch_size": 4, "weight_decay": 0, **settings}))


def test_an_engine_that_the_device_does_not_have_is_said():
    feed = Feed.of(rows_feed().data, choose(DeviceSettings(device="cpu", engine="captured")))
    with pytest.warns(TcslWarning, match="device.engine=captured has no effect: the device is cpu, not cuda"):
        train(feed)


def test_a_trained_net_carries_no_gradients():
    assert all(parameter.grad is None for parameter in train(rows_feed()).parameters())


def test_statistics_that_are_not_finite_show_in_no_loss_and_are_found():
    norm = nn.BatchNorm1d(4)
    norm.running_var[2] = torch.inf
    net, losses = nn.Sequential(norm, nn.Linear(4, 3)), []
    with pytest.raises(NonFiniteLoss, match="infinite or NaN in epoch"):
        train(rows_feed(), net=net, report=lambda epoch: losses.append(epoch.loss))
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("lr", [1e4, 1e30])
def test_a_model_that_exploded_in_its_last_steps_is_not_returned(lr):
    deep = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    with pytest.raises(NonFiniteLoss, match=r"train.lr is 1"):
        train(rows_feed(), net=deep, settings=TrainSettings(epochs=1, batch_size=4, lr=lr, weight_decay=0))


def tensors_that_grow_with(n):
    """Return the sizes of all live tensors with an axis of n, by where they lie."""
    gc.collect()
    found = {}
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and n in thing.shape:
            storage = thing.untyped_storage()
            found[storage.data_ptr()] = (thing.dtype, storage.nbytes())
    return found


def test_memory_that_grows_with_n_is_what_the_analysis_says():
    """(T_s + 1) n floats for the scores, n for the weights, n C for log f_s, and the epoch's order; nothing else."""
    n, biased_epochs, classes = 211, 3, 3
    feed = rows_feed(n)
    data = set(tensors_that_grow_with(n))
    grown = {}

    def look(epoch):
        sizes = [size for at, size in tensors_that_grow_with(n).items() if at not in data]
        grown[epoch.stage] = sorted(count for dtype, count in sizes if dtype == torch.float32)
        assert [dtype for dtype, _ in sizes].count(torch.int64) <= 1  # the order

    settings = resolve(overrides={"score.biased_epochs": biased_epochs, "score.core_epochs": 2, "train.batch_size": 8})
    biased = build_net("auto", feed.data, seed=0)
    curves = train_biased(biased, feed, settings, seed=0, report=look)
    assert grown["biased"] == [4 * n, 4 * n * biased_epochs]
    data.add(curves.untyped_storage().data_ptr())
    train_core(build_net("auto", feed.data, seed=1), biased, feed, settings, seed=0, report=look)
    assert grown["core"] == [4 * n, 4 * n, 4 * n * classes]


def test_a_subset_shares_the_inputs():
    feed = digits_feed()
    part = feed.subset(np.array([4, 2])).subset(np.array([1]))
    assert part.inputs.data_ptr() == feed.inputs.data_ptr()
    assert torch.equal(part.batch(torch.tensor([0])).inputs[0], feed.data.inputs[2])
    assert part.labels[0] == feed.data.labels[2]


def test_views_are_evaluated_every_k_epochs():
    feed = digits_feed()
    events = []
    settings = TrainSettings(epochs=4, batch_size=32, lr=0.01, views_every=2)
    net = train(feed, settings=settings, report=events.append)
    assert [bool(e.views) for e in events] == [False, True, False, True]
    last = events[-1].views
    assert set(last) == {"x", "core", "spurious"}
    logits = logits_of(net, feed.view("core"))
    for k in range(10):
        assert last["core"]["mean_logits"][k] == pytest.approx(logits[feed.labels == k].mean(0).tolist(), abs=1e-4)


@pytest.mark.parametrize("name", ["flip", "crop", "crop+flip"])
def test_augmentation_does_not_depend_on_the_batch(name):
    images = load(0, per_class=10).train.inputs[:30]
    index = torch.arange(30)
    whole = augment(name, images, index, seed=3, epoch=2)
    parts = torch.cat([augment(name, images[p], index[p], seed=3, epoch=2) for p in index.split(7)])
    assert torch.equal(whole, parts)
    assert whole.dtype == torch.uint8
    assert not torch.equal(whole, images)
    assert not torch.equal(whole, augment(name, images, index, seed=3, epoch=3))


def test_a_flip_is_a_flip_and_a_crop_a_shift():
    images = torch.arange(2 * 64).view(2, 1, 8, 8)
    for image, original in zip(augment("flip", images, torch.arange(2), seed=0, epoch=0), images, strict=True):
        assert torch.equal(image, original) or torch.equal(image, original.flip(2))
    shifted = augment("crop", images, torch.arange(2), seed=1, epoch=0)
    inner = shifted[:, 0, 2:6, 2:6] - images[:, 0, 2:6, 2:6]
    for difference in inner:
        assert len(difference.unique()) == 1  # moved by whole pixels
        assert abs(int(difference[0, 0])) <= 9


def test_augmentations_random_numbers_are_uniform():
    values = uniform(torch.arange(20_000), seed=12345, epoch=3, stream=1)
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert torch.histc(values, 10, 0, 1).min() > 1800
    other = uniform(torch.arange(20_000), seed=12345, epoch=4, stream=1)
    assert abs(np.corrcoef(values, other)[0, 1]) < 0.03


@pytest.mark.parametrize(("name", "passes"), [("none", 1), ("crop+flip", 8)])
def test_with_augmentation_the_biased_model_sees_each_batchs_own_inputs(name, passes):
    """100 images, 2 epochs of 4 batches: one pass over all in evaluation, or one on each batch."""
    feed = digits_feed()
    seen = []

    class Spy(nn.Module):
        def forward(self, x):
            seen.append(x.clone())
            return torch.zeros(len(x), 10)

    settings = resolve(
        overrides={"train.epochs": 10, "score.core_epochs": 2, "train.augment": name, "train.batch_size": 32}
    )
    train_core(build_net("small_cnn", feed.data, seed=1), Spy(), feed, settings, seed=0)
    assert len(seen) == passes
    originals = {image.numpy().tobytes() for image in feed.inputs}
    changed = [image for batch in seen for image in batch if image.contiguous().numpy().tobytes() not in originals]
    assert bool(changed) == (name != "none")


class Seen(nn.Module):
    """A net that keeps its inputs."""

    def __init__(self, classes):
        super().__init__()
        self.layer = nn.LazyLinear(classes)
        self.inputs = []

    def forward(self, x):
        if self.training:
            self.inputs.append(x.detach().clone())
        return self.layer(x.flatten(1).float())


def test_a_sample_that_is_drawn_again_in_an_epoch_is_augmented_anew():
    feed = digits_feed()
    seen = Seen(feed.data.num_classes)
    seen(feed.inputs[:1])  # gives the lazy layer its size
    settings = TrainSettings(epochs=2, batch_size=25, lr=0.01, augment="crop+flip")

    def first_again_and_again(draw):
        return torch.zeros(len(feed), dtype=torch.int64)

    seen.inputs.clear()
    train(feed, net=seen, settings=settings, order=first_again_and_again)
    epochs = torch.cat(seen.inputs).flatten(1).split(len(feed))
    assert [len(epoch.unique(dim=0)) for epoch in epochs] == [18, 18]  # all that there are: nine shifts, flipped or not
    once = augment("crop+flip", feed.inputs[:1], torch.zeros(1, dtype=torch.int64), seed=5, epoch=1)
    assert torch.equal(epochs[1][:1], once.flatten(1))  # the first draw is the sample's own


def test_augmenting_rows_is_an_error():
    with pytest.raises(InputError, match="is for images"):
        train(rows_feed(), settings=TrainSettings(epochs=1, batch_size=4, lr=0.1, augment="flip"))


def test_evaluation_yields_every_batch_in_order():
    feed = rows_feed(600)
    seen = torch.cat([batch.indices for batch, _ in evaluate_batches(build_net("auto", feed.data, seed=0), feed)])
    assert seen.tolist() == list(range(600))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"device": "meta"}, "unknown device 'meta'; use auto, cpu"),
        ({"device": "cpu", "precision": "bfloat16"}, "bfloat16 is for CUDA"),
    ],
)
def test_devices_that_cannot_be_had(settings, message):
    with pytest.raises(InputError, match=message):
        choose(DeviceSettings(**settings))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU; the error is for those without")
def test_a_gpu_that_is_not_there():
    with pytest.raises(InputError, match="torch sees no CUDA GPU"):
        choose(DeviceSettings(device="cuda"))


def test_threads_are_set_and_restored():
    before = torch.get_num_threads()
    with settled(DeviceSettings(threads=before + 1)):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_a_part_of_a_net_has_its_own_learning_rate():
    """Without momentum and decay the first step is lr times the gradient, so that a tenth moves a tenth as far."""
    feed = rows_feed()
    settings = TrainSettings(epochs=1, batch_size=21, lr=0.05, momentum=0.0, weight_decay=0.0)
    start, usual, slow = (build_net("mlp", feed.data, seed=0) for _ in range(3))
    train(feed, net=usual, settings=settings)
    train(feed, net=slow, settings=settings, lr_scales={"1.5": 0.1})  # the last layer
    for name, before in start.state_dict().items():
        moved, less = (net.state_dict()[name] - before for net in (usual, slow))
        assert torch.allclose(less, moved * (0.1 if name.startswith("1.5.") else 1), atol=1e-7)


def test_momentum_of_every_part_is_saved_and_restored(tmp_path):
    feed = rows_feed()
    settings = TrainSettings(epochs=4, batch_size=4, lr=0.05)

    def stop(epoch):
        if epoch.epoch == 3:
            raise KeyboardInterrupt

    whole = train(feed, settings=settings, lr_scales={"1.5": 0.1})
    checkpoint = Checkpoint(tmp_path / "part.safetensors", share=1.0)
    with pytest.raises(KeyboardInterrupt):
        train(feed, settings=settings, lr_scales={"1.5": 0.1}, checkpoint=checkpoint, report=stop)
    saved = load_tensors(checkpoint.path)[0]
    assert sum(name.startswith("momentum.") for name in saved) == len(list(whole.parameters()))
    again = Checkpoint(checkpoint.path)
    resumed = train(feed, settings=settings, lr_scales={"1.5": 0.1}, checkpoint=again)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
