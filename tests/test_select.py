"""`tcsl select` on any table: every kind of file gives the same, and bad input is one clear line."""

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import tcsl
from tcsl.errors import InputError, TcslWarning
from tcsl.scores import Coreset, Scores, digest, read_facts
from tcsl.selection.coreset import scores_of

N = 40
RNG = np.random.default_rng(0)
SPECIES = np.where(np.arange(N) % 4 == 0, "water", "land")
TABLE = pl.DataFrame(
    {
        "name": [f"s{i:02d}" for i in range(N)],
        "species": SPECIES,
        "el2n": RNG.permutation(N) / 7,
        "loss": RNG.permutation(N),
        "note": ["x"] * N,
    }
)
EMBEDDING = RNG.standard_normal((N, 3))
COLUMNS = ["--score", "el2n", "--label", "species", "--id", "name"]


def write(frame, path):
    kind = path.suffix
    if kind == ".parquet":
        frame.write_parquet(path)
    elif kind == ".jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_csv(path, separator="\t" if kind == ".tsv" else ",")
    return path


@pytest.fixture
def table(tmp_path):
    return write(TABLE, tmp_path / "t.parquet")


def curves(n=N):
    rng = np.random.default_rng(1)
    return (rng.exponential(size=(n, 3)) * np.where(np.arange(n) % 5 == 0, 4, 0.1)[:, None]).astype(np.float32)


def own_scores(path, **facts):
    """Write a scores.parquet such as a run has."""
    losses, rng = curves(), np.random.default_rng(2)
    tcsl_c, codes = rng.random(N).astype(np.float32), (SPECIES == "water").astype(np.int64)
    facts = {"profile": "default", "seed": 3, "class_names": ["land", "water"], "fingerprint": "f", **facts}
    Scores(np.arange(N) + 100, codes, losses.mean(1), tcsl_c, np.zeros(N, bool), losses, facts).save(path)
    return path


# What is kept.


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("rule", ["bot", "top", "hist", "ccs", "random"])
def test_every_kind_of_table_gives_what_arrays_give(rule, kind, tcsl_command, tmp_path):
    path = write(TABLE, tmp_path / f"t{kind}")
    code, out, err = tcsl_command("select", path, "--rule", rule, *COLUMNS, "--ratio", "0.3", "--seed", "5")
    assert code == 0, err
    expected = tcsl.select(TABLE["el2n"].to_numpy(), SPECIES, rule=rule, ratio=0.3, seed=5).indices
    kept = pl.read_parquet(tmp_path / f"coreset-{rule}-0.3.parquet")
    assert kept.columns == ["index", "id", "label", "g_high", "score"]
    assert kept["index"].to_list() == expected.tolist()
    assert kept["id"].to_list() == TABLE["name"].gather(expected).to_list()
    assert kept["label"].to_list() == SPECIES[expected].tolist()
    assert kept["score"].to_list() == TABLE["el2n"].gather(expected).to_list()
    assert not kept["g_high"].any()
    assert "kept 12 of 40 samples" in out
    assert "water" in out


@pytest.mark.parametrize("form", ["npy", "parquet", "parquet with ids"])
def test_d2_reads_an_embedding(form, tcsl_command, table, tmp_path):
    more = {"k": 4, "gamma": 0.3, "beta": 0.2, "by_class": True, "metric": "cosine"}
    expected = tcsl.select(TABLE["el2n"].to_numpy(), SPECIES, rule="d2", ratio=0.3, embedding=EMBEDDING, **more)
    path = tmp_path / ("e.npy" if form == "npy" else "e.parquet")
    if form == "npy":
        np.save(path, EMBEDDING)
    else:
        rows = pl.DataFrame({"vector": pl.Series(EMBEDDING.astype(np.float32))})
        # With ids, in another order.
        (rows if form == "parquet" else rows.with_columns(id=TABLE["name"]).reverse()).write_parquet(path)
    words = ["--k", 4, "--gamma", 0.3, "--beta", 0.2, "--by-class", "--metric", "cosine", "--ratio", 0.3]
    code, out, err = tcsl_command("select", table, "--rule", "d2", *COLUMNS, "--embedding", path, *words, "--json")
    assert code == 0, err
    assert json.loads(out)["ids"] == TABLE["name"].gather(expected.indices).to_list()


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("words", [False, True])
def test_rgbal_reads_the_minority(words, kind, tcsl_command, tmp_path):
    minority = np.arange(N) % 6 == 0
    column = pl.Series(minority) if words else pl.Series(minority.astype(int))
    path = write(TABLE.with_columns(rare=column), tmp_path / f"t{kind}")
    expected = tcsl.select(TABLE["el2n"].to_numpy(), SPECIES, rule="rgbal", ratio=0.3, seed=5, minority=minority)
    assert minority[expected.indices].sum() == minority.sum() == 7
    assert expected.facts["minority"] == digest(minority)
    given = ["--minority", "rare", "--label", "species", "--ratio", 0.3, "--seed", 5, "--json"]
    code, out, err = tcsl_command("select", path, "--rule", "rgbal", *given)
    assert code == 0, err
    assert json.loads(out)["ids"] == expected.indices.tolist()
    assert read_facts(tmp_path / "coreset-rgbal-0.3.parquet")["told"] == "rare"
    code, out, err = tcsl_command("select", path, "--rule", "rgbal", *given, "--by-class")
    assert code == 0, err
    assert {name: part["kept"] for name, part in json.loads(out)["classes"].items()} == {"land": 6, "water": 6}


