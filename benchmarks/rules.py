"""The rules on any score, the two random ones, and D2 pruning, also against its dense formulation.

    python benchmarks/rules.py [--n 10000 100000 1000000] [--graphs d2:10000x512 "d2, dense:10000x512" ...]

Each measurement is a process of its own, so that peaks of memory do not mix. Peak memory is the resident set's high
water mark during the selection, minus what was resident before it: what is needed beside scores, labels and embedding.
Processor seconds are those of all threads. `beta` is the hardest part, which a rule drops before it chooses. D2 is the
same selection in both formulations, or this stops. Selections by a graph of more than 100,000 samples are timed once.
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
from typing import NamedTuple

import numpy as np

from tcsl.selection.baselines import select_random, select_rgbal
from tcsl.selection.d2 import select_d2
from tcsl.selection.rules import select_bot, select_ccs, select_hist, select_top

RATIO, BINS, BETA, K, GAMMA, CLASSES, MINORITY = 0.1, 50, 0.4, 5, 0.1, 10, 0.05


class Arrays(NamedTuple):
    """What a rule may look at."""

    scores: np.ndarray
    embedding: np.ndarray
    labels: np.ndarray
    minority: np.ndarray


def synthetic(n, width, seed=0):
    """Return n samples, whose embedding of `width` has ten overlapping clusters and is made block by block."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    centres = 0.5 * rng.standard_normal((CLASSES, width), dtype=np.float32)
    embedding = np.empty((n, width), np.float32)
    for start in range(0, n, 1 << 14):
        part = slice(start, start + (1 << 14))
        rng.standard_normal(out=embedding[part], dtype=np.float32)
        embedding[part] += centres[labels[part]]
    scores = rng.standard_exponential(n, dtype=np.float32)
    return Arrays(scores, embedding, labels, rng.random(n) < MINORITY)


def draw():
    return np.random.default_rng(0)


def random(data):
    return select_random(len(data.labels), ratio=RATIO, rng=draw())


def rgbal(data):
    return select_rgbal(data.minority, ratio=RATIO, rng=draw())


def rgbal_by_class(data):
    return select_rgbal(data.minority, ratio=RATIO, rng=draw(), balance=data.labels)


def bot(data):
    return select_bot(data.scores, data.labels, ratio=RATIO)


def top(data):
    return select_top(data.scores, data.labels, ratio=RATIO)


def hist(data):
    return select_hist(data.scores, data.labels, ratio=RATIO, bins=BINS, rng=draw())


def hist_by_class(data):
    return select_hist(data.scores, data.labels, ratio=RATIO, bins=BINS, rng=draw(), by_class=True)


def ccs(data, beta):
    return select_ccs(data.scores, data.labels, ratio=RATIO, bins=BINS, beta=beta, rng=draw())


def d2(data, beta):
    return select_d2(data.scores, data.embedding, data.labels, ratio=RATIO, k=K, gamma=GAMMA, beta=beta)


def d2_by_class(data, beta):
    return select_d2(data.scores, data.embedding, data.labels, ratio=RATIO, k=K, gamma=GAMMA, beta=beta, by_class=True)


def d2_dense(data, beta):
    """The same as d2 by matrices, as one would write it at first: 8 n^2 bytes each, 23 GB for 54,000 samples."""
    from sklearn.metrics import pairwise_distances

    n = len(data.scores)
    left = np.sort(np.argsort(data.scores, kind="stable")[: n - int(beta * n)])
    scores = data.scores[left].astype(np.float64)
    distance = pairwise_distances(data.embedding[left].astype(np.float64))
    np.fill_diagonal(distance, np.inf)
    near = np.argpartition(distance, K, axis=1)[:, :K]
    edge = np.zeros(distance.shape, bool)
    np.put_along_axis(edge, near, True, 1)
    edge |= edge.T
    now = scores + np.where(edge, np.exp(-distance), 0) @ scores
    free = np.ones(len(left), bool)
    for _ in range(int(RATIO * n)):
        i = int(np.where(free, now, -np.inf).argmax())
        free[i] = False
        now[edge[i]] -= np.exp(-GAMMA * distance[i, edge[i]]) * now[i]
    return left[~free]


