"""A CSV file for a spreadsheet: a row a sample, with a link to its image."""

from __future__ import annotations

import os
from pathlib import Path

from tcsl.data.images import Images
from tcsl.export.marked import Marked
from tcsl.export.place import check_place
from tcsl.files import write_atomic

SHEETS = (".csv",)
_FORMULA = r"^(\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])"  # also the wide forms of = + - @


def export_sheet(samples: Marked, path: Path | str) -> int:
    """Write id, label, the marks and, where the inputs are files, a file:// link to each; quoted as RFC 4180 has it.

    Text that a spreadsheet may take for a formula, since it begins with = + - @, a tab or a line break, gets
    an apostrophe before it. Numbers stay numbers.

    Returns
    -------
    changed : how many cells got an apostrophe
    """
    import polars as pl
    import polars.selectors as cs

    target = Path(path)
    check_place(target, SHEETS)
    table = samples.table
    inputs = None if samples.listed is None else samples.listed.inputs
    if isinstance(inputs, Images) and inputs.path is not None:
        links = [Path(os.path.abspath(inputs.path(row))).as_uri() for row in inputs.rows.tolist()]
        table = table.with_columns(pl.Series("link", links, pl.String))
    risky = table.select(cs.string().str.contains(_FORMULA))
    safe = table.with_columns(
        pl.when(risky[name]).then("'" + pl.col(name)).otherwise(pl.col(name)).alias(name) for name in risky.columns
    )
    write_atomic(target, safe.write_csv(line_terminator="\r\n"))
    return sum(int(risky[name].sum()) for name in risky.columns)
