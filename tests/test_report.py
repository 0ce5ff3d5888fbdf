"""The page of a run: what is in it, how much it weighs, that names are text, and that older runs have one, too."""

import gzip
import json
import re
import shutil
from base64 import b64decode

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file

import tcsl
from tcsl.data.convert import as_dataset
from tcsl.data.dataset import make_dataset
from tcsl.data.groups import make_groups
from tcsl.errors import InputError
from tcsl.report.densities import density, positive
from tcsl.report.keep import keep_samples
from tcsl.report.material import read_material
from tcsl.report.neighbours import nearest_chosen
from tcsl.report.outcome import outcome
from tcsl.report.pack import as_json, pack_columns
from tcsl.report.page import Served, page, write_page
from tcsl.report.room import page_limit, thumbnails_room
from tcsl.report.shown import by_importance, choose_shown, ease
from tcsl.report.thumbnails import pixels_of, thumbnails
from tcsl.report.why import spread, why
from tcsl.statistics import wilson
from tcsl.training.nets import build_net

NAMES = ("<script>alert(1)</script>", "\"quoted\" & 'single' </script><!--", "\u202egnorw", "x" * 300)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    few = {"data.options.per_class": 20, "data.options.val_per_class": 10, "train.epochs": 6}
    out = tmp_path_factory.mktemp("report") / "run"
    return tcsl.debias("digits", 0.3, settings=few, methods=["cb_erm", "el2n_top", "tcsl_cs"], out=out)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    rng = np.random.default_rng(0)
    labels, place = np.arange(40) % 4, rng.integers(0, 4, 40)
    groups = make_groups(labels, place, class_names=NAMES, attribute_names=NAMES)
    data = make_dataset(
        torch.from_numpy(rng.integers(0, 256, (40, 3, 12, 12), np.uint8)),
        torch.from_numpy(labels),
        class_names=NAMES,
        ids=np.array([f"{NAMES[k % 4]}{k}" for k in range(40)]),
        groups=groups,
        name=NAMES[0],
    )
    return tcsl.debias(data, 0.5, settings={"train.epochs": 4}, out=tmp_path_factory.mktemp("hostile") / "run")


def _script(html, name):
    return re.search(rf'<script type="application/[^"]*" id="tcsl-{name}">(.*?)</script>', html, re.DOTALL)[1]


def _facts(html):
    return json.loads(_script(html, "facts"))


def _columns(html):
    """Unpack the columns as the page's script does."""
    packed, start, out = gzip.decompress(b64decode(_script(html, "columns"))), 0, {}
    kinds = {"Uint8Array": "<u1", "Uint16Array": "<u2", "Uint32Array": "<u4", "Float32Array": "<f4"}
    for column in _facts(html)["columns"]:
        kind, length = np.dtype(kinds[column["kind"]]), column["length"]
        planes = np.frombuffer(packed, np.uint8, kind.itemsize * length, start).reshape(kind.itemsize, length)
        out[column["name"]] = np.ascontiguousarray(planes.T).view(kind).ravel()
        start += kind.itemsize * length
    assert start == len(packed)
    return out


def test_a_run_ends_with_its_page(run):
    html = run.page.read_text()
    columns, scores = _columns(html), run.scores
    assert json.loads(gzip.decompress(b64decode(_script(html, "ids")))) == [str(one) for one in scores.ids]
    np.testing.assert_allclose(columns["s"], scores.tcsl_s, rtol=2e-4)
    np.testing.assert_allclose(columns["c"], scores.tcsl_c, rtol=2e-4)
    assert columns["label"].tolist() == scores.labels.tolist()
    assert columns["high"].astype(bool).tolist() == scores.g_high.tolist()
    assert np.flatnonzero(columns["chosen"]).tolist() == run.coreset.indices.tolist()
    assert columns["shown"].tolist() == list(range(len(scores)))  # every sample has its thumbnail
    assert list(_facts(html)["why"]["densities"]) == ["TCSL_s", "TCSL_c", "EL2N"]