class Rule(NamedTuple):
    """A function from arrays to indices, and the part that it drops first, where it drops any."""

    select: object
    beta: float | None = None

    def __call__(self, data):
        return self.select(data) if self.beta is None else self.select(data, self.beta)


RULES = {
    "random": Rule(random),
    "rgbal": Rule(rgbal),
    "rgbal, by class": Rule(rgbal_by_class),
    "bot": Rule(bot),
    "top": Rule(top),
    "hist": Rule(hist),
    "hist, by class": Rule(hist_by_class),
    "ccs": Rule(ccs, BETA),
}
GRAPHS = {
    "d2": Rule(d2, BETA),
    "d2, nothing dropped": Rule(d2, 0.0),
    "d2, by class": Rule(d2_by_class, BETA),
    "d2, dense": Rule(d2_dense, BETA),
}
SIZES = [
    *[("d2", n, 512) for n in (10_000, 54_000, 100_000)],
    *[("d2", n, 64) for n in (10_000, 100_000, 1_000_000)],  # 512 dimensions would be 100 times those at 100,000
    ("d2, nothing dropped", 54_000, 512),
    *[("d2, by class", n, 512) for n in (10_000, 100_000, 1_000_000)],
    ("d2, dense", 10_000, 512),
]


def resident(field):
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) * 1024


def measure(which, n, width, repeats):
    """Select `repeats` times; return the median times, the largest peak of memory and what was chosen."""
    rule = {**RULES, **GRAPHS}[which]
    rule(synthetic(2000, max(width, 1)))  # imports and thread pools are not what is measured
    data = synthetic(n, width)
    seconds, processor, extra = [], [], []
    for _ in range(repeats):
        gc.collect()
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # resets the high water mark
        started, used = time.perf_counter(), time.process_time()
        chosen = rule(data)
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

    def graph(text):
        rule, _, size = text.rpartition(":")
        n, _, width = size.partition("x")
        if rule not in GRAPHS:
            raise argparse.ArgumentTypeError(f"{text!r}: not one of {', '.join(GRAPHS)}, then :, n, x, dimensions")
        return rule, int(n), int(width)

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--graphs", type=graph, nargs="*", default=SIZES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        which, n, width = options.measure
        print(json.dumps(measure(which, int(n), int(width), options.repeats)))
        return
    rows, chosen = [], {}
    for rule, n, width in [*[(rule, n, 0) for n in options.n for rule in RULES], *options.graphs]:
        repeats = 1 if width and n > 100_000 else options.repeats
        words = ["--measure", rule, str(n), str(width), "--repeats", str(repeats)]
        done = subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout)
        chosen[rule, n, width] = found["chosen"]
        rows.append(
            {
                "rule": rule,
                "n": n,
                "dimensions": width or None,
                "beta": {**RULES, **GRAPHS}[rule].beta,
                "times measured": repeats,
                "seconds": found["seconds"],
                "processor seconds": found["processor"],
                "input, MB": n * (4 + 8 + 4 * width) / 1e6,
                "peak beside it, MB": found["extra_bytes"] / 1e6,
            }
        )
        print(rows[-1], file=sys.stderr)
    for rule, n, width in options.graphs:
        if rule == "d2, dense" and chosen.get(("d2", n, width), chosen[rule, n, width]) != chosen[rule, n, width]:
            sys.exit(f"the two formulations of D2 chose differently at {n} x {width}")
    write("benchmark-rules", rows, ratio=RATIO, bins=BINS, k=K, gamma=GAMMA, minority=MINORITY)


if __name__ == "__main__":
    main()