def test_tcsl_cs_takes_the_minority_in_place_of_its_own_g_high(tcsl_command, tmp_path):
    path = own_scores(tmp_path / "scores.parquet")
    minority = np.arange(N) % 8 == 3  # none of what the losses say
    table = pl.read_parquet(path).with_columns(rare=pl.Series(minority))
    table.write_parquet(tmp_path / "t.parquet")
    expected = tcsl.select(path, ratio=0.5, seed=3, minority=minority)  # ten places a class: half of them hold it
    assert expected.g_high.sum() == minority.sum()
    assert minority[expected.indices[expected.g_high]].all()
    assert expected.facts["minority"] == digest(minority)
    given = ["--minority", "rare", "--ratio", 0.5, "--seed", 3]
    code, out, err = tcsl_command("select", tmp_path / "t.parquet", *given, "--json")
    assert code == 0, err
    assert json.loads(out)["ids"] == expected.ids.tolist()
    _, out, _ = tcsl_command("select", tmp_path / "t.parquet", *given)
    assert "5 of the minority, 15 by TCSL_c" in out


def test_a_class_of_which_nothing_but_g_high_is_kept_is_told(tcsl_command, tmp_path):
    path = own_scores(tmp_path / "scores.parquet")
    high = np.isin(np.arange(N), np.flatnonzero(SPECIES == "land")[:6])  # six of ten places: land has no other left
    pl.read_parquet(path).with_columns(rare=pl.Series(high)).write_parquet(tmp_path / "t.parquet")
    words = ["select", tmp_path / "t.parquet", "--minority", "rare", "--ratio"]
    printed = ["--set", "select.high_share=1"]
    assert "take care: all that is kept of class 0 is of G_high" in tcsl_command(*words, 0.25, *printed)[1]
    assert "take care" not in tcsl_command(*words, 0.4, *printed)[1]
    # At most half of a class's places are G_high's by default: three of five.
    assert "take care: the coreset has places for 3 of the 6 in G_high" in tcsl_command(*words, 0.25)[1]


@pytest.mark.parametrize(
    ("minority", "message"),
    [
        (np.zeros(N, bool), "minority is false for every sample"),
        (np.ones(3, bool), r"for each of the 40 samples, got bool of shape \(3,\)"),
        (np.arange(N), "must be true or false for each"),
        (None, "the rule rgbal needs the minority"),
    ],
)
def test_a_minority_that_cannot_be(minority, message):
    with pytest.raises(InputError, match=message):
        tcsl.select(TABLE["el2n"].to_numpy(), SPECIES, rule="rgbal", ratio=0.3, minority=minority)


def test_columns_with_usual_names_are_found_and_without_an_id_rows_are_numbered(tcsl_command, tmp_path):
    write(TABLE.select("el2n", y="species"), tmp_path / "t.csv")
    code, out, err = tcsl_command("select", tmp_path / "t.csv", "--rule", "top", "--score", "el2n", "--json")
    assert code == 0
    assert "label=y" in err
    assert json.loads(out)["ids"] == np.sort(np.argsort(-TABLE["el2n"].to_numpy())[:4]).tolist()


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "jsonl"])
def test_the_coreset_is_of_the_kind_that_its_name_says(kind, tcsl_command, table, tmp_path):
    place = tmp_path / f"kept.{kind}"
    place.write_text("an older file")  # replaced, as ever
    words = ["select", table, "--rule", "bot", *COLUMNS, "--out", place]
    assert tcsl_command(*words)[0] == 0
    read = {
        "parquet": pl.read_parquet,
        "csv": pl.read_csv,
        "tsv": lambda path: pl.read_csv(path, separator="\t"),
        "jsonl": pl.read_ndjson,
    }[kind]
    assert read(place)["id"].to_list() == TABLE.sort("el2n")["name"].head(4).sort().to_list()
    before = place.read_bytes()
    assert tcsl_command(*words)[0] == 0
    assert place.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"t.parquet", f"kept.{kind}"}


