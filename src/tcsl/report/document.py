"""One HTML file from a template, the styles, the scripts, the chart library and the data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from tcsl import __version__
from tcsl.report.pack import as_base64, as_json, squeeze

_STYLES = ("theme.css", "layout.css", "parts.css", "print.css")
_SCRIPTS = {
    "page.html": (
        "unpack",
        "theme",
        "charts",
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
    script: str = "",
    **shown: Any,
) -> str:
    """Return a page: what is `shown` goes through the template, which escapes it; `facts` and `blobs` are for scripts.

    Parameters
    ----------
    served : addresses on the server that shows the page, if one does
    script : more JavaScript, which a server adds
    """
    html: str = (
        _templates()
        .get_template(template)
        .render(
            **shown,
            version=__version__,
            styles="\n".join(_asset(name) for name in _STYLES),
            scripts="\n".join([*(_asset(f"{name}.js") for name in _SCRIPTS[template]), script]),
            facts=as_json(facts),
            served=as_json(served or {}),
            policy=_policy(served is not None),
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


def _policy(served: bool) -> str:
    """Return what a browser lets the page do: nothing of the network, but its own server's where there is one."""
    images, connections = ("'self' blob: data:", "'self'") if served else ("blob: data:", "'none'")
    return (
        "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
        f"img-src {images}; connect-src {connections}; base-uri 'none'; form-action 'none'"
    )


@cache
def _asset(name: str) -> str:
    return (files("tcsl.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _plotly() -> bytes:
    """Return plotly.js, which the plotly package brings, squeezed."""
    return squeeze((files("plotly") / "package_data" / "plotly.min.js").read_bytes())


@cache
def _templates() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        autoescape=True, loader=FunctionLoader(_asset), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["percent"] = percent
    return made
