"""How a run shows itself: as text, and in a notebook with its map."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from tcsl.caution import caution, worse
from tcsl.text import printable

_WIDTH = 480  # of the map on the screen
_DPI = 200  # of its PNG, whose size the number of samples hardly changes


class _Told(NamedTuple):
    """What a run says in words, and its accuracies as a table: the first line of it is the header."""

    sentences: list[str]
    title: str
    table: list[Sequence[str]]


def run_text(path: Path, result: Mapping[str, Any]) -> str:
    """Return a run in a few lines: where it is, its verdict, its accuracies.

    >>> print(run_text(Path("runs/a"), {"seed": 0, "identification": {"n": 1200, "g_high": 61}}))
    Run in runs/a, seed 0
    61 of 1,200 samples stand apart by their losses (G_high)
    """
    told = _told(result)
    lines = [f"Run in {path}" + (f", seed {result['seed']}" if "seed" in result else ""), *told.sentences]
    if told.table:
        widths = [max(map(len, column)) for column in zip(*told.table, strict=True)]
        lines.append(told.title)
        lines += [
            "  ".join([first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(rest, widths[1:], strict=True))])
            for first, *rest in told.table
        ]
    return "\n".join(printable(line) for line in lines)


def run_html(path: Path, result: Mapping[str, Any]) -> str:
    """Return a run as HTML for a notebook: verdict, accuracies and, where it has scores, the map."""
    told = _told(result)
    parts = [f"<p>{_said(sentence)}</p>" for sentence in told.sentences]
    if told.table:
        header, *rows = told.table
        head = "".join(f"<th>{_said(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{_said(cell)}</td>' for cell in row)}</tr>" for row in rows)
        caption = f'<caption style="text-align: left">{_said(told.title)}</caption>'
        parts.append(f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    if (path / "scores.parquet").is_file():
        parts.append(_map(path))
    parts.append(f"<p>{_said(f'Run in {path}')}</p>")
    return f"<div>{''.join(parts)}</div>"


def _map(path: Path) -> str:
    from tcsl.report.figures import map_figure
    from tcsl.report.material import read_coreset
    from tcsl.report.style import encoded
    from tcsl.scores import Scores

    scores, coreset = Scores.load(path / "scores.parquet"), read_coreset(path)
    chosen = None if coreset is None else coreset.mask(len(scores))
    figure = map_figure(scores.tcsl_s, scores.tcsl_c, scores.g_high, chosen)
    image = base64.b64encode(encoded(figure, "png", dpi=_DPI)).decode()
    alt = f"{len(scores):,} samples by TCSL_s and TCSL_c; {int(scores.g_high.sum()):,} of them are in G_high"
    return f'<img width="{_WIDTH}" alt="{alt}" src="data:image/png;base64,{image}">'


def _said(text: str) -> str:
    return escape(printable(text))


def _told(result: Mapping[str, Any]) -> _Told:
    sentences = [verdict["sentence"]] if (verdict := result.get("verdict")) else []
    if found := result.get("identification"):
        kept = result.get("coresets", {}).get("tcsl_cs")
        sentences.append(
            f"{found['g_high']:,} of {found['n']:,} samples stand apart by their losses (G_high)"
            + (f"; the coreset keeps {kept['n']:,}" if kept else "")
        )
        if said := caution(found, kept):
            sentences.append(f"Take care: {said}")
    evaluation = result.get("evaluation") or {}
    if said := worse(evaluation):
        sentences.append(f"Take care: {said}")
    if not evaluation:
        return _Told(sentences, "", [])
    from tcsl.bench.seeds import summarise_results
    from tcsl.tables import known_metrics

    summary = summarise_results([dict(result)])
    metrics = known_metrics(summary)
    rows = [
        (summary["titles"][name], *(f"{100 * values[metric]['mean']:.1f}" for metric in metrics))
        for name, values in summary["methods"].items()
    ]
    return _Told(sentences, f"accuracy on {summary['evaluated_on']}, %", [("method", *metrics.values()), *rows])
