"""What the terminal says of a run."""

import re
from types import MappingProxyType

from rich.console import Console

from tcsl.caution import worse
from tcsl.tables import render_stages, render_summary


def said_of(*found):
    return summary_lines(found)


def summary_lines(found, kept=MappingProxyType({}), **more):
    summary = {
        **more,
        "methods": {},
        "seeds": list(range(len(found))),
        "identification": list(found),
        "coresets": [{"tcsl_cs": {"n": 40, "g_high": min(40, (one or {}).get("g_high", 0)), **kept}} for one in found],
        "seconds": [{"biased": 1.0, "core": 2.5}] * len(found),
        "unknown": ["accuracy: there is no test set"],
    }
    console = Console(width=300, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render_summary(summary))
    return console.export_text().splitlines()


def test_a_g_high_that_is_the_larger_part_is_said_where_the_result_is_read():
    small, large, care = said_of(*({"n": 200, "g_high": g_high} for g_high in (20, 150)))[:3]
    assert small == "seed 0: 20 of 200 samples stand apart by their losses (G_high)"
    assert large == "seed 1: 150 of 200 samples stand apart by their losses (G_high)"
    assert care.startswith("seed 1: take care: the larger part stands apart: no shortcut was told apart")
    assert "31 of the coreset's 40 samples are of G_high" in said_of({"n": 200, "g_high": 31})[1]
    assert "take care" not in "".join(said_of({"n": 200, "g_high": 30}))


def test_a_g_high_that_the_coreset_has_no_places_for_is_said():
    left_out = summary_lines([{"n": 200, "g_high": 31}], kept={"g_high": 20})[1]
    assert "the coreset has places for 20 of the 31 in G_high; a larger ratio" in left_out


def test_a_class_of_which_nothing_but_g_high_is_kept_is_said():
    found = {"n": 200, "g_high": 20}

    def said(*classes):
        return summary_lines([found], kept={"one_sided": list(classes)})[1]

    assert said("gull").startswith("seed 0: take care: all that is kept of class gull is of G_high; a model")
    assert "of class a\ufffdb is of G_high" in said("a\nb")
    assert "of class a, b, c, d, e and others is of G_high" in said(*"abcdef")
    assert "of class a, b, c, d, e is of G_high" in said(*"abcde")
    assert "take care" not in said()
    both = summary_lines([{"n": 200, "g_high": 31}], kept={"one_sided": ["gull"]})[1]
    assert "all that is kept of class gull" in both  # of what G_high crowds out, the class tells more


def test_a_model_that_is_worse_is_said():
    def said(before, after):
        return worse({name: found for name, found in (("cb_erm", before), ("tcsl_cs", after)) if found is not None})

    fell = said({"wga": 0.376, "worst_class": 0.5}, {"wga": 0.038, "worst_class": 0.9})
    assert fell.startswith("the coreset's model is worse than plain training, 3.8 % in its worst group and not 37.6 %")
    assert "60.0 % in its worst class and not 70.0 %" in said({"worst_class": 0.7}, {"wga": None, "worst_class": 0.6})
    assert said({"wga": 0.376}, {"wga": 0.327}) == ""
    assert said(None, {"wga": 0.1}) == said({"wga": 0.9}, None) == said({"wga": None}, {"wga": 0.1}) == ""


def test_what_is_known_of_the_minority_is_said():
    known = {"n": 200, "g_high": 20, "minority": 10, "recall": 0.9, "precision": 0.45, "auc": 0.975}
    assert said_of(known)[0].endswith(
        "of the 10 that truly contradict the shortcut, it has 0.90 (precision 0.45, AUC of TCSL_s 0.975)"
    )
    empty = {"n": 200, "g_high": 0, "minority": 200, "recall": 0.0, "precision": None, "auc": None}
    assert said_of(empty)[0].endswith("of the 200 that truly contradict the shortcut, it has 0.00 (precision -)")


