"""Write the tables of the README and the docs from the records in docs/results.

python docs/generate.py            rewrite the blocks between <!-- generated: NAME --> and <!-- end -->
python docs/generate.py --check    exit with 1 where a block is not what the records say
"""

import re
import statistics
import sys
from functools import partial
from pathlib import Path

from frozen_heads import heads, rates
from reproduced import goals, real, reproduction, shorter
from writing import interval, read, source, spread, table

from tcsl.statistics import Summary, clopper_pearson, paired
from tcsl.tables import said_of_models

DOCS = Path(__file__).parent
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


def digits():
    record = read("digits-seeds")
    metrics = {
        "wga": "WGA",
        "wga_cells": "WGA, 100 cells",
        "average": "plain average",
        "weighted_average": "weighted average",
    }

    rows = [
        [record["titles"][name], *[spread(values[m]["values"]) for m in metrics]]
        for name, values in record["methods"].items()
    ]
    rows += [
        [f"*TCSL-CS minus {record['titles'][name]}*", *[interval(Summary(**values[m])) for m in metrics]]
        for name, values in record["tcsl_cs_minus"].items()
    ]
    found = record["identification"]
    n = len(found)
    quality = {k: sum(f[k] for f in found) / n for k in ("recall", "precision", "auc")}
    note = (
        f"\n\nMean ± sd over {n} seeds, in %; paired differences with 95 % intervals; r = {record['ratio']:g}. "
        f"G_high holds {quality['recall']:.2f} of the true minority at precision {quality['precision']:.2f} "
        f"(AUC of TCSL_s {quality['auc']:.3f})."
    )
    return table(["method", *metrics.values()], rows) + note + source(record)


def trials(name):
    record = read(f"choices-{name}")

    def difference(row, key):
        mean, low, high = row[f"{key} minus default"]
        return "" if row["row"] == "default" else f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"

    rows = [
        [
            row["part"],
            row["row"],
            f"{row['criterion']:.1f}",
            difference(row, "criterion"),
            f"{row['WGA']:.1f} ± {row['sd']:.1f}",
            difference(row, "WGA"),
            "" if row["n"] is None else f"{row['n']:.0f}",
            "" if row["recall"] is None else f"{row['recall']:.2f} / {row['precision']:.2f}",
        ]
        for row in record["rows"]
    ]
    header = ["", "changed", "criterion", "minus default [95 %]", "WGA", "minus default [95 %]", "n", "G_high"]
    made = f"`{record['environment']['command']}`; {'; '.join(record['made_with'])}."
    return table(header, rows) + f"\n\n{len(record['seeds'])} seeds.\n\n{made}"


TOGETHER = ("digits", "uneven", "halves")  # on which every choice is tried


def trials_together():
    """Every choice on three kinds of digits: differences of the criterion in each, and over all of them."""
    records = [read(f"choices-{name}") for name in TOGETHER]
    found = [{row["row"]: row for row in record["rows"]} for record in records]
    rows = []
    for named in (row["row"] for row in records[0]["rows"][1:]):

        def minus_default(key, named=named):
            ours, default = ([value for kind in found for value in kind[row][key]] for row in (named, "default"))
            return interval(paired(ours, default))

        each = [f"{kind[named]['criterion minus default'][0]:+.1f}" for kind in found]
        rows.append([found[0][named]["part"], named, *each, minus_default("criteria"), minus_default("wgas")])
    header = ["", "changed", *TOGETHER, "all three [95 %]", "WGA, all three [95 %]"]
    return table(header, rows)


def option(name):
    """A method's option on the digits: the criterion that chose it, and the test set's numbers beside it."""
    record = read(f"choices-{name}")
    chosen = next(iter(record["rows"][0]))
    columns = {
        "criterion": "criterion",
        "WGA": "WGA",
        "average": "plain average",
        "G_high": "G_high, smallest to largest",
    }

    def cell(row, key):
        if key == "G_high":
            return f"{min(row['G_high by seed']):,} to {max(row['G_high by seed']):,}"
        return f"{row[key]:.1f}"

    shown = [key for key in columns if key in record["rows"][0]]
    rows = [[f"{row[chosen]:g}", *[cell(row, key) for key in shown]] for row in record["rows"]]
    header = [f"`method.{name}.{chosen}`", *[columns[key] for key in shown]]
    return table(header, rows) + f"\n\n{len(record['seeds'])} seeds." + source(record)


def benchmark(name, part="rows", without=()):
    record = read(name)
    columns = [column for column in record[part][0] if column not in without]

    def cell(value):
        if value is None:
            return ""
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        return f"{value:,}" if isinstance(value, int) else str(value)

    return table(columns, [[cell(row[c]) for c in columns] for row in record[part]]) + source(record)


