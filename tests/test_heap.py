"""Freed memory is kept while nets run, and handed back after; in processes of their own, whose heaps are fresh."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc is told what to keep; run on a Linux that has it"
)

PRELUDE = """
import resource, torch
from tcsl.training.heap import kept_heap

MB = 1 << 20

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def touched(megabytes=100):
    before = faults()
    torch.empty(megabytes * MB, dtype=torch.uint8).fill_(1)
    return faults() - before

touched(1)
"""


def run(script):
    done = subprocess.run([sys.executable, "-c", PRELUDE + script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_freed_memory_serves_the_next_batch():
    run("""
usual = touched()
with kept_heap():
    first = [touched() for _ in range(8)]  # the C library places aligned blocks anew until one fits
    assert touched() <= usual / 100, (usual, first)
assert touched() > usual / 2, "it is kept for good"
""")


def test_the_outermost_block_hands_memory_back():
    run("""
start = resident()
with kept_heap():
    with kept_heap():
        touched()
    touched()
    assert resident() > start + 75 * MB, "an inner block handed it back"
assert resident() < start + 25 * MB
touched()
assert resident() < start + 25 * MB, "memory is still kept"
""")


def test_an_error_hands_memory_back():
    run("""
start = resident()
try:
    with kept_heap():
        touched()
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
assert resident() < start + 25 * MB
""")


def test_an_evaluation_of_images_takes_no_new_pages():
    """Activations of a net on 224-pixel images are above what glibc keeps by itself."""
    run("""
from tcsl.config import DeviceSettings
from tcsl.training.device import settled

net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 8, 3))
batch = torch.zeros(16, 3, 224, 224)

def forward():
    before = faults()
    with torch.inference_mode():
        net(batch)
    return faults() - before

forward()
usual = forward()
with settled(DeviceSettings(threads=1)):
    first = [forward() for _ in range(4)]
    assert forward() <= usual / 10, (usual, first)
""")
