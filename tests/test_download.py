"""Downloads: resumed, never glued together, verified before they count. Archives: unpacked whole and in their place."""

import gzip
import hashlib
import io
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from tcsl import __version__
from tcsl.data import download
from tcsl.data.download import Remote, fetch
from tcsl.data.unpack import unpack
from tcsl.errors import InputError

CONTENT = np.random.default_rng(0).bytes(1_000_000)
OTHER = np.random.default_rng(1).bytes(1_000_000)


class Site:
    """One file on a real server, and how the server misbehaves."""

    def __init__(self):
        self.content = CONTENT
        self.etag = '"1"'
        self.modified = None
        self.answers = []  # for each request to come: an HTTP status, or the bytes after which the line drops
        self.always = None  # the same, for every request after those
        self.reset = False  # drop the line with a reset, not a plain end
        self.ranges = True  # answer Range
        self.if_range = True  # heed If-Range
        self.shift = 0  # answer Range with bytes that begin so much later
        self.total = True  # tell the total with a range
        self.length = True  # tell the length
        self.chunked = False
        self.claim = None  # a Content-Length that is not so
        self.hang = threading.Event()  # clear: do not drop, but keep silent
        self.hang.set()
        self.tired = False  # kept silent for so long that the other side should have gone
        self.seen = []  # the headers of each request
        self.url = ""

    def answer(self):
        return self.answers.pop(0) if self.answers else self.always


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        site = self.server.site
        site.seen.append(dict(self.headers))
        self.close_connection = True
        limit = site.answer()
        if isinstance(limit, str):
            self.send_error(int(limit))
            return
        content, etag, start = site.content, site.etag, 0
        asked, condition = self.headers["Range"], self.headers["If-Range"]
        fits = not site.if_range or condition in (None, etag, site.modified)
        if asked and site.ranges and fits:
            start = int(asked.removeprefix("bytes=").removesuffix("-")) + site.shift
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content) if site.total else '*'}")
        else:
            self.send_response(200)
        for name, value in (("ETag", etag), ("Last-Modified", site.modified)):
            if value:
                self.send_header(name, value)
        body = content[start:]
        if site.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        elif site.length:
            self.send_header("Content-Length", str(site.claim or len(body)))
        self.end_headers()
        try:
            self.wfile.write(body if limit is None else body[:limit])
            self.wfile.flush()
        except OSError:  # the other side has gone
            return
        if limit is not None:
            site.tired = not site.hang.wait(30)
        if limit is not None and site.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # lines that were reset
    server.site = Site()
    server.site.url = f"http://127.0.0.1:{server.server_port}/data.bin"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.site
    server.site.hang.set()
    server.shutdown()
    server.server_close()
    thread.join()


def remote(site, content=CONTENT, **more):
    return Remote(site.url, "data.bin", **{"checksum": f"sha256:{hashlib.sha256(content).hexdigest()}"} | more)


def ranges(site):
    return [headers.get("Range") for headers in site.seen]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def begin(site, folder, count=400_000, **more):
    """Leave a part behind, as an interrupted download does."""
    site.answers = [count]
    with pytest.raises(InputError, match="the connection ended after"):
        fetch(remote(site, **more), folder, attempts=1)
    assert (folder / "data.bin.part").stat().st_size == count
    site.seen.clear()


# What a download is


def test_a_file_comes_whole_and_alone(site, tmp_path):
    path = fetch(remote(site), tmp_path / "a" / "b")
    assert path == tmp_path / "a" / "b" / "data.bin"
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["data.bin"]
    assert site.seen[0]["User-Agent"] == f"tcsl/{__version__}"


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"checksum": f"md5:{hashlib.md5(CONTENT).hexdigest()}"},
        {"checksum": f"SHA256:{hashlib.sha256(CONTENT).hexdigest().upper()}"},
        {"checksum": "", "size": len(CONTENT)},
        {"checksum": ""},
    ],
)
def test_a_file_that_is_there_and_right_is_not_asked_for(site, tmp_path, known):
    (tmp_path / "data.bin").write_bytes(CONTENT)
    assert fetch(remote(site, **known), tmp_path) == tmp_path / "data.bin"
    assert site.seen == []


