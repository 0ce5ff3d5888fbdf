"""`tcsl select`: any rule on any score of a table, or Algorithm 2 on the scores of a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from tcsl.caution import caution, missed_classes
from tcsl.cli import options
from tcsl.cli.options import print_json
from tcsl.errors import InputError

if TYPE_CHECKING:
    from tcsl.data.scored import Scored
    from tcsl.scores import Coreset
    from tcsl.selection.by_rule import Rule
    from tcsl.selection.quota import Ratio
    from tcsl.types import AnyArray


def _option(help_: str, *names: str) -> Any:
    return typer.Option(*names, help=help_, show_default=False)


def select(
    table: Annotated[
        Path,
        typer.Argument(
            help="A table with a score a sample (.parquet, .csv, .tsv, .jsonl); or scores.parquet of a run, or a run "
            "folder that has one.",
            show_default=False,
        ),
    ],
    rule: Annotated[
        str | None,
        _option(
            "bot (the lowest scores), top (the highest), hist (one of each of B bins by rank in turn), ccs "
            "(coverage-centric), d2 (D2 pruning), random, rgbal (the minority first, which it is told), or tcsl_cs "
            "(Algorithm 2, by default; it needs loss curves)."
        ),
    ] = None,
    score: Annotated[
        str | None,
        _option("The column of scores, any numbers; higher is harder. By default tcsl_c, for tcsl_cs only."),
    ] = None,
    label: Annotated[str | None, _option("The column of classes; by default one called label, y, class, ...")] = None,
    id_: Annotated[
        str | None, _option("The column of ids; by default one called id, ..., else the row number, from 0.", "--id")
    ] = None,
    embedding: Annotated[
        Path | None,
        _option(
            "Of d2, which needs it: a row of numbers a sample, .npy or .npz in the table's order, or .parquet, in that "
            "order or with a column id."
        ),
    ] = None,
    minority: Annotated[
        str | None,
        _option(
            "Of rgbal, which needs it, and of tcsl_cs, in place of its own G_high: a column that is true or 1 where a "
            "sample contradicts the shortcut."
        ),
    ] = None,
    ratio: Annotated[
        str | None,
        _option(
            "r in (0, 1]: the part that is kept, 0.1 by default, whatever a run's was; auto, of tcsl_cs: three times "
            "what contradicts the shortcut."
        ),
    ] = None,
    by_class: Annotated[
        bool,
        typer.Option(
            "--by-class", help="Of bot, top, hist, d2: fill each class by its share; of rgbal: classes end equal."
        ),
    ] = False,
    bins: Annotated[int | None, _option("Of hist, ccs, tcsl_cs: B; 50 by default.")] = None,
    beta: Annotated[
        float | None, _option("Of ccs, d2: the hardest part, which is dropped first; by default 0.4, or (1 - r) / 2.")
    ] = None,
    k: Annotated[int | None, _option("Of d2: neighbours a sample; 5 by default.")] = None,
    gamma: Annotated[
        float | None, _option("Of d2: the smaller, the more diverse is what is kept; 0.1 by default.")
    ] = None,
    metric: Annotated[str | None, _option("Of d2: euclidean (by default) or cosine.")] = None,
    seed: Annotated[
        int | None, _option("Of what is drawn; by default the seed that the scores were made with, else 0.")
    ] = None,
    out: Annotated[
        Path | None,
        _option(
            "Where the coreset goes: .csv, .tsv, .jsonl, or anything else for Parquet; by default "
            "coreset-RULE-RATIO.parquet beside the table, coreset-RATIO.parquet for tcsl_cs. A file of that name is "
            "replaced."
        ),
    ] = None,
    profile: Annotated[
        str | None, _option("Of tcsl_cs: by default the profile that the scores were made with.")
    ] = None,
    config: Annotated[Path | None, _option("Of tcsl_cs: a TOML file of settings.")] = None,
    set_: Annotated[
        list[str] | None, _option("Of tcsl_cs: one setting, such as select.fill=class; may be repeated.", "--set")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Choose a coreset from scores alone, by any rule: no data, no training.

    The coreset is a table of index (the row, from 0), id, label, g_high and, of all rules but tcsl_cs, score.

    tcsl_cs on the scores of a run selects as the run would, at any --ratio: what else was set of `select` goes with
    them.

    Example: tcsl select birds.csv --rule hist --score el2n --label species --ratio 0.2

    Example: tcsl select runs/scores/scores.parquet --ratio 0.2
    """
    from tcsl.export.tables import save_coreset
    from tcsl.runs import RunFolder
    from tcsl.selection.by_rule import check_given

    path = table / "scores.parquet" if table.is_dir() else table
    if table.is_dir() and not path.exists():
        RunFolder.find(table).check_left(path)  # several seeds, or no run at all, are said
    of_rule = {"by_class": by_class or None, "bins": bins, "beta": beta, "k": k, "gamma": gamma, "metric": metric}
    of_rule = {name: value for name, value in of_rule.items() if value is not None}
    others = {"embedding": embedding, "minority": minority, "profile": profile, "config": config, "set": set_}
    given = [*of_rule, *(name for name, value in others.items() if value)]
    check_given(rule or "tcsl_cs", given, spelt=lambda name: "--" + name.replace("_", "-"))
    asked = _Asked(path, score, label, id_, minority, out)
    if rule in (None, "tcsl_cs"):
        overrides = options.overrides_from(set_, select__ratio=options.ratio_of(ratio), select__bins=bins)
        chosen = _by_curves(asked, profile=profile, seed=seed, file=config, overrides=overrides)
    else:
        chosen = _by_score(
            asked, cast("Rule", rule), ratio=options.ratio_of(ratio), seed=seed, of_rule=of_rule, embedding=embedding
        )
    save_coreset(chosen.coreset, chosen.place)
    _tell(chosen, as_json)


