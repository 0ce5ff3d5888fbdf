"""Size, build time and time to first view of a page, by the number of samples.

Scores are synthetic; images are windows of one smooth noise, of Waterbirds' size, and with --root the real Waterbirds.
The build is both halves of what a run does at its end: thumbnails and neighbours (samples.parquet), then the page. The
first view is Chromium's first contentful paint of the file, `ready` is when the map is drawn and everything answers;
medians of three.

python benchmarks/page.py [--few] [--root DATA]
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common import write
from playwright.sync_api import sync_playwright

from tcsl.config import resolve
from tcsl.data.dataset import Dataset
from tcsl.data.groups import make_groups
from tcsl.data.load import load
from tcsl.environment import describe_environment
from tcsl.report.keep import keep_groups, keep_samples
from tcsl.report.page import write_page
from tcsl.runs import RunFolder
from tcsl.scores import Coreset, Scores

SIDE, EPOCHS, TIMES = 224, 30, 3
SIZES = (1000, 5000, 50_000, 500_000)


def images(n):
    """Return (n, 3, 224, 224): windows, each a pixel further, of one smooth noise with some edges; not a copy each."""
    rng = np.random.default_rng(0)
    width = n + SIDE
    coarse = torch.from_numpy(rng.random((1, 3, 24, width // 9 + 1), np.float32))
    smooth = torch.nn.functional.interpolate(coarse, size=(SIDE, width), mode="bilinear")[0]
    fine = torch.from_numpy(rng.random((3, SIDE, width), np.float32))
    noise = (255 * (0.88 * smooth + 0.12 * fine)).to(torch.uint8)
    return noise.as_strided((n, 3, SIDE, SIDE), (1, SIDE * width, width, 1))


def dataset(n):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, n)
    place = np.where(rng.random(n) < 0.95, labels, 1 - labels)
    names = ("landbird", "waterbird")
    groups = make_groups(labels, place, class_names=names, attribute_names=("land", "water"))
    ids = np.array([f"{k % 200:03d}.Some_Bird/Some_Bird_{k:06d}.jpg" for k in range(n)])
    data = Dataset(images(n), torch.from_numpy(labels), names, ids, "synthetic birds", _groups=groups)
    data.__dict__["fingerprint"] = "synthetic"  # a run has hashed its data before
    return data


def run_folder(path, data):
    """Write a finished run whose scores are drawn at random; the minority's are higher."""
    rng = np.random.default_rng(2)
    n, settings = len(data), resolve()
    high = data.groups.minority
    curves = rng.gamma(1.5, 0.3, (n, EPOCHS)).astype(np.float32) + 2 * high[:, None].astype(np.float32)
    tcsl_c = rng.gamma(2.0, 0.5, n).astype(np.float32)
    facts = {"name": data.name, "class_names": list(data.class_names)}
    scores = Scores(data.ids, data.numpy_labels, curves.mean(1), tcsl_c, high, curves, facts)
    kept = np.sort(rng.choice(n, n // 10, replace=False))
    about = {"fingerprint": "synthetic", "n": n, "input_shape": [3, SIDE, SIDE], "class_counts": [0, 0], **facts}
    folder = RunFolder.open(path, settings, about, resume=False, environment=describe_environment())
    scores.save(path / "scores.parquet")
    Coreset(kept, data.ids[kept], data.numpy_labels[kept], high[kept], {}).save(path / "coreset.parquet")
    folder.finish(
        {
            "evaluation": {},
            "titles": {},
            "identification": {"n": n, "g_high": int(high.sum())},
            "unknown": ["accuracy: there is no test set"],
        }
    )
    folder.close()


def built(path, data):
    """Return the seconds of both halves of the build."""
    start = time.perf_counter()
    keep_samples(data, path, seed=0)
    keep_groups(data.groups, path)
    middle = time.perf_counter()
    write_page(path)
    return middle - start, time.perf_counter() - middle


def viewed(browser, page):
    """Return the seconds to the first contentful paint, and until everything answers."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(page.resolve().as_uri())
    tab.wait_for_selector("html[data-ready=yes]", timeout=120_000)
    ready = tab.evaluate("performance.now()")
    paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    filtered = tab.evaluate(
        "(() => { const t = performance.now(); tcsl.filter.set([1, 2, 0, 1]); return performance.now() - t; })()"
    )
    tab.close()
    return paint / 1000, ready / 1000, filtered / 1000


def measure(data, browser):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        run_folder(path, data)
        kept, made = built(path, data)
        page = path / "report.html"
        views = [viewed(browser, page) for _ in range(TIMES)]
        first, ready, filtered = (statistics.median(values) for values in zip(*views, strict=True))
        return {
            "data": data.name,
            "samples": len(data),
            "MB": page.stat().st_size / 1e6,
            "thumbnails, s": kept,
            "page, s": made,
            "first view, s": first,
            "ready, s": ready,
            "filter, ms": 1000 * filtered,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", action="store_true", help="only the two small ones")
    parser.add_argument("--root", help="where Waterbirds is")
    options = parser.parse_args()
    sizes = SIZES[:2] if options.few else SIZES
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        version = browser.version
        rows = [measure(dataset(n), browser) for n in sizes]
        if options.root:
            rows.append(measure(load("waterbirds", root=options.root).train, browser))
        browser.close()
    write("benchmark-page", rows, chromium=version, side=SIDE)


if __name__ == "__main__":
    main()
