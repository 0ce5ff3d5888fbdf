"""What a reader does with `tcsl explore`: look at images, mark samples, come back."""

import csv
import io
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import polars as pl
import pytest

from tcsl.report.marks import Change, change_marks

WIDTH = 300  # of the image files


@pytest.fixture
def run(pictured, tmp_path):
    """Return a run folder without marks, half of whose samples have no thumbnail."""
    path = shutil.copytree(pictured.run.path, tmp_path / "run")
    samples = pl.read_parquet(path / "samples.parquet")
    some = pl.when(pl.col("index") % 2 == 0).then(pl.col("webp")).otherwise(None)
    samples.with_columns(some.alias("webp")).write_parquet(path / "samples.parquet")
    return path


@pytest.fixture
def server(run, serving):
    with serving(run) as server:
        yield server


def marks_of(run):
    return dict(pl.read_parquet(run / "marks.parquet")["index", "note"].iter_rows())


def wait_for_marks(page, n):
    page.wait_for_function("n => document.getElementById('marks-count').textContent === `${n} marked`", arg=n)


def open_sample(page, i):
    page.evaluate("i => window.tcsl.detail.open(i, [...Array(window.tcsl.samples.rows).keys()])", i)


def serious(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
    ]


def natural_width(page, selector):
    page.wait_for_function("s => document.querySelector(s)?.naturalWidth > 0", arg=selector)
    return page.evaluate("s => document.querySelector(s).naturalWidth", selector)


def test_hover_and_detail_show_the_image_at_full_size(server, visit):
    page = visit(server.address)
    page.locator("#map-plot").scroll_into_view_if_needed()
    for i in (4, 5):  # with a thumbnail, and without
        x, y = page.evaluate(
            """(i) => { const plot = document.getElementById("map-plot"), { xaxis: x, yaxis: y } = plot._fullLayout;
            const box = plot.getBoundingClientRect(), { samples } = window.tcsl;
            return [box.left + x._offset + x.d2p(samples.s[i]), box.top + y._offset + y.d2p(samples.c[i])]; }""",
            i,
        )
        page.mouse.move(x, y)
        page.wait_for_selector("#hover:not([hidden]) img")
        assert natural_width(page, "#hover img") == WIDTH
        open_sample(page, i)
        assert natural_width(page, "#detail-look img") == WIDTH
        assert page.get_attribute("#detail-look img", "src") == f"image/{i}"
        page.keyboard.press("Escape")
        page.mouse.move(5, 5)


def test_the_gallery_has_an_image_of_every_sample(server, visit):
    page = visit(server.address)
    page.check("#kinds input[value=c]", force=True)
    assert page.locator("#strips .none").count() == 0
    page.wait_for_function("[...document.querySelectorAll('#strips img')].every((one) => one.naturalWidth > 0)")
    widths = page.eval_on_selector_all(
        "#strips img", "all => all.map((one) => [one.getAttribute('src').startsWith('image/'), one.naturalWidth])"
    )
    assert {(full, width) for full, width in widths} == {(True, WIDTH), (False, 32)}


def test_marks_by_mouse(run, server, visit):
    page = visit(server.address)
    first = page.locator("#strips .thumbs > li").first
    first.hover()
    first.locator(".mark").click()
    wait_for_marks(page, 1)
    assert first.locator(".mark").get_attribute("aria-pressed") == "true"
    name = first.locator(".thumb").get_attribute("aria-label").split("id ", 1)[1]
    assert pl.read_parquet(run / "marks.parquet")["id"].to_list() == [name]
    first.locator(".mark").click()
    wait_for_marks(page, 0)
    assert marks_of(run) == {}