@pytest.mark.parametrize("known", [{}, {"checksum": "", "size": len(CONTENT)}])
def test_a_file_that_is_there_and_wrong_is_replaced(site, tmp_path, known):
    (tmp_path / "data.bin").write_bytes(CONTENT[:-1])
    assert fetch(remote(site, **known), tmp_path).read_bytes() == CONTENT


def test_a_wrong_file_stays_until_the_right_one_has_come_and_is_named(site, tmp_path):
    (tmp_path / "data.bin").write_bytes(b"mine")
    site.always = "404"
    with pytest.raises(InputError, match=r"by hand to .*data.bin \(what is there now is not the right file\)"):
        fetch(remote(site), tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == b"mine"


def test_progress_grows_to_the_total(site, tmp_path):
    calls = []
    fetch(remote(site), tmp_path, progress=lambda *call: calls.append(call))
    done = [so_far for _, so_far, _ in calls]
    assert done == sorted(set(done))
    assert len(done) > 1
    assert calls[-1] == ("data.bin", len(CONTENT), len(CONTENT))


def test_progress_goes_on_where_the_part_ended(site, tmp_path):
    begin(site, tmp_path)
    calls = []
    fetch(remote(site), tmp_path, progress=lambda *call: calls.append(call))
    assert calls[0][1] > 400_000
    assert {total for _, _, total in calls} == {len(CONTENT)}


@pytest.mark.parametrize("chunked", [False, True])
def test_a_server_that_does_not_tell_the_length(site, tmp_path, chunked):
    site.length, site.chunked = False, chunked
    calls = []
    path = fetch(remote(site), tmp_path, progress=lambda *call: calls.append(call))
    assert path.read_bytes() == CONTENT
    assert calls[-1] == ("data.bin", len(CONTENT), None)


def test_an_empty_file(site, tmp_path):
    site.content = b""
    assert fetch(remote(site, b"", size=0), tmp_path).read_bytes() == b""


def test_a_file_url(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "PAUSE", -1)  # which time.sleep refuses: a file that is missing is not waited for
    (tmp_path / "there").write_bytes(CONTENT)
    found = fetch(Remote((tmp_path / "there").as_uri(), "here", size=len(CONTENT)), tmp_path)
    assert found.read_bytes() == CONTENT
    with pytest.raises(InputError, match=r"could not download file:.*No such file.* by hand to .*none"):
        fetch(Remote((tmp_path / "missing").as_uri(), "none"), tmp_path)


# Interruptions


@pytest.mark.parametrize("reset", [False, True])
def test_a_dropped_line_is_resumed(site, tmp_path, reset):
    site.answers, site.reset = [300_000, 300_000], reset
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    first, *others = ranges(site)
    assert first is None
    assert len(others) == 2
    if not reset:  # a reset may throw away what the system had received
        assert others == ["bytes=300000-", "bytes=600000-"]
    assert names(tmp_path) == ["data.bin"]


def test_a_dropped_chunked_answer_is_resumed(site, tmp_path):
    site.chunked, site.answers = True, [300_000]
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert len(site.seen) == 2


def test_a_dropped_answer_without_a_length_is_seen_where_the_size_is_known(site, tmp_path):
    site.length, site.answers = False, [300_000]
    assert fetch(remote(site, size=len(CONTENT)), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=300000-"]


def test_a_dropped_range_without_a_total_is_resumed(site, tmp_path):
    site.total, site.answers = False, [300_000, 300_000]
    assert fetch(remote(site, checksum=""), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=300000-", "bytes=600000-"]


def test_a_silent_server_is_asked_again(site, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    site.answers = [300_000]
    site.hang.clear()
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=300000-"]
    assert not site.tired


def test_a_passing_refusal_is_asked_again(site, tmp_path):
    site.answers = ["503", 300_000, "429"]
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == [None, None, "bytes=300000-", "bytes=300000-"]


def test_attempts_that_come_no_further_end(site, tmp_path):
    begin(site, tmp_path)
    site.always = 0
    with pytest.raises(InputError, match=r"ended after 400000 of 1000000 bytes.*goes on from the 400000 bytes"):
        fetch(remote(site), tmp_path, attempts=3)
    assert ranges(site) == ["bytes=400000-"] * 3
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:400_000]


def test_attempts_that_come_further_do_not_count(site, tmp_path):
    site.always = 100_000  # and so ten requests
    assert fetch(remote(site), tmp_path, attempts=2).read_bytes() == CONTENT
    assert len(site.seen) == 10


def test_a_server_that_always_starts_over_and_drops_is_not_asked_for_ever(site, tmp_path):
    site.ranges, site.always = False, 300_000
    with pytest.raises(InputError, match="ended after 300000 of 1000000 bytes"):
        fetch(remote(site), tmp_path, attempts=3)
    assert len(site.seen) == 3


def test_a_server_that_is_not_there(site, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(InputError, match=r"could not download http://127.*refused.*by hand to .*x"):
        fetch(Remote(f"http://127.0.0.1:{port}/x", "x"), tmp_path, attempts=2)


def test_the_next_call_goes_on(site, tmp_path):
    begin(site, tmp_path)
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == ["bytes=400000-"]
    assert site.seen[0]["If-Range"] == '"1"'


def test_ctrl_c_keeps_the_part(site, tmp_path):
    def stop(name, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(remote(site), tmp_path, progress=stop)
    size = (tmp_path / "data.bin.part").stat().st_size
    assert 0 < size < len(CONTENT)
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == [None, f"bytes={size}-"]


CHILD = (
    "import sys; from pathlib import Path; from tcsl.data.download import Remote, fetch\n"
    "fetch(Remote(sys.argv[1], 'data.bin'), Path(sys.argv[2]))\n"
)


def child(site, folder, before=""):
    return subprocess.Popen(
        [sys.executable, "-c", before + CHILD, site.url, str(folder)], stderr=subprocess.PIPE, text=True
    )


def wait_for_bytes(process, part, count):
    while not part.exists() or part.stat().st_size < count:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def test_a_killed_download_goes_on(site, tmp_path):
    site.answers = [600_000]
    site.hang.clear()
    process = child(site, tmp_path)
    wait_for_bytes(process, tmp_path / "data.bin.part", 500_000)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    size = (tmp_path / "data.bin.part").stat().st_size
    assert not (tmp_path / "data.bin").exists()
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == [None, f"bytes={size}-"]
    assert names(tmp_path) == ["data.bin"]


def test_two_processes_do_not_write_one_part(site, tmp_path):
    site.answers = [600_000]
    site.hang.clear()
    process = child(site, tmp_path)
    wait_for_bytes(process, tmp_path / "data.bin.part", 1)
    with pytest.raises(InputError, match=r"another process is downloading .*data.bin; wait"):
        fetch(remote(site), tmp_path)
    site.hang.set()
    process.communicate()
    assert process.returncode == 0
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT


# A part and a file that do not belong together


def test_a_server_without_range_starts_over(site, tmp_path):
    begin(site, tmp_path)
    site.ranges = False
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == ["bytes=400000-"]


@pytest.mark.parametrize("if_range", [True, False], ids=["heeded", "ignored"])
@pytest.mark.parametrize(("etag", "date"), [('"1"', None), (None, "Tue, 01 Jan 2030 00:00:00 GMT")])
def test_a_file_that_changed_is_not_glued_together(site, tmp_path, if_range, etag, date):
    site.etag, site.modified, site.if_range = etag, date, if_range
    begin(site, tmp_path, checksum="")
    site.content = OTHER
    site.etag, site.modified = etag and '"2"', date and "Wed, 02 Jan 2030 00:00:00 GMT"
    assert fetch(remote(site, checksum=""), tmp_path).read_bytes() == OTHER
    assert ranges(site) == ["bytes=400000-"] + ([] if if_range else [None])
    assert site.seen[0]["If-Range"] == (etag or date)


def test_a_file_that_changes_between_attempts_is_not_glued_together(site, tmp_path):
    site.answers = [400_000]

    def change(name, done, total):
        site.content, site.etag = OTHER, '"2"'

    assert fetch(remote(site, checksum=""), tmp_path, progress=change).read_bytes() == OTHER


def test_a_weak_etag_is_not_sent_and_a_new_length_is_a_change(site, tmp_path):
    site.etag = 'W/"1"'
    begin(site, tmp_path, checksum="")
    site.content = OTHER + b"more"
    assert fetch(remote(site, checksum=""), tmp_path).read_bytes() == OTHER + b"more"
    assert "If-Range" not in site.seen[0]


def test_bytes_that_were_not_asked_for_are_not_taken(site, tmp_path):
    begin(site, tmp_path, checksum="")
    site.shift = 100
    assert fetch(remote(site, checksum=""), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == ["bytes=400000-", None]


def test_a_part_of_another_address_or_without_its_note_is_begun_again(site, tmp_path):
    begin(site, tmp_path)
    (tmp_path / "data.bin.part.json").write_text('{"url": "ht')
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == [None]

    (tmp_path / "data.bin").unlink()
    begin(site, tmp_path)
    assert fetch(Remote(site.url + "?mirror", "data.bin"), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == [None]


def test_a_part_that_is_complete_is_verified_and_kept(site, tmp_path):
    begin(site, tmp_path)
    (tmp_path / "data.bin.part").write_bytes(CONTENT)  # killed just before the end
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == ["bytes=1000000-"]

    (tmp_path / "data.bin").unlink()
    begin(site, tmp_path)
    (tmp_path / "data.bin.part").write_bytes(OTHER)
    with pytest.raises(InputError, match="not the file it should be"):
        fetch(remote(site), tmp_path)


def test_a_part_that_is_longer_than_the_file_is_begun_again(site, tmp_path):
    begin(site, tmp_path)
    (tmp_path / "data.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == ["bytes=1000004-", None]


# What cannot be had


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"checksum": "md5:" + "0" * 32}, rf"expected md5:0+, got md5:{hashlib.md5(CONTENT).hexdigest()}"),
        ({"checksum": "sha256:" + "0" * 64}, r"expected sha256:0+, got sha256:[0-9a-f]+ \(1000000 bytes\)"),
        ({"size": 7}, "expected 7 bytes, got 1000000"),
    ],
)
def test_a_wrong_file_is_deleted_and_said(site, tmp_path, known, message):
    with pytest.raises(InputError, match=message) as error:
        fetch(remote(site, **known), tmp_path)
    assert f"could not download {site.url}" in str(error.value)
    assert f"Try again, or download it by hand to {tmp_path / 'data.bin'}" in str(error.value)
    assert not (tmp_path / "data.bin").exists()
    assert not (tmp_path / "data.bin.part").exists()
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("status", ["404", "403", "401", "410"])
def test_a_refusal_is_said_at_once(site, tmp_path, status):
    site.always = status
    with pytest.raises(InputError, match=f"the server answered {status} ") as error:
        fetch(remote(site), tmp_path)
    assert site.url in str(error.value)
    assert f"by hand to {tmp_path / 'data.bin'}" in str(error.value)
    assert len(site.seen) == 1


def test_a_refusal_keeps_the_part(site, tmp_path):
    begin(site, tmp_path)
    site.always = "403"
    with pytest.raises(InputError, match="403"):
        fetch(remote(site), tmp_path)
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:400_000]


@pytest.mark.parametrize("url", ["ftp://localhost/x", "data:,x", "/etc/passwd", "x.bin", ""])
def test_other_addresses_are_refused(tmp_path, url):
    with pytest.raises(InputError, match="must begin with http, https or file, got"):
        fetch(Remote(url, "x"), tmp_path)


@pytest.mark.parametrize("checksum", ["abc", "sha1:" + "0" * 40, "md5:0", "md5:" + "g" * 32])
def test_checksums_that_are_none_are_refused(tmp_path, checksum):
    with pytest.raises(InputError, match=r"must be md5:\.\.\. or sha256:\.\.\., got"):
        fetch(Remote("http://localhost/x", "x", checksum), tmp_path)


def test_too_little_space_is_said_before_anything_comes(site, tmp_path):
    site.claim = 10**18
    with pytest.raises(InputError, match=r"data.bin needs 1,000,000,000,000.0 MB more, but .* has .* MB free"):
        fetch(remote(site), tmp_path)
    assert (tmp_path / "data.bin.part").stat().st_size == 0


def test_a_disk_that_fills_up_keeps_the_part(site, tmp_path):
    limit = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400000, 400000))\n"
    )
    _, message = child(site, tmp_path, limit).communicate()
    assert f"InputError: could not write {tmp_path / 'data.bin'}: File too large. Free some space" in message
    assert fetch(remote(site), tmp_path).read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=400000-"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_said(site, tmp_path):
    (tmp_path / "data.bin.part").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"could not write .*data.bin: No space left on device"):
        fetch(remote(site), tmp_path)


