"""How a dataset is named in settings: so that a run finds it again from another folder."""

from __future__ import annotations

import os
from pathlib import Path

from tcsl.registry import DATASETS


def source_name(source: str | Path) -> str:
    """Return a known name, or `hf:NAME`, as it is, and a path as an absolute one.

    >>> source_name("digits"), source_name("hf:user/birds"), source_name("/data/../birds.csv")
    ('digits', 'hf:user/birds', '/birds.csv')
    """
    text = str(source)
    if text in DATASETS or not text:
        return text
    if text.startswith("hf:"):
        folder = text.removeprefix("hf:")
        return f"hf:{os.path.abspath(folder)}" if os.path.isdir(folder) else text
    # What is not there keeps its name, so that a mistyped one is said as it was typed.
    path = os.path.expanduser(text)
    return os.path.abspath(path) if os.path.exists(path) or "/" in text or "*" in text else text