def test_what_is_kept_of_each_class_is_told(tcsl_command, table):
    _, out, _ = tcsl_command("select", table, "--rule", "bot", *COLUMNS, "--by-class", "--ratio", "0.5", "--json")
    assert json.loads(out)["classes"] == {"land": {"samples": 30, "kept": 15}, "water": {"samples": 10, "kept": 5}}
    _, out, _ = tcsl_command("select", table, "--rule", "bot", *COLUMNS, "--by-class", "--ratio", "0.5")
    assert "50.0" in out
    assert "the coreset is in" in out


def test_of_many_classes_those_are_told_of_which_least_was_kept(tcsl_command, tmp_path):
    classes = np.arange(300) % 100
    path = write(pl.DataFrame({"label": classes, "s": np.arange(300.0)}), tmp_path / "t.csv")
    code, out, err = tcsl_command("select", path, "--rule", "top", "--score", "s", "--ratio", "0.25")
    assert code == 0
    assert "and 80 classes of which more was kept" in out
    assert out.count("│") == 20 * 5
    assert err.count("warning: the coreset has no sample of class 0, 1, 2") == 1


def test_a_lost_class_is_named_as_the_table_names_it(tcsl_command, tmp_path):
    sea = pl.col("species") == "water"
    frame = TABLE.with_columns(el2n=sea.cast(pl.Int8), species=pl.when(sea).then(pl.lit("sea")).otherwise("species"))
    words = ["select", write(frame, tmp_path / "t.parquet"), "--rule", "bot", *COLUMNS, "--ratio", "0.2"]
    assert "no sample of class sea" in tcsl_command(*words)[2]


def test_a_class_that_algorithm_2_lost_is_told_with_the_coreset(tcsl_command, tmp_path):
    path = own_scores(tmp_path / "scores.parquet")
    high = np.isin(np.arange(N), np.flatnonzero(SPECIES == "land")[:2])
    pl.read_parquet(path).with_columns(rare=pl.Series(high)).write_parquet(tmp_path / "t.parquet")
    words = ["select", tmp_path / "t.parquet", "--minority", "rare", "--ratio", 0.05, "--set", "select.fill=global"]
    _, out, err = tcsl_command(*words, "--set", "select.high_share=1")
    assert "the coreset has no sample of class 1" in err
    assert "take care: nothing is kept of class 1: its model cannot predict that; a larger ratio keeps some" in out


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_classes_that_are_numbers_are_in_their_order_in_every_kind_of_table(kind, tcsl_command, tmp_path):
    # "10" comes before "9" in the alphabet; bins by class are drawn class by class.
    codes = np.where(np.arange(N) % 2, 9, 10)
    path = write(TABLE.with_columns(species=pl.Series(codes)), tmp_path / f"t{kind}")
    _, out, _ = tcsl_command("select", path, "--rule", "hist", *COLUMNS, "--by-class", "--ratio", "0.4", "--json")
    expected = tcsl.select(TABLE["el2n"].to_numpy(), codes, rule="hist", by_class=True, ratio=0.4)
    assert json.loads(out)["ids"] == TABLE["name"].gather(expected.indices).to_list()
    assert pl.read_parquet(tmp_path / "coreset-hist-0.4.parquet")["label"].to_list() == expected.labels.tolist()


# The scores of a run.


def test_other_rules_on_the_scores_of_a_run_keep_its_provenance(tcsl_command, tmp_path):
    path = own_scores(tmp_path / "scores.parquet")
    code, out, err = tcsl_command("select", tmp_path, "--rule", "hist", "--score", "tcsl_c", "--ratio", "0.2")
    assert code == 0, err
    assert "hist by tcsl_c" in out
    assert "land" in out
    kept = Coreset.load(tmp_path / "coreset-hist-0.2.parquet")
    scores = Scores.load(path)
    expected = tcsl.select(scores.tcsl_c, scores.labels, rule="hist", ratio=0.2, seed=3)
    assert kept.indices.tolist() == expected.indices.tolist()
    assert kept.ids.tolist() == (kept.indices + 100).tolist()
    assert (kept.facts["fingerprint"], kept.facts["seed"], kept.facts["score"]) == ("f", 3, "tcsl_c")


