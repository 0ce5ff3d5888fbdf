"""What a reader does with the page: look, hover, drag, type, walk with the keyboard, export, change the theme."""

import csv
import io

import numpy as np
import pytest

from tcsl.text import printable


def _selected(page):
    return page.inner_text("#selected")


def _plot_box(page):
    page.locator("#map-plot").scroll_into_view_if_needed()
    return page.locator("#map-plot .nsewdrag").first.bounding_box()


def _pixel(page, i):
    """Return where a sample's point is on the screen."""
    return page.evaluate(
        """(i) => { const plot = document.getElementById("map-plot"), { xaxis: x, yaxis: y } = plot._fullLayout;
        const box = plot.getBoundingClientRect(), { samples } = window.tcsl;
        return [box.left + x._offset + x.d2p(samples.s[i]), box.top + y._offset + y.d2p(samples.c[i])]; }""",
        i,
    )


def test_verdict_and_numbers_are_there_without_any_script(demo, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(demo.page.resolve().as_uri())
    text = page.inner_text("#verdict")
    g_high, n = demo.result["identification"]["g_high"], demo.result["identification"]["n"]
    assert f"{g_high:,} of {n:,}" in text
    for method in ("cb_erm", "tcsl_cs"):
        assert f"{100 * demo.result['evaluation'][method]['wga']:.1f} %" in text
    context.close()


def test_hover_shows_image_and_scores(demo, visit):
    page = visit(demo.page)
    top = int(np.argmax(demo.scores.tcsl_s))
    _plot_box(page)
    page.mouse.move(*_pixel(page, top))
    page.wait_for_selector("#hover:not([hidden])")
    card = page.inner_text("#hover")
    assert str(demo.scores.ids[top]) in card
    assert f"TCSL_s {float(f'{demo.scores.tcsl_s[top]:.3g}'):g}" in card
    assert page.evaluate("document.querySelector('#hover img').naturalWidth") > 0


def test_rectangle_filters_counts_and_gallery(demo, visit):
    page = visit(demo.page)
    box = _plot_box(page)
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.5)
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2)
    page.mouse.up()
    page.wait_for_function("document.getElementById('selected').textContent.includes('selected')")
    bounds = page.evaluate("window.tcsl.filter.bounds")
    inside = (demo.scores.tcsl_s >= bounds[0]) & (demo.scores.tcsl_s <= bounds[1])
    inside &= (demo.scores.tcsl_c >= bounds[2]) & (demo.scores.tcsl_c <= bounds[3])
    assert 0 < inside.sum() < len(inside)
    assert _selected(page).startswith(f"{inside.sum()} of {len(inside)} samples selected")
    first = page.locator("#counts .count").first.inner_text()
    assert f"{(inside & demo.scores.g_high).sum()} of {demo.scores.g_high.sum()}" in first
    page.wait_for_timeout(200)
    shown = {
        button.split("id ")[1]
        for button in page.eval_on_selector_all(
            "#strips .thumb", "all => all.map(one => one.getAttribute('aria-label'))"
        )
    }
    assert shown <= set(map(str, demo.scores.ids[inside]))
    labels = demo.scores.labels
    of_classes = page.locator("#strips .strip h3 + p").all_inner_texts()
    assert of_classes == [
        f"{(inside & (labels == k)).sum()} of {(labels == k).sum()} samples" for k in range(labels.max() + 1)
    ]
    assert len(page.locator("#strips .thumb").all()) == len(shown)  # none stands on both sides
    page.click("#clear")
    assert _selected(page) == f"All {len(inside)} samples"


def test_a_drag_that_starts_on_a_point_opens_nothing(demo, visit):
    page = visit(demo.page)
    _plot_box(page)
    x, y = _pixel(page, int(np.argmax(demo.scores.tcsl_s)))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y + 40, steps=4)
    page.mouse.up()
    page.wait_for_function("document.getElementById('selected').textContent.includes('selected')")
    page.wait_for_timeout(400)
    assert not page.locator("#detail").evaluate("dialog => dialog.open")
    page.mouse.click(x, y)
    page.wait_for_selector("#detail[open]")


def test_the_gallery_keeps_clusters_apart_in_any_selection(demo, visit):
    page = visit(demo.page)
    lowest = float(demo.scores.tcsl_s[demo.scores.g_high].min())
    page.fill("#s0", f"{max(lowest, float(demo.scores.tcsl_s[~demo.scores.g_high].max())) * 1.001:.5f}")
    page.keyboard.press("Tab")
    page.wait_for_timeout(200)
    sides = page.eval_on_selector_all(
        "#strips .sides > div", "all => all.map(one => [one.querySelectorAll('.thumb').length, one.innerText])"
    )
    assert sum(number for number, _ in sides[1::2]) > 0
    assert all(number == 0 and "None in the selection." in text for number, text in sides[::2])
    page.click("#clear")
    page.check("#kinds input[value=s]", force=True)
    page.wait_for_timeout(200)
    assert page.locator("#strips .thumb").count() == page.locator("#strips .thumb.high").count() > 0


