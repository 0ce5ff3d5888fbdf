"""One HTML file from a template, the styles, the scripts, the chart library and the data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from tcsl import __version__
from tcsl.report.pack import as_base64, as_json, squeeze
from tcsl.text import printable
from tcsl.verdict import said_of_p

_STYLES = ("theme.css", "layout.css", "parts.css", "print.css")
_SCRIPTS = {
    "page.html": (
        "unpack",
        "theme",
        "charts",
        "csv",
        "samples",
        "filter",
        "detail",
        "map",
        "gallery",
        "curves",
        "why",
        "page",
    ),
    "compare.html": ("unpack", "theme", "charts", "curves", "compare"),
}


class Blob(NamedTuple):
    """Bytes that a script unpacks."""

    name: str
    content: bytes


def document(
    template: str,
    *,
    facts: dict[str, Any],
    blobs: Sequence[Blob],
    served: dict[str, str] | None = None,
    nonce: str = "",
    script: str = "",
    style: str = "",
    **shown: Any,
) -> str:
    """Return a page: what is `shown` goes through the template, which escapes it; `facts` and `blobs` are for scripts.

    Parameters
    ----------
    served : addresses on the server that shows the page, if one does
    nonce : where there is one, only scripts that carry it run
    script, style : more JavaScript and CSS, which a server adds
    """
    html: str = (
        _templates()
        .get_template(template)
        .render(
            **shown,
            version=__version__,
            styles="\n".join([*(asset(name) for name in _STYLES), style]),
            scripts="\n".join([*(asset(f"{name}.js") for name in _SCRIPTS[template]), script]),
            facts=as_json(facts),
            served=as_json(served or {}),
            policy=policy(served is not None, nonce),
            nonce=nonce,
            is_served=served is not None,
            blobs=[(name, as_base64(content)) for name, content in (*blobs, Blob("plotly", _plotly()))],
        )
    )
    return html


def percent(value: float) -> str:
    """Return a share in percent.

    >>> percent(0.3889)
    '38.9 %'
    """
    return f"{100 * value:.1f} %"


def policy(served: bool, nonce: str = "") -> str:
    """Return what a browser lets the page do: nothing of the network, but its own server's where there is one.

    Styles are inline, since plotly writes them into its drawings; it compiles what it draws by WebGL with Function,
    which is what 'unsafe-eval' is for.

    Parameters
    ----------
    nonce : where there is one, only scripts that carry it run; a file has the same bytes every time, and thus none

    >>> policy(True, "Zm9v").split("; ")[1]
    "script-src 'nonce-Zm9v' 'unsafe-eval'"
    """
    scripts = f"'nonce-{nonce}'" if nonce else "'unsafe-inline'"
    images, connections = ("'self' blob: data:", "'self'") if served else ("blob: data:", "'none'")
    return (
        f"default-src 'none'; script-src {scripts} 'unsafe-eval'; style-src 'unsafe-inline'; "
        f"img-src {images}; connect-src {connections}; base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str) -> str:
    """Return a file of the page's own."""
    return (files("tcsl.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _plotly() -> bytes:
    """Return plotly.js, which the plotly package brings, squeezed."""
    return squeeze((files("plotly") / "package_data" / "plotly.min.js").read_bytes())


@cache
def _templates() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        autoescape=True, loader=FunctionLoader(asset), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["percent"] = percent
    made.filters["printable"] = printable
    made.filters["said_of_p"] = said_of_p
    return made
