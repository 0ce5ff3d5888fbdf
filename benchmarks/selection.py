"""Selection (wKMeans + Algorithm 2) against scikit-learn's KMeans and a NumPy selection written plainly.

    python benchmarks/selection.py [--n 10000 100000 1000000 10000000] [--repeats 3]

Each measurement is a process of its own, so that peaks of memory do not mix. Peak memory is the resident set's high
water mark during the selection, minus what was resident before it, plus the curves, over the curves.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

EPOCHS, RATIO, RESTARTS = 30, 0.1, 10


def synthetic(n, seed=0):
    """Return curves (n, 30), TCSL_c and labels; 5 % of the samples have high losses. Made block by block, in place."""
    rng = np.random.default_rng(seed)
    curves = np.empty((n, EPOCHS), np.float32)
    high = rng.random(n) < 0.05
    for start in range(0, n, 1 << 16):
        part = slice(start, start + (1 << 16))
        rng.standard_exponential(out=curves[part], dtype=np.float32)
        curves[part] *= np.where(high[part], 2.5, 0.4).astype(np.float32)[:, None]
    return curves, rng.standard_exponential(n, dtype=np.float32), rng.integers(0, 10, n)


def ours(curves, tcsl_c, labels, losses):
    from tcsl.config import SelectSettings
    from tcsl.selection.tcsl_cs import select_tcsl_cs

    settings = SelectSettings(ratio=RATIO, losses=losses, restarts=RESTARTS, fill="global")
    return len(select_tcsl_cs(curves, tcsl_c, labels, settings, seed=0).indices)


def plain(curves, tcsl_c, labels, losses):
    """The same by scikit-learn and NumPy, as one would write it at first."""
    from sklearn.cluster import KMeans

    n, rng = len(curves), np.random.default_rng(0)
    tcsl_s = curves.mean(1)
    rows = curves if losses == "raw" else 1 - np.exp(-curves)
    kmeans = KMeans(2, init="random", n_init=RESTARTS, max_iter=200, tol=0, random_state=0)
    cluster = kmeans.fit(rows, sample_weight=tcsl_s).labels_
    g_high = cluster == (tcsl_s[cluster == 1].mean() > tcsl_s[cluster == 0].mean())
    quota = int(RATIO * n)
    chosen = list(np.flatnonzero(g_high)[:quota])
    low = np.flatnonzero(~g_high)
    bins = [list(rng.permutation(part)) for part in np.array_split(low[np.argsort(tcsl_c[low])], 50)]
    while len(chosen) < quota:
        for part in bins:
            if len(chosen) < quota and part:
                chosen.append(part.pop())
    return len(chosen)


def resident(field):
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) * 1024


def measure(which, n, losses, repeats):
    """Time the selection `repeats` times, then run it once more for its peak of memory."""
    arrays = synthetic(n)
    select = {"ours": ours, "plain": plain}[which]
    select(*synthetic(1000), losses)  # imports and thread pools are not what is measured
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        select(*arrays, losses)
        seconds.append(time.perf_counter() - started)
    gc.collect()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the high water mark
    select(*arrays, losses)
    return {"seconds": statistics.median(seconds), "extra_bytes": resident("VmHWM") - before}


def main():
    from common import write

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        which, n, losses = options.measure
        print(json.dumps(measure(which, int(n), losses, options.repeats)))
        return
    rows = []
    for n in options.n:
        curves = 4 * n * EPOCHS
        for losses in ("raw", "bounded"):
            found = {}
            for which in ("ours", "plain"):
                words = ["--measure", which, str(n), losses, "--repeats", str(options.repeats)]
                done = subprocess.run([sys.executable, __file__, *words], check=True, capture_output=True, text=True)
                found[which] = json.loads(done.stdout)
            rows.append(
                {
                    "n": n,
                    "losses": losses,
                    "ours, s": found["ours"]["seconds"],
                    "plain, s": found["plain"]["seconds"],
                    "plain / ours": found["plain"]["seconds"] / found["ours"]["seconds"],
                    "curves, MB": curves / 1e6,
                    "ours, peak / curves": 1 + found["ours"]["extra_bytes"] / curves,
                    "plain, peak / curves": 1 + found["plain"]["extra_bytes"] / curves,
                }
            )
            print(rows[-1], file=sys.stderr)
    write("benchmark-selection", rows, epochs=EPOCHS, ratio=RATIO, restarts=RESTARTS, repeats=options.repeats)


if __name__ == "__main__":
    main()
