"""`tcsl explore`: what its server answers and refuses, the table of marks, and the command as a real process."""

import contextlib
import http.client
import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import datetime
from importlib.resources import files

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import tcsl
from tcsl.errors import InputError
from tcsl.report.marks import MOST_NOTE, Change, change_marks, parse_change, read_marks
from tcsl.report.serve import MOST_BYTES
from tcsl.scores import read_facts


@pytest.fixture
def run(pictured, tmp_path):
    """Return a run folder without marks."""
    return shutil.copytree(pictured.run.path, tmp_path / "run")


@pytest.fixture
def server(run, serving):
    with serving(run) as server:
        yield server


@pytest.fixture(scope="module")
def reading(pictured, serving):
    """Return a server that no test writes to."""
    with serving(pictured.run.path) as server:
        yield server
        assert not (pictured.run.path / "marks.parquet").exists()


def ask(server, method, path, body=None, headers=None, key=None):
    """Send a request as a browser on the right page would, but for `headers`; None leaves one out."""
    key = f"/{server.key}" if key is None else key
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    sent = {"Host": f"127.0.0.1:{server.server_port}", **(headers or {})}
    connection.putrequest(
        method, key + path if path.startswith("/") else path, skip_host=True, skip_accept_encoding=True
    )
    for name, value in sent.items():
        if value is not None:
            connection.putheader(name, value)
    if body is not None and "Content-Length" not in sent:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    answer.body = answer.read()
    connection.close()
    return answer


