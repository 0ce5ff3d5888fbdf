"""axe-core finds nothing serious, in both themes, wide and narrow, and in what opens."""

import pytest


def _serious(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_page(demo, visit, theme, width):
    page = visit(demo.page, theme=theme, width=width)
    assert _serious(page) == []


def test_open_parts_and_hostile_names(hostile, visit):
    page = visit(hostile.page)
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    page.locator("#strips .thumb").first.click()
    page.wait_for_timeout(100)
    assert _serious(page) == []


def test_rows_and_comparison(rows, demo, visit, tmp_path):
    from tcsl.report.compare import write_comparison

    assert _serious(visit(rows.page)) == []
    assert _serious(visit(write_comparison([demo.path, rows.path], tmp_path / "both.html"))) == []
