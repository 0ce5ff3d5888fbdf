"""The last part of a page: settings, data, environment, time, the command that repeats the run, files, citation."""

from __future__ import annotations

from typing import Any

from tcsl.config import describe, flat
from tcsl.report.material import Material

FILES = {
    "config.toml": "every setting, with its meaning (TOML)",
    "data.json": "the data's fingerprint, classes and sizes (JSON)",
    "environment.json": "software, hardware, commit, command (JSON)",
    "metrics.jsonl": "one line an epoch (JSON lines)",
    "scores.parquet": "id, label, tcsl_s, tcsl_c, g_high, and the biased model's loss curve of each sample (Parquet)",
    "coreset.parquet": "what TCSL-CS keeps: index, id, label, g_high (Parquet)",
    "samples.parquet": "thumbnails or values of samples, neighbours, and EL2N, for this page (Parquet)",
    "groups.parquet": "the true groups of the training set, for this page; no method reads it (Parquet)",
    "predictions.parquet": "the models' predictions on the evaluation set (Parquet)",
    "result.json": "every number of the run (JSON)",
    "marks.parquet": "samples that were marked in tcsl explore: index, id, label, note, time (Parquet)",
    "checkpoints/": "the trained nets and their tables (safetensors)",
}
CITATION = (
    "Arda Fazla and Abolfazl Hashemi. Mitigating Spurious Correlations with Memorization-Guided Dataset De-Biasing. "
    "School of Electrical and Computer Engineering, Purdue University."
)


def how(material: Material) -> dict[str, Any]:
    """Return what the run was and how to repeat it, in plain values."""
    settings = flat(material.settings)
    environment = material.environment
    return {
        "settings": [(name, _said(value), describe(name)) for name, value in settings.items()],
        "data": [(name, _said(value)) for name, value in _data(material).items()],
        "environment": [
            *[(name, _said(value)) for name, value in environment.items() if name not in ("packages", "command")],
            *[(name, _said(version)) for name, version in environment["packages"].items()],
        ],
        "stages": stages(material.metrics),
        "command": environment["command"],
        "again": _again(material),
        "files": _files(material),
        "citation": CITATION,
    }


def _files(material: Material) -> list[tuple[str, str]]:
    """Return what lies in the run folder, and what it is."""
    known = [(name, what) for name, what in FILES.items() if (material.path / name).exists()]
    others = sorted(place.name for place in material.path.glob("coreset-*.parquet"))
    return known + [(name, "what another method keeps, as coreset.parquet (Parquet)") for name in others]


def stages(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return epochs, seconds and, where it was recorded, the highest memory of each stage.

    >>> stages([{"stage": "core", "epoch": 1, "seconds": 2.0}, {"stage": "core", "epoch": 2, "seconds": 1.0}])
    [{'stage': 'core', 'epochs': 2, 'seconds': 3.0, 'memory': None}]
    """
    out: dict[str, dict[str, Any]] = {}
    for line in metrics:
        row = out.setdefault(line["stage"], {"stage": line["stage"], "epochs": 0, "seconds": 0.0, "memory": None})
        row["epochs"] += 1
        row["seconds"] += line["seconds"]
        if line.get("memory") is not None:
            row["memory"] = max(row["memory"] or 0, line["memory"])
    return list(out.values())


def _data(material: Material) -> dict[str, Any]:
    data = material.data
    shown = {
        "name": data["name"],
        "training samples": f"{data['n']:,}",
        "fingerprint (SHA-256)": data["fingerprint"],
        "fingerprint of the evaluation set": data.get("test"),
        "shape of a sample": " x ".join(map(str, data["input_shape"])),
        "classes": f"{len(data['class_names']):,}",
    }
    return {name: value for name, value in {**shown, **data.get("read", {})}.items() if value not in (None, {}, [])}


def _again(material: Material) -> str | None:
    """Return a command that runs the same settings in a new folder; None where the data came from Python."""
    import shlex

    name = material.settings.data.name
    return shlex.join(["tcsl", "run", name, "--config", "config.toml", "--out", "again"]) if name else None


def _said(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)