def peers(part):
    """A table of the comparison with other packages, and which versions they have."""
    record = read("benchmark-peers")
    versions = ", ".join(f"{name} {record['peers'][name]}" for name in ("spuco", "cleanlab", "aum"))
    starts = f" Starts of GEORGE's mixtures on hardness and PCA: {record['starts']}." if part == "minority" else ""
    told = f" {versions}; {record['threads']} thread a side.{starts}"
    return benchmark("benchmark-peers", part, without=("error",)) + told


def growth():
    """How many times a rule takes longer, and needs more memory, for ten times as many samples."""
    record = read("benchmark-rules")
    found = {(row["rule"], row["dimensions"], row["n"]): row for row in record["rows"]}
    steps = ((10_000, 100_000), (100_000, 1_000_000))

    def times(rule, dimensions, column):
        for few, many in steps:
            less, more = (found.get((rule, dimensions, n)) for n in (few, many))
            yield f"{more[column] / less[column]:.3g}" if less and more and less[column] else ""

    rows = [
        [
            rule,
            f"{dimensions or ''}",
            *times(rule, dimensions, "seconds"),
            *times(rule, dimensions, "peak beside it, MB"),
        ]
        for rule, dimensions in dict.fromkeys(key[:2] for key in found)
    ]
    names = [f"{few:,} to {many:,}" for few, many in steps]
    header = ["rule", "dimensions", *[f"{what}, {name}" for what in ("time", "memory") for name in names]]
    return table(header, [row for row in rows if any(row[2:])])


def agreement():
    record = read("benchmark-engine-agreement")
    rows = [[row["data"], row["way"], f"{row['TCSL_s']:.4f}", f"{row['TCSL_c']:.4f}"] for row in record["rows"]]
    return table(["data", "compared with one CPU thread", "TCSL_s", "TCSL_c"], rows) + source(record)


def verdict():
    """Return how often a shortcut was found on the digits, with exact intervals, and the accuracies behind it."""
    record, rows = read("verdict"), []
    for row in record["rows"]:
        low, high = clopper_pearson(row["found"], row["runs"])
        share = f"{100 * row['found'] / row['runs']:.0f} % [{100 * low:.1f}, {100 * high:.1f}]"
        kind, _, number = row["data"].rpartition("-")
        if kind in ("", "alike"):
            named = f"digits, alpha {number}" + (", held out like the training set" if kind else "")
        else:
            named = f"rows, {number} classes, {kind.replace('-', ' ')}"
        rows.append([named, *(str(row[count]) for count in ("runs", "found", "cannot tell")), share])
    made = "; ".join(sorted({each for row in record["rows"] for each in row["made with"]}))
    header = ["data", "runs", 'say "shortcut"', "cannot tell", '"shortcut", share [exact 95 %]']
    return table(header, rows) + f"\n\n`python benchmarks/verdict.py`; {made}."


ACCURACIES = {"wga": "WGA", "average": "plain average", "weighted_average": "weighted average"}


def _accuracies(record, method):
    return [spread(record["methods"][method][name]["values"]) for name in ACCURACIES]


def digits_methods():
    """WGA, averages and seconds of every method on the digits."""
    from tcsl.config import from_flat
    from tcsl.registry import METHODS as known  # noqa: N811

    record = read("digits-methods")
    settings = from_flat(record["settings"])

    def seconds(name):
        stages = known.get(name).stages(settings, 1200)
        return statistics.mean(sum(seed.get(stage, 0) for stage in {*stages, name}) for seed in record["seconds"])

    def kept(name):
        found = [seed[name]["minority"] for seed in record["coresets"] if name in seed]
        return f"{statistics.mean(found):.0f}" if found else ""

    ordered = sorted(record["methods"], key=lambda name: -record["methods"][name]["wga"]["mean"])
    rows = [
        [
            f"{record['titles'][name]} (`{name}`)",
            *_accuracies(record, name),
            kept(name),
            f"{seconds(name):.1f}",
        ]
        for name in ordered
    ]
    header = ["method", *ACCURACIES.values(), "conflicts kept of 60", "seconds, all stages"]
    told = "; ".join(said_of_models(record))
    return table(header, rows) + f"\n\n{len(record['seeds'])} seeds, r = {record['ratio']:g}; {told}." + source(record)


def longer(name):
    """CB ERM and another method, both trained for longer on the digits."""
    record = read(f"digits-{name}")
    rows = [[record["titles"][one], *_accuracies(record, one)] for one in record["methods"]]
    return table(["method", *ACCURACIES.values()], rows) + f"\n\n{len(record['seeds'])} seeds." + source(record)


