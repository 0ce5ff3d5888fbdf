"""What can be named: datasets, nets, methods and loggers, each one line here.

An entry is the place where the object lives, `module:attribute`, so that listing names imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from tcsl.errors import InputError

_SHOWN = 12


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Return the error for a name that does not exist, with near matches, and all names where they are few.

    >>> print(unknown("net", "small_cn", ["small_cnn", "mlp"]))
    unknown net 'small_cn'; did you mean 'small_cnn'? Known: mlp, small_cnn
    """
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    more = ", ..." if len(names) > _SHOWN else ""
    listing = "" if near and more else f" Known: {', '.join(names[:_SHOWN])}{more}"
    return InputError(f"unknown {kind} {name!r}{hint}{listing}")


class Registry:
    """Names of one kind of thing, each with the place it is imported from when asked for."""

    def __init__(self, kind: str, places: dict[str, str]) -> None:
        self.kind = kind
        self._places: dict[str, Any] = dict(places)

    def __contains__(self, name: object) -> bool:
        """Tell whether the name is known."""
        return name in self._places

    def names(self) -> list[str]:
        """Return the known names, in the order in which they were added."""
        return list(self._places)

    def add(self, name: str, entry: Any) -> None:
        """Add an object, or a `module:attribute` place, under a new name."""
        if name in self._places:
            raise InputError(f"{self.kind} {name!r} is registered already: choose another name")
        self._places[name] = entry

    def get(self, name: str) -> Any:
        """Return the object with this name; an unknown name is an error that suggests near matches."""
        if name not in self._places:
            raise unknown(self.kind, name, self._places)
        entry = self._places[name]
        if isinstance(entry, str):
            module, attribute = entry.split(":")
            entry = self._places[name] = getattr(import_module(module), attribute)
        return entry


DATASETS = Registry(
    "dataset",
    {
        "digits": "tcsl.data.digits:DATASET",
        "waterbirds": "tcsl.data.waterbirds:DATASET",
        "cmnist": "tcsl.data.cmnist:DATASET",
        "metashift": "tcsl.data.metashift:DATASET",
        "metashift_subpopbench": "tcsl.data.metashift:DATASET_SUBPOPBENCH",
        "urbancars_b": "tcsl.data.urbancars:DATASET_B",
        "urbancars": "tcsl.data.urbancars:DATASET",
    },
)

NETS = Registry(
    "net",
    {
        "small_cnn": "tcsl.training.nets:small_cnn",
        "mlp": "tcsl.training.nets:mlp",
        "linear": "tcsl.training.nets:linear",
        "resnet50_v1": "tcsl.training.nets:resnet50_v1",
    },
)

METHODS = Registry(
    "method",
    {
        "cb_erm": "tcsl.methods.cb_erm:METHOD",
        "random": "tcsl.methods.uniform:METHOD",
        "rgbal": "tcsl.methods.rgbal:METHOD",
        "gb_erm": "tcsl.methods.gb_erm:METHOD",
        "groupdro": "tcsl.methods.groupdro:METHOD",
        "jtt": "tcsl.methods.jtt:METHOD",
        "lff": "tcsl.methods.lff:METHOD",
        "cnc": "tcsl.methods.cnc:METHOD",
        "ula": "tcsl.methods.ula:METHOD",
        "eiil": "tcsl.methods.eiil:METHOD",
        "george": "tcsl.methods.george:METHOD",
        "lc": "tcsl.methods.lc:METHOD",
        "dfr": "tcsl.methods.dfr:METHOD",
        "tcsl_cs": "tcsl.methods.tcsl_cs:METHOD",
        "tcsl_cs_groups": "tcsl.methods.tcsl_cs:WITH_GROUPS",
        "tcsl_cs_gce": "tcsl.methods.tcsl_cs_gce:METHOD",
        "el2n_bot": "tcsl.methods.coresets:EL2N_BOT",
        "el2n_top": "tcsl.methods.coresets:EL2N_TOP",
        "el2n_hist": "tcsl.methods.coresets:EL2N_HIST",
        "selfsup_bot": "tcsl.methods.coresets:SELFSUP_BOT",
        "selfsup_top": "tcsl.methods.coresets:SELFSUP_TOP",
        "selfsup_hist": "tcsl.methods.coresets:SELFSUP_HIST",
        "d2_el2n": "tcsl.methods.coresets:D2_EL2N",
        "d2_selfsup": "tcsl.methods.coresets:D2_SELFSUP",
        "d2_el2n_clip": "tcsl.methods.coresets:D2_EL2N_CLIP",
        "d2_selfsup_clip": "tcsl.methods.coresets:D2_SELFSUP_CLIP",
        "ccs": "tcsl.methods.coresets:CCS",
        "coreset": "tcsl.methods.coresets:ANY",
    },
)

LOGGERS = Registry(
    "logger",
    {
        "tensorboard": "tcsl.loggers.tensorboard:KIND",
        "wandb": "tcsl.loggers.wandb:KIND",
        "mlflow": "tcsl.loggers.mlflow:KIND",
    },
)
