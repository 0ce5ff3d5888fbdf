"""How much a page may weigh, and what has room in it."""

from __future__ import annotations

from tcsl.report.pack import pack_ids
from tcsl.types import AnyArray, IntArray

MB = 1_000_000
FEW = 5000  # samples up to which all have a thumbnail
_LIMITS = (10 * MB, 25 * MB)  # of a page with few samples, and with more
_FIXED = 2.6 * MB  # charts, code, text, densities
_ROW = 15  # bytes of a sample's scores, label, marks and group
MOST_ROWS = 500_000  # samples of which a page has the scores
_MOST_IDS = 8 * MB
_MOST_THUMBNAILS = 8000  # where not all have one: a few seconds of work, and enough to look at
_TEXT = 4 / 3  # base64


def page_limit(n: int) -> int:
    """Return the most bytes of a page of n samples.

    >>> page_limit(5000), page_limit(5001)
    (10000000, 25000000)
    """
    return _LIMITS[n > FEW]


def thumbnails_wanted(n: int) -> int:
    """Return how many of n samples have a thumbnail, or a text.

    >>> thumbnails_wanted(4795), thumbnails_wanted(50_000)
    (4795, 8000)
    """
    return n if n <= FEW else _MOST_THUMBNAILS


def rows_with_room(order: IntArray, ids: AnyArray) -> IntArray:
    """Return the samples whose scores the page has, ascending: all, or the first of `order` where they are many."""
    rows = min(len(order), MOST_ROWS)
    while rows > FEW and len(pack_ids(ids[order[:rows]])) * _TEXT > _MOST_IDS:
        rows //= 2
    kept = order[:rows].copy()
    kept.sort()
    return kept


def thumbnails_room(ids: AnyArray) -> int:
    """Return the bytes that the thumbnails of these samples may take, before they become text."""
    n = len(ids)
    rest = page_limit(n) - _FIXED - _ROW * min(n, MOST_ROWS) - min(len(pack_ids(ids[:MOST_ROWS])) * _TEXT, _MOST_IDS)
    return int(max(rest, MB) / _TEXT)