def test_stages_have_mean_seconds_and_the_largest_memory_of_the_seeds():
    seconds = [{"biased": 1.0, "core": 2.0}, {"biased": 2.0, "core": 4.5}]
    memory = [{"biased": 2_000_000, "core": None}, {"biased": 1_512_000_000, "core": None}]
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render_stages(seconds, memory))
    rows = [line.replace("│", " ").split() for line in console.export_text().splitlines()]
    assert ["biased", "1.5", "1,512"] in rows
    assert ["core", "3.2", "not", "known"] in rows
    console.print(render_stages(seconds[:1], []))  # as of a run that is older than this number
    assert "2.0" in console.export_text()


def summary_of(*seeds, titles, groups=()):
    """Return a summary of runs in which every method is right half of the time; a seed has its models."""
    accuracy = {name: {"mean": 0.5, "sd": None} for name in ("wga", "worst_class", "average")}
    return {
        "methods": {name: {**accuracy, "wga_cells": None, "weighted_average": None} for name in titles},
        "titles": titles,
        "seeds": list(range(len(seeds))),
        "models": list(seeds),
        "evaluated_on": "digits, test",
        "ratio": 0.2,
        "profile": "default",
        "tcsl_cs_minus": {},
        "groups": list(groups),
        "cells": 0,
        "coresets": [{}] * len(seeds),
        "identification": [None] * len(seeds),
        "seconds": [{}] * len(seeds),
        "unknown": [],
    }


def said_of_models(*seeds):
    """Return what is said of the runs of two methods, as words: tables break lines where they like."""
    console = Console(width=300, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render_summary(summary_of(*seeds, titles={"cb_erm": "CB ERM", "dfr": "DFR"})))
    return console.export_text()


def test_many_methods_share_the_groups_tables_so_that_every_number_is_read():
    titles = {f"method_{k}": f"method {k}" for k in range(12)}
    group = {"name": "3, conflicts", "n": 7, **{name: k / 1000 for k, name in enumerate(titles)}}
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render_summary(summary_of({}, titles=titles, groups=[group])))
    said = console.export_text()
    by_group = said[said.index("Accuracy by group") : said.index("training took")].replace("│", " ").split()
    assert said.count("Accuracy by group") == 3
    assert [word for word in by_group if re.fullmatch(r"\d\.\d", word)] == [f"{k / 10:.1f}" for k in range(12)]


OWN = {"by": "own", "how": "its head is fitted"}


def chosen(epoch, value):
    return {"by": "worst_group", "on": "digits, validation", "epoch": epoch, "epochs": 40, "value": value}


def test_the_last_epoch_is_said():
    said = said_of_models({"cb_erm": {"by": "last"}, "dfr": OWN})
    assert "\nmodel: last epoch\nmodel of DFR: its own: its head is fitted\n" in said
    assert "epoch (judged)" not in said


def test_a_chosen_epoch_is_said_for_every_method():
    said = said_of_models({"cb_erm": chosen(12, 0.713), "dfr": OWN})
    assert (
        "\nmodel: best worst-group accuracy on digits, validation\nmodel of DFR: its own: its head is fitted\n" in said
    )
    assert [line.split("│")[-2].strip() for line in said.split("\n") if line.startswith("│")] == [
        "12 of 40 (71.3)",
        "its own",
    ]


def test_chosen_epochs_of_several_seeds():
    said = said_of_models(*({"cb_erm": chosen(epoch, value)} for epoch, value in [(12, 0.7), (31, 0.8), (12, 0.75)]))
    assert "12 to 31 of 40 (75.0 ± 5.0)" in said


def test_scoring_alone_and_what_is_unknown():
    assert said_of(None) == ["training took 3.5 s", "not known: accuracy: there is no test set"]
    assert said_of(None, None)[0] == "training took 7.0 s for 2 seeds"


def test_verdicts_of_several_seeds_are_counted_and_the_silent_ones_said():
    def first_line(*found):
        verdicts = [{"found": each, "sentence": f"sentence {k}"} for k, each in enumerate(found)]
        return summary_lines([{"n": 200, "g_high": 20}] * len(found), verdicts=verdicts)[0]

    assert first_line(True, False, True) == "a shortcut was found in 2 of 3 seeds"
    assert first_line(True, None, False, None) == "a shortcut was found in 1 of 4 seeds; 2 cannot tell"
    assert first_line(None, None) == first_line(None) == "sentence 0"
