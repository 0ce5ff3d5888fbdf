"""Write the tables of the README and the docs from the records in docs/results.

python docs/generate.py            rewrite the blocks between <!-- generated: NAME --> and <!-- end -->
python docs/generate.py --check    exit with 1 where a block is not what the records say
"""

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS / "results"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(" --- " for _ in header) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def source(record):
    """Return the line under a table: command, commit, hardware."""
    about = record["environment"]
    where = about["gpu"] or f"{about['cores']} cores of {about['cpu']}"
    torch = about["packages"]["torch"]
    return f"\n\n`{about['command']}`, commit {about['commit'][:10]}, {where}, torch {torch}."


def digits():
    record = read("digits-seeds")
    metrics = {
        "wga": "WGA",
        "wga_cells": "WGA, 100 cells",
        "average": "plain average",
        "weighted_average": "weighted average",
    }

    def mean_sd(value):
        return f"{100 * value['mean']:.1f} ± {100 * value['sd']:.1f}"

    def interval(value):
        return f"{100 * value['mean']:+.1f} [{100 * value['low']:+.1f}, {100 * value['high']:+.1f}]"

    rows = [
        [record["titles"][name], *[mean_sd(values[m]) for m in metrics]] for name, values in record["methods"].items()
    ]
    rows += [
        [f"*TCSL-CS minus {record['titles'][name]}*", *[interval(values[m]) for m in metrics]]
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


def choices():
    record = read("choices-digits")

    def number(value):
        return "" if value is None else f"{value:.2f}"

    rows = [
        [
            row["row"],
            f"{row['WGA']:.1f} ± {row['sd']:.1f}",
            "" if row["row"] == "default" else f"{row['minus default']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}]",
            f"{row['average']:.1f}",
            number(row["recall"]),
            number(row["precision"]),
        ]
        for row in record["rows"]
    ]
    header = ["changed", "WGA", "minus default, paired [95 %]", "plain average", "recall of G_high", "precision"]
    return table(header, rows) + f"\n\n{len(record['seeds'])} seeds." + source(record)


def benchmark(name):
    record = read(name)
    columns = list(record["rows"][0])

    def cell(value):
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        return f"{value:,}" if isinstance(value, int) else str(value)

    return table(columns, [[cell(row[c]) for c in columns] for row in record["rows"]]) + source(record)


BLOCKS = {
    "digits": digits,
    "choices": choices,
    "benchmark-selection": lambda: benchmark("benchmark-selection"),
    "benchmark-loop": lambda: benchmark("benchmark-loop"),
    "benchmark-feeding": lambda: benchmark("benchmark-feeding"),
    "benchmark-table": lambda: benchmark("benchmark-table"),
}


def generate(text):
    """Return the page with every generated block written anew."""

    def block(match):
        return f"<!-- generated: {match[1]} -->\n{BLOCKS[match[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- generated: ([\w-]+) -->\n.*?<!-- end -->", block, text, flags=re.DOTALL)


def main():
    stale = [page for page in PAGES if generate(page.read_text()) != page.read_text()]
    for page in stale:
        if "--check" in sys.argv:
            print(f"{page.name} is not what docs/results says; run python docs/generate.py")
        else:
            page.write_text(generate(page.read_text()))
            print(f"wrote {page.name}")
    sys.exit(1 if stale and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