def methods():
    """Every registered method, from what it declares."""
    from tcsl import registry
    from tcsl.methods.options import Options

    parts = []
    for name in registry.METHODS.names():
        method = registry.METHODS.get(name)
        about = method.about
        lines = [
            f"## {method.title} (`{name}`)",
            about.idea,
            f"- Formula: {about.formula}.",
            f"- Needs: {' and '.join(method.needs) or 'labels only'}.",
        ]
        fields = {} if method.options is None else method.options.model_fields
        own = {option: field for option, field in fields.items() if option not in Options.model_fields}
        if own:
            told = [
                f"`{option}`"
                + ("" if field.default is None else f" = {field.default!r}")
                + (f" ({field.description})" if field.description else "")
                for option, field in own.items()
            ]
            lines.append(f"- Options, as `--set method.{name}.OPTION=VALUE`: {'; '.join(told)}.")
        if method.chooses:
            lines.append(f"- Whatever `train.model_selection` says: {method.chooses}.")
        if method.presets:
            lines.append(f"- Presets: {_presets(method)}.")
        lines.append(f"- From: {about.reference}.")
        lines.append(f"- Ours differs: {about.differs or 'in nothing that we know of'}.")
        parts.append("\n\n".join(lines[:2]) + "\n\n" + "\n".join(lines[2:]))
    return "\n\n".join(parts)


PAPER = ("waterbirds", "cmnist", "metashift", "urbancars_b")  # the paper's four datasets


def _presets(method):
    """A method's presets with their sources, and for which of the paper's datasets nothing is published."""
    told = [
        f"{dataset}: {', '.join(f'`{name}` = {value!r}' for name, value in preset.options.items())} ({preset.source})"
        for dataset, preset in method.presets.items()
    ]
    others = [dataset for dataset in PAPER if dataset not in method.presets]
    return "; ".join(told) + (f"; not published for {', '.join(others)}" if others else "")


BLOCKS = {
    "methods": methods,
    "digits-methods": digits_methods,
    "digits-ula": lambda: longer("ula"),
    "digits-lff": lambda: longer("lff"),
    "digits": digits,
    "real": real,
    "choices-together": trials_together,
    "choices-digits": lambda: trials("digits"),
    "choices-uneven": lambda: trials("uneven"),
    "choices-halves": lambda: trials("halves"),
    "choices-murky": lambda: trials("murky"),
    "choices-rare": lambda: trials("rare"),
    "choices-small": lambda: trials("small"),
    "choices-mild": lambda: trials("mild"),
    "choices-lc": lambda: option("lc"),
    "choices-ula": lambda: option("ula"),
    "choices-tcsl_cs_gce": lambda: option("tcsl_cs_gce"),
    "benchmark-selection": lambda: benchmark("benchmark-selection"),
    "benchmark-rules": lambda: benchmark("benchmark-rules"),
    "benchmark-rules-growth": growth,
    "benchmark-peers": lambda: peers("rows"),
    "benchmark-peers-minority": lambda: peers("minority"),
    "benchmark-peers-numbers": lambda: peers("numbers"),
    "benchmark-peers-disagreements": lambda: peers("disagreements"),
    "benchmark-feeding": lambda: benchmark("benchmark-feeding"),
    "benchmark-table": lambda: benchmark("benchmark-table"),
    "benchmark-page": lambda: benchmark("benchmark-page"),
    **{
        f"benchmark-engine-{part}": partial(benchmark, f"benchmark-engine-{part}")
        for part in ("waterbirds", "cmnist", "profile", "disk", "memory", "cpu", "heap")
    },
    "agreement": agreement,
    "verdict": verdict,
    "reproduction-waterbirds": lambda: reproduction("waterbirds"),
    "heads-resnet50": lambda: heads("ResNet50"),
    "heads-mobilenet": lambda: heads("MobileNetV2"),
    "heads-rates": rates,
    "reproduction-cmnist": lambda: reproduction("cmnist"),
    "reproduction-goals": goals,
    "shorter-waterbirds": lambda: shorter("waterbirds"),
    "shorter-cmnist": lambda: shorter("cmnist"),
}


def generate(text):
    """Return the page with every generated block written anew."""

    def block(match):
        return f"<!-- generated: {match[1]} -->\n{BLOCKS[match[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- generated: ([\w-]+) -->\n.*?<!-- end -->", block, text, flags=re.DOTALL)


def main():
    written = {page: generate(page.read_text()) for page in PAGES}
    stale = [page for page, text in written.items() if text != page.read_text()]
    for page in stale:
        if "--check" in sys.argv:
            print(f"{page.name} is not what docs/results says; run python docs/generate.py")
        else:
            page.write_text(written[page])
            print(f"wrote {page.name}")
    sys.exit(1 if stale and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