class _Asked(NamedTuple):
    """The table, its columns as far as they were named, and where the coreset goes if that was said."""

    path: Path
    score: str | None
    label: str | None
    id_: str | None
    minority: str | None
    out: Path | None

    def read(self, rule: str) -> Scored:
        """Return what the rule needs of the table."""
        from tcsl.data.scored import read_scored

        return read_scored(self.path, rule, score=self.score, label=self.label, id_=self.id_, minority=self.minority)

    def place(self, default: str) -> Path:
        """Return where the coreset goes; not to a folder, nor over the table."""
        place = self.path.parent / default if self.out is None else self.out
        if place.is_dir():
            raise InputError(f"{place} is a folder; name a file in it with --out, such as {place / default}")
        if place.exists() and os.path.samefile(place, self.path):
            raise InputError(f"{place} is the table itself, which the coreset would replace; choose another --out")
        return place

    def facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return a run's facts about its scores, with the class names only where it is its labels that are read."""
        return {**facts, "class_names": list(self.class_names(facts))}

    def class_names(self, facts: Mapping[str, Any]) -> Sequence[str]:
        """Return what the labels of a run's scores are called, where it is those that are read."""
        return facts.get("class_names", ()) if self.label in (None, "label") else ()


class _Chosen(NamedTuple):
    """The coreset, where it goes and how it came about; the classes of all samples, and their names if known."""

    coreset: Coreset
    place: Path
    how: str
    labels: AnyArray
    class_names: Sequence[str]