def test_without_early_nets_el2n_is_that_of_the_biased_model_and_nothing_is_trained_for_it(tmp_path):
    data = (np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32), np.arange(60) % 3)
    how = {"settings": {"train.epochs": 4}, "methods": ["tcsl_cs"], "out": tmp_path / "run"}
    run = tcsl.debias(data, 0.5, **how)
    assert list(_facts(run.page.read_text())["why"]["densities"]) == ["TCSL_s", "TCSL_c", "EL2N of the biased model"]
    stored = load_file(run.path / "checkpoints" / "biased.safetensors")
    net = build_net("auto", as_dataset(data), seed=0)
    net.load_state_dict({name.removeprefix("net."): value for name, value in stored.items() if name != "curves"})
    with torch.no_grad():
        logits = net.eval()(torch.from_numpy(data[0])).double().numpy()
    wrong = np.exp(logits) / np.exp(logits).sum(1, keepdims=True) - np.eye(3)[data[1]]
    kept = pl.read_parquet(run.path / "samples.parquet")
    assert "el2n" not in kept.columns
    np.testing.assert_allclose(kept["el2n_biased"], np.sqrt((wrong**2).sum(1)), rtol=1e-4)
    trained = (run.path / "metrics.jsonl").read_bytes()
    for name in ("samples.parquet", "report.html", "checkpoints/biased.safetensors"):
        (run.path / name).unlink()
    again = tcsl.debias(data, 0.5, **how, resume=True)
    assert list(_facts(again.page.read_text())["why"]["densities"]) == ["TCSL_s", "TCSL_c"]
    assert (run.path / "metrics.jsonl").read_bytes() == trained


def test_thumbnails_in_the_page_are_the_samples(run):
    import io

    from PIL import Image

    from tcsl.running import load_dataset
    from tcsl.runs import RunFolder

    html = run.page.read_text()
    ends = _columns(html)["ends"]
    pictures = b64decode(_script(html, "thumbnails"))
    data = load_dataset(RunFolder.find(run.path).settings(), only_train=True).train
    for i in (0, 7, len(ends) - 1):
        made = np.asarray(Image.open(io.BytesIO(pictures[ends[i - 1] if i else 0 : ends[i]])))
        assert (made == data.inputs[i].permute(1, 2, 0).numpy()).all()  # small ones are kept without loss


def test_the_same_run_has_the_same_bytes(run, tmp_path):
    assert write_page(run.path, tmp_path / "again.html").read_bytes() == run.page.read_bytes()


def test_numbers_before_and_after_have_their_intervals(run):
    told = outcome(read_material(run.path))
    row = told["accuracy"]["rows"][0]
    for when, method in (("before", "cb_erm"), ("after", "tcsl_cs")):
        parts = run.result["evaluation"][method]["groups"]
        worst = min(parts, key=lambda part: part["accuracy"])
        assert row[when]["value"] == worst["accuracy"] == run.result["evaluation"][method]["wga"]
        assert run.result["evaluation"][method]["worth"] < run.result["evaluation"][method]["n"]  # in every colour
        assert (row[when]["low"], row[when]["high"]) == wilson(worst["accuracy"] * worst["worth"], worst["worth"])
        assert row[when]["n"] == worst["n"]
    assert told["truth"]["minority"] == run.result["identification"]["minority"]


def test_verdict_and_predictions_are_shown_where_there_are_any(run, tmp_path):
    copy = shutil.copytree(run.path, tmp_path / "run")
    result = json.loads((copy / "result.json").read_text())
    verdict = {"found": True, "sentence": "There is a shortcut & it is <b>big</b>.", "p": 0.00021, "level": 0.05}
    (copy / "result.json").write_text(json.dumps({**result, "verdict": verdict}))
    labels = np.array([0, 0, 1, 1])
    pl.DataFrame(
        {"id": labels, "label": labels, "biased": [0, 1, 1, 1], "cb_erm": [0, 1, 1, 1], "tcsl_cs": [0, 0, 1, 1]}
    ).write_parquet(copy / "predictions.parquet")
    material = read_material(copy)
    rows = {row["title"]: row for row in outcome(material)["accuracy"]["rows"]}
    wrong = rows["Where the biased model is wrong"]
    assert (wrong["before"]["value"], wrong["after"]["value"], wrong["after"]["n"]) == (0.0, 1.0, 1)
    balanced = rows["Balanced over class x (is the biased model right)"]
    assert balanced["before"]["value"] == pytest.approx(2 / 3)  # the cells 0 right, 0 wrong, 1 right: 1, 0 and 1
    html = page(material)
    assert "There is a shortcut &amp; it is &lt;b&gt;big&lt;/b&gt;." in html
    assert "p = 0.00021" in html
    assert _facts(html)["words"]["apart"] == "Contradict the shortcut"
    (copy / "result.json").write_text(json.dumps({**result, "verdict": {**verdict, "found": False}}))
    html = page(read_material(copy))
    assert _facts(html)["words"]["apart"] == "Stand apart"
    assert "the shortcut fails there" not in html


