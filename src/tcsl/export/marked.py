"""What a run found out about each sample, beside the sample as its source has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tcsl.config import Settings
from tcsl.data.check import manifest_of
from tcsl.data.columns import parse_columns
from tcsl.data.manifest import Manifest, check_rows
from tcsl.errors import InputError
from tcsl.registry import DATASETS, unknown
from tcsl.runs import RunFolder
from tcsl.scores import Coreset, Scores
from tcsl.selection.classes import names_of
from tcsl.types import IntArray, Progress

if TYPE_CHECKING:
    import polars as pl

Only = Literal["coreset", "all"]


@dataclass(frozen=True, eq=False)
class Marked:
    """Samples with a run's marks, in their source's order.

    Attributes
    ----------
    table : one row a sample: id, label (the class's name), tcsl_s, tcsl_c and g_high where there are scores, chosen;
        where somebody marked samples in `tcsl explore`, also marked and note
    fingerprint : of the training set that they come from
    listed : the same samples as their reader lists them; None where the data came from Python
    """

    table: pl.DataFrame
    fingerprint: str
    listed: Manifest | None = None

    def __len__(self) -> int:
        """Return how many samples there are."""
        return len(self.table)

    @property
    def source(self) -> Manifest:
        """The samples as their reader lists them; raises where there are none to go back to."""
        if self.listed is None:
            raise _only_in_python()
        return self.listed


def open_marked(
    run: Path | str,
    *,
    method: str = "tcsl_cs",
    coreset: Coreset | None = None,
    only: Only = "all",
    progress: Progress | None = None,
) -> Marked:
    """Return a run's samples with its marks; data that have changed since the run are refused.

    Parameters
    ----------
    method : whose coreset is marked as chosen
    coreset : another one, of the same data
    only : "all", every training sample, which needs scores; or "coreset", those that are chosen
    progress : called while images are decoded, where that has not been kept

    >>> import tempfile, tcsl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings = {"train.epochs": 5, "data.options.per_class": 20}
    ...     run = tcsl.debias("digits", 0.1, settings=settings, methods=["tcsl_cs"], out=f"{folder}/run")
    ...     samples = open_marked(run.path)
    >>> len(samples), int(samples.table["chosen"].sum()), samples.source.inputs.shape
    (200, 20, (200, 3, 8, 8))
    """
    from tcsl.report.marks import marks_path, read_marks
    from tcsl.running import load_training_set

    folder = RunFolder.find(Path(run))
    settings, data = folder.settings(), folder.data()
    kept = stored_coreset(folder, method) if coreset is None else coreset
    scores = stored_scores(folder) if only == "all" or folder.scores_path().is_file() else None
    table = marks(kept, scores, class_names=data["class_names"], only=only)
    if scores is not None and marks_path(folder.path).is_file():
        table = _with_notes(table, read_marks(folder.path, scores))
    if not settings.data.name:
        return Marked(table, data["fingerprint"])
    samples = mark(table, settings, fingerprint=data["fingerprint"])
    load_training_set(folder, settings, progress)  # refuses data that have changed
    return samples


def _with_notes(table: pl.DataFrame, notes: pl.DataFrame) -> pl.DataFrame:
    """Return the table with what somebody marked."""
    import polars as pl

    said = notes.select("id", "note", marked=pl.lit(True))
    found = table.join(said, on="id", how="left", maintain_order="left")
    return found.with_columns(pl.col("marked").fill_null(False), pl.col("note").fill_null(""))


def stored_coreset(folder: RunFolder, method: str) -> Coreset:
    """Return what a method of a run keeps."""
    path = folder.coreset_path(method)
    folder.check_left(path)
    if not path.is_file():
        there = [name for name in folder.settings().methods if folder.coreset_path(name).is_file()]
        others = f"; it has those of {', '.join(there)} (--method)" if there else ""
        why = _not_yet(folder) or others or "; make one with tcsl select, for --coreset"
        raise InputError(f"{folder.path} has no coreset of {method}{why}")
    return Coreset.load(path)


def stored_scores(folder: RunFolder) -> Scores:
    """Return a run's scores."""
    path = folder.scores_path()
    folder.check_left(path)
    if not path.is_file():
        why = _not_yet(folder) or ": no method that scores was run"
        raise InputError(f"{folder.path} has no scores{why}")
    return Scores.load(path)


def _not_yet(folder: RunFolder) -> str:
    unfinished = not folder.done and folder.settings().methods
    return " yet: it is not finished, go on with the same command and --resume" if unfinished else ""


def marks(coreset: Coreset, scores: Scores | None, *, class_names: Sequence[str], only: Only = "all") -> pl.DataFrame:
    """Return the table of `Marked`, in the order of the scores, else of the coreset.

    >>> from tcsl.selection.coreset import scores_of
    >>> scores = scores_of(np.ones((3, 2)), np.ones(3), np.array([0, 1, 0]))
    >>> kept = Coreset(np.array([1]), np.array([1]), np.array([1]), np.array([True]))
    >>> marks(kept, scores, class_names=["cat", "dog"])["id", "label", "chosen"].rows()
    [(0, 'cat', False), (1, 'dog', True), (2, 'cat', False)]
    """
    import polars as pl

    if only not in get_args(Only):
        raise unknown("only", str(only), get_args(Only))
    if scores is None and only == "all":
        raise InputError("every sample is marked by its scores, and there are none: take only the coreset")
    table = coreset.frame().select("id", "label") if scores is None else scores.frame().drop("curve")
    table = table.with_columns(pl.Series("label", names_of(table["label"].to_numpy(), class_names), pl.String))
    label_of = dict(zip(table["id"].to_list(), table["label"].to_list(), strict=True))
    kept = dict(zip(coreset.ids.tolist(), names_of(coreset.labels, class_names), strict=True))
    lost = sum(label_of.get(name) != label for name, label in kept.items())
    if lost:
        raise InputError(
            f"{lost:,} of the coreset's {len(coreset):,} ids are not among the run's scores, or not with the label "
            "that they have there: it was chosen from other data"
        )
    table = table.with_columns(pl.Series("chosen", [name in kept for name in label_of], pl.Boolean))
    return table.filter("chosen") if only == "coreset" else table


def mark(table: pl.DataFrame, settings: Settings, *, fingerprint: str = "") -> Marked:
    """Go from a table of marks back to the samples in their source."""
    ids = table["id"].to_list()
    manifest, kept = find(ids, table["label"].to_list(), settings, whose="run")
    row_of = {name: row for row, name in enumerate(ids)}
    part = manifest.take(kept)
    return Marked(table[[row_of[name] for name in part.ids.tolist()]], fingerprint, part)


def find(ids: Sequence[Any], labels: Sequence[str], settings: Settings, *, whose: str) -> tuple[Manifest, IntArray]:
    """Return the source's manifest, and the positions of samples with these ids and class names in its order.

    Parameters
    ----------
    whose : what messages call the samples' owner
    """
    from tcsl.data.read import read

    data = settings.data
    if not data.name:
        raise _only_in_python()
    if data.name in DATASETS and DATASETS.get(data.name).read is None:
        from tcsl.running import load_dataset

        manifest = manifest_of({"train": load_dataset(settings, only_train=True).train}, data.name)
    else:
        columns = parse_columns(data.columns)
        manifest = read(data.name, root=data.root, columns=columns, on_bad="skip", options=data.options)
    manifest = check_rows(manifest, "skip")
    label_of = dict(zip(ids, labels, strict=True))
    kept = np.array([i for i, name in enumerate(manifest.ids.tolist()) if name in label_of], np.int64)
    names, codes = manifest.labels.names, manifest.labels.codes[kept].tolist()
    found = zip(manifest.ids[kept].tolist(), codes, strict=True)
    lost = len(ids) - sum(label_of[name] == names[code] for name, code in found)
    if lost:
        raise InputError(
            f"{lost:,} of the {whose}'s {len(ids):,} ids are not in {manifest.name}, or not with the label that they "
            "had: it has changed since the run"
        )
    return manifest, kept


def _only_in_python() -> InputError:
    return InputError("the run was made from Python on data that only the caller has; use run.coreset there")
