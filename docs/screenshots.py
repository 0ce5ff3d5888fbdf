"""Take the docs' pictures of a run's page from the real file in a headless Chromium.

python docs/screenshots.py views runs/demo/report.html docs/images/demo         both themes, wide and narrow
python docs/screenshots.py readme runs/demo/report.html docs/images/page.webp   verdict, and three rows of the gallery
"""

import io
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

VIEWS = {"wide": (1280, 1750), "narrow": (390, 1750)}
PARTS = {"top": "verdict", "gallery": "gallery"}
GALLERY_ROWS = 3


@contextmanager
def opened(page, width, height, theme):
    """Open a page and wait until it is ready."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
        tab.goto(Path(page).resolve().as_uri())
        tab.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        yield tab
        browser.close()


def picture(taken):
    return Image.open(io.BytesIO(taken)).convert("RGB")


def save(image, place):
    image.save(place, "WEBP", quality=80, method=6)
    print(f"{place}  {Path(place).stat().st_size / 1000:.0f} kB")


def views(page, prefix):
    for view, (width, height) in VIEWS.items():
        for theme in ("light", "dark"):
            with opened(page, width, height, theme) as tab:
                for part, section in PARTS.items():
                    tab.evaluate(f"scrollTo(0, document.getElementById('{section}').offsetTop - 52)")
                    tab.wait_for_timeout(500)
                    save(picture(tab.screenshot()), f"{prefix}-{part}-{view}-{theme}.webp")


def readme(page, place):
    with opened(page, 1280, 900, "light") as tab:

        def edges(selector, at=0):
            box = tab.locator(selector).nth(at).bounding_box()
            return box["y"], box["y"] + box["height"]

        rows = "#gallery .sides"
        spans = [
            (edges("#verdict h1")[0] - 58, edges("#verdict .cards")[1] + 24),
            (edges(rows)[0] - 12, edges(rows, GALLERY_ROWS - 1)[1] + 12),
        ]
        whole = picture(tab.screenshot(full_page=True))
    crops = [whole.crop((40, round(top), 1240, round(bottom))) for top, bottom in spans]
    stacked = Image.new("RGB", (crops[0].width, sum(crop.height for crop in crops)))
    for crop, top in zip(crops, (0, crops[0].height), strict=True):
        stacked.paste(crop, (0, top))
    save(stacked, place)


if __name__ == "__main__":
    {"views": views, "readme": readme}[sys.argv[1]](*sys.argv[2:4])
