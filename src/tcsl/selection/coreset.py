"""From a table of scores to a coreset with its provenance; needs neither the data nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcsl.config import Settings, resolve
from tcsl.scores import Coreset, Scores
from tcsl.selection.tcsl_cs import select_tcsl_cs
from tcsl.types import BoolArray


def settings_like(
    scores: Scores,
    *,
    profile: str | None = None,
    seed: int | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Return settings to select by: profile and seed are those that the scores were made with unless given."""
    made_with = {name: scores.facts[name] for name in ("profile", "seed") if scores.facts.get(name) is not None}
    named = {} if seed is None else {"seed": seed}
    return resolve(profile=profile, file=file, overrides={**made_with, **(overrides or {}), **named})


def coreset_from_scores(scores: Scores, settings: Settings, *, g_high: BoolArray | None = None) -> Coreset:
    """Run Algorithm 2 on scores alone; `g_high` spares the clustering where the same settings have done it."""
    picked = select_tcsl_cs(
        scores.curves, scores.tcsl_c, scores.labels, settings.select, seed=settings.seed, g_high=g_high
    )
    facts = {
        "rule": "tcsl_cs",
        "fingerprint": scores.facts.get("fingerprint"),
        "scores": scores.digest,
        "select": settings.select.model_dump(mode="json"),
        "seed": settings.seed,
        "g_high": int(picked.g_high.sum()),
    }
    i = picked.indices
    return Coreset(i, scores.ids[i], scores.labels[i], picked.g_high[i], facts)
