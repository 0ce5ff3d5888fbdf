"""What a reader found: one row a sample, nothing decoded yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tcsl.data.bad import Bad, OnBad, describe, settle
from tcsl.data.images import Images
from tcsl.errors import InputError
from tcsl.types import AnyArray, BoolArray, IntArray

SPLITS = {
    "train": ("train", "training", "0"),
    "val": ("val", "valid", "validation", "dev", "1"),
    "test": ("test", "testing", "2"),
}
MAX_ID = 1000  # characters
_SPLIT_OF = {word: split for split, words in SPLITS.items() for word in words}


@dataclass(frozen=True, eq=False)
class Column:
    """A column of names: `names[codes[i]]` is the value of row i.

    Attributes
    ----------
    codes : (n,) indices into `names`
    names : each value once, in order
    """

    codes: IntArray
    names: tuple[str, ...]

    def take(self, rows: IntArray) -> Column:
        """Return these rows; the names stay."""
        return Column(self.codes[rows], self.names)

    def compact(self) -> Column:
        """Return the column without names that no row has."""
        used = np.flatnonzero(np.bincount(self.codes, minlength=len(self.names)))
        place = np.zeros(len(self.names), np.int64)
        place[used] = np.arange(len(used))
        return Column(place[self.codes], tuple(self.names[i] for i in used))


@dataclass(frozen=True, eq=False)
class Manifest:
    """Samples as a reader lists them.

    Attributes
    ----------
    name : what messages call the source
    inputs : images that have not been read, or (n, ...) the inputs themselves
    labels : the classes
    ids : (n,) text or integers
    split : the columns `train`, `val` and `test`; None: all are for training
    group : one attribute value a sample, for evaluation only; "" where it is not known
    unit : what each sample shows, where several show the same, such as a patient
    views : other images of the same samples
    rows : (n,) the samples' rows in the source
    where : from a row of the source to what messages call it
    skipped : rows that were left out
    features : the names of the inputs' columns, where they are columns of a table
    """

    name: str
    inputs: Images | AnyArray
    labels: Column
    ids: AnyArray
    rows: IntArray
    where: Callable[[int], str]
    split: Column | None = None
    group: Column | None = None
    unit: Column | None = None
    views: Mapping[str, Images] = field(default_factory=dict)
    skipped: tuple[Bad, ...] = ()
    features: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return n."""
        return len(self.rows)

    def bad(self, i: int, why: str) -> Bad:
        """Return what is wrong with sample i."""
        return Bad(self.where(int(self.rows[i])), why)

    def training(self) -> BoolArray:
        """Return, (n,), whether a sample is for training."""
        every = np.ones(len(self), np.bool_)
        return every if self.split is None else self.part("train")

    def part(self, split: str) -> BoolArray:
        """Return, (n,), whether a sample is of this split."""
        if self.split is None or split not in self.split.names:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self.split.codes == self.split.names.index(split))

    def take(self, rows: IntArray) -> Manifest:
        """Return these samples."""
        return replace(
            self,
            inputs=self.inputs.take(rows) if isinstance(self.inputs, Images) else self.inputs[rows],
            labels=self.labels.take(rows),
            ids=self.ids[rows],
            rows=self.rows[rows],
            split=self.split and self.split.take(rows),
            group=self.group and self.group.take(rows),
            unit=self.unit and self.unit.take(rows),
            views={name: view.take(rows) for name, view in self.views.items()},
        )

    def of_values(self, column: Column, reasons: Mapping[int, str]) -> dict[int, Bad]:
        """Return, by position, the samples whose value in a column is bad; `reasons` has why, by code."""
        odd = np.flatnonzero(np.isin(column.codes, list(reasons)))
        return {int(i): self.bad(int(i), reasons[column.codes[i]]) for i in odd}

    def without(self, bad: Mapping[int, Bad], on_bad: OnBad) -> Manifest:
        """Return the samples that are not bad; raises unless they are to be skipped."""
        if not bad:
            return self
        found = [bad[i] for i in sorted(bad)]
        settle(self.name, found, on_bad)
        if len(bad) == len(self):
            raise InputError(f"{self.name}: no sample is left: {describe([*self.skipped, *found])}")
        kept = np.delete(np.arange(len(self)), sorted(bad))
        return replace(self.take(kept), skipped=(*self.skipped, *found))


