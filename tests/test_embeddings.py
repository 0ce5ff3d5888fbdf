"""Embeddings: of a net, of a file, of CLIP; each kind of bad input in one clear line."""

import sys
import types

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

from tcsl.clip import ClipImages, check_images, embed_clip, load_clip
from tcsl.config import DeviceSettings
from tcsl.data.convert import as_dataset
from tcsl.data.digits import load
from tcsl.embeddings import embed, load_embedding
from tcsl.errors import InputError
from tcsl.training.device import choose
from tcsl.training.feed import Feed
from tcsl.training.nets import build_net

CPU = choose(DeviceSettings(device="cpu"))
ROWS = np.float32([[1, 2], [3, 4], [5, 6]])


def rows_feed(n=20):
    X = np.random.default_rng(0).normal(size=(n, 4))
    return Feed.of(as_dataset((X, np.arange(n) % 2)), CPU)


def digits_feed():
    return Feed.of(load(0, per_class=2).train, CPU)


# Of a net.


@pytest.mark.parametrize(("name", "feed_of", "width"), [("mlp", rows_feed, 64), ("small_cnn", digits_feed, 256)])
def test_the_last_layer_of_the_embedding_gives_the_logits(name, feed_of, width):
    feed = feed_of()
    net = build_net(name, feed.data, seed=0)
    found = embed(net, feed)
    assert found.shape == (len(feed), width)
    assert found.dtype == np.float32
    with torch.no_grad():
        torch.testing.assert_close(net[1][-1](torch.tensor(found)), net(feed.inputs))


def test_an_embedding_is_taken_in_evaluation_mode_and_leaves_no_hook():
    feed = rows_feed()
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)).train()
    first, second = embed(net, feed), embed(net, feed)
    assert np.array_equal(first, second)
    assert not any(module._forward_hooks for module in net.modules())


def test_the_last_layer_is_the_last_that_runs():
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 2)
            self.body = nn.Linear(4, 3)

        def forward(self, x):
            return self.head(self.body(x))

    feed = rows_feed()
    net = Backwards()
    with torch.no_grad():
        np.testing.assert_allclose(embed(net, feed), net.body(feed.inputs).numpy(), rtol=1e-6)


def test_evaluation_batches_do_not_change_an_embedding(monkeypatch):
    feed = rows_feed()
    net = build_net("mlp", feed.data, seed=0)
    whole = embed(net, feed)
    monkeypatch.setattr("tcsl.training.feed._EVALUATION_BATCH", 7)
    np.testing.assert_allclose(embed(net, feed), whole, rtol=1e-5, atol=1e-6)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x.view(len(x), 2, 2)).mean(1)


class Unused(Tokens):
    def forward(self, x):
        return x[:, :2]


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Sequential(nn.Unflatten(1, (4, 1)), nn.Conv1d(4, 2, 1), nn.Flatten()), "Sequential has no Linear layer"),
        (Tokens(), r"\(batch, features\), got one that got shape \(20, 2, 2\) for a batch of 20"),
        (Unused(), "got none that ran"),
    ],
)
def test_nets_without_an_embedding(net, message):
    with pytest.raises(InputError, match=message):
        embed(net, rows_feed())


# Of a file.


def test_every_kind_of_file_gives_the_same_rows(tmp_path):
    np.save(tmp_path / "a.npy", ROWS.astype(np.float64))
    np.save(tmp_path / "half.npy", ROWS.astype(np.float16))
    np.savez(tmp_path / "a.npz", anything=ROWS)
    pl.DataFrame({"f0": ROWS[:, 0], "f1": ROWS[:, 1]}).write_parquet(tmp_path / "columns.parquet")
    pl.DataFrame({"path": ["a", "b", "c"], "seen": ROWS.tolist()}).write_parquet(tmp_path / "lists.parquet")
    pl.DataFrame({"seen": pl.Series(ROWS, dtype=pl.Array(pl.Float32, 2))}).write_parquet(tmp_path / "arrays.parquet")
    for name in ("a.npy", "half.npy", "a.npz", "columns.parquet", "lists.parquet", "arrays.parquet"):
        found = load_embedding(tmp_path / name, 3)
        assert found.dtype == np.float32
        assert np.array_equal(found, ROWS), name


@pytest.mark.parametrize("stored", [["c", "a", "b"], [30, 10, 20]])
def test_rows_are_put_into_the_order_of_the_ids(tmp_path, stored):
    pl.DataFrame({"id": stored, "seen": ROWS[[2, 0, 1]].tolist()}).write_parquet(tmp_path / "a.parquet")
    ids = np.array(sorted(stored))
    assert np.array_equal(load_embedding(tmp_path / "a.parquet", 3, ids=ids), ROWS)
    assert np.array_equal(load_embedding(tmp_path / "a.parquet", 3, ids=ids[::-1].astype(str)), ROWS[::-1])


