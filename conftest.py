"""For tests and doctests alike."""

import atexit
import os
import shutil
import tempfile

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
