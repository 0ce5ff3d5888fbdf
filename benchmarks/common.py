"""What every benchmark writes beside its numbers."""

import json
import sys
from pathlib import Path

from tcsl.environment import describe_environment

RESULTS = Path(__file__).parent.parent / "docs" / "results"


def made_with(cpu, torch, commit):
    """Return what a row of a table that grows over several sessions was made with, in words."""
    return f"{cpu}, torch {torch}, {commit[:10]}{commit[40:]}"  # a "+": the tree had changes


def write(name, rows, **facts):
    """Write rows of a benchmark with command, commit and hardware; print them as a table."""
    environment = describe_environment()
    environment["command"] = f"python benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip()
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({**facts, "rows": rows, "environment": environment}, indent=1) + "\n")
    columns = list(rows[0])
    table = [
        columns,
        *[[f"{row[c]:.3g}" if isinstance(row[c], float) else str(row[c]) for c in columns] for row in rows],
    ]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print(f"written to {path}")
