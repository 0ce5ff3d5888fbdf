"""`tcsl data check` on a table of a million rows, without opening images: seconds and peak memory of the command.

    python benchmarks/table.py [--rows 1000000]

Beside it, in the same run: what the command takes on a table of 1,000 rows, which is Python, torch and the table's
library being loaded.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
from common import write

SUFFIXES = (".csv", ".parquet", ".jsonl")


def generate(path, rows):
    number = pl.int_range(0, rows, eager=True)
    frame = pl.DataFrame(
        {
            "path": pl.select(pl.format("images/{}/{}.jpg", number % 1000, number)).to_series(),
            "label": pl.select(pl.format("class {}", number // 10 % 10)).to_series(),
            "group": pl.select(pl.format("place {}", number % 7)).to_series(),
            "split": pl.select(pl.when(number % 10 == 0).then(pl.lit("test")).otherwise(pl.lit("train"))).to_series(),
        }
    )
    {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}[path.suffix](path)


def measure(path):
    """Run the command in a process of its own; return its seconds and its peak memory in MB."""
    code = (
        "import resource, sys; from tcsl.cli import main\n"
        "sys.argv = ['tcsl', 'data', 'check', sys.argv[1], '--no-images', '--json']\n"
        "try: main()\n"
        "finally: sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))\n"
    )
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    return seconds, int(done.stderr.split()[-1]) / 1024, json.loads(done.stdout)["samples"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for suffix in SUFFIXES:
            for n in (1000, rows):
                path = Path(folder) / f"table-{n}{suffix}"
                generate(path, n)
                seconds, peak, samples = measure(path)
                assert samples == n
                out.append({"table": suffix, "rows": n, "seconds": seconds, "peak memory, MB": peak})
    write("benchmark-table", out)


if __name__ == "__main__":
    main()