def test_weighted_and_balanced_averages_have_intervals(run):
    rows = {row["title"]: row for row in outcome(read_material(run.path))["accuracy"]["rows"]}
    for title in (
        "Average, groups weighted as in the training set",
        "Balanced over class x (is the biased model right)",
    ):
        for when in ("before", "after"):
            one = rows[title][when]
            assert 0 <= one["low"] < one["value"] < one["high"] <= 1
            assert one["n"] == run.result["evaluation"]["cb_erm"]["n"]
    weighted = rows["Average, groups weighted as in the training set"]["after"]
    assert weighted["value"] == run.result["evaluation"]["tcsl_cs"]["weighted_average"]


def test_older_runs_have_a_page_that_says_what_is_missing(run, tmp_path):
    copy = shutil.copytree(run.path, tmp_path / "run")
    for name in ("samples.parquet", "groups.parquet", "report.html"):
        (copy / name).unlink()
    html = write_page(copy).read_text()
    assert "the run has no samples.parquet" in html
    assert "the run has no groups.parquet" in html
    assert _facts(html)["groups"] is None
    assert "shown" not in _columns(html)


def test_resume_adds_what_is_missing(tmp_path):
    few = {"train.epochs": 4}
    data = (np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32), np.arange(30) % 2)
    first = tcsl.debias(data, 0.5, settings=few, out=tmp_path / "run", page=False)
    assert first.page is None
    assert not (first.path / "samples.parquet").exists()
    again = tcsl.debias(data, 0.5, settings=few, out=tmp_path / "run", resume=True)
    assert again.page == again.path / "report.html"
    before = again.page.stat().st_mtime_ns
    tcsl.debias(data, 0.5, settings=few, out=tmp_path / "run", resume=True)
    assert again.page.stat().st_mtime_ns == before


def test_rows_have_their_values_as_text(tmp_path):
    X = np.arange(60, dtype=np.float32).reshape(20, 3)
    run = tcsl.debias((X, np.arange(20) % 2), 0.5, settings={"train.epochs": 4}, out=tmp_path / "run")
    html = run.page.read_text()
    texts = json.loads(gzip.decompress(b64decode(_script(html, "texts"))))
    assert texts[1] == "3, 4, 5"
    assert "thumbnails" not in re.findall(r'id="tcsl-(\w+)"', html)


def test_hostile_names_close_no_tag_and_open_none(hostile):
    html = hostile.page.read_text()
    assert "alert(1)</script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert _facts(html)["classes"] == list(NAMES)
    kinds = re.findall(r"<script([^>]*)>", html)
    assert all(kind.startswith((' type="application/', ' type="module"')) for kind in kinds)


def test_json_in_a_page_is_the_same_value_without_tags():
    value = {"a": "</script><!-- ]]> \u2028 & 'x' \"y\"", "b": [1.5, None]}
    text = as_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028") & set(text)


def test_groups_are_in_no_table_of_a_method(run):
    for name in ("scores.parquet", "coreset.parquet", "samples.parquet"):
        columns = pl.read_parquet(run.path / name).columns
        assert not [column for column in columns if "group" in column or "minority" in column]


