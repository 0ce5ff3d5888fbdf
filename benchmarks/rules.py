"""The rules on any score, and D2 pruning against its dense formulation.

    python benchmarks/rules.py [--n 10000 100000 1000000] [--d2 10000x512 54000x512 100000x64] [--dense 10000x512]

Each measurement is a process of its own, so that peaks of memory do not mix. Peak memory is the resident set's high
water mark during the selection, minus what was resident before it: what is needed beside scores, labels and embedding.
Processor seconds are those of all threads. D2 is the same selection in both formulations, or this stops.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np

RATIO, BINS, BETA, K, GAMMA, CLASSES = 0.1, 50, 0.4, 5, 0.1, 10


def synthetic(n, width, seed=0):
    """Return scores, an embedding (n, width) of ten overlapping clusters, made block by block, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    centres = 0.5 * rng.standard_normal((CLASSES, width), dtype=np.float32)
    embedding = np.empty((n, width), np.float32)
    for start in range(0, n, 1 << 14):
        part = slice(start, start + (1 << 14))
        rng.standard_normal(out=embedding[part], dtype=np.float32)
        embedding[part] += centres[labels[part]]
    return rng.standard_exponential(n, dtype=np.float32), embedding, labels


def bot(scores, embedding, labels):
    from tcsl.selection.rules import select_bot

    return select_bot(scores, labels, ratio=RATIO)


def top(scores, embedding, labels):
    from tcsl.selection.rules import select_top

    return select_top(scores, labels, ratio=RATIO)


def hist(scores, embedding, labels):
    from tcsl.selection.rules import select_hist

    return select_hist(scores, labels, ratio=RATIO, bins=BINS, rng=np.random.default_rng(0))


def hist_by_class(scores, embedding, labels):
    from tcsl.selection.rules import select_hist

    return select_hist(scores, labels, ratio=RATIO, bins=BINS, rng=np.random.default_rng(0), by_class=True)


def ccs(scores, embedding, labels):
    from tcsl.selection.rules import select_ccs

    return select_ccs(scores, labels, ratio=RATIO, bins=BINS, beta=BETA, rng=np.random.default_rng(0))


def d2(scores, embedding, labels):
    from tcsl.selection.d2 import select_d2

    return select_d2(scores, embedding, labels, ratio=RATIO, k=K, gamma=GAMMA)


def d2_dense(scores, embedding, labels):
    """The same by n x n matrices, as one would write it at first: 8 n^2 bytes each, 23 GB at 54,000 samples."""
    from sklearn.metrics import pairwise_distances

    n, scores = len(scores), scores.astype(np.float64)
    distance = pairwise_distances(embedding.astype(np.float64))
    np.fill_diagonal(distance, np.inf)
    near = np.argpartition(distance, K, axis=1)[:, :K]
    edge = np.zeros((n, n), bool)
    np.put_along_axis(edge, near, True, 1)
    edge |= edge.T
    now = scores + np.where(edge, np.exp(-distance), 0) @ scores
    free = np.ones(n, bool)
    for _ in range(int(RATIO * n)):
        i = int(np.where(free, now, -np.inf).argmax())
        free[i] = False
        now[edge[i]] -= np.exp(-GAMMA * distance[i, edge[i]]) * now[i]
    return np.flatnonzero(~free)


RULES = {"bot": bot, "top": top, "hist": hist, "hist, by class": hist_by_class, "ccs": ccs}
GRAPHS = {"d2": d2, "d2, dense": d2_dense}


def resident(field):
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) * 1024


def measure(which, n, width, repeats):
    """Select `repeats` times; return the median times, the largest peak of memory and what was chosen."""
    select = {**RULES, **GRAPHS}[which]
    select(*synthetic(2000, max(width, 1)))  # imports and thread pools are not what is measured
    arrays = synthetic(n, width)
    seconds, processor, extra = [], [], []
    for _ in range(repeats):
        gc.collect()
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # resets the high water mark
        started, used = time.perf_counter(), time.process_time()
        chosen = select(*arrays)
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
        extra.append(resident("VmHWM") - before)
    return {
        "seconds": statistics.median(seconds),
        "processor": statistics.median(processor),
        "extra_bytes": max(extra),
        "chosen": zlib.crc32(chosen.tobytes()),
    }


def main():
    from common import write

    def shape(text):
        n, width = text.split("x")
        return int(n), int(width)

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--d2", type=shape, nargs="*", default=[(10_000, 512), (54_000, 512), (100_000, 64)])
    parser.add_argument("--dense", type=shape, nargs="*", default=[(10_000, 512)])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        which, n, width = options.measure
        print(json.dumps(measure(which, int(n), int(width), options.repeats)))
        return
    wanted = [(rule, n, 0) for n in options.n for rule in RULES]
    wanted += [("d2", *at) for at in options.d2] + [("d2, dense", *at) for at in options.dense]
    rows, chosen = [], {}
    for rule, n, width in wanted:
        words = ["--measure", rule, str(n), str(width), "--repeats", str(options.repeats)]
        done = subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout)
        chosen[rule, n, width] = found["chosen"]
        rows.append(
            {
                "rule": rule,
                "n": n,
                "dimensions": width or None,
                "seconds": found["seconds"],
                "processor seconds": found["processor"],
                "input, MB": n * (4 + 8 + 4 * width) / 1e6,
                "peak beside it, MB": found["extra_bytes"] / 1e6,
            }
        )
        print(rows[-1], file=sys.stderr)
    for at in options.dense:
        if ("d2", *at) in chosen and chosen["d2", *at] != chosen["d2, dense", *at]:
            sys.exit(f"the two formulations of D2 chose differently at {at}")
    facts = {"ratio": RATIO, "bins": BINS, "beta": BETA, "k": K, "gamma": GAMMA, "repeats": options.repeats}
    write("benchmark-rules", rows, **facts)


if __name__ == "__main__":
    main()
