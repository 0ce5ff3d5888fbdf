"""A method's own options: what its paper trains with, where that differs from the run's settings, and what it adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import Field

from tcsl.config import Scalar, Section, Settings, TrainSettings, validated
from tcsl.registry import unknown


class Options(Section):
    """What every method may train with in place of the run's `train` settings; None: as those say."""

    epochs: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=1)
    lr: float | None = Field(None, gt=0)
    weight_decay: float | None = Field(None, ge=0)
    momentum: float | None = Field(None, ge=0, lt=1)

    def training(self, settings: TrainSettings) -> TrainSettings:
        """Return the run's training settings with what is given here in their place."""
        named = {name: value for name in Options.model_fields if (value := getattr(self, name)) is not None}
        return settings.model_copy(update=named)


class Preset(NamedTuple):
    """Options of a method that are published for a dataset, and where."""

    options: Mapping[str, Scalar]
    source: str


URBANCARS = "the code of the dataset's paper, Li et al. 2023"  # the source of several presets

Some = TypeVar("Some", bound=Section)


def options_of(settings: Settings, name: str, kind: type[Some]) -> Some:
    """Return a method's options: its own values, and what `method.NAME.OPTION` gives.

    >>> from tcsl.config import resolve
    >>> options_of(resolve(overrides={"method.jtt.lr": 0.5}), "jtt", Options).training(resolve().train).lr
    0.5
    """
    given: dict[str, Any] = settings.method.get(name, {})
    for option in given:
        if option not in kind.model_fields:
            raise unknown(f"option of {name}", option, kind.model_fields)
    return validated(kind, given, f"method.{name}.")
