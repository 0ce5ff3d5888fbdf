"""Settings: frozen, validated, and every one of them written into the run.

They are put together in this order, later wins: the fields' own values, the profile, the dataset's preset, what is
published of the methods for the dataset (`Method.presets`), a TOML file, single overrides such as `train.epochs=20`,
what a command or a function names itself.
"""

from __future__ import annotations

import copy
import json
import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tcsl.augmentations import check_augment
from tcsl.errors import InputError
from tcsl.registry import DATASETS, METHODS, unknown
from tcsl.selection.quota import Ratio, check_ratio

Profile = Literal["default", "fast", "paper"]
ModelSelection = Literal["last", "average", "worst_class", "worst_group", "balanced_by_bias"]
UNJUDGED = ("last", "average")  # which need no validation set
Scalar = bool | int | float | str


class Section(BaseModel):
    """Some settings: frozen, and no others than these."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Some = TypeVar("Some", bound=Section)


def validated(kind: type[Some], given: Mapping[str, Any], where: str) -> Some:
    """Return a section with these values; `where` is what a message puts before the name of one that does not fit."""
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InputError(f"{where}{name} = {first['input']!r}: {first['msg'].lower()}") from None


class DataSettings(Section):
    """Which dataset, and how it is made."""

    name: str = Field("", description="a known dataset, a path, or hf:NAME; empty where the data came from Python")
    root: str = Field("", description="where a known dataset's files are, or what a table's paths are relative to")
    columns: str = Field("", description="of a table or arrays, such as label=y,group=place, where names are unusual")
    transform: str = Field("auto", description="of images: auto, none, or steps: resize:256,short:256,crop:224")
    on_bad: Literal["error", "skip"] = Field("error", description="what is done about samples that cannot be used")
    val_fraction: float = Field(0.1, ge=0, lt=1, description="of each class, where the data has no validation split")
    val_seed: int = Field(0, ge=0, description="which samples those are")
    options: dict[str, Scalar] = Field({}, description="what the dataset's loader takes, such as alpha")

    @field_validator("root")
    @classmethod
    def _absolute(cls, root: str) -> str:
        """Keep the folder's full path, so that a run finds it again from another place."""
        return os.path.abspath(os.path.expanduser(root)) if root else root


