"""Random numbers: a training draws its own, and leaves the caller's alone."""

import subprocess
import sys

import torch

from tcsl.training.device import drawing_from, kept_state, seed_numbers

CPU = torch.device("cpu")


def test_a_seed_gives_its_numbers_and_the_callers_go_on():
    torch.manual_seed(1)
    expected = torch.rand(4)
    torch.manual_seed(1)
    first = torch.rand(2)
    with drawing_from(7):
        drawn = torch.rand(3)
    assert torch.equal(torch.cat([first, torch.rand(2)]), expected)
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.rand(3))


def test_numbers_are_left_as_they_were_after_an_error_too():
    before = torch.get_rng_state()
    try:
        with kept_state(CPU):
            seed_numbers(3, CPU)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert torch.equal(torch.get_rng_state(), before)


def test_a_gpu_that_has_not_started_is_told_no_seed():
    """Torch keeps such seeds until CUDA starts; a process of its own, since others may have left some."""
    told = """
import torch
from tcsl.training.device import drawing_from
queued = lambda: sum(bool(call) for call in torch.cuda._lazy_seed_tracker.get_calls())
with drawing_from(7):
    torch.rand(1)
print(queued())
torch.manual_seed(7)
print(queued())
"""
    done = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["0", "1"]  # the second is what it would look like