def test_tcsl_cs_goes_by_any_score(tcsl_command, tmp_path):
    path = own_scores(tmp_path / "scores.parquet")
    by_default = tcsl.select(path, ratio=0.5)
    words = ["select", path, "--ratio", "0.5", "--out", tmp_path / "x.parquet"]
    _, out, _ = tcsl_command(*words)
    assert "by TCSL_c" in out
    assert Coreset.load(tmp_path / "x.parquet").indices.tolist() == by_default.indices.tolist()
    _, out, _ = tcsl_command(*words, "--score", "tcsl_c")
    assert Coreset.load(tmp_path / "x.parquet").indices.tolist() == by_default.indices.tolist()
    _, out, _ = tcsl_command(*words, "--score", "tcsl_s", "--rule", "tcsl_cs", "--bins", "7")
    scores = Scores.load(path)
    expected = tcsl.select(
        scores.tcsl_s, scores.labels, rule="tcsl_cs", curves=scores.curves, ratio=0.5, bins=7, seed=3
    )
    assert Coreset.load(tmp_path / "x.parquet").indices.tolist() == expected.indices.tolist()
    assert "by tcsl_s" in out
    assert expected.facts["select"]["bins"] == 7


def test_scores_that_were_exported_as_csv_give_the_same_coreset(tcsl_command, tmp_path):
    from tcsl.export.tables import export_scores

    path = own_scores(tmp_path / "scores.parquet")
    export_scores(Scores.load(path), tmp_path / "scores.csv")
    for ratio in ("0.2", "0.6"):
        code, out, err = tcsl_command("select", tmp_path / "scores.csv", "--ratio", ratio, "--seed", "3", "--json")
        assert code == 0, err
        assert json.loads(out)["ids"] == tcsl.select(path, ratio=float(ratio)).ids.astype(str).tolist()


def test_a_coreset_of_a_table_trains_where_its_ids_are_those_of_the_training_set(tcsl_command, tmp_path):
    X, y = np.random.default_rng(0).normal(size=(N, 3)), np.arange(N) % 2
    write(pl.DataFrame({"label": y, "s": np.arange(N)}), tmp_path / "t.csv")
    tcsl_command("select", tmp_path / "t.csv", "--rule", "hist", "--score", "s", "--ratio", "0.5")
    kept = Coreset.load(tmp_path / "coreset-hist-0.5.parquet")
    tcsl.train((X, y), kept, settings={"train.epochs": 1})
    write(pl.DataFrame({"label": y, "s": np.arange(N), "id": np.arange(N)[::-1]}), tmp_path / "t.csv")
    tcsl_command("select", tmp_path / "t.csv", "--rule", "hist", "--score", "s", "--ratio", "0.5")
    kept = Coreset.load(tmp_path / "coreset-hist-0.5.parquet")
    with pytest.raises(
        InputError, match=r"chosen from t.csv, whose row \d+ has the id '\d+'; in training data that is"
    ):
        tcsl.train((X, y), kept, settings={"train.epochs": 1})


def test_a_coreset_of_a_coreset_is_not_taken_for_one_of_the_data(tcsl_command, tmp_path):
    own_scores(tmp_path / "scores.parquet")
    half, kept = tmp_path / "half.parquet", tmp_path / "kept.parquet"
    tcsl_command("select", tmp_path, "--rule", "top", "--score", "tcsl_c", "--ratio", "0.5", "--out", half)
    tcsl_command("select", half, "--rule", "top", "--score", "score", "--ratio", "0.5", "--out", kept)
    assert Coreset.load(half).facts["fingerprint"] == "f"
    assert Coreset.load(kept).facts["fingerprint"] is None
    # The ten hardest of the twenty hardest are the ten hardest.
    scores = Scores.load(tmp_path / "scores.parquet")
    assert Coreset.load(kept).ids.tolist() == np.sort(scores.ids[np.argsort(-scores.tcsl_c)[:10]]).tolist()