class TrainSettings(Section):
    """The one training loop; the same for the biased, the core and every final model (appendix F)."""

    net: str = Field(
        "auto",
        description="small_cnn, mlp, linear, torchvision:NAME, timm:NAME; auto: small_cnn for images, mlp for rows",
    )
    pretrained: bool = Field(False, description="start a torchvision or timm net from its published weights")
    weights: str = Field("", description="start from this file (.safetensors or .pth) instead; the head may differ")
    epochs: int = Field(50, ge=1, description="T, passes over the whole training set")
    batch_size: int = Field(32, ge=1)
    lr: float = Field(0.01, gt=0, description="learning rate of SGD, constant")
    weight_decay: float = Field(1e-3, ge=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    augment: str = Field(
        "none", description="on the device, seeded: none, or crop, resized_crop, flip, jitter joined with +"
    )
    model_selection: ModelSelection = Field(
        "last",
        description="which epoch of a final model is evaluated: last; average, the mean of the last fifth's weights; "
        "or the best on validation data by worst_class, worst_group, or, without groups, balanced_by_bias",
    )
    views_every: int = Field(0, ge=0, description="record mean logits of the data's views every k epochs; 0: never")

    def steps_an_epoch(self, n: int) -> int:
        """Return ceil(n / batch).

        >>> TrainSettings(batch_size=4).steps_an_epoch(9)
        3
        """
        return -(-n // self.batch_size)

    @field_validator("augment")
    @classmethod
    def _known_augmentations(cls, name: str) -> str:
        return check_augment(name)


class ScoreSettings(Section):
    """Algorithm 1."""

    biased_epochs: int | None = Field(None, ge=1, description="T_s; by default it follows from T and least_steps")
    core_epochs: int | None = Field(None, ge=1, description="T_c; the same")
    biased_share: float = Field(0.03, gt=0, description="T_s / T, where T_s follows from T")
    core_share: float = Field(1.0, gt=0, description="T_c / T, where T_c follows from T")
    least_epochs: int = Field(5, ge=1, description="of T_s and T_c, where they follow from T; never above T")
    least_steps: int = Field(225, ge=1, description="of stage 1, where T_s follows from T; never above T epochs")
    weight_update: Literal["class", "literal", "none"] = Field(
        "class",
        description="literal: exp(-loss/median), as printed; class: the same within each class; none: as they were",
    )
    correction: float = Field(1.0, ge=0, description="what log f_s is multiplied by in stage 2; 1 as printed")
    record: Literal["training", "evaluation"] = Field(
        "training",
        description="losses from the training step itself, or from a clean pass after each epoch",
    )


class SelectSettings(Section):
    """Algorithm 2."""

    ratio: Ratio = Field(
        0.1, description="r, the part of the data that is kept: floor(r n) samples; auto: three times G_high"
    )
    losses: Literal["bounded", "raw"] = Field(
        "bounded",
        description="what wKMeans clusters: 1 - exp(-loss), or the loss itself as printed",
    )
    restarts: int = Field(10, ge=1, description="random starts of wKMeans; the tightest clustering is kept")
    max_iterations: int = Field(200, ge=1, description="of wKMeans, for each start")
    tau: float = Field(0.4, ge=0, description="r >= tau: the lowest TCSL_c (SelectBot); below: over bins (SelectHist)")
    bins: int = Field(50, ge=1, description="B, bins of SelectHist")
    fill: Literal["equal", "class", "global"] = Field(
        "equal",
        description="which places classes have: as many each, by their shares in the data, or in common as printed",
    )
    high_share: float = Field(
        0.5, gt=0, le=1, description="the part of a class's places that G_high takes at most; 1 as printed"
    )
    exceeding: Literal["highest", "weighted", "uniform"] = Field(
        "highest",
        description="of a larger G_high: the highest TCSL_s, a sample drawn by TCSL_s, or a uniform one as printed",
    )


class DeviceSettings(Section):
    """Where and how the arithmetic is done."""

    device: str = Field("auto", description="auto (cuda, else mps, else cpu), or a torch device such as cuda:1")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 with float32 losses on CUDA, float32 elsewhere"
    )
    feed: Literal["auto", "resident", "stream"] = Field(
        "auto", description="inputs lie on the device or are streamed; auto: resident where half its memory holds them"
    )
    engine: Literal["auto", "plain", "captured", "compiled"] = Field(
        "auto",
        description="how CUDA runs steps: one by one, as a graph, or compiled, too; auto: compiled where it pays",
    )
    threads: int = Field(0, ge=0, description="CPU threads of torch; 0: torch's own choice")


PROFILES: dict[str, dict[str, Any]] = {
    "default": {},
    "fast": {"score": {"core_share": 0.06}},
    "paper": {
        "score": {
            "biased_share": 0.1,
            "least_epochs": 1,
            "least_steps": 1,
            "weight_update": "literal",
            "record": "evaluation",
        },
        "select": {"losses": "raw", "restarts": 1, "fill": "global", "high_share": 1.0, "exceeding": "uniform"},
    },
}


class Settings(Section):
    """All settings of a run. `tcsl config show` prints them with their meaning."""

    profile: Profile = Field(
        "default",
        description="default: what measured best; fast: with 6 % of the epochs in stage 2; paper: literal",
    )
    seed: int = Field(0, ge=0, description="of the data's draw, the nets' weights, the order, the selection")
    methods: tuple[str, ...] = Field(("cb_erm", "tcsl_cs"), description="what is trained side by side")
    method_presets: bool = Field(
        True, description="methods have the options published for the dataset; false: all train as [train] says"
    )
    data: DataSettings = DataSettings()
    train: TrainSettings = TrainSettings()
    score: ScoreSettings = ScoreSettings()
    select: SelectSettings = SelectSettings()
    device: DeviceSettings = DeviceSettings()
    method: dict[str, dict[str, Scalar]] = Field({}, description="a method's own options, such as method.jtt.epochs")

    @field_validator("methods", mode="before")
    @classmethod
    def _several(cls, names: Any) -> Any:
        """Refuse one name, of which each letter would be a method."""
        if isinstance(names, str):
            raise ValueError('give a list of names, such as ["cb_erm", "tcsl_cs"]')
        return names

    @model_validator(mode="before")
    @classmethod
    def _profile_first(cls, given: Any) -> Any:
        """Put what is given on top of what the profile sets."""
        if not isinstance(given, dict):
            return given
        tree: dict[str, Any] = {}
        _merge(tree, PROFILES.get(str(given.get("profile", "default")), {}))
        _merge(tree, given)
        return tree

    @property
    def biased_epochs(self) -> int:
        """T_s as it follows from T."""
        return self.score.biased_epochs or self._following(self.score.biased_share)

    def biased_epochs_on(self, n: int) -> int:
        """T_s on n training samples: what follows from T, and no fewer than `score.least_steps` need.

        >>> settings = resolve(overrides={"train.epochs": 40, "train.batch_size": 32})
        >>> settings.biased_epochs, settings.biased_epochs_on(1200), settings.biased_epochs_on(780)
        (5, 6, 9)
        """
        if self.score.biased_epochs:
            return self.score.biased_epochs
        needed = math.ceil(self.score.least_steps / self.train.steps_an_epoch(n))
        return max(self.biased_epochs, min(needed, self.train.epochs))

    @property
    def core_epochs(self) -> int:
        """T_c, resolved."""
        return self.score.core_epochs or self._following(self.score.core_share)

    def _following(self, share: float) -> int:
        """Return a number of epochs that follows from T."""
        epochs = int(self.train.epochs * share + 1e-9)  # 0.03 * 300 is a little below 9
        return max(epochs, min(self.score.least_epochs, self.train.epochs))


def _paper(net: str, **train: Any) -> dict[str, Any]:
    """Return a preset of appendix F; all nets start from ImageNet-1K weights."""
    return {
        "methods": ["cb_erm", "rgbal", "tcsl_cs"],
        "train": {"net": f"torchvision:{net}", "pretrained": True, "momentum": 0.9, **train},
    }


PRESETS: dict[str, dict[str, Any]] = {
    "digits": {
        "methods": ["cb_erm", "rgbal", "tcsl_cs"],
        "data": {"options": {"alpha": 0.95, "per_class": 120, "val_per_class": 30}},
        "train": {"net": "small_cnn", "epochs": 40, "batch_size": 32, "lr": 0.01, "weight_decay": 5e-3},
        "select": {"ratio": 0.2},
        "device": {"threads": 1},
    },
    # The hyperparameters of appendix F. tau = 0.4 and B = 50 are the fields' own values, T_s = T / 10 profile paper's.
    "waterbirds": _paper("resnet50", lr=1e-4, weight_decay=1e-1, batch_size=128, epochs=300),
    # Digits are too simple for TCSL_c to form a diverse distribution (appendix F): always the lowest.
    "cmnist": _paper("resnet18", lr=1e-3, weight_decay=1e-3, batch_size=32, epochs=50) | {"select": {"tau": 0.0}},
    "metashift": _paper("resnet50", lr=1e-3, weight_decay=1e-3, batch_size=32, epochs=200),
    "metashift_subpopbench": _paper("resnet50", lr=1e-3, weight_decay=1e-3, batch_size=32, epochs=200),
    "urbancars_b": _paper("resnet50", lr=1e-4, weight_decay=1e-1, batch_size=128, epochs=300),
    "urbancars": _paper("resnet50", lr=1e-4, weight_decay=1e-1, batch_size=128, epochs=300),
}


def resolve(
    *,
    profile: str | None = None,
    dataset: str = "",
    base: Mapping[str, Any] | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Put the settings together: `base`, then the file, then `overrides`, all but the file with dotted names.

    A profile or a dataset named here beats theirs.

    >>> resolve(profile="paper", dataset="digits", overrides={"train.epochs": 20}).biased_epochs
    2
    """
    layers = [_nested(base or {}), *([_read_toml(file)] if file is not None else []), _nested(overrides or {})]
    named: dict[str, Any] = {}
    for layer in layers:
        named["profile"] = layer.get("profile", named.get("profile", "default"))
        data = layer.get("data")
        if isinstance(data, dict) and data.get("name"):
            named["data"] = {"name": data["name"]}
    if profile is not None:
        named["profile"] = profile
    if dataset:
        named["data"] = {"name": dataset}
    if named["profile"] not in PROFILES:
        raise unknown("profile", str(named["profile"]), PROFILES)
    preset = PRESETS.get(named.get("data", {}).get("name", ""), {})
    tree: dict[str, Any] = {}
    for layer in (preset, *layers, named):
        _merge(tree, layer)
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        raise InputError(_explain(error, file)) from None
    check_ratio(settings.select.ratio)
    return _with_method_presets(settings, TrainSettings.model_validate(preset.get("train", {})))


def select_beyond_profile(settings: Settings) -> dict[str, Scalar]:
    """Return what a dataset's preset or the user set of `select` beside the profile and the ratio.

    >>> select_beyond_profile(resolve(profile="paper", dataset="digits", overrides={"select.bins": 10}))
    {'bins': 10}
    """
    usual = Settings(profile=settings.profile).select.model_copy(update={"ratio": settings.select.ratio})
    return {name: value for name, value in settings.select if value != getattr(usual, name)}


def _with_method_presets(settings: Settings, usual: TrainSettings) -> Settings:
    """Put what is published of the methods for this dataset under what the user gave.

    Parameters
    ----------
    usual : the `train` settings without the user's changes, which count more than a method's preset of the same
    """
    if not settings.method_presets or settings.data.name not in DATASETS:
        return settings
    changed = [name for name, value in settings.train if value != getattr(usual, name)]
    method = dict(settings.method)
    for name in settings.methods:
        # Only here are methods imported, and torch with them. An unknown name is refused where methods are run.
        preset = METHODS.get(name).preset(settings.data.name, changed) if name in METHODS else {}
        if preset:
            method[name] = {**preset, **method.get(name, {})}
    return settings.model_copy(update={"method": method})


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with open(file, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise InputError(f"settings file {file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"settings file {file} is not valid TOML: {error}") from None


def parse_override(text: str) -> tuple[str, Any]:
    """Read `train.epochs=20` as a name and a value; the value is TOML, or else plain text.

    >>> parse_override("train.augment=flip"), parse_override("select.ratio=0.3")
    (('train.augment', 'flip'), ('select.ratio', 0.3))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"an override looks like train.epochs=20, got {text!r}")
    try:
        return name.strip(), tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def _nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in dotted.items():
        *sections, last = name.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
            if not isinstance(node, dict):
                raise InputError(f"setting {name!r}: {section!r} is a value, not a section")
        node[last] = value
    return tree


def _merge(into: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)  # a preset must not change with what is merged into its copy


def flat(settings: Settings) -> dict[str, Any]:
    """Return the settings as dotted names and values; T_s and T_c only where they were set."""
    return {name: value for name, value in flatten(settings.model_dump(mode="json")).items() if value is not None}


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a tree of sections as dotted names and values.

    >>> flatten({"train": {"lr": 0.1}})
    {'train.lr': 0.1}
    """
    out: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            out |= flatten(value, f"{prefix}{key}.")
        else:
            out[prefix + key] = value
    return out


def from_flat(values: Mapping[str, Any]) -> Settings:
    """Return settings from dotted names and values: the inverse of `flat`."""
    try:
        return Settings.model_validate(_nested(values))
    except ValidationError as error:
        raise InputError(_explain(error, None)) from None


def describe(name: str) -> str:
    """Return what the setting with this dotted name means, or an empty text."""
    model: type[BaseModel] = Settings
    for part in name.split("."):
        field = model.model_fields.get(part)
        if field is None:
            return ""
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            model = annotation
        else:
            return field.description or ""
    return ""


def to_toml(settings: Settings, *, n: int | None = None) -> str:
    """Return the settings as TOML with one comment a setting; what `config.toml` in a run on n training samples holds.

    T_s and T_c that follow from T are shown in comments, so that the file with another T still follows it.
    """
    lines: list[str] = []
    section = told = None
    if n is not None:
        biased_epochs = f"{settings.biased_epochs_on(n)}"
    else:
        biased_epochs = f"{settings.biased_epochs}" + ", or more for least_steps" * (settings.score.least_steps > 1)
    derived = {"score.biased_epochs": biased_epochs, "score.core_epochs": settings.core_epochs}
    for name, value in flatten(settings.model_dump(mode="json")).items():
        *head, last = name.split(".")
        if head != section and head:
            lines += ["", f"[{'.'.join(head)}]"]
            told = None
        section = head
        # JSON's numbers, strings, booleans and lists of strings are TOML's, too.
        entry = f"{last} = {json.dumps(value)}" if value is not None else f"# {last} = {derived[name]}"
        comment = describe(name)
        # Options that a method or a dataset's loader takes share one meaning, told once.
        lines.append(f"{entry:<28} # {comment}" if comment and comment != told else entry)
        told = comment
    return "\n".join(lines) + "\n"


def _explain(error: ValidationError, file: Path | None) -> str:
    where = f" (in {file} or an override)" if file else ""
    lines = []
    for item in error.errors():
        # Of an option that may be of several types, one complaint: a number that is none is what gets here.
        if item["loc"][-1] in ("bool", "int", "str", "literal['auto']"):
            continue
        name = ".".join(map(str, item["loc"])).removesuffix(".float")
        if item["type"] == "extra_forbidden":
            lines.append(str(unknown("setting", name, flat(Settings()))) + where)
        else:
            # Our own errors say what to do already; pydantic would put "Value error, " before them.
            why = str(item["ctx"]["error"]) if item["type"] == "value_error" else item["msg"].lower()
            if item["type"] in ("model_type", "dict_type"):
                why = "it is a section, of which one setting is given at a time; tcsl config show lists them"
            lines.append(f"setting {name} = {item['input']!r}: {why}{where}")
    return "\n".join(lines)