def test_a_folder_that_cannot_be_written_is_said(site, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"could not write .*data.bin: Not a directory"):
        fetch(remote(site), tmp_path / "file" / "folder")
    (tmp_path / "data.bin").mkdir()
    with pytest.raises(InputError, match=r"could not write .*data.bin: Is a directory"):
        fetch(remote(site), tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_said(site, tmp_path):
    (tmp_path / "mine").mkdir(mode=0o500)
    with pytest.raises(InputError, match=r"could not write .*data.bin: Permission denied"):
        fetch(remote(site), tmp_path / "mine")


def test_torch_is_not_needed():
    code = "import sys, tcsl.data.download; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Archives

FILES = {"top.txt": b"top", "images/a.bin": CONTENT[:70_000], "images/deep/b.bin": CONTENT[70_000:90_000]}


def tar_of(path, *members, files=FILES):
    mode = "w" if path.suffix == ".tar" else "w:gz"
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            tar.addfile(info)
    return path


def zip_of(path, *members, files=FILES):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
        for name, mode, content in members:
            info = zipfile.ZipInfo(name)
            info.filename = name
            info.external_attr = mode << 16
            file.writestr(info, content)
    return path


def archive_of(path):
    return zip_of(path) if path.suffix == ".zip" else tar_of(path)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


ARCHIVES = ["x.tar", "x.tar.gz", "x.tgz", "x.zip"]


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_unpacked_and_merged(tmp_path, name):
    archive = archive_of(tmp_path / name)
    folder = tmp_path / "new" / "data"
    unpack(archive, folder)
    assert contents(folder) == FILES
    assert names(folder.parent) == ["data"]

    (folder / "images" / "mine.bin").write_bytes(b"mine")
    (folder / "images" / "a.bin").write_bytes(b"old")
    unpack(archive, folder)
    assert contents(folder) == FILES | {"images/mine.bin": b"mine"}


def test_a_gz_is_unpacked_under_its_name_without_gz(tmp_path):
    (tmp_path / "train.csv.gz").write_bytes(gzip.compress(CONTENT))
    unpack(tmp_path / "train.csv.gz", tmp_path / "data")
    assert contents(tmp_path / "data") == {"train.csv": CONTENT}


def test_an_archive_may_lie_where_it_is_unpacked(tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path / "x")
    unpack(zip_of(Path("x.zip")), Path())
    assert names(tmp_path / "x") == ["images", "top.txt", "x.zip"]
    assert names(tmp_path) == ["x"]


def test_links_that_stay_inside_are_kept(tmp_path):
    unpack(tar_of(tmp_path / "x.tar", ("images/link", tarfile.SYMTYPE, "../top.txt")), tmp_path / "data")
    assert (tmp_path / "data" / "images" / "link").is_symlink()
    assert (tmp_path / "data" / "images" / "link").read_bytes() == b"top"


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("../evil", tarfile.REGTYPE, ""),
        ("images/../../evil", tarfile.REGTYPE, ""),
        ("/tmp/evil", tarfile.REGTYPE, ""),
        ("evil", tarfile.SYMTYPE, "../outside"),
        ("evil", tarfile.SYMTYPE, "/etc/passwd"),
        ("images/evil", tarfile.SYMTYPE, "../../outside"),
        ("evil", tarfile.LNKTYPE, "../outside"),
        ("evil", tarfile.CHRTYPE, ""),
        ("evil", tarfile.BLKTYPE, ""),
        ("evil", tarfile.FIFOTYPE, ""),
    ],
)
@pytest.mark.parametrize("ending", [".tar", ".tar.gz"])
def test_a_tar_that_would_leave_its_folder_is_refused(tmp_path, name, kind, link, ending):
    archive = tar_of(tmp_path / f"x{ending}", (name, kind, link))
    with pytest.raises(InputError, match=rf"x{ending} is not safe and was not unpacked: .*evil"):
        unpack(archive, tmp_path / "data")
    assert names(tmp_path) == [archive.name]


