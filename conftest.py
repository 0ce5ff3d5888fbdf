"""For tests and doctests alike."""

import atexit
import io
import os
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout

import pytest
from hypothesis import settings

# One torch thread a process, so that two workers do not fight for two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No timing in a test, and the same examples in every run; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Decoded images of the tests are the tests' own.
os.environ["TCSL_CACHE"] = tempfile.mkdtemp(prefix="tcsl-tests-")
atexit.register(shutil.rmtree, os.environ["TCSL_CACHE"], ignore_errors=True)


@pytest.fixture(scope="session")
def tcsl_command():
    """Return a function that runs a command in this process and returns exit code, output and errors."""

    from tcsl.cli import main

    def run(*words):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["tcsl", *map(str, words)])
            patch.setenv("COLUMNS", "80")
            try:
                main()
                code = 0
            except SystemExit as end:
                code = end.code or 0
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture(scope="session")
def fit_plainly():
    """Return a function that trains a net on a feed as CB ERM does; it takes what else `fit` takes."""

    def train(net, feed, settings, **how):
        from tcsl.training.loop import fit, steps_of
        from tcsl.training.weights import class_balanced

        weights = class_balanced(feed.labels, feed.data.num_classes)
        given = {"stage": "test", "seed": 0, "steps": steps_of(len(feed), settings), "log_weights": weights}
        return fit(net, feed, settings, **given | how)

    return train


@pytest.fixture
def stopped_and_resumed(tmp_path):
    """Return a function that stops a training in an epoch and returns what it gives when it goes on.

    The training is a function of the seed of its initial weights, a checkpoint and a report. It goes on with other
    weights, which must not matter.
    """

    def run(train, *, stop_in):
        from tcsl.training.checkpoint import Checkpoint

        checkpoint = Checkpoint(tmp_path / "part.safetensors", share=1e9)

        def stop(epoch):
            if epoch.epoch == stop_in:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(0, checkpoint=checkpoint, report=stop)
        return train(9, checkpoint=checkpoint)

    return run