def test_paper_has_the_parts_open(demo, visit):
    page = visit(demo.page)
    parts = "() => [...document.querySelectorAll('#how details')].map(one => one.open)"
    for event, wanted in (("beforeprint", True), ("afterprint", False)):
        page.evaluate(f"dispatchEvent(new Event('{event}'))")
        opened = page.evaluate(parts)
        assert len(opened) == 4
        assert set(opened) == {wanted}
    page.locator("#how details").nth(1).evaluate("part => { part.open = true; }")
    page.evaluate("dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(parts) == [False, True, False, False]  # what a reader had opened stays so


def test_bounds_typed_the_other_way_round_are_the_same(demo, visit):
    page = visit(demo.page)
    low, high = (f"{q:.3f}" for q in np.quantile(demo.scores.tcsl_s, [0.2, 0.8]))
    page.fill("#s0", high)
    page.fill("#s1", low)
    page.keyboard.press("Tab")
    assert page.evaluate("window.tcsl.filter.bounds.slice(0, 2)") == [float(low), float(high)]
    assert not _selected(page).startswith("0 ")


def test_bounds_by_keyboard_do_the_same(demo, visit):
    page = visit(demo.page)
    middle = float(np.median(demo.scores.tcsl_s))
    page.focus("#s0")
    page.keyboard.type(f"{middle:.4f}")
    page.keyboard.press("Tab")
    wanted = int((demo.scores.tcsl_s >= round(middle, 4)).sum())
    told = int(_selected(page).split(" ")[0].replace(",", ""))
    assert abs(told - wanted) <= 1  # scores in the page have four digits
    page.fill("#s0", "")
    page.keyboard.press("Tab")
    assert _selected(page).startswith("All")


def test_export_is_a_csv_of_the_selection(demo, visit):
    page = visit(demo.page)
    page.fill("#s0", str(float(np.quantile(demo.scores.tcsl_s, 0.9))))
    page.keyboard.press("Tab")
    with page.expect_download() as download:
        page.click("#export")
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert len(rows) == int(_selected(page).split(" ")[0])
    for row in rows:
        i = int(row["index"])
        assert row["id"] == str(demo.scores.ids[i])
        assert float(row["tcsl_s"]) == pytest.approx(demo.scores.tcsl_s[i], rel=1e-3)


def test_gallery_by_keyboard(demo, visit):
    page = visit(demo.page)
    page.focus("#kinds input:checked")
    page.keyboard.press("ArrowRight")
    assert page.locator("#kinds input:checked").get_attribute("value") == "s"
    top = [np.argmax(np.where(demo.scores.labels == k, demo.scores.tcsl_s, -1)) for k in range(10)]
    label = page.locator("#strips .thumb").first.get_attribute("aria-label")
    assert label.endswith(f"id {demo.scores.ids[top[0]]}")
    assert page.locator("#strips .thumb[tabindex='0']").count() == 1
    page.focus("#strips .thumb[tabindex='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#detail").evaluate("dialog => dialog.open")
    before = page.inner_text("#detail-facts")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#detail-facts") != before
    page.keyboard.press("Escape")
    assert not page.locator("#detail").evaluate("dialog => dialog.open")


def test_left_out_stand_beside_the_nearest_chosen(demo, visit):
    page = visit(demo.page)
    page.check("#kinds input[value=near]", force=True)
    pairs = page.eval_on_selector_all(
        ".pairs-of > li",
        "all => all.map(one => [...one.querySelectorAll('.thumb')].map(b => b.getAttribute('aria-label')))",
    )
    assert pairs
    for left_out, *near in pairs:
        assert "left out" in left_out
        assert near
        assert all("in the coreset" in one for one in near)
        assert {one.split(",")[0] for one in near} == {left_out.split(",")[0]}  # of the same class


@pytest.mark.parametrize("way", ["cluster", "class", "chosen", "true group"])
def test_every_colour_draws_every_sample(demo, visit, way):
    page = visit(demo.page)
    page.select_option("#colour", way)
    drawn = page.evaluate("document.getElementById('map-plot').data.reduce((sum, trace) => sum + trace.x.length, 0)")
    assert drawn == len(demo.scores)


def test_theme_follows_the_system_and_the_switch(demo, visit):
    def ground(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = visit(demo.page), visit(demo.page, theme="dark")
    assert ground(light) != ground(dark)
    kept = ground(dark)
    light.click("#theme")
    assert ground(light) == kept
    ink = light.evaluate("document.getElementById('map-plot')._fullLayout.font.color")
    assert ink == dark.evaluate("document.getElementById('map-plot')._fullLayout.font.color")


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(demo, hostile, rows, visit, width):
    for run in (demo, hostile, rows):
        page = visit(run.page, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_prints_on_white(demo, visit):
    page = visit(demo.page, theme="dark")
    assert page.pdf()[:5] == b"%PDF-"
    assert page.evaluate("document.documentElement.dataset.theme") is None


def test_rows_are_shown_as_their_values(rows, visit):
    page = visit(rows.page)
    assert page.locator("#strips img").count() == 0
    shown = page.locator("#strips .thumb .row").first.inner_text()
    assert len(shown.split(", ")) == 5


def test_hostile_names_are_text(hostile, visit):
    page = visit(hostile.page)
    names = page.locator("#strips h3").all_text_contents()
    assert names == [printable(name) for name in hostile.scores.facts["class_names"]]
    assert "\ufffdthgir ot tfel\ufffd" in " ".join(names)  # a mark of direction turns nothing around
    assert not set("\u202e\u2067") & set(page.inner_text("main"))
    page.select_option("#colour", "class")
    legend = page.locator("#map-plot .legendtext").all_text_contents()
    assert any("<script>alert(1)</script>" in text for text in legend)
    assert page.locator("b b, #map-plot a, main script").count() == 0
    page.locator("#strips .thumb").first.click()
    assert "<script>" in page.inner_text("#detail")


def test_comparison_has_one_map_a_run_with_the_same_axes(demo, rows, visit, tmp_path):
    from tcsl.report.compare import write_comparison

    page = visit(write_comparison([demo.path, rows.path], tmp_path / "both.html"))
    ranges = page.eval_on_selector_all(
        "#maps-grid .chart", "all => all.map(one => [one.layout.xaxis.range, one.layout.yaxis.range])"
    )
    assert len(ranges) == 2
    assert ranges[0] == ranges[1]
