"""Kills, Ctrl-C and a full disk, at real processes."""

import random
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

RUN = [
    *[sys.executable, "-m", "tcsl", "run", "digits", "--device", "cpu", "--method", "cb_erm", "--method", "tcsl_cs"],
    *["--set", "train.epochs=30", "--set", "data.options.per_class=30", "--ratio", "0.25"],
]
RESULTS = ("scores.parquet", "coreset.parquet")


def results(folder):
    return [(folder / name).read_bytes() for name in RESULTS]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Return the results of a run that nobody disturbed, and how long it took from its first epoch on."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    process = subprocess.Popen([*RUN, "--out", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_epochs(folder, process)
    started = time.monotonic()
    assert process.wait() == 0
    return results(folder), time.monotonic() - started


def wait_for_epochs(folder, process):
    """Wait until the process has written to the folder's metrics in this session."""
    path = folder / "metrics.jsonl"
    before = path.stat().st_mtime_ns if path.exists() else 0
    while process.poll() is None and not (path.exists() and path.stat().st_mtime_ns > before):
        time.sleep(0.005)


def test_ten_kills_at_random_moments_change_nothing(uninterrupted, tmp_path):
    expected, seconds = uninterrupted
    folder = tmp_path / "killed"
    moments = random.Random(0)
    kills = 0
    while kills < 10:
        process = subprocess.Popen(
            [*RUN, "--out", folder, "--resume"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        wait_for_epochs(folder, process)
        time.sleep(moments.uniform(0, seconds / 20))  # start-up and the page are in the seconds, too
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        process.stderr.close()
        kills += 1
    done = subprocess.run([*RUN, "--out", folder, "--resume"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert kills == 10
    assert results(folder) == expected
    assert not list(folder.rglob(".*.part"))


def test_ctrl_c_saves_and_says_how_to_go_on(uninterrupted, tmp_path):
    folder = tmp_path / "stopped"
    process = subprocess.Popen([*RUN, "--out", folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for_epochs(folder, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert re.search(rf"go on with:\n  tcsl run digits .*--out {folder} --resume", err)
    show = subprocess.run([sys.executable, "-m", "tcsl", "show", folder], capture_output=True, text=True)
    assert "is not finished" in show.stdout
    assert "cb_erm: epoch" in show.stdout
    assert subprocess.run([*RUN, "--out", folder, "--resume"], capture_output=True).returncode == 0
    assert results(folder) == uninterrupted[0]


def test_ctrl_c_with_several_seeds(tmp_path):
    folder = tmp_path / "seeds"
    process = subprocess.Popen(
        [*RUN, "--seeds", "2", "--out", folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    wait_for_epochs(folder / "seed-0", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--seeds 2" in err
    assert "Traceback" not in err


def test_a_full_disk_is_said_and_nothing_is_lost(uninterrupted, tmp_path):
    folder = tmp_path / "full"

    def no_file_above_200_kb():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    done = subprocess.run(
        [*RUN, "--out", folder, "--quiet"], capture_output=True, text=True, preexec_fn=no_file_above_200_kb
    )
    assert done.returncode == 2
    assert re.search(r"error: could not write .*safetensors: File too large.*--resume", done.stderr)
    assert "Traceback" not in done.stderr
    assert subprocess.run([*RUN, "--out", folder, "--resume"], capture_output=True).returncode == 0
    assert results(folder) == uninterrupted[0]
