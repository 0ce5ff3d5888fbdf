"""What the tables of the docs are written with."""

import json
import statistics
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(" --- " for _ in header) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def shortened(commit):
    return commit[:10] + commit[40:]  # a "+": the tree had changes


def source(record):
    """Return the line under a table: command, commit, hardware."""
    about = record["environment"]
    where = about["gpu"] or f"{about['cores']} cores of {about['cpu']}"
    torch = about["packages"]["torch"]
    return f"\n\n`{about['command']}`, commit {shortened(about['commit'])}, {where}, torch {torch}."


def spread(values):
    """Return mean ± standard deviation in %, or the mean of one value, or nothing of none."""
    if not values:
        return ""
    mean = f"{100 * statistics.mean(values):.1f}"
    return f"{mean} ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else mean


def interval(value):
    """Return a paired difference in points with its 95 % interval, where there is one."""
    return f"{100 * value.mean:+.1f}" + (
        "" if value.sd is None else f" [{100 * value.low:+.1f}, {100 * value.high:+.1f}]"
    )


def plain(values):
    return f"{statistics.mean(values):.2f}" if values else ""