def test_the_rows_of_a_table_without_ids_are_in_the_order_of_the_samples(tmp_path):
    pl.DataFrame({"f0": ROWS[:, 0]}).write_parquet(tmp_path / "a.parquet")
    found = load_embedding(tmp_path / "a.parquet", 3, ids=np.array(["a", "b", "c"]))
    assert found.tolist() == [[1], [3], [5]]


def test_row_numbers_that_pandas_wrote_are_no_feature(tmp_path):
    pl.DataFrame({"f0": ROWS[:, 0], "__index_level_0__": [0, 1, 2]}).write_parquet(tmp_path / "a.parquet")
    assert load_embedding(tmp_path / "a.parquet", 3).shape == (3, 1)


def refused(path, n=3, **more):
    with pytest.raises(InputError) as caught:
        load_embedding(path, n, **more)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet"])
def test_another_number_of_rows_is_said_with_both_numbers(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pl.DataFrame({"seen": ROWS.tolist()}).write_parquet(path)
    else:
        (np.save if kind == "npy" else np.savez)(path, ROWS)
    assert "has 3 rows, but there are 4 samples" in refused(path, 4)


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_values_that_are_not_finite_are_named_by_row(tmp_path, kind, value):
    rows = ROWS.astype(np.float64)
    rows[1, 0] = value
    path = tmp_path / f"a.{kind}"
    if kind == "npy":
        np.save(path, rows)
    else:
        pl.DataFrame({"seen": rows.tolist()}).write_parquet(path)
    assert f"1 bad sample: row 1 of a.{kind} has values that are NaN or infinite" in refused(path)


def test_a_missing_value_in_a_list_is_named_by_row(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"seen": [[1.0, 2.0], [3.0, None], [5.0, 6.0]]}).write_parquet(path)
    assert "row 1 of a.parquet has values that are NaN" in refused(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"numbers of shape (samples, features), got float64 of shape (3,)"),
        (np.zeros((3, 2, 2)), "of shape (3, 2, 2)"),
        (np.zeros((3, 0)), "of shape (3, 0)"),
        (np.array([["a"], ["b"], ["c"]]), "got <U1 of shape (3, 1)"),
        (np.zeros((3, 1), complex), "got complex128"),
    ],
)
def test_arrays_that_are_no_embedding(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array)
    assert message in refused(tmp_path / "a.npy")


def test_pickles_and_damaged_files_are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}, [], 1], object), allow_pickle=True)
    assert "holds Python objects" in refused(tmp_path / "objects.npy")
    for name in ("a.npy", "a.npz", "a.parquet"):
        (tmp_path / name).write_bytes(b"not at all")
        refused(tmp_path / name)
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS)
    assert "is one array, got a (3, 2), b (3, 2)" in refused(tmp_path / "two.npz")


def test_files_that_are_not_there_or_of_another_kind(tmp_path):
    assert "does not exist" in refused(tmp_path / "a.npy")
    (tmp_path / "a.csv").write_text("1,2\n")
    assert "give an embedding as .npy, .npz with one array, or .parquet" in refused(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("columns", "ids", "message"),
    [
        ({"id": ["a", "b", "x"], "f": [1, 2, 3]}, ["a", "b", "c"], "1 of the 3 samples have no row there, such as id"),
        ({"id": ["a", "b", "b"], "f": [1, 2, 3]}, ["a", "b", "c"], "it has 3 rows with 2 ids"),
        ({"id": ["a", "b", "c"], "f": [1, 2, 3]}, None, "has a column id: give the samples' ids"),
        ({"f": [1, 2, 3]}, ["a", "b"], None),
        ({"f": ["a", "b", "c"]}, None, "no column of lists or numbers; it has f"),
        ({"f": [1.0, None, 2.0]}, None, "row 1 has no embedding"),
        ({"f": [[1.0], [1.0, 2.0], [3.0]]}, None, "row 0 has 1 values, row 1 has 2"),
        ({"f": [["a"], ["b"], ["c"]]}, None, "must hold lists of numbers"),
        ({"f": [[1], [2], [3]], "g": [[1], [2], [3]]}, None, "which column is the embedding? f, g all hold lists"),
    ],
)
def test_tables_that_are_no_embedding(tmp_path, columns, ids, message):
    path = tmp_path / "a.parquet"
    pl.DataFrame(columns).write_parquet(path)
    given = None if ids is None else np.array(ids)
    if message is None:
        with pytest.raises(InputError, match="3 samples but 2 ids"):
            load_embedding(path, 3, ids=given)
    else:
        assert message in refused(path, ids=given)