def raw(server, content):
    """Send bytes and return the answer's; the sending side is closed, as a client that is done does."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def save(server, change, **headers):
    sent = {"Content-Type": "application/json", "X-Tcsl-Token": server.site.token, **headers}
    return ask(server, "POST", "/marks", json.dumps(change).encode(), sent)


# --- the page and the images ---


def test_the_page_is_served_with_a_nonce_of_its_own(reading):
    answers = [ask(reading, "GET", "/") for _ in range(2)]
    nonces = [re.search(rb'<script type="module" nonce="([\w-]{20,})">', answer.body)[1] for answer in answers]
    assert nonces[0] != nonces[1]
    for answer, nonce in zip(answers, nonces, strict=True):
        policy = answer.headers["Content-Security-Policy"]
        assert f"script-src 'nonce-{nonce.decode()}' 'unsafe-eval';" in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert reading.site.token.encode() in answer.body
        assert re.findall(rb"<script(?! type=.application/)[^>]*>", answer.body) == [
            b'<script type="module" nonce="' + nonce + b'">'
        ]
        assert b"alert(1)</script>" not in answer.body


@pytest.mark.parametrize("path", ["/", "/marks", "/image/0", "/nowhere"])
def test_every_answer_has_the_headers(reading, path):
    headers = ask(reading, "GET", path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "Python" not in headers["Server"]


def is_picture_of(content, file):
    if file.suffix == ".tif":  # which browsers do not show
        return (np.asarray(Image.open(io.BytesIO(content))) == np.asarray(Image.open(file))).all()
    return content == file.read_bytes()


def test_images_are_the_files_of_the_samples(reading, pictured):
    kinds = {".png": "image/png", ".jpg": "image/jpeg", ".tif": "image/png"}
    seen = set()
    for i, name in enumerate(pictured.ids):
        file, answer = pictured.files[name], ask(reading, "GET", f"/image/{i}")
        assert (answer.status, answer.headers["Content-Type"]) == (200, kinds[file.suffix])
        seen.add(file.suffix)
        assert is_picture_of(answer.body, file)
    assert seen == set(kinds)


def test_images_are_found_by_id_where_some_samples_are_held_out(pictured, serving, tmp_path):
    """The run's samples are then not the table's first ones."""
    few = {"train.epochs": 1, "data.transform": "resize:32", "data.val_fraction": 0.4, "device.device": "cpu"}
    table = str(pictured.place / "table.csv")
    run = tcsl.debias(table, 0.5, settings=few, methods=["tcsl_cs"], out=tmp_path / "run", page=False)
    ids = run.scores.ids.tolist()
    assert ids != pictured.ids[: len(ids)]
    with serving(run.path) as server:
        for i, name in enumerate(ids):
            assert is_picture_of(ask(server, "GET", f"/image/{i}").body, pictured.files[name])


def test_images_of_a_dataset_that_is_made_are_its_pixels(serving, tmp_path):
    few = {"data.options.per_class": 10, "train.epochs": 2, "device.device": "cpu"}
    run = tcsl.debias("digits", 0.5, settings=few, methods=["tcsl_cs"], out=tmp_path / "run")
    inputs = tcsl.load("digits", options={"per_class": 10}).train.inputs
    with serving(run.path) as server:
        made = Image.open(io.BytesIO(ask(server, "GET", "/image/17").body))
    assert (np.asarray(made) == inputs[17].permute(1, 2, 0).numpy()).all()


def test_rows_have_no_images(serving, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(30, 3)), y=np.arange(30) % 2)
    run = tcsl.debias(str(tmp_path / "rows.npz"), 0.5, settings={"train.epochs": 2}, out=tmp_path / "run")
    with serving(run.path) as server:
        assert server.site.images is None
        assert ask(server, "GET", "/image/0").status == 404
        assert b'"image":""' in ask(server, "GET", "/").body


def test_a_file_that_is_gone_or_damaged_is_said(pictured, serving, tmp_path):
    place = shutil.copytree(pictured.place, tmp_path / "moved")
    config = (place / "run" / "config.toml").read_text()
    (place / "run" / "config.toml").write_text(config.replace(str(pictured.place), str(place)))
    with serving(place / "run") as server:
        first, second = ((place / pictured.files[pictured.ids[i]].name) for i in (0, 1))
        first.unlink()
        second.write_bytes(b"<svg onload=alert(1)>")
        gone, damaged = (ask(server, "GET", f"/image/{i}") for i in (0, 1))
    assert (gone.status, damaged.status) == (404, 404)
    assert b"cannot be read" in gone.body
    assert b"is not an image" in damaged.body
    assert damaged.headers["Content-Type"] == "text/plain; charset=utf-8"


# --- what is refused ---

OUTSIDE = [
    "/../../etc/passwd",
    "/image/../../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/image/%2e%2e%2fmarks",
    "/..\\..\\config.toml",
    "//etc/passwd",
    "/etc/passwd",
    "/config.toml",
    "/run/config.toml",
    "/report.html",
    "/marks.parquet",
    "/image/",
    "/image/-1",
    "/image/40",
    "/image/999999999",
    "/image/1000000000000000000000",
    "/image/01",
    "/image/+1",
    "/image/1.0",
    "/image/1e1",
    "/image/0x1",
    "/image/1/",
    "/image/1?x",
    "/image/1%00",
    "/image/%31",
    "/image/00.png",
    "/?x=1",
    "/marks/",
    "/MARKS",
    "http://127.0.0.1/",
    "*",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_other_paths_are_not_there(reading, path):
    answer = ask(reading, "GET", path)
    assert answer.status == 404
    assert answer.body in (
        b"there is nothing here: open the address that tcsl explore printed last\n",
        b"there is no such image\n",
    )
    assert ask(reading, "GET", path, key="").status == 404


@pytest.mark.parametrize("path", ["/", "/image/0", "/marks"])
def test_without_the_key_of_this_start_nothing_is_there(reading, path):
    other = "x" * len(reading.key)
    for key in ("", "/", f"/{other}", f"/{reading.key[:-1]}", f"/{reading.key}x", "/\u00e9"):
        answer = raw(reading, f"GET {key}{path} HTTP/1.1\r\nHost: localhost:{reading.server_port}\r\n\r\n".encode())
        assert re.match(rb"HTTP/1.0 (400|404) ", answer), (key, answer[:40])
        assert reading.key.encode() not in answer
    sent = {"Content-Type": "application/json", "X-Tcsl-Token": reading.site.token}
    assert ask(reading, "POST", "/marks", b'{"mark": {"": [1]}}', sent, key=f"/{other}").status == 404
    assert ask(reading, "GET", "/").status == 200


@pytest.mark.parametrize("path", [b"/image/1\x00", b"/image/\xd9\xa1", b"/\x00", b"\x00"])
def test_odd_bytes_in_a_path_are_not_there(reading, path):
    host = f"Host: 127.0.0.1:{reading.server_port}\r\n\r\n".encode()
    status = raw(reading, b"GET " + path + b" HTTP/1.1\r\n" + host).split(b"\r\n")[0]
    assert re.match(rb"HTTP/1.0 (400|404) ", status), status


def test_a_very_long_path_is_refused(reading):
    host = f"Host: 127.0.0.1:{reading.server_port}\r\n\r\n".encode()
    assert b" 404 " in raw(reading, b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\n" + host).split(b"\r\n")[0]
    answer = raw(reading, b"GET /" + b"a" * 65_530 + b" HTTP/1.1\r\n")
    assert b" 414 " in answer.split(b"\r\n")[0]
    assert b"X-Content-Type-Options: nosniff" in answer
    assert ask(reading, "GET", "/image/0").status == 200  # and goes on


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "evil.test:{port}",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:1",
        "[::1]:{port}",
        "127.0.0.1:{port}.evil.test",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/image/0", "/marks"])
def test_another_host_is_refused(reading, host, path):
    answer = ask(reading, "GET", path, headers={"Host": host.format(port=reading.server_port)})
    assert answer.status == 403
    assert b"answers to no other name" in answer.body
    assert reading.site.token.encode() not in answer.body
    assert reading.key.encode() not in answer.body


def test_no_host_and_two_hosts_are_refused(reading):
    assert ask(reading, "GET", "/", headers={"Host": None}).status == 403
    twice = f"Host: localhost:{reading.server_port}\r\n".encode() * 2
    assert b" 403 " in raw(reading, b"GET / HTTP/1.1\r\n" + twice + b"\r\n").split(b"\r\n")[0]
    assert (
        b" 200 "
        in raw(
            reading,
            f"GET /{reading.key}/image/0 HTTP/1.1\r\n".encode() + twice[: len(twice) // 2] + b"\r\n",
        ).split(b"\r\n")[0]
    )


@pytest.mark.parametrize(
    "origin",
    ["http://evil.test", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "http://localhost:{port}", ""],
)
def test_another_origin_is_refused(run, server, origin):
    sent = {"Origin": origin.format(port=server.server_port)}
    for path in ("/", "/image/0", "/marks"):
        assert ask(server, "GET", path, headers=sent).status == 403
    assert save(server, {"mark": {"": [1]}}, **sent).status == 403
    assert not (run / "marks.parquet").exists()
    assert save(server, {"mark": {"": [1]}}, Origin=f"http://127.0.0.1:{server.server_port}").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "odd"])
def test_what_another_site_sends_is_refused(reading, site):
    for path in ("/", "/image/0", "/marks"):
        assert ask(reading, "GET", path, headers={"Sec-Fetch-Site": site}).status == 403
        for good in ("same-origin", "none"):
            assert ask(reading, "GET", path, headers={"Sec-Fetch-Site": good}).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "PATCH", "CONNECT", "SEARCH"])
@pytest.mark.parametrize("path", ["/", "/image/0", "/marks"])
def test_other_methods_are_not_allowed(reading, method, path):
    answer = ask(reading, method, path)
    assert answer.status == 405
    assert answer.headers["Allow"] == ("GET, POST" if path == "/marks" else "GET")
    assert answer.headers["Access-Control-Allow-Origin"] is None


def test_only_marks_can_be_sent(reading):
    sent = {"Content-Type": "application/json", "X-Tcsl-Token": reading.site.token}
    for path, status in {"/": 405, "/image/0": 405, "/nowhere": 404, "/marks.parquet": 404}.items():
        assert ask(reading, "POST", path, b"{}", sent).status == status


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (403, {"X-Tcsl-Token": None}),
        (403, {"X-Tcsl-Token": ""}),
        (403, {"X-Tcsl-Token": "x" * 43}),
        (403, {"X-Tcsl-Token": "\u00e9"}),
        (403, {"Host": "evil.test"}),
        (403, {"Sec-Fetch-Site": "cross-site"}),
        (415, {"Content-Type": None}),
        (415, {"Content-Type": "text/plain"}),
        (415, {"Content-Type": "application/x-www-form-urlencoded"}),
        (411, {"Content-Length": None}),
        (411, {"Content-Length": "-1"}),
        (411, {"Content-Length": "1e3"}),
        (411, {"Transfer-Encoding": "chunked"}),
        (413, {"Content-Length": str(MOST_BYTES + 1)}),
        (413, {"Content-Length": "9" * 15}),
    ],
)
def test_a_change_that_is_not_the_pages_own_is_refused(run, server, status, headers):
    assert save(server, {"mark": {"": [1]}}, **headers).status == status
    assert not (run / "marks.parquet").exists()


def test_a_request_that_is_cut_short_changes_nothing(run, server):
    lines = [
        "POST /marks HTTP/1.1",
        f"Host: 127.0.0.1:{server.server_port}",
        "Content-Type: application/json",
        f"X-Tcsl-Token: {server.site.token}",
        "Content-Length: 100",
    ]
    answer = raw(server, "\r\n".join([*lines, "", '{"mark": {"": [1]}}']).encode())
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert not (run / "marks.parquet").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 200_000,
        b"9" * 10_000,
        b"[]",
        b"null",
        b'{"mark": []}',
        b'{"mark": {"": 1}}',
        b'{"mark": {"": ["1"]}}',
        b'{"mark": {"": [true]}}',
        b'{"mark": {"": [1.0]}}',
        b'{"mark": {"": [-1]}}',
        b'{"mark": {"": [40]}}',
        b'{"mark": {"": [1' + b"0" * 30 + b"]}}",
        b'{"unmark": {"0": 1}}',
        b'{"unmark": [40]}',
        b'{"marks": {"": [1]}}',
        b'{"mark": {"\\ud800": [1]}}',
        b'{"mark": {"a\\nb": [1]}}',
        b'{"mark": {"\\u0000": [1]}}',
        b'{"mark": {"' + b"n" * (MOST_NOTE + 1) + b'": [1]}}',
    ],
)
def test_what_is_no_change_is_refused(run, server, content):
    sent = {"Content-Type": "application/json", "X-Tcsl-Token": server.site.token}
    answer = ask(server, "POST", "/marks", content, sent)
    assert answer.status == 400
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert not (run / "marks.parquet").exists()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 12) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["mark", "unmark", "", "x"]), inner),
)


@given(json_values)
def test_any_json_is_a_change_or_is_refused(value):
    with contextlib.suppress(InputError):
        change = parse_change(json.dumps(value).encode(), n=10)
        assert all(0 <= i < 10 for indices in (*change.mark.values(), change.unmark) for i in indices)
        assert {"mark": change.mark, "unmark": change.unmark} == {"mark": {}, "unmark": [], **value}


def test_it_listens_on_one_address_of_this_machine(reading):
    assert reading.server_address[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", reading.server_port), timeout=5)


# --- marks ---


def test_marks_are_a_table(run, server, pictured):
    assert json.loads(save(server, {"mark": {"": [7, 2], "wrong label, or =1+1": [0]}}).body) == {"marked": 3}
    table = pl.read_parquet(run / "marks.parquet")
    assert dict(table.schema) == {
        "index": pl.Int64,
        "id": pl.String,
        "label": pl.Int64,
        "note": pl.String,
        "time": pl.String,
    }
    assert table["index"].to_list() == [0, 2, 7]
    assert table["id"].to_list() == [pictured.ids[i] for i in (0, 2, 7)]
    assert table["label"].to_list() == [int(pictured.run.scores.labels[i]) for i in (0, 2, 7)]
    assert table["note"].to_list() == ["wrong label, or =1+1", "", ""]
    assert all(datetime.fromisoformat(time).utcoffset().total_seconds() == 0 for time in table["time"])
    facts = read_facts(run / "marks.parquet")
    assert facts["fingerprint"] == pictured.run.scores.facts["fingerprint"]
    assert facts["class_names"] == pictured.run.scores.facts["class_names"]
    told = json.loads(ask(server, "GET", "/marks").body)["rows"]
    assert [row[:2] + row[3:4] for row in told] == [
        [pictured.ids[0], 0, "wrong label, or =1+1"],
        [pictured.ids[2], 2, ""],
        [pictured.ids[7], 7, ""],
    ]
    assert [row[2] for row in told] == [facts["class_names"][label] for label in table["label"]]
    assert not list(run.glob(".*"))


def test_a_mark_keeps_its_time_until_its_note_changes(pictured, tmp_path):
    scores = pictured.run.scores
    old = change_marks(tmp_path, scores, Change({"": [1], "a": [2]})).with_columns(time=pl.lit("2020-01-01T00:00:00"))
    old.write_parquet(tmp_path / "marks.parquet")
    new = change_marks(tmp_path, scores, Change({"": [1], "b": [2]}, [5]))
    assert new["time"].str.starts_with("2020").to_list() == [True, False]
    assert change_marks(tmp_path, scores, Change(unmark=[1, 2])).is_empty()
    assert read_marks(tmp_path, scores).schema == new.schema


def test_ids_that_are_numbers_stay_numbers(tmp_path):
    from tcsl.selection.coreset import scores_of

    scores = scores_of(np.ones((4, 2)), np.ones(4), np.arange(4) % 2)
    for change in (Change({"": [3]}), Change(unmark=[3])):
        change_marks(tmp_path, scores, change)
        assert pl.read_parquet(tmp_path / "marks.parquet").schema["id"] == pl.Int64


def test_changes_at_once_from_threads_and_from_two_servers_are_all_there(run, serving):
    with serving(run) as one, serving(run, images=False) as other:
        threads = [
            threading.Thread(target=save, args=((one, other)[i % 2], {"mark": {f"note {i}": [i]}})) for i in range(24)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert pl.read_parquet(run / "marks.parquet")["note"].to_list() == [f"note {i}" for i in range(24)]


def test_marks_of_other_samples_are_refused(pictured, tmp_path):
    from tcsl.selection.coreset import scores_of

    change_marks(tmp_path, scores_of(np.ones((50, 2)), np.ones(50), np.arange(50) % 2), Change({"": [3]}))
    with pytest.raises(InputError, match="move it elsewhere"):
        read_marks(tmp_path, pictured.run.scores)


def test_formulas_are_told_alike_in_the_page_and_in_python():
    from tcsl.export.sheet import _FORMULA

    assert f"/{_FORMULA}/" in (files("tcsl.report") / "assets" / "csv.js").read_text()


# --- the command ---


@contextlib.contextmanager
def explored(*words, first=None, **environment):
    """Start the real command, `first` in its process; give the process, its port and what it said before it serves."""
    command = [sys.executable, "-u", "-m", "tcsl", "explore", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipes, env={**os.environ, **environment}, preexec_fn=first)
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if line.startswith("stop with"):
                break
        address = re.search(r"http://127\.0\.0\.1:(\d+)/([\w-]{20,})/", "".join(said))
        assert address, process.stderr.read()
        yield process, At(int(address[1]), address[2]), "".join(said)
    finally:
        process.kill()
        process.communicate()


class At:
    """A server in another process, as `ask` and `save` want it."""

    def __init__(self, port, key):
        self.server_port, self.key, self.site = port, key, self
        self.address = f"http://127.0.0.1:{port}/{key}/"
        self.token = json.loads(re.search(rb'id="tcsl-served">(.*?)</script>', ask(self, "GET", "/").body)[1])["token"]


def test_ctrl_c_ends_it_well_and_a_kill_loses_nothing(run, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/opened.part && mv {tmp_path}/opened.part {tmp_path}/opened\n'
    )
    browser.chmod(0o755)
    with explored(run, BROWSER=str(browser)) as (process, server, said):
        assert f"0 samples are marked; marks are saved in {run / 'marks.parquet'}\n" in said
        assert save(server, {"mark": {"odd": [3]}}).status == 200
        give_up = time.monotonic() + 60
        while not (tmp_path / "opened").exists():
            assert process.poll() is None
            assert time.monotonic() < give_up, "no browser was opened"
            time.sleep(0.01)
        assert (tmp_path / "opened").read_text() == f"{server.address}\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.endswith(f"stopped; 1 marked samples are in {run / 'marks.parquet'}\n")
    with explored(run, "--no-browser") as (process, server, said):
        assert "1 samples are marked" in said
        assert json.loads(ask(server, "GET", "/marks").body)["rows"][0][1::2] == [3, "odd"]
        assert ask(server, "GET", "/image/3").status == 200
        save(server, {"mark": {"": [1]}})
        process.kill()
        process.wait()
    assert pl.read_parquet(run / "marks.parquet")["index"].to_list() == [1, 3]


def test_a_full_disk_is_said_and_nothing_is_lost(run, pictured):
    change_marks(run, pictured.run.scores, Change({"kept": [1]}))
    before = (run / "marks.parquet").read_bytes()

    def no_file_above_500_bytes():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

    with explored(run, "--no-browser", first=no_file_above_500_bytes) as (_, server, _):
        answer = save(server, {"mark": {"": [2]}})
        assert answer.status == 500
        assert b"could not write" in answer.body
        assert len(json.loads(ask(server, "GET", "/marks").body)["rows"]) == 1
    assert (run / "marks.parquet").read_bytes() == before
    assert not list(run.glob(".*"))


def test_a_port_in_use(run, tcsl_command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, out, err = tcsl_command("explore", run, "--no-browser", "--port", taken.getsockname()[1])
    assert (code, out) == (2, "")
    assert "Address already in use; choose another with --port" in err


def test_without_a_port_the_next_free_one_is_taken(monkeypatch):
    from tcsl.report.serve import open_server

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("tcsl.report.serve._FIRST_PORT", port)
        with open_server() as server:
            assert port < server.server_port < port + 50
        monkeypatch.setattr("tcsl.report.serve._PORTS", 1)
        with pytest.raises(InputError, match="are all in use"):
            open_server()


def test_data_that_are_gone_moved_or_changed(pictured, tmp_path, tcsl_command):
    place = shutil.copytree(pictured.place, tmp_path / "birds")
    config = (place / "run" / "config.toml").read_text()
    (place / "run" / "config.toml").write_text(config.replace(str(pictured.place), str(place)))
    moved = place.rename(tmp_path / "moved")
    with explored(moved / "run", "--no-browser") as (_, server, said):
        assert "only the thumbnails that the run kept" in said
        assert "table.csv is missing" in said
        assert "name their place with --data or --root" in said
        assert ask(server, "GET", "/image/0").status == 404
        assert b"only the thumbnails that the run kept" in ask(server, "GET", "/").body
    with explored(moved / "run", "--no-browser", "--data", moved / "table.csv") as (_, server, said):
        assert "thumbnails" not in said
        assert ask(server, "GET", "/image/0").body == (moved / pictured.files[pictured.ids[0]].name).read_bytes()
    Image.new("RGB", (300, 200)).save(moved / pictured.files[pictured.ids[0]].name)
    code, _, err = tcsl_command("explore", moved / "run", "--no-browser", "--data", moved / "table.csv")
    assert code == 2
    assert "have changed since the run" in err


def test_another_source_for_a_known_dataset_is_said_to_be_missing(tmp_path, tcsl_command):
    few = {"data.options.per_class": 10, "train.epochs": 1, "device.device": "cpu"}
    run = tcsl.debias("digits", 0.5, settings=few, methods=["tcsl_cs"], out=tmp_path / "run")
    code, _, err = tcsl_command("explore", run.path, "--no-browser", "--data", tmp_path / "nowhere")
    assert code == 2
    assert "nowhere" in err
    assert "takes no options" not in err


def test_folders_that_cannot_be_explored(run, tmp_path, tcsl_command):
    def error(path):
        code, out, err = tcsl_command("explore", path, "--no-browser")
        assert (code, out) == (2, "")
        return err

    assert "is not a run folder" in error(tmp_path)
    (tmp_path / "summary.json").write_text("{}")
    assert f"holds several seeds: name one of them, such as {tmp_path / 'seed-0'}" in error(tmp_path)
    (run / "marks.parquet").write_bytes(b"PAR1")
    assert "marks.parquet is not a Parquet file" in error(run)
    (run / "scores.parquet").unlink()
    assert "scores.parquet is gone: --resume" in error(run)
    (run / "done").unlink()
    assert "is not finished" in error(run)


def test_data_from_python_are_said(serving, tmp_path):
    data = (np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8)).astype(np.uint8), np.arange(20) % 2)
    run = tcsl.debias(data, 0.5, settings={"train.epochs": 2}, methods=["tcsl_cs"], out=tmp_path / "run")
    with pytest.raises(InputError, match="the data came from Python"), serving(run.path):
        pass
