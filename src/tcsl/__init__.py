"""Find the shortcut in a labelled dataset, and keep the part of it on which plain training is fair to every group.

    import tcsl

    run = tcsl.debias((X, y), ratio=0.1)    # or a torch Dataset of (x, y) pairs
    run.coreset.indices                     # drops into torch.utils.data.Subset

`score`, `select`, `train` and `evaluate` are the parts; `figures` draws a run; `TCSLSampler` is scikit-learn's way in.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcsl.api import csl, debias, evaluate, score, train
    from tcsl.config import Settings
    from tcsl.data.dataset import Dataset, Splits, make_dataset
    from tcsl.data.load import load
    from tcsl.errors import TcslError
    from tcsl.report.drawing import figures
    from tcsl.running import Run, load_run
    from tcsl.sampler import TCSLSampler
    from tcsl.scores import Coreset, Scores
    from tcsl.selection.coreset import select

__version__ = "0.1.0"

# Imported when first used, so that `tcsl --help` does not wait for torch.
_PLACES = {
    "Run": "tcsl.running",
    "csl": "tcsl.api",
    "debias": "tcsl.api",
    "evaluate": "tcsl.api",
    "figures": "tcsl.report.drawing",
    "load_run": "tcsl.running",
    "score": "tcsl.api",
    "select": "tcsl.selection.coreset",
    "train": "tcsl.api",
    "Settings": "tcsl.config",
    "Dataset": "tcsl.data.dataset",
    "Splits": "tcsl.data.dataset",
    "load": "tcsl.data.load",
    "make_dataset": "tcsl.data.dataset",
    "TcslError": "tcsl.errors",
    "TCSLSampler": "tcsl.sampler",
    "Coreset": "tcsl.scores",
    "Scores": "tcsl.scores",
}

__all__ = [
    "Coreset",
    "Dataset",
    "Run",
    "Scores",
    "Settings",
    "Splits",
    "TCSLSampler",
    "TcslError",
    "csl",
    "debias",
    "evaluate",
    "figures",
    "load",
    "load_run",
    "make_dataset",
    "score",
    "select",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'tcsl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