def test_reading_an_embedding_does_not_need_torch(tmp_path):
    import subprocess

    np.save(tmp_path / "a.npy", ROWS)
    code = (
        f"import sys; from tcsl.embeddings import load_embedding; load_embedding({str(tmp_path / 'a.npy')!r}, 3); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Of CLIP.


def test_clip_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(InputError, match=r"pip install 'tcsl\[clip\]'"):
        load_clip("ViT-B-32", "openai")


@pytest.fixture
def unreachable(monkeypatch):
    """An open_clip that knows two models and cannot download."""

    def create_model(name, pretrained):
        raise RuntimeError(f"Failed to download weights for tag '{pretrained}': no network\nand more")

    module = types.ModuleType("open_clip")
    module.list_models = lambda: ["RN50", "ViT-B-32"]
    module.list_pretrained_tags_by_model = lambda name: ["openai", "laion2b"]
    module.create_model = create_model
    monkeypatch.setitem(sys.modules, "open_clip", module)


@pytest.mark.parametrize(
    ("name", "weights", "message"),
    [
        ("ViT-B32", "openai", r"unknown CLIP model 'ViT-B32'; did you mean 'ViT-B-32'"),
        ("RN50", "imagenet", r"needs weights: one of openai, laion2b, or a file that exists; got 'imagenet'"),
        ("RN50", "", r"got ''"),
        ("RN50", "openai", r"cannot be had: Failed to download .* no network. Where the network is .*the file's path"),
    ],
)
def test_clip_models_that_cannot_be_had(unreachable, name, weights, message):
    with pytest.raises(InputError, match=message) as caught:
        load_clip(name, weights)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.zeros((4, 6)), r"takes images .* got inputs of shape \(6,\)"),
        (np.zeros((4, 2, 8, 8)), r"got inputs of shape \(2, 8, 8\)"),
        (np.linspace(-1, 1, 4 * 192).reshape(4, 3, 8, 8), r"floats from 0 to 1, got floats from -1 to 1"),
    ],
)
def test_inputs_that_clip_cannot_see(inputs, message):
    with pytest.raises(InputError, match=message):
        check_images(torch.tensor(inputs, dtype=torch.float32))


def clip_like(**cfg):
    """Return what an open_clip model is to us: an encoder that knows its preprocessing."""
    model = nn.Module()
    model.visual = nn.Module()
    model.visual.preprocess_cfg = {"size": 4, "mean": (0.5,) * 3, "std": (0.25,) * 3, **cfg}
    model.encode_image = lambda x: x.mean((2, 3))
    return model


def test_clips_images_are_scaled_cropped_and_normalised():
    grey = torch.full((1, 1, 6, 9), 255, dtype=torch.uint8)
    torch.testing.assert_close(ClipImages(clip_like()).prepared(grey), torch.full((1, 3, 4, 4), 2.0))
    halves = torch.zeros(1, 3, 4, 8, dtype=torch.uint8)
    halves[..., 4:] = 255  # the centre has two columns of each half; squashed, every second column is left
    for resize in ("shortest", "squash"):
        seen = ClipImages(clip_like(resize_mode=resize)).prepared(halves)[0, 0, 0]
        assert seen[[0, 3]].tolist() == pytest.approx([-2, 2], abs=0.2)
    with pytest.raises(InputError, match="'longest' cannot be used"):
        ClipImages(clip_like(resize_mode="longest"))


def test_a_clip_model_with_weights_from_a_file(tmp_path):
    open_clip = pytest.importorskip("open_clip", reason="needs open_clip: pip install 'tcsl[clip]'")
    from open_clip.transform import PreprocessCfg, image_transform_v2
    from PIL import Image
    from safetensors.torch import save_file

    name = "ViT-S-32-alt"
    torch.manual_seed(0)
    model = open_clip.create_model(name, pretrained=None).eval()
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, tmp_path / "clip.safetensors")
    rng = np.random.default_rng(0)
    # Smooth images, wider than high: the transform of the library rounds to bytes between its steps.
    coarse = torch.tensor(rng.integers(0, 256, (3, 3, 5, 7)), dtype=torch.float32)
    images = nn.functional.interpolate(coarse, (240, 330), mode="bilinear").round().byte()
    feed = Feed.of(as_dataset((images.numpy(), np.array([0, 1, 0]))), CPU)
    found = embed_clip(load_clip(name, str(tmp_path / "clip.safetensors")), feed)
    transform = image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)
    ready = torch.stack([transform(Image.fromarray(image.permute(1, 2, 0).numpy())) for image in images])
    ours = ClipImages(model).prepared(images)
    assert (ours - ready).abs().max() < 0.02  # a byte is 0.015
    with torch.no_grad():
        expected = model.encode_image(ready).numpy()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
