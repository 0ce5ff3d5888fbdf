"""A small real run on image files whose names are hostile, for who looks at runs."""

import contextlib
import csv
import threading
from types import SimpleNamespace

import numpy as np
import pytest

HOSTILE_CLASSES = ["<script>alert(1)</script>", "\"quoted\" & 'single' </script><!-- <b>bold</b>"]
HOSTILE_IDS = ["=1+1", "@x", "<img src=x onerror=alert(1)>", "\u202ethgir ot tfel\u202c", "y" * 300, "../../etc/passwd"]
SIZE = (300, 200)  # of the files; thumbnails and what is trained on are smaller
FORMATS = ["png", "jpg", "tif"]


@pytest.fixture(scope="session")
def pictured(tmp_path_factory):
    """Return the folder of a table with its images, and the run on it; the table is not in the order of the ids."""
    from PIL import Image

    import tcsl

    place = tmp_path_factory.mktemp("pictured")
    rng = np.random.default_rng(0)
    with open(place / "table.csv", "w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["path", "label", "id"])
        for k in range(40):
            name = f"{(k * 7) % 40:02d}.{FORMATS[k % 3]}"
            pixels = np.full((SIZE[1], SIZE[0], 3), (6 * k, 40 * (k % 2), 128), np.uint8)
            pixels[:100] = rng.integers(0, 256, 3)
            Image.fromarray(pixels).save(place / name)
            rows.writerow([name, HOSTILE_CLASSES[k % 2], HOSTILE_IDS[k] if k < len(HOSTILE_IDS) else f"sample {k}"])
    few = {"train.epochs": 4, "data.transform": "resize:32", "data.val_fraction": 0.0, "device.device": "cpu"}
    run = tcsl.debias(str(place / "table.csv"), 0.5, settings=few, methods=["tcsl_cs"], out=place / "run")
    return SimpleNamespace(place=place, run=run, files=_files(place), ids=run.scores.ids.tolist())


def _files(place):
    """Return the file of each id."""
    with open(place / "table.csv", newline="", encoding="utf-8") as stream:
        return {row["id"]: place / row["path"] for row in csv.DictReader(stream)}


@pytest.fixture(scope="session")
def serving():
    """Return a context manager that serves a run folder from a thread, as `tcsl explore` does."""

    @contextlib.contextmanager
    def serve(path, *, images=True, note="", port=0):
        from tcsl.report.material import read_material
        from tcsl.report.originals import open_originals
        from tcsl.report.serve import Server, make_site
        from tcsl.runs import RunFolder

        material = read_material(path)
        originals = open_originals(RunFolder.find(path), material.scores, material.settings) if images else None
        with Server(port) as server:
            server.site = make_site(material, originals, note)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()

    return serve
