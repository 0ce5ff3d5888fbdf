"""The cells of benchmarks/reproduce.py: methods, settings, and the records that they have already."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from frozen import name_of

from tcsl.config import resolve
from tcsl.selection.quota import Ratio, said

VARIANTS = {  # of TCSL-CS: the profile that scores, and what is changed in the selection
    "tcsl_cs": ("default", {}),
    "tcsl_cs_paper": ("paper", {}),
    "tcsl_cs_fast": ("fast", {}),
    "tcsl_cs_all": ("default", {"select.high_share": 1.0}),
    "tcsl_cs_bot": ("default", {"select.tau": 0.0}),  # cMNIST's preset has it
    "tcsl_cs_hist": ("default", {"select.tau": 1.0}),
    "tcsl_cs_shares": ("default", {"select.fill": "class"}),
    "tcsl_cs_shares_all": ("default", {"select.fill": "class", "select.high_share": 1.0}),
    "tcsl_cs_global": ("default", {"select.fill": "global"}),
    "tcsl_cs_true": ("default", {}),
}
WITHOUT_RATIO = ("core", "cb_erm", "gb_erm")
METHODS = (*WITHOUT_RATIO, "rgbal", "random", *VARIANTS)
USUAL = ("core", "cb_erm", "tcsl_cs", "rgbal", "random", "tcsl_cs_paper")


class Cell(NamedTuple):
    """A method, a seed, and what is kept; of one training two epochs may be evaluated, each with a record."""

    method: str
    seed: int
    ratio: Ratio | None = None
    model: str = "last"


def settings_of(options, scores, seed, ratio, schedule=True, changed=None, model="last"):
    overrides = {
        **(changed or {}),
        "seed": seed,
        "select.ratio": ratio,
        "train.augment": options.augment,
        "train.model_selection": model,
        "device.engine": options.engine,
        "device.precision": options.precision,
    }
    if options.lr is not None:
        overrides["train.lr"] = options.lr
    if options.weight_decay is not None:
        overrides["train.weight_decay"] = options.weight_decay
    if options.frozen:
        overrides |= {"train.net": "linear", "train.pretrained": False}
    else:
        overrides |= {"train.pretrained": not options.weights, "train.weights": options.weights}
        overrides |= {"train.net": options.net} if options.net else {}
    if options.epochs and schedule:
        overrides["train.epochs"] = options.epochs
    return resolve(profile=scores, dataset=options.dataset, overrides=overrides)


def weights_of(path):
    """Return the name of the initial weights, and where they are a file its digest: a name may be of several files."""
    return (Path(path).name, _digest(path)) if path else ("torchvision, ImageNet-1K", None)


@cache
def _digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Records:
    """Where the records of a campaign are, and which are missing; `n` is the size of the training set."""

    def __init__(self, options, n):
        self.options, self.n = options, n
        self.folder = Path(options.records)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.dataset = options.dataset  # what is not the paper's has names, and tables, of its own
        self.dataset += f"_{name_of(options.net)}" if options.frozen else ""
        self.dataset += "" if options.lr is None else f"_lr{options.lr:g}"
        self.dataset += "" if options.weight_decay is None else f"_wd{options.weight_decay:g}"
        self.weights = weights_of(options.weights)
        # The scores may come from the full schedule where only the final training is shortened.
        self.scored_with = self.scoring("default").train.epochs
        self.models = ("average", "last") if options.model == "both" else (options.model,)

    def scoring(self, name, seed=0):
        """Return the settings of scores."""
        return settings_of(self.options, name, seed, 0.1, schedule=not self.options.full_scores)

    def scored_by(self, name):
        """Return what is said of scores in the records that use them."""
        settings = self.scoring(name)
        return {"name": name, "T_s": settings.biased_epochs_on(self.n), "T_c": settings.core_epochs}

    def of_scores(self, name, seed):
        """Return the file of scores, and the record of the f_c that comes with them."""
        schedule = f"{self.dataset}-T{self.scored_with}-{self.options.augment}"
        return (
            self.folder / f"{schedule}-scores-{name}-s{seed}.npz",
            self.folder / f"{schedule}-core-{name}-s{seed}.json",
        )

    def of(self, cell):
        """Return the name of the scores that a method uses, or None, its settings, and its record's file."""
        scored, changed = VARIANTS.get(cell.method, (None, {}))
        settings = settings_of(
            self.options, scored or "default", cell.seed, cell.ratio or 0.1, changed=changed, model=cell.model
        )
        schedule = f"{self.dataset}-T{settings.train.epochs}-{self.options.augment}"
        schedule += "-average" * (cell.model == "average")
        schedule += "-float32" * (self.options.precision == "float32")
        kept = "" if cell.ratio is None else f"-r{said(cell.ratio)}"
        return scored, settings, self.folder / f"{schedule}-{cell.method}{kept}-s{cell.seed}.json"

    def named(self, cell):
        """Return the name of a cell's record, of the first where it has several."""
        if cell.method == "core":
            return self.of_scores("default", cell.seed)[1].stem
        return self.of(cell._replace(model=self.models[0]))[2].stem

    def missing(self, cell):
        """Tell whether one of a cell's records is not there yet; one that was made with other settings is an error."""
        if cell.method == "core":
            _, path = self.of_scores("default", cell.seed)
            return self._lacks(path, None, self.scoring("default", cell.seed))
        lacking = [self.lacks(cell._replace(model=model)) for model in self.models]  # of each: other settings are told
        return any(lacking)

    def lacks(self, cell):
        """Tell the same of one record."""
        scored, settings, path = self.of(cell)
        return self._lacks(path, scored, settings)

    def _lacks(self, path, scored, settings):
        if not path.exists():
            return True
        record = json.loads(path.read_text())
        name, digest = self.weights
        pairs = {"weights": (record["weights"], name), "their sha256": (record.get("weights_sha256", digest), digest)}
        for part in ("train", "select") if scored else ("train",):
            now = getattr(settings, part).model_dump()
            pairs |= {f"{part}.{name}": (was, now.get(name, was)) for name, was in record["settings"][part].items()}
        if scored:
            pairs["the scores' T"] = record["scored_with"], self.scored_with
            today = self.scored_by(scored)
            pairs["scores"] = record.get("scores", today), today  # old records do not tell
        if other := [f"{name} {was!r}, not {now!r}" for name, (was, now) in pairs.items() if was != now]:
            raise SystemExit(f"{path.name} was made with {'; '.join(other)}: choose other --records")
        return False
