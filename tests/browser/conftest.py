"""A real Chromium that opens real pages from files; where there is none, these tests skip and say what to install."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

HOW = "install Chromium (apt-get install chromium, or set TCSL_CHROMIUM to its path) and pip install 'tcsl[dev]'"
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" & 'single' </script><!-- <b>bold</b>",
    "\u202ethgir ot tfel\u202c \u2067rtl",
    "x" * 300,
)


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


def _chromium():
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return os.environ.get("TCSL_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def browser():
    if _chromium() is None:
        pytest.skip(f"there is no Chromium: {HOW}")
    api = pytest.importorskip("playwright.sync_api", reason=f"playwright is not installed: {HOW}")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Return a function that opens a page from a file or an address; the console must be empty at the end."""
    contexts, complaints = [], []

    def go(place, *, width=1280, theme="light", **more):
        served = str(place).startswith("http:")
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            offline=not served,
            accept_downloads=True,
            **more,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(place if served else Path(place).resolve().as_uri())
        page.wait_for_selector(f"html[data-{'marks' if served else 'ready'}=yes]", timeout=60_000)
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def demo():
    """The page of a small real run on the digits, and the run."""
    import tcsl

    with tempfile.TemporaryDirectory() as folder:
        few = {"data.options.per_class": 30, "data.options.val_per_class": 10, "train.epochs": 8}
        yield tcsl.debias("digits", 0.3, settings=few, methods=["cb_erm", "tcsl_cs"], out=Path(folder) / "demo")


def _small(folder, inputs, labels, **more):
    import torch

    import tcsl
    from tcsl.data.dataset import make_dataset

    data = make_dataset(inputs, torch.from_numpy(labels), **more)
    return tcsl.debias(data, 0.5, settings={"train.epochs": 4}, out=Path(folder) / "run")


@pytest.fixture(scope="session")
def hostile():
    """The page of a run whose classes, ids and groups have names that are markup, or that turn the text around."""
    import torch

    from tcsl.data.groups import make_groups

    rng = np.random.default_rng(0)
    labels, place = np.arange(48) % 4, rng.integers(0, 4, 48)
    inputs = torch.from_numpy(rng.integers(0, 256, (48, 3, 24, 24), np.uint8))
    groups = make_groups(labels, place, class_names=HOSTILE, attribute_names=HOSTILE)
    ids = np.array([f"{HOSTILE[k % 4]}{k}" for k in range(48)])
    with tempfile.TemporaryDirectory() as folder:
        yield _small(folder, inputs, labels, class_names=HOSTILE, ids=ids, groups=groups, name=HOSTILE[0])


@pytest.fixture(scope="session")
def rows():
    """The page of a run on rows of numbers."""
    import torch

    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    with tempfile.TemporaryDirectory() as folder:
        inputs = torch.from_numpy(rng.normal(size=(60, 5)).astype(np.float32) + labels[:, None].astype(np.float32))
        yield _small(folder, inputs, labels)