def test_marks_and_notes_by_keyboard(run, server, visit):
    page = visit(server.address)
    page.focus("#strips .thumb[tabindex='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("m")
    wait_for_marks(page, 1)
    (index,) = marks_of(run)
    page.keyboard.press("Enter")
    assert page.locator("#detail-more button").get_attribute("aria-pressed") == "true"
    page.keyboard.press("m")
    wait_for_marks(page, 0)
    page.focus("#detail-more input")
    page.keyboard.type("a smudge, my m")  # the letter m in a note is a letter
    page.keyboard.press("ArrowLeft")  # and arrows go along it
    page.keyboard.press("Escape")
    for _ in range(500):  # it is saved when the typing rests, perhaps more than once
        if marks_of(run) == {index: "a smudge, my m"}:
            break
        page.wait_for_timeout(20)
    assert marks_of(run) == {index: "a smudge, my m"}
    assert not page.locator("#detail").evaluate("dialog => dialog.open")


def test_a_rectangle_is_marked_unmarked_and_taken_back(run, server, visit, pictured):
    page = visit(server.address)
    assert page.locator("text=Mark the selection").is_disabled()
    open_sample(page, 1)
    page.fill("#detail-more input", "mine")
    page.keyboard.press("Escape")
    wait_for_marks(page, 1)
    page.fill("#s0", str(float(np.median(pictured.run.scores.tcsl_s))))
    page.keyboard.press("Tab")
    chosen = set(page.evaluate("[...window.tcsl.filter.inside.keys()].filter((i) => window.tcsl.filter.inside[i])"))
    assert 5 < len(chosen) < 40
    page.fill("#marks-note", "right half")
    page.click("text=Mark the selection")
    wait_for_marks(page, len(chosen | {1}))
    assert marks_of(run) == {1: "mine"} | dict.fromkeys(sorted(chosen), "right half")
    page.click("text=Unmark it")
    wait_for_marks(page, len({1} - chosen))
    page.click("text=Undo")
    wait_for_marks(page, len(chosen | {1}))
    assert marks_of(run) == {1: "mine"} | dict.fromkeys(sorted(chosen), "right half")


def test_marks_come_back_filter_and_leave_as_csv(run, pictured, serving, visit):
    change_marks(run, pictured.run.scores, Change({"=HYPERLINK(1)": [0], "": [5, 9], '"quoted", too': [7]}))
    with serving(run) as server:
        page = visit(server.address)
        wait_for_marks(page, 4)
        page.check("#marks-only")
        assert page.inner_text("#selected").startswith("4 of 40 samples selected")
        page.check("#kinds input[value=c]", force=True)
        labels = page.eval_on_selector_all("#strips .thumb", "all => all.map((one) => one.getAttribute('aria-label'))")
        assert {one.split("id ", 1)[1] for one in labels} == {pictured.ids[i] for i in (0, 5, 7, 9)}
        page.select_option("#colour", "marked")
        sizes = page.evaluate("document.getElementById('map-plot').data.map((one) => [one.name, one.x.length])")
        assert dict(sizes) == {"marked": 4, "not marked": 36}
        with page.expect_download() as download:
            page.click("text=Marks as CSV")
        rows = list(csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8"), newline="")))
        safe = {name: f"'{name}" if name[0] in "=+-@" else name for name in pictured.ids}
        assert [(row["id"], int(row["index"]), row["note"]) for row in rows] == [
            (safe[pictured.ids[i]], i, note)
            for i, note in {0: "'=HYPERLINK(1)", 5: "", 7: '"quoted", too', 9: ""}.items()
        ]
        assert rows[0]["class"] == pictured.run.scores.facts["class_names"][pictured.run.scores.labels[0]]
        page.focus("#strips .thumb[tabindex='0']")
        page.keyboard.press("m")  # what is not marked any more leaves, and the focus stays in the gallery
        wait_for_marks(page, 3)
        page.wait_for_function("document.querySelectorAll('#strips .thumb').length === 3")
        assert page.evaluate("document.activeElement.matches('#strips .thumb')")


def test_exported_ids_are_no_formulas(server, visit, pictured):
    page = visit(server.address)
    with page.expect_download() as download:
        page.click("#export")
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8"), newline="")))
    assert [row["id"] for row in rows] == [f"'{name}" if name[0] in "=@" else name for name in pictured.ids]
    assert sum(row["id"].startswith("'") for row in rows) > 0


def test_where_there_are_no_images_it_is_said(run, serving, visit):
    with serving(run, images=False, note="The data are gone: <b>birds</b>.") as server:
        page = visit(server.address)
        assert page.inner_text("#marks-told") == "The data are gone: <b>birds</b>."
        open_sample(page, 4)
        assert natural_width(page, "#detail-look img") == 32
        assert page.locator("#detail-more a").count() == 0
        page.keyboard.press("m")
        wait_for_marks(page, 1)


def test_hostile_names_are_text(server, visit, pictured):
    page = visit(server.address)  # which fails on a dialog
    odd = next(i for i, name in enumerate(pictured.ids) if name.startswith("<img"))
    open_sample(page, odd)
    page.fill("#detail-more input", "</script><img src=x onerror=alert(1)>")
    wait_for_marks(page, 1)
    page.reload()
    page.wait_for_selector("html[data-marks=yes]")
    wait_for_marks(page, 1)
    open_sample(page, odd)
    assert page.input_value("#detail-more input") == "</script><img src=x onerror=alert(1)>"
    assert "<img src=x onerror=alert(1)>" in page.inner_text("#detail-facts")
    assert page.locator("img[src=x], main script, b b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_axe_finds_nothing_serious(run, server, visit, pictured, theme, width):
    change_marks(run, pictured.run.scores, Change({"odd": list(range(20))}))
    page = visit(server.address, theme=theme, width=width)
    assert serious(page) == []
    open_sample(page, 3)
    assert natural_width(page, "#detail-look img") == WIDTH
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture
def foreign(browser):
    """Return a page whose console may say that something was refused."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def test_a_page_of_an_earlier_start_says_so(run, serving, foreign):
    with serving(run) as server:
        foreign.goto(server.address)
        foreign.wait_for_selector("html[data-marks=yes]")
        port = server.server_port
    open_sample(foreign, 2)
    foreign.keyboard.press("m")
    foreign.wait_for_function("document.getElementById('marks-said').textContent.includes('start it again')")
    with serving(run, port=port):
        foreign.keyboard.press("m")
        foreign.wait_for_function("document.getElementById('marks-said').textContent.includes('printed last')")
    assert foreign.inner_text("#marks-count") == "0 marked"
    assert not (run / "marks.parquet").exists()


def test_a_script_without_the_nonce_does_not_run(server, foreign):
    foreign.goto(server.address)
    foreign.wait_for_selector("html[data-marks=yes]")
    foreign.evaluate(
        """() => { const script = document.createElement("script"); script.textContent = "window.ran = 1";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = 1'>"); }"""
    )
    foreign.wait_for_timeout(200)
    assert foreign.evaluate("window.ran") is None
    assert foreign.evaluate("window.tcsl.samples.rows") == 40


@pytest.fixture
def elsewhere(tmp_path):
    """Return the address of another site on this machine."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<!DOCTYPE html><title>another site</title>")
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://localhost:{other.server_port}/"
        other.shutdown()
        thread.join()


def test_another_site_gets_nothing(run, server, elsewhere, foreign, monkeypatch):
    answered = []
    monkeypatch.setattr(
        server.RequestHandlerClass, "log_request", lambda self, code: answered.append((self.command, int(code)))
    )
    foreign.goto(elsewhere)
    drawn = foreign.evaluate(
        """async (address) => {
        const image = new Image();
        const loaded = new Promise((end) => { image.onload = () => end(true); image.onerror = () => end(false); });
        image.src = `${address}image/0`;
        const read = await fetch(`${address}marks`).then(() => true, () => false);
        const simple = { method: "POST", mode: "no-cors", body: '{"mark": {"": [1]}}' };
        await fetch(`${address}marks`, simple).catch(() => null);
        const headers = { "Content-Type": "application/json", "X-Tcsl-Token": "x" };
        const full = { method: "POST", headers, body: "{}" };
        const written = await fetch(`${address}marks`, full).then(() => true, () => false);
        return [await loaded, read, written]; }""",
        server.address,
    )
    assert drawn == [False, False, False]
    assert sorted(answered) == [("GET", 403), ("GET", 403), ("OPTIONS", 405), ("POST", 403)]
    assert not (run / "marks.parquet").exists()