@pytest.mark.parametrize(
    ("name", "mode", "content"),
    [
        ("../evil", 0, "x"),
        ("images/../../evil", 0, "x"),
        ("/tmp/evil", 0, "x"),
        ("C:\\evil", 0, "x"),
        ("..\\evil", 0, "x"),
        ("evil", stat.S_IFLNK | 0o777, "../outside"),
        ("evil", stat.S_IFLNK | 0o777, "top.txt"),
        ("evil", stat.S_IFCHR | 0o666, ""),
    ],
)
def test_a_zip_that_would_leave_its_folder_is_refused(tmp_path, name, mode, content):
    archive = zip_of(tmp_path / "x.zip", (name, mode, content))
    with pytest.raises(InputError, match=r"x.zip is not safe and was not unpacked: .*evil"):
        unpack(archive, tmp_path / "data")
    assert names(tmp_path) == ["x.zip"]


@pytest.mark.parametrize("name", [*ARCHIVES, "x.gz"])
@pytest.mark.parametrize("share", [0, 0.3, 0.9])
def test_a_truncated_archive_is_said_and_leaves_nothing(tmp_path, name, share):
    archive = tmp_path / name
    content = gzip.compress(CONTENT) if name == "x.gz" else archive_of(archive).read_bytes()
    archive.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"x\.\S+ is damaged: .*Delete it and get it again"):
        unpack(archive, tmp_path / "data")
    assert names(tmp_path) == [name]