def test_a_server_adds_its_addresses(run):
    material = read_material(run.path)
    html = page(material, Served(image="image/{index}", marks="marks", script="window.added = 1;"))
    told = {"image": "image/{index}", "marks": "marks", "token": "", "note": ""}
    assert json.loads(_script(html, "served")) == told
    assert json.loads(_script(page(material), "served")) == {}
    assert "window.added = 1;" in html
    assert "connect-src &#39;self&#39;" in html
    assert "connect-src &#39;none&#39;" in page(material)


def test_a_run_without_tcsl_cs_has_no_page(tmp_path):
    data = (np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2)
    run = tcsl.debias(data, settings={"train.epochs": 2}, methods=["cb_erm"], out=tmp_path / "run")
    assert run.page is None
    with pytest.raises(InputError, match="only a run with the method tcsl_cs"):
        write_page(run.path)


def test_commands(run, tcsl_command, tmp_path):
    code, out, err = tcsl_command("report", run.path, "--out", tmp_path / "one.html")
    assert (code, out.strip(), err) == (0, str(tmp_path / "one.html"), "")
    code, out, _ = tcsl_command("report", run.path, tmp_path / "nowhere")
    assert code == 2
    other = shutil.copytree(run.path, tmp_path / "other")
    code, out, _ = tcsl_command("report", run.path, other, "--out", tmp_path / "both.html", "--json")
    assert json.loads(out) == {"page": str(tmp_path / "both.html")}
    facts = _facts((tmp_path / "both.html").read_text())
    assert [one["name"] for one in facts["runs"]] == ["run", "other"]


def test_the_command_prints_the_page_last(tcsl_command, tmp_path):
    few = ["--quiet", "--set", "train.epochs=4", "--set", "data.options.per_class=10", "--method", "tcsl_cs"]
    code, out, _ = tcsl_command("run", "digits", *few, "--out", tmp_path / "a", "--no-report")
    assert code == 0
    assert not (tmp_path / "a" / "report.html").exists()
    code, out, _ = tcsl_command("run", "digits", *few, "--out", tmp_path / "b")
    assert out.splitlines()[-1] == f"open its page: {tmp_path / 'b' / 'report.html'}"


def _scored(n, rng):
    return rng.gamma(2.0, 1.0, n).astype(np.float32), rng.gamma(2.0, 1.0, n).astype(np.float32)


def test_importance_orders_everyone_once_and_leaves_room_for_the_rest():
    rng = np.random.default_rng(0)
    s, c = _scored(1000, rng)
    high = np.arange(1000) < 600
    order = by_importance(np.array([5, 7]), s, c, high, room=200, seed=0)
    assert sorted(order.tolist()) == list(range(1000))
    assert order[:2].tolist() == [5, 7]
    assert set(np.argsort(-c)[:10]) <= set(order[:200])
    assert set(np.flatnonzero(high)[np.argsort(-s[high])[:10]]) <= set(order[:200])
    assert not high[order[:200]].all()


def test_shown_has_the_ends_of_every_class():
    rng = np.random.default_rng(1)
    s, c = _scored(300, rng)
    labels, chosen = np.arange(300) % 3, np.arange(300) % 5 == 0
    shown = choose_shown(s, c, labels, chosen)
    for label in range(3):
        members = np.flatnonzero(labels == label)
        for key in (-s, -c, ease(s, c)):
            assert members[np.argmin(key[members])] in shown.extremes
        assert not chosen[shown.left_out].any()
        assert (labels[shown.left_out] == label).sum() == 12


def test_neighbours_are_the_nearest_chosen_of_the_class():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(50, 3))
    labels, chosen, left_out = np.arange(50) % 2, np.arange(0, 50, 3), np.array([1, 2, 4])
    near = nearest_chosen(torch.from_numpy(rows).float(), labels, chosen, left_out, k=2)
    scaled = rows / rows[chosen].std(0)
    for i, found in zip(left_out, near, strict=True):
        same = [j for j in chosen if labels[j] == labels[i]]
        best = sorted(same, key=lambda j: float(((scaled[j] - scaled[i]) ** 2).sum()))[:2]
        assert found.tolist() == best


