"""From the files of Waterbirds to its coreset, in a fresh process: a part of benchmarks/engine.py."""

import json
import os
import subprocess
import sys
import tempfile
import time

from engine_epochs import WATERBIRDS, collected

from tcsl.config import resolve

FROM_DISK = """
import json, sys, time
started = time.perf_counter()
from tcsl import load, score, select
root, weights, net, engine = sys.argv[1:]
settings = {"train.weights": weights, "train.pretrained": False, "train.net": net}
imported = time.perf_counter()
train = load("waterbirds", root=root, only_train=True).train
loaded = time.perf_counter()
ends = []
def report(epoch):
    ends.append(time.perf_counter())
scores = score(train, profile="fast", settings={**PRESET, **settings, "device.engine": engine}, report=report)
scored = time.perf_counter()
kept = select(scores, ratio=0.1)
done = time.perf_counter()
print(json.dumps({"imports": imported - started, "decoding": loaded - imported, "scores": scored - loaded,
                  "scores, until the first epoch's end": ends[0] - loaded,
                  "selection": done - scored}))
"""


def from_disk(root, weights, engine="auto"):
    """Return the seconds of a fresh process from Waterbirds' files to the coreset, and those of its parts."""
    preset = {f"train.{k}": v for k, v in resolve(dataset="waterbirds").train.model_dump().items() if k != "net"}
    with tempfile.TemporaryDirectory() as cache:
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", FROM_DISK.replace("PRESET", repr(preset)), root, weights, WATERBIRDS[0], engine],
            env={**os.environ, "TCSL_CACHE": cache},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return time.perf_counter() - started, json.loads(done.stdout.splitlines()[-1])


def disk_rows(options):
    rows, row = collected()
    for engine in ("auto", "compiled"):
        seconds, parts = from_disk(options.root, options.weights, engine)
        work = "Waterbirds: from files to the coreset, profile fast"
        row(work if engine == "auto" else f"the same, {engine}", seconds, 60 if engine == "auto" else "")
        for part, took in parts.items():
            row(f"of it: {part}", took)
    return rows