def test_a_tar_that_ends_between_two_members_is_truncated(tmp_path):
    archive = tar_of(tmp_path / "x.tar")
    archive.write_bytes(archive.read_bytes()[:1024])  # one header and its content
    with pytest.raises(InputError, match=r"x.tar is damaged: its end is missing"):
        unpack(archive, tmp_path / "data")


def test_a_tar_with_a_damaged_header_is_said(tmp_path):
    archive = tar_of(tmp_path / "x.tar")
    content = bytearray(archive.read_bytes())
    content[1030] ^= 1  # in the second header
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"x.tar is damaged"):
        unpack(archive, tmp_path / "data")


@pytest.mark.parametrize("name", ["x.tar.gz", "x.zip", "x.gz"])
def test_damaged_content_is_said(tmp_path, name):
    archive = tmp_path / name
    content = bytearray(gzip.compress(CONTENT) if name == "x.gz" else archive_of(archive).read_bytes())
    content[5000] ^= 1
    archive.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        unpack(archive, tmp_path / "data")
    assert names(tmp_path) == [name]


def test_a_damaged_name_is_said(tmp_path):
    archive = zip_of(tmp_path / "x.zip", files={"é": b""})
    archive.write_bytes(archive.read_bytes().replace("é".encode(), b"\xff\xff"))
    with pytest.raises(InputError, match="is damaged"):
        unpack(archive, tmp_path / "data")