@pytest.mark.parametrize("room", [2_000_000, 200_000, 20_000])
def test_thumbnails_keep_to_their_room(room):
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (60, 3, 180, 180), np.uint8))
    made = thumbnails(pixels_of(images), np.arange(60), room)
    assert sum(map(len, made.values())) <= room
    assert list(made) == list(range(len(made)))
    assert len(made) == 60 or room == 20_000


def test_pixels_of_floats_and_greys():
    bytes_ = torch.arange(12, dtype=torch.uint8).reshape(1, 1, 3, 4) * 20
    for inputs in (bytes_, bytes_.float(), bytes_.float() / 255, bytes_[:, 0]):
        assert pixels_of(inputs)(0).tolist() == bytes_[0, 0].tolist()
    stretched = pixels_of(torch.tensor([[[-1.0, 0.0], [0.5, 1.0]]]))(0)
    assert stretched.tolist() == [[0, 128], [191, 255]]
    assert pixels_of(torch.full((1, 2, 2), -3.0))(0).tolist() == [[0, 0], [0, 0]]


def test_a_page_of_more_samples_than_points_has_a_density_and_keeps_its_limit(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tcsl.report.page.POINTS", 100)
    monkeypatch.setattr("tcsl.report.page._DRAWN", 50)
    material = read_material(run.path)
    html = page(material)
    columns = _columns(html)
    assert columns["counts"].sum() == len(run.scores)
    assert len(columns["drawn"]) == 50
    assert len(html) < page_limit(len(run.scores))


def test_room_shrinks_with_the_ids_and_never_below_a_million():
    short, long = np.arange(6000), np.array(["y" * 10 + str(k * 7919 % 6007) for k in range(6000)])
    assert thumbnails_room(long) < thumbnails_room(short) < page_limit(6000)
    assert page_limit(5000) == 10_000_000


def test_composition_counts_everyone_and_the_coreset(run):
    parts = why(read_material(run.path))["composition"]
    assert [part["by"] for part in parts] == ["class", "cluster", "tenth of TCSL_c", "group"]
    for part in parts:
        assert sum(part["all"]) == len(run.scores)
        assert sum(part["coreset"]) == len(run.coreset)


def test_parts_have_the_density_of_the_figures_and_few_samples_are_points():
    rng = np.random.default_rng(0)
    values = rng.gamma(2.0, 1.0, 4000).astype(np.float32)
    made = spread(values, {"all": values > 0, "few": np.arange(4000) < 5, "nobody": values < 0})
    at, height = density(positive(values))
    parts = made["parts"]
    assert made["ends"] == [values.min(), values.max()]
    assert parts["all"]["x"] == pytest.approx(at, rel=1e-3)
    assert parts["all"]["y"] == pytest.approx(height / height.max(), rel=1e-3)
    assert parts["few"] == {"x": pytest.approx(values[:5], rel=1e-3)}
    assert list(parts) == ["all", "few"]


def test_columns_of_every_kind_come_back():
    about, packed = pack_columns({"a": np.array([1, 70000], np.uint32), "b": np.array([0.5], np.float32)})
    assert [one["kind"] for one in about] == ["Uint32Array", "Float32Array"]
    assert len(gzip.decompress(packed)) == 12


def test_samples_of_another_run_are_refused(run, tmp_path):
    copy = shutil.copytree(run.path, tmp_path / "run")
    pl.read_parquet(copy / "samples.parquet").head(3).write_parquet(copy / "samples.parquet")
    with pytest.raises(InputError, match="has 3 rows"):
        write_page(copy)


def test_kept_samples_are_the_same_again(run, tmp_path):
    from tcsl.running import load_dataset
    from tcsl.runs import RunFolder

    copy = shutil.copytree(run.path, tmp_path / "run")
    data = load_dataset(RunFolder.find(run.path).settings(), only_train=True).train
    el2n = pl.read_parquet(copy / "samples.parquet")["el2n"].to_numpy()
    keep_samples(data, copy, seed=0, el2n={"el2n": el2n})
    assert (copy / "samples.parquet").read_bytes() == (run.path / "samples.parquet").read_bytes()
