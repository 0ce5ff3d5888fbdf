"""From a table of scores to a coreset with its provenance; needs neither the data nor torch."""

from __future__ import annotations

from tcsl.config import Settings
from tcsl.scores import Coreset, Scores
from tcsl.selection.tcsl_cs import select_tcsl_cs


def coreset_from_scores(scores: Scores, settings: Settings) -> Coreset:
    """Run Algorithm 2 on scores alone: no data, no training."""
    picked = select_tcsl_cs(scores.curves, scores.tcsl_c, scores.labels, settings.select, seed=settings.seed)
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
