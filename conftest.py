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