def _by_curves(asked: _Asked, **wanted: Any) -> _Chosen:
    """Run Algorithm 2 on the scores of a run, or on any table that has loss curves."""
    from tcsl.scores import Scores, is_scores
    from tcsl.selection.coreset import coreset_from_scores, scores_of, settings_like
    from tcsl.selection.quota import said

    more: dict[str, Any] = {}
    minority = None
    if is_scores(asked.path) and {asked.score, asked.label, asked.id_, asked.minority} == {None}:
        scores = Scores.load(asked.path)
    else:
        more = {"table": asked.path.name, "score": asked.score or "tcsl_c", "told": asked.minority}
        found = asked.read("tcsl_cs")
        minority = found.minority
        assert found.curves is not None  # of tcsl_cs, both are read
        assert found.scores is not None
        scores = scores_of(found.curves, found.scores, found.labels, ids=found.ids, facts=asked.facts(found.facts))
    settings = settings_like(scores, **wanted)
    place = asked.place(f"coreset-{said(settings.select.ratio)}.parquet")
    coreset = coreset_from_scores(scores, settings, minority=minority)
    coreset = replace(coreset, facts={**coreset.facts, **more})
    high = int(coreset.g_high.sum())
    first = "the minority" if asked.minority else "G_high"
    how = f"{high} of {first}, {len(coreset) - high} by {asked.score or 'TCSL_c'}"
    return _Chosen(coreset, place, how, scores.labels, asked.class_names(scores.facts))


def _by_score(
    asked: _Asked, rule: Rule, *, ratio: Ratio | None, seed: int | None, of_rule: dict[str, Any], embedding: Path | None
) -> _Chosen:
    """Run another rule on a table."""
    from tcsl.config import SelectSettings
    from tcsl.embeddings import load_embedding
    from tcsl.selection.by_rule import rule_options
    from tcsl.selection.coreset import coreset_by_rule
    from tcsl.selection.quota import check_ratio, number, said

    if rule == "d2" and embedding is None:
        raise InputError("the rule d2 needs --embedding FILE, a row of numbers a sample (.npy, .npz or .parquet)")
    if rule == "rgbal" and asked.minority is None:
        raise InputError("the rule rgbal needs --minority COLUMN, true or 1 where a sample contradicts the shortcut")
    ratio = number(SelectSettings().ratio if ratio is None else ratio)
    check_ratio(ratio)
    rule_options(of_rule)
    place = asked.place(f"coreset-{rule}-{said(ratio)}.parquet")
    found = asked.read(rule)
    coreset = coreset_by_rule(
        rule,
        found.scores,
        found.labels,
        ratio=ratio,
        seed=found.facts.get("seed", 0) if seed is None else seed,
        options=of_rule,
        embedding=None if embedding is None else load_embedding(embedding, len(found.labels), ids=found.ids),
        minority=found.minority,
        ids=found.ids,
        class_names=asked.class_names(found.facts),
        facts={
            "table": asked.path.name,
            "score": asked.score,
            "told": asked.minority,
            "embedding": None if embedding is None else embedding.name,
            "fingerprint": found.facts.get("fingerprint"),
        },
    )
    at_random = {"random": "at random", "rgbal": "the minority first, at random"}
    how = at_random.get(rule) or f"{rule} by {asked.score}"
    return _Chosen(coreset, place, how, found.labels, asked.class_names(found.facts))


def _tell(chosen: _Chosen, as_json: bool) -> None:
    coreset, labels, names = chosen.coreset, chosen.labels.tolist(), dict(enumerate(chosen.class_names))
    kept = Counter(coreset.labels.tolist())
    classes = {
        str(names.get(label, label)): {"samples": n, "kept": kept[label]}
        for label, n in sorted(Counter(labels).items())
    }
    if as_json:
        about = {"path": str(chosen.place), "rule": coreset.facts["rule"], "n": len(coreset)}
        print_json({**about, "g_high": int(coreset.g_high.sum()), "classes": classes, "ids": coreset.ids.tolist()})
        return
    from rich.console import Console

    from tcsl.tables import render_kept

    typer.echo(f"kept {len(coreset)} of {len(labels)} samples: {chosen.how}")
    if coreset.g_high.any():
        missed = missed_classes(chosen.labels, coreset.indices, coreset.g_high)
        found = {"n": len(labels), "g_high": coreset.facts["g_high"]}
        held = {"n": len(coreset), "g_high": int(coreset.g_high.sum())}
        if care := caution(
            found, held | {what: [names.get(c, c) for c in classes] for what, classes in missed.items()}
        ):
            typer.echo(f"take care: {care}")
    Console().print(render_kept(classes))
    typer.echo(f"the coreset is in {chosen.place}")
