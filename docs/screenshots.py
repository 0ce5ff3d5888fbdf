"""Take the docs' pictures of a run's page: both themes, wide and narrow, from the real file in a headless Chromium.

python docs/screenshots.py runs/demo/report.html docs/images/demo
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

VIEWS = {"wide": (1280, 1750), "narrow": (390, 1750)}
PARTS = {"top": "verdict", "gallery": "gallery"}


def main(page, prefix):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for view, (width, height) in VIEWS.items():
            for theme in ("light", "dark"):
                tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
                tab.goto(Path(page).resolve().as_uri())
                tab.wait_for_selector("html[data-ready=yes]", timeout=60_000)
                for part, section in PARTS.items():
                    tab.evaluate(f"scrollTo(0, document.getElementById('{section}').offsetTop - 52)")
                    tab.wait_for_timeout(500)
                    taken = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
                    place = Path(f"{prefix}-{part}-{view}-{theme}.webp")
                    taken.save(place, "WEBP", quality=80, method=6)
                    print(f"{place}  {place.stat().st_size / 1000:.0f} kB")
                tab.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