def test_a_coreset_of_a_table_can_be_exported(tmp_path):
    from tcsl.config import resolve
    from tcsl.export.tables import export_table

    frame = TABLE.select("name", "loss", label="species", id="name").drop("name")
    path = write(frame, tmp_path / "t.csv")
    kept = tcsl.select(TABLE["el2n"].to_numpy(), SPECIES, rule="bot", ratio=0.1)
    kept = Coreset(kept.indices, frame["id"].to_numpy()[kept.indices], kept.labels, kept.g_high)
    export_table(kept, resolve(dataset=str(path)), tmp_path / "kept.csv", class_names=["land", "water"])
    assert pl.read_csv(tmp_path / "kept.csv")["id"].to_list() == kept.ids.tolist()


def test_no_rule_needs_torch(table, tmp_path):
    np.save(tmp_path / "e.npy", EMBEDDING)
    code = (
        "import sys; from tcsl.cli import main; sys.argv = ['tcsl', *sys.argv[1:]]\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "import tcsl; tcsl.select([1, 2], [0, 0], rule='bot', ratio=0.5)\n"
        "heavy = {'torch', 'torchvision', 'sklearn', 'scipy', 'timm'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    for rule in (["bot"], ["d2", "--embedding", tmp_path / "e.npy"]):
        words = ["select", table, "--rule", *rule, *COLUMNS]
        done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


# Bad input.


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with tables that are wrong in some way."""
    monkeypatch.chdir(tmp_path)
    n = pl.int_range(N)
    write(TABLE, tmp_path / "t.csv")
    write(TABLE, tmp_path / "t.parquet")
    odd = pl.when(n == 4).then(float("nan")).when(n == 7).then(float("inf")).otherwise(pl.col("el2n"))
    for kind in (".csv", ".parquet"):
        write(TABLE.with_columns(el2n=odd), tmp_path / f"nan{kind}")
        write(TABLE.with_columns(el2n=pl.when(n == 2).then(None).otherwise(pl.col("el2n"))), tmp_path / f"hole{kind}")
        write(
            TABLE.with_columns(species=pl.when(n == 2).then(None).otherwise(pl.col("species"))), tmp_path / f"no{kind}"
        )
        write(TABLE.head(0), tmp_path / f"empty{kind}")
    write(
        TABLE.with_columns(el2n=pl.when(n == 2).then(pl.lit("high")).otherwise(pl.col("loss"))), tmp_path / "word.csv"
    )
    write(
        TABLE.with_columns(name=pl.when(n == 9).then(pl.lit("s00")).otherwise(pl.col("name"))), tmp_path / "twice.csv"
    )
    write(TABLE.head(1), tmp_path / "one.csv")
    (tmp_path / "nothing.csv").touch()
    (tmp_path / "torn.csv").write_text("label,el2n\na,1\nb\n")
    (tmp_path / "text.parquet").write_text("hello")
    (tmp_path / "arrays.npz").write_bytes(b"PK")
    (tmp_path / "folder").mkdir()
    write(TABLE.with_columns(curve=pl.Series(curves())), tmp_path / "lists.parquet")
    np.save(tmp_path / "e.npy", EMBEDDING)
    np.save(tmp_path / "short.npy", EMBEDDING[1:])
    pl.DataFrame({"id": [f"t{i}" for i in range(N)], "v": np.arange(N)}).write_parquet(tmp_path / "others.parquet")
    return tmp_path


D2 = ["--rule", "d2", "--embedding", "e.npy"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["t.csv", "--rule", "hits"],
            "unknown rule 'hits'; did you mean 'hist'? Known: bot, ccs, d2, hist, random, rgbal",
        ),
        (["t.csv"], "t.csv has no loss curves"),
        (["t.parquet"], "such as --rule hist --score COLUMN; columns of numbers: el2n, loss"),
        (
            ["t.csv", "--rule", "bot", "--score", "el2m"],
            "for 'score' 'el2m'; did you mean 'el2n'? Known: el2n, loss, name",
        ),
        (["t.csv", "--rule", "bot", "--label", "specie"], "'label' 'specie'; did you mean 'species'? Known: el2n,"),
        (["t.csv", "--rule", "bot", "--id", "nam"], "'id' 'nam'; did you mean 'name'?"),
        (
            ["t.csv", "--rule", "bot", "--score", "name"],
            "'name' does not hold numbers, row 1 has 's00'; columns of numb",
        ),
        (["t.parquet", "--rule", "bot", "--score", "note"], "'note' does not hold numbers, row 1 has 'x'; columns of"),
        (
            ["word.csv", "--rule", "bot"],
            "1 bad sample: row 3 of word.csv has the score 'high'. Column 'el2n' must hold",
        ),
        (["nan.csv", "--rule", "bot"], "row 5 of nan.csv has the score 'NaN'; row 8 of nan.csv has the score 'inf'"),
        (["nan.parquet", "--rule", "bot"], "2 bad samples: row 5 of nan.parquet has the score 'nan'; row 8"),
        (["hole.csv", "--rule", "bot"], "row 3 of hole.csv has no score. Column 'el2n' must hold a finite number"),
        (["hole.parquet", "--rule", "bot"], "row 3 of hole.parquet has no score"),
        (["no.csv", "--rule", "bot"], "row 3 of no.csv has no label. Mend the table, or take those rows out of it"),
        (["no.parquet", "--rule", "bot"], "row 3 of no.parquet has no label"),
        (
            ["twice.csv", "--rule", "bot"],
            "row 10 of twice.csv has the id 's00' of row 1 of twice.csv: ids must be unique",
        ),
        (["t.csv", "--rule", "bot", "--ratio", "20"], "ratio must be in (0, 1], got 20; did you mean 0.20?"),
        (["t.csv", "--rule", "bot", "--ratio", "0"], "ratio must be in (0, 1], got 0"),
        (["t.csv", "--rule", "bot", "--ratio", "nan"], "ratio must be in (0, 1], got nan"),
        (
            ["t.csv", "--rule", "bot", "--ratio", "0.001"],
            "ratio 0.001 of 40 samples is no sample: use a ratio of 0.0253",
        ),
        (["t.csv", *D2, "--k", "40", "--beta", "0"], "below the number of samples, 40; got 40: use another k"),
        (["t.csv", *D2, "--k", "30"], "that beta leaves, 24 of 40; got 30: use a smaller k or beta"),
        (["t.csv", *D2, "--k", "0"], "k = 0: input should be greater than or equal to 1"),
        (["t.csv", *D2, "--gamma", "-1"], "gamma = -1.0: input should be greater than or equal to 0"),
        (["t.csv", *D2, "--metric", "cosin"], "metric = 'cosin': input should be 'euclidean' or 'cosine'"),
        (["t.csv", *D2, "--beta", "1"], "beta = 1.0: input should be less than 1"),
        (["t.csv", *D2, "--beta", "0.95"], "beta 0.95 leaves 2 of 40 samples, but 4 are to be selected: use a beta of"),
        (["t.csv", "--rule", "hist", "--bins", "0"], "bins = 0: input should be greater than or equal to 1"),
        (["t.csv", "--rule", "hist", "--seed", "-1"], "seed must be 0 or more, got -1"),
        (["t.csv", "--rule", "d2"], "the rule d2 needs --embedding FILE"),
        (["t.csv", "--rule", "rgbal"], "the rule rgbal needs --minority COLUMN, true or 1 where"),
        (["t.csv", "--rule", "rgbal", "--minority", "no"], "unknown column of t.csv for 'minority' 'no'"),
        (["t.csv", "--rule", "rgbal", "--minority", "note"], "row 1 of t.csv has 'x' in 'note'"),
        (["t.csv", "--rule", "bot", "--minority", "note"], "takes no --minority, which is for rgbal, tcsl_cs; leave"),
        (["lists.parquet", "--rule", "rgbal", "--minority", "curve"], "column 'curve' holds lists; it must be true"),
        (["t.csv", "--rule", "d2", "--embedding", "short.npy"], "short.npy has 39 rows, but there are 40 samples"),
        (
            ["t.csv", "--rule", "d2", "--embedding", "others.parquet"],
            "40 of the 40 samples have no row there, such as id",
        ),
        (["t.csv", "--rule", "d2", "--embedding", "none.npy"], "none.npy does not exist or is not a file"),
        (
            ["t.csv", "--rule", "bot", "--embedding", "e.npy"],
            "the rule bot takes no --embedding, which is for d2; leave",
        ),
        (["t.csv", "--rule", "bot", "--gamma", "0.1"], "the rule bot takes no --gamma, which is for d2; leave it out"),
        (
            ["t.csv", "--rule", "top", "--bins", "5"],
            "top takes no --bins, which is for hist, ccs, tcsl_cs; leave it out",
        ),
        (["t.csv", "--rule", "hist", "--beta", "0.1"], "the rule hist takes no --beta, which is for ccs, d2"),
        (["t.csv", "--rule", "hist", "--k", "3"], "the rule hist takes no --k, which is for d2"),
        (["t.csv", "--rule", "hist", "--metric", "cosine"], "the rule hist takes no --metric, which is for d2"),
        (["t.csv", "--rule", "ccs", "--by-class"], "the rule ccs takes no --by-class, which is for bot, top, hist, d2"),
        (["t.csv", "--rule", "random", "--by-class"], "the rule random takes no --by-class"),
        (["t.csv", "--rule", "bot", "--profile", "paper"], "the rule bot takes no --profile, which is for tcsl_cs"),
        (["t.csv", "--rule", "bot", "--set", "select.tau=0"], "the rule bot takes no --set, which is for tcsl_cs"),
        (["t.csv", "--rule", "bot", "--config", "c.toml"], "the rule bot takes no --config, which is for tcsl_cs"),
        (["t.csv", "--rule", "tcsl_cs", "--k", "3"], "the rule tcsl_cs takes no --k, which is for d2"),
        (["empty.csv", "--rule", "bot"], "empty.csv: there is no sample"),
        (["empty.parquet", "--rule", "bot"], "empty.parquet: there is no sample"),
        (["nothing.csv", "--rule", "bot"], "nothing.csv is empty: its first line must name the columns"),
        (["one.csv", "--rule", "bot"], "ratio 0.1 of 1 samples is no sample: use a ratio of 1 or more"),
        (["torn.csv", "--rule", "bot"], "1 bad sample: row 2 of torn.csv has 1 cell, the header has 2. Mend the table"),
        (["text.parquet", "--rule", "bot"], "text.parquet is not a Parquet file, or it is damaged"),
        (["text.parquet"], "text.parquet is not a Parquet file, or it is damaged"),
        (["arrays.npz", "--rule", "bot"], "arrays.npz is no table that can be read; give one that ends in .csv, .tsv,"),
        (["none.csv", "--rule", "bot"], "none.csv does not exist or is not a file"),
        (["folder", "--rule", "bot"], "folder is not a run folder: it has no config.toml"),
        (
            ["t.csv", "--rule", "bot", "--out", "folder"],
            "folder is a folder; name a file in it with --out, such as folder",
        ),
        (["t.csv", "--rule", "bot", "--out", "t.csv"], "t.csv is the table itself, which the coreset would replace"),
    ],
)
def test_misuse_is_one_clear_line(words, message, files, tcsl_command):
    fill = [word for pair in zip(COLUMNS[::2], COLUMNS[1::2], strict=True) if pair[0] not in words for word in pair]
    if words[0] in ("t.csv", "t.parquet") and len(words) == 1:
        fill = []
    before = sorted(os.listdir())
    code, out, err = tcsl_command("select", *words, *fill)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(os.listdir()) == before


def test_a_score_or_a_label_that_was_not_named_is_asked_for(files, tcsl_command):
    _, _, err = tcsl_command("select", "t.csv", "--rule", "bot", "--label", "species")
    assert "which column is the score? Name it with --score; columns of numbers: el2n, loss" in err
    _, _, err = tcsl_command("select", "t.csv", "--rule", "bot", "--score", "el2n")
    assert "which column is the label? It has name, species, loss, note; name it with --label NAME" in err


def test_one_row_is_kept_whole(files, tcsl_command):
    code, _, _ = tcsl_command("select", "one.csv", "--rule", "top", *COLUMNS, "--ratio", "1")
    assert code == 0
    assert pl.read_parquet("coreset-top-1.parquet")["id"].to_list() == ["s00"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "name a rule for these scores, such as rule='hist'"),
        ({"rule": "bott"}, "unknown rule 'bott'; did you mean 'bot'"),
        ({"rule": "bot", "gamma": 0.1}, "the rule bot takes no gamma, which is for d2"),
        ({"rule": "bot", "curves": np.ones((4, 2))}, "the rule bot takes no curves, which is for tcsl_cs"),
        ({"rule": "bot", "settings": {"select.tau": 0}}, "the rule bot takes no settings, which is for tcsl_cs"),
        ({"rule": "bot", "labels": None}, "labels are needed"),
        ({"rule": "bot", "labels": [0.5, 1, 2, 3]}, "labels must be whole numbers or text, got 0.5 at index 0"),
        ({"rule": "bot", "labels": ["a", None, "b", "c"]}, "or text, in every sample; got None at index 1"),
        ({"rule": "bot", "labels": [0, 1]}, r"one score a sample: 2 labels, scores of shape \(4,\)"),
        ({"rule": "random", "labels": [0, 1]}, r"one score a sample: 2 labels, scores of shape \(4,\)"),
        ({"rule": "bot", "scores": ["a", "b", "c", "d"]}, "scores must be numbers, got <U1"),
        ({"rule": "bot", "scores": [1, np.nan, 2, 3]}, "1 of 4 are NaN or infinite, the first that of sample 1"),
        ({"rule": "d2"}, "the rule d2 needs an embedding"),
        ({"rule": "d2", "embedding": np.ones((3, 2))}, r"one row a sample: 4 labels, an embedding of shape \(3, 2\)"),
        ({"rule": "tcsl_cs"}, "the rule tcsl_cs needs curves"),
        (
            {"rule": "tcsl_cs", "curves": np.ones((3, 2))},
            r"one loss curve a sample: 4 labels, curves of shape \(3, 2\)",
        ),
        ({"rule": "bot", "ratio": 10}, "did you mean 0.10"),
        ({"rule": "bot", "ratio": 1.5}, r"did you mean 0.015\?"),
        ({"rule": "bot", "ratio": "x"}, r"ratio must be a number in \(0, 1\] or 'auto', got 'x'"),
        ({"rule": "hist", "seed": -1}, "seed must be 0 or more"),
    ],
)
def test_arrays_that_do_not_fit(arguments, message):
    with pytest.raises(InputError, match=message):
        tcsl.select(**{"scores": [4, 3, 2, 1], "labels": [0, 0, 1, 1], "ratio": 0.5, **arguments})


def test_scores_are_selected_as_their_run_would_unless_told_otherwise(tmp_path, tcsl_command):
    given = {"train.epochs": 20, "device.device": "cpu", "select.tau": 0.0, "select.fill": "class", "select.ratio": 0.3}
    rng, y = np.random.default_rng(0), np.arange(200) % 2
    shortcut = np.where(rng.random(200) < 0.9, y, 1 - y)
    X = rng.normal(size=(200, 2)) + np.stack([6 * shortcut, 2 * y], axis=1)
    run = tcsl.debias((X, y), settings=given, methods=["tcsl_cs"], out=tmp_path / "run")
    assert run.scores.facts["select"] == {"tau": 0.0, "fill": "class"}
    assert np.array_equal(tcsl.select(run.scores, ratio=0.3).indices, run.coreset.indices)
    code, out, _ = tcsl_command(
        "select", str(tmp_path / "run" / "scores.parquet"), "--ratio", "0.3", "--out", str(tmp_path / "again.parquet")
    )
    assert code == 0, out
    assert np.array_equal(Coreset.load(tmp_path / "again.parquet").indices, run.coreset.indices)
    spread = tcsl.select(run.scores, settings={"select.tau": 0.4}, ratio=0.2)
    assert len(spread) == 40
    assert not np.array_equal(spread.indices, tcsl.select(run.scores, ratio=0.2).indices)
    (tmp_path / "mine.toml").write_text("[select]\nratio = 0.2\n")
    code, out, _ = tcsl_command(
        "select", str(tmp_path / "run" / "scores.parquet"), "--config", str(tmp_path / "mine.toml")
    )
    assert code == 0, out
    assert len(Coreset.load(tmp_path / "run" / "coreset-0.2.parquet")) == 40


def test_scores_of_a_run_are_selected_by_algorithm_2_alone(tmp_path):
    path = own_scores(tmp_path / "scores.parquet")
    with pytest.raises(InputError, match="the rule bot goes by one score"):
        tcsl.select(path, rule="bot", ratio=0.5)
    with pytest.raises(InputError, match="have their own labels and curves"):
        tcsl.select(path, SPECIES, ratio=0.5)
    kept = tcsl.select(path, rule="tcsl_cs", ratio=0.5)
    assert kept.indices.tolist() == tcsl.select(path, ratio=0.5).indices.tolist()
    assert kept.scores is None


@pytest.mark.parametrize("labels", [np.array([5, 6] * 20), np.array(["ant", "bee"] * 20)])
def test_a_class_that_the_scores_names_do_not_have_is_called_by_its_label(labels):
    """Scores of a run have the names of its classes; their labels may have been replaced since."""
    scores = scores_of(np.ones((40, 2), np.float32), np.arange(40.0), labels, facts={"class_names": ["x", "y"]})
    with pytest.warns(TcslWarning, match=rf"no sample of class {labels[1]}:"):
        tcsl.select(scores, ratio=0.026, settings={"select.fill": "global", "select.tau": 0})