@pytest.mark.parametrize("name", [*ARCHIVES, "x.gz"])
def test_a_web_page_is_no_archive(tmp_path, name):
    (tmp_path / name).write_text("<html>Please log in</html>" * 100)
    with pytest.raises(InputError, match="is damaged"):
        unpack(tmp_path / name, tmp_path / "data")


def test_other_files_and_missing_files_are_said(tmp_path):
    with pytest.raises(InputError, match=r"cannot unpack .*x.rar: its name must end in one of .tar, .tar.gz"):
        unpack(tmp_path / "x.rar", tmp_path)
    with pytest.raises(InputError, match=r"could not unpack .*x.zip.*No such file"):
        unpack(tmp_path / "x.zip", tmp_path)


def test_a_file_in_place_of_a_folder_is_said(tmp_path):
    (tmp_path / "data" / "top.txt").mkdir(parents=True)
    with pytest.raises(InputError, match=r"could not unpack .*top.txt"):
        unpack(zip_of(tmp_path / "x.zip"), tmp_path / "data")


def test_an_unpacking_that_is_killed_leaves_the_folder_as_it_was(tmp_path):
    zip_of(tmp_path / "x.zip", files=FILES | {"zz.bin": CONTENT})
    code = (
        "import resource, signal, sys; from pathlib import Path; from tcsl.data.unpack import unpack\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500000, 500000))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"  # the system ends the process in the middle of zz.bin
        "unpack(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    folder = tmp_path / "data"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.zip"), str(folder)])
    assert done.returncode == -signal.SIGXFSZ
    assert not folder.exists()
    unpack(tmp_path / "x.zip", folder)
    assert contents(folder) == FILES | {"zz.bin": CONTENT}
