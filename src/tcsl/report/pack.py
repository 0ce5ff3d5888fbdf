"""Values in a page: text that closes no tag, and columns as bytes that a browser unpacks into typed arrays."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tcsl.types import AnyArray

_KINDS = {"u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array", "f4": "Float32Array"}


def as_json(value: Any) -> str:
    r"""Return JSON that can stand in a <script>: no tag or comment begins or ends in it.

    >>> print(as_json({"name": "</script><!--"}))
    {"name":"\u003c/script\u003e\u003c!--"}
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def squeeze(content: bytes) -> bytes:
    """Return gzip of bytes, the same for the same bytes."""
    return gzip.compress(content, 9 if len(content) < 1 << 23 else 6, mtime=0)


def as_base64(content: bytes) -> str:
    """Return bytes as text.

    >>> as_base64(b"tcsl")
    'dGNzbA=='
    """
    return base64.b64encode(content).decode("ascii")


def rounded(values: AnyArray) -> AnyArray:
    """Return float32 values with twelve bits after the first: four digits, which take two thirds of the room.

    >>> rounded(np.array([0.5, 100.123], np.float32)).tolist()
    [0.5, 100.125]
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 10)) & np.uint32(0xFFFFF800)).view(np.float32)


def pack_columns(columns: Mapping[str, AnyArray]) -> tuple[list[dict[str, Any]], bytes]:
    """Return what the columns are, and their bytes: of each, first all lowest bytes, then all second ones, and so on.

    Parameters
    ----------
    columns : arrays of uint8, uint16, uint32 or float32

    >>> pack_columns({"label": np.array([1, 256], np.uint16)})[0]
    [{'name': 'label', 'kind': 'Uint16Array', 'length': 2}]
    """
    about, parts = [], []
    for name, values in columns.items():
        kind = _KINDS[values.dtype.str[1:]]
        about.append({"name": name, "kind": kind, "length": len(values)})
        planes = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(np.uint8)
        parts.append(planes.reshape(len(values), values.dtype.itemsize).T.tobytes())
    return about, squeeze(b"".join(parts))


def pack_ids(ids: AnyArray) -> bytes:
    """Return ids as the bytes of a JSON list of texts.

    >>> gzip.decompress(pack_ids(np.array([7, 8])))
    b'["7","8"]'
    """
    return squeeze(json.dumps([str(one) for one in ids.tolist()], ensure_ascii=True, separators=(",", ":")).encode())