def join_names(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return pairs, triples, ... of names as one; "" where any of them is blank.

    >>> join_names([["red", "red"], ["day", " "]])
    ['red, day', '']
    """
    rows = zip(*columns, strict=True)
    return [", ".join(names) if all(name.strip() for name in names) else "" for names in rows]


def encode(values: Sequence[object], names: Sequence[str] | None = None) -> Column:
    """Return a column of names, sorted unless given: numbers by value, other text by the alphabet.

    >>> encode(["10", "2", "2"]).names
    ('2', '10')
    """
    text = [str(value) for value in values]
    order = tuple(names) if names is not None else sorted_names(list(dict.fromkeys(text)))
    place = {name: i for i, name in enumerate(order)}
    return Column(np.array([place[name] for name in text], np.int64), order)


def sorted_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names sorted: by value where all are whole numbers, else by the alphabet."""
    try:
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    except ValueError:
        return tuple(sorted(names))


def split_in_name(name: str) -> str:
    """Return train, val or test where a file or folder is called so, else ""; a bare number is no split.

    >>> split_in_name("Validation"), split_in_name("1")
    ('val', '')
    """
    return "" if name.isdecimal() else _SPLIT_OF.get(name.lower(), "")


def read_splits(column: Column) -> tuple[Column, dict[int, str]]:
    """Return the column in the words train, val and test, and why for each value that is none of the known words.

    >>> found, unknown = read_splits(encode(["Training", "dev", "later"]))
    >>> [found.names[code] for code in found.codes], unknown
    (['train', 'val', ''], {2: "has the unknown split 'later' (known: train/training/0, val/valid/...)"})
    """
    order = (*SPLITS, "")
    codes = np.array([order.index(_SPLIT_OF.get(name.strip().lower(), "")) for name in column.names], np.int64)
    known = ", ".join("/".join(words) for words in SPLITS.values())
    unknown = {
        i: f"has the unknown split {name[:40]!r} (known: {known})"
        for i, name in enumerate(column.names)
        if codes[i] == order.index("")
    }
    return Column(codes[column.codes], order), unknown


def check_rows(manifest: Manifest, on_bad: OnBad, *, trained_on: bool = True) -> Manifest:
    """Refuse, or leave out, ids that occur twice and, where it is trained on, classes with less than two samples."""
    if len(manifest) == 0:
        raise InputError(f"{manifest.name}: there is no sample")
    manifest = manifest.without(_long_ids(manifest), on_bad)
    repeated = repeated_ids(manifest.ids, lambda i: manifest.where(int(manifest.rows[i])))
    manifest = manifest.without(repeated, on_bad)
    if trained_on:
        manifest = manifest.without(_lonely(manifest), on_bad)
    manifest = replace(manifest, labels=manifest.labels.compact())
    if trained_on and len(manifest.labels.names) == 1:
        left_out = f"; left out: {describe(manifest.skipped)}" if manifest.skipped else ""
        raise InputError(
            f"{manifest.name}: all samples are of class {manifest.labels.names[0][:80]!r}; "
            f"a shortcut needs two classes or more to tell apart{left_out}"
        )
    return manifest


def divided_units(manifest: Manifest) -> int:
    """Return how many units have samples for training and others that are held out."""
    if manifest.unit is None:
        return 0
    training = manifest.training()
    return len(np.intersect1d(manifest.unit.codes[training], manifest.unit.codes[~training]))


def _long_ids(manifest: Manifest) -> dict[int, Bad]:
    """Return, by position, the samples whose id is no name: an array of ids is as wide as its longest."""
    if manifest.ids.dtype != object:
        return {}
    lengths = ((i, len(str(name))) for i, name in enumerate(manifest.ids))
    return {
        i: manifest.bad(i, f"has an id of {length:,} characters, more than {MAX_ID:,}")
        for i, length in lengths
        if length > MAX_ID
    }


def repeated_ids(ids: AnyArray, where: Callable[[int], str]) -> dict[int, Bad]:
    """Return, by position, the samples whose id an earlier one has; `where` is what messages call a position."""
    names = ids.tolist()
    if len(set(names)) == len(names):
        return {}
    first: dict[object, int] = {}
    bad: dict[int, Bad] = {}
    for i, name in enumerate(names):
        if (earlier := first.setdefault(name, i)) != i:
            bad[i] = Bad(where(i), f"has the id {str(name)[:80]!r} of {where(earlier)}: ids must be unique")
    return bad


def _lonely(manifest: Manifest) -> dict[int, Bad]:
    """Return, by position, the samples of classes with fewer than two training samples, whatever their split."""
    labels = manifest.labels
    counts = np.bincount(labels.codes[manifest.training()], minlength=len(labels.names))
    words = {0: "no training sample", 1: "one training sample"}
    return {
        int(i): manifest.bad(
            int(i), f"is of class {labels.names[c][:80]!r}, which has {words[int(counts[c])]}: two are needed"
        )
        for i in np.flatnonzero(counts[labels.codes] < 2)
        for c in [labels.codes[i]]
    }
