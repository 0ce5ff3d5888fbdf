"""Functions on arrays, called in a process of another environment: arrays travel as .npz files, never as pickles.

A worker is a script whose last line is `serve(TASKS)`. It stays, so that its imports are paid once and its calls can
alternate with those of another worker.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np


def serve(tasks):
    """Answer requests, a line of JSON each, until the input ends. A task takes arrays and returns a dict of arrays."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a package prints is no answer
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        request = json.loads(line)
        arrays = dict(np.load(request["arrays"], allow_pickle=False))
        answer = {}
        started = time.perf_counter()
        try:
            found = tasks[request["task"]](**arrays)
        except Exception as error:  # a peer that fails is a result, too
            answer["error"] = f"{type(error).__name__}: {error}"
        else:
            answer["seconds"] = time.perf_counter() - started
            np.savez(request["found"], **found)
        answers.write(json.dumps(answer) + "\n")


class Worker:
    """A script that serves, run by the Python of its environment on so many threads."""

    def __init__(self, python, script, threads):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        environment = os.environ | {name: str(threads) for name in names}
        # Another environment must not see this one's packages.
        if python != sys.executable:
            environment.pop("PYTHONPATH", None)
        words = [python, str(Path(__file__).parent / script)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environment, **pipes)

    def ask(self, task, arrays):
        """Return the seconds of a task and what it found; or None and the error that it raised."""
        with tempfile.TemporaryDirectory() as folder:
            there, found = Path(folder) / "arrays.npz", Path(folder) / "found.npz"
            np.savez(there, **arrays)
            request = {"task": task, "arrays": str(there), "found": str(found)}
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f"{self.process.args} ended with {self.process.wait()} on {task!r}; run it by hand to see why")
            answer = json.loads(line)
            if "error" in answer:
                return None, answer["error"]
            return answer["seconds"], dict(np.load(found, allow_pickle=False))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
