"""A server for one reader on this machine: the page of a run, its images at full size, and the marks.

It listens on 127.0.0.1 alone. A request is answered where it names this server as its host (a foreign name that leads
here does not), no other site sent it, and its path begins with the key of this start, which only the printed address
has: others who are logged in on the machine do not know it. Images are asked for by their index, so that no path of a
file comes from a request. Marks are saved for who sends JSON with the token that is in the page.
"""

from __future__ import annotations

import errno
import json
import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tcsl.errors import InputError, TcslError
from tcsl.report.document import asset, policy
from tcsl.report.marks import change_marks, parse_change, read_marks
from tcsl.report.material import Material
from tcsl.report.originals import Originals
from tcsl.report.page import Served, page
from tcsl.scores import Scores

HOST = "127.0.0.1"
TOKEN_HEADER = "X-Tcsl-Token"
MOST_BYTES = 8_000_000  # of a change: half a million samples
_FIRST_PORT, _PORTS = 8420, 50
_NONCE = "NONCE0OF0THIS0ANSWER"  # stands in the page for the one that each answer draws
_IMAGE = re.compile(r"/image/(0|[1-9][0-9]{0,8})")
_KNOWN = re.compile(rf"/|/marks|{_IMAGE.pattern}")
_NOTHING = "there is nothing here: open the address that tcsl explore printed last"
_BARE = "default-src 'none'; style-src 'unsafe-inline'; sandbox"  # of what is no page; a browser styles an image itself


@dataclass(frozen=True, eq=False)
class Site:
    """What is served.

    Attributes
    ----------
    run : the run folder, where the marks are
    html : the page, `_NONCE` in place of the nonce
    token : what a request that saves marks has to bring
    images : from an index to the image, where there are images
    """

    run: Path
    scores: Scores
    class_names: tuple[str, ...]
    html: bytes
    token: str
    images: Originals | None


def make_site(material: Material, images: Originals | None, note: str = "") -> Site:
    """Make the page of a run for a server.

    Parameters
    ----------
    note : what the reader should know, such as why there are no full-size images
    """
    token = secrets.token_urlsafe(32)
    served = Served(
        image="image/{index}" if images else "",
        marks="marks",
        token=token,
        note=note,
        nonce=_NONCE,
        script=asset("explore.js"),
        style=asset("explore.css"),
    )
    html = page(material, served).encode()
    return Site(material.path, material.scores, tuple(material.class_names), html, token, images)


class Server(ThreadingHTTPServer):
    """A server on a port of 127.0.0.1; it answers once it has a `site` and `serve_forever` runs."""

    daemon_threads = True
    site: Site

    def __init__(self, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        self.key = secrets.token_urlsafe(16)

    @property
    def address(self) -> str:
        """What a browser is told to open."""
        return f"http://{HOST}:{self.server_port}/{self.key}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, but for a browser that went away."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def open_server(port: int | None = None) -> Server:
    """Return a server on this port, or on the first free one from 8420 on where none is asked for."""
    tried = range(_FIRST_PORT, _FIRST_PORT + _PORTS) if port is None else [port]
    for one in tried:
        try:
            return Server(one)
        except OSError as error:
            if port is not None or error.errno != errno.EADDRINUSE:
                raise InputError(
                    f"port {one} of {HOST} cannot be used: {error.strerror or error}; choose another with --port, or "
                    "leave it out"
                ) from None
    raise InputError(f"the ports {tried[0]} to {tried[-1]} of {HOST} are all in use; choose one with --port")


class _Handler(BaseHTTPRequestHandler):
    """One request; every answer closes its connection."""

    server: Server
    timeout = 30
    server_version, sys_version = "tcsl", ""

    def do_GET(self) -> None:
        """Answer with the page, an image or the marks."""
        site = self.server.site
        if refusal := self._foreign():
            self._say(HTTPStatus.FORBIDDEN, refusal)
        elif self._place == "/":
            nonce = secrets.token_urlsafe(16)
            html = site.html.replace(_NONCE.encode(), nonce.encode())
            self._answer(HTTPStatus.OK, html, "text/html; charset=utf-8", allowed=policy(True, nonce))
        elif self._place == "/marks":
            self._marks(site)
        elif found := _IMAGE.fullmatch(self._place):
            self._image(site, int(found[1]))
        else:
            self._say(HTTPStatus.NOT_FOUND, _NOTHING)

    def do_POST(self) -> None:
        """Save a change of the marks."""
        content = self._body()
        if content is None:
            return
        site, token = self.server.site, self.headers.get(TOKEN_HEADER, "")
        if refusal := self._foreign():
            self._say(HTTPStatus.FORBIDDEN, refusal)
        elif not _KNOWN.fullmatch(self._place):
            self._say(HTTPStatus.NOT_FOUND, _NOTHING)
        elif self._place != "/marks":
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        elif self.headers.get_content_type() != "application/json":
            self._say(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a change of marks is sent as application/json")
        elif not secrets.compare_digest(token.encode("utf-8", "surrogateescape"), site.token.encode()):
            self._say(HTTPStatus.FORBIDDEN, "the page is of another start of tcsl explore: load it again")
        else:
            self._change(site, content)

    @property
    def _place(self) -> str:
        """What follows the key in the path; empty where the key is not this server's."""
        key, _, place = self.path[1:].partition("/")
        known = secrets.compare_digest(key.encode("utf-8", "surrogateescape"), self.server.key.encode())
        return f"/{place}" if known and self.path.startswith(f"/{key}/") else ""

    def _marks(self, site: Site) -> None:
        try:
            told = _told(site)
        except TcslError as error:
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        else:
            self._say_json(told)

    def _change(self, site: Site, content: bytes) -> None:
        try:
            table = change_marks(site.run, site.scores, parse_change(content, len(site.scores)))
        except InputError as error:
            self._say(HTTPStatus.BAD_REQUEST, str(error))
        except TcslError as error:  # a full disk
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        else:
            self._say_json({"marked": len(table)})

    def _image(self, site: Site, index: int) -> None:
        if site.images is None or index >= len(site.scores):
            self._say(HTTPStatus.NOT_FOUND, "there is no such image")
            return
        try:
            content, kind = site.images(index)
        except InputError as error:
            self._say(HTTPStatus.NOT_FOUND, str(error))
        else:
            self._answer(HTTPStatus.OK, content, kind)

    def _foreign(self) -> str:
        """Return why the request is not of a page of this server, or of who typed its address; empty where it is."""
        hosts = [host.lower() for host in self.headers.get_all("Host", [])]
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            return f"this server is {HOST}:{self.server.server_port}, and answers to no other name"
        if any(origin != f"http://{hosts[0]}" for origin in self.headers.get_all("Origin", [])):
            return "another site's request is not answered"
        if any(site not in ("same-origin", "none") for site in self.headers.get_all("Sec-Fetch-Site", [])):
            return "another site's request is not answered; open the address that tcsl explore printed"
        return ""

    def _body(self) -> bytes | None:
        """Return what was sent; None where it was refused, which is answered then."""
        lengths = self.headers.get_all("Content-Length", [])
        if len(lengths) != 1 or not re.fullmatch("[0-9]{1,15}", lengths[0]) or "Transfer-Encoding" in self.headers:
            self._say(HTTPStatus.LENGTH_REQUIRED, "say how long the request is")
        elif int(lengths[0]) > MOST_BYTES:
            self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a change of marks has at most {MOST_BYTES:,} bytes")
        else:
            content = self.rfile.read(int(lengths[0]))
            if len(content) == int(lengths[0]):
                return content
            self._say(HTTPStatus.BAD_REQUEST, "the request was cut short")
        return None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer in a line of text; a method that is not known is one that is not allowed."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._say(status, status.phrase)

    def _say(self, status: HTTPStatus, text: str) -> None:
        self._answer(status, f"{text}\n".encode("utf-8", "replace"), "text/plain; charset=utf-8")

    def _say_json(self, value: Mapping[str, Any]) -> None:
        self._answer(HTTPStatus.OK, json.dumps(value).encode(), "application/json")

    def _answer(self, status: HTTPStatus, content: bytes, kind: str, *, allowed: str = _BARE) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": f"{allowed}; frame-ancestors 'none'",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, POST" if self._place == "/marks" else "GET"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep the terminal for what the user should know."""


def _told(site: Site) -> dict[str, Any]:
    """Return the marks as the page reads them."""
    table = read_marks(site.run, site.scores)
    names = [site.class_names[label] for label in table["label"].to_list()]
    columns = (table["id"].to_list(), table["index"].to_list(), names, table["note"].to_list(), table["time"].to_list())
    return {"rows": [[str(one), *rest] for one, *rest in zip(*columns, strict=True)]}
