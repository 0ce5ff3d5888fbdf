"""The run folder: layout, identity, resume.

    config.toml        every setting
    data.json          the data's fingerprint, classes and sizes, and what was done with it
    environment.json   software, hardware, commit, command
    metrics.jsonl      one line an epoch: loss, separation of the two clusters in stage 1, seconds, peak memory
    scores.parquet     id, label, TCSL_s, TCSL_c, G_high and the biased model's loss curve of each sample (of the
                       ablation by GCE: scores-tcsl_cs_gce.parquet)
    coreset.parquet    what TCSL-CS keeps (other methods: coreset-NAME.parquet)
    predictions.parquet  id and label of each held-out sample, what each model predicts of it, the log-odds of CB ERM's
                       class by CB ERM and by TCSL-CS, and the unit, where several samples show the same
    samples.parquet    thumbnails or values of samples, the chosen ones nearest to some left out, EL2N: for the page
    groups.parquet     the true groups, where they are known: for the page, and read by no method
    result.json        every number of the run
    checkpoints/       finished stages, and the running one's last epoch (.part.safetensors)
    done               written last: the names of what the run left, of which nothing may be gone
    tensorboard/, wandb/, mlflow.db, mlflow/, loggers.json    of the loggers, where there are any
    report.html        the page, which can be made again from the rest
    marks.parquet      samples that were marked in `tcsl explore`, where any were

Files are whole or absent. A folder made with other settings or data is refused. A finished run that has lost something
makes it again from the rest when it is resumed; until then it is read as it is. One that is cut short is said.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tcsl.config import Settings, flat, flatten, from_flat, to_toml
from tcsl.errors import RunFolderError
from tcsl.files import cut_short, write_atomic
from tcsl.scores import SCHEMA

if TYPE_CHECKING:
    from torch import Tensor

    from tcsl.training.checkpoint import Checkpoint
    from tcsl.training.loop import Epoch


_ELSEWHERE = "run it in another folder"
_AGAIN = "delete it, and --resume (in Python, resume=True) makes it from the rest"


class RunFolder:
    """An open run folder; one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None
        self._seen: set[str] = set()

    @classmethod
    def open(
        cls,
        path: Path,
        settings: Settings,
        data: Mapping[str, Any],
        *,
        resume: bool,
        environment: Mapping[str, Any],
    ) -> RunFolder:
        """Make the folder, or find one that was made with the same settings and data.

        Parameters
        ----------
        data : the fingerprint and facts of the data
        resume : go on where the folder stops; without it, an existing folder is an error
        """
        folder = cls(path)
        if (path / "config.toml").exists():
            folder._check_same(settings, data)
            if not resume:
                state = "is finished" if folder.done else "is unfinished"
                raise RunFolderError(
                    f"{path} exists and {state}: add --resume to "
                    f"{'show its result' if folder.done else 'go on from its last epoch'}, "
                    "choose another place with --out, or delete it (in Python, resume=True or out=...)"
                )
            for name in folder._left():
                if (path / name).exists():
                    folder.check_left(path / name)
            folder._acquire()
        else:
            if path.exists() and (not path.is_dir() or any(not _begun(p.name) for p in path.iterdir())):
                raise RunFolderError(f"{path} exists and is not a run folder; choose another place with --out")
            folder._make()
            folder._acquire()
            write_atomic(path / "data.json", _json({"schema": SCHEMA, **data}))
            write_atomic(path / "environment.json", _json(environment))
            # Last: a folder with a config.toml is complete enough to resume.
            write_atomic(path / "config.toml", to_toml(settings, n=data.get("n")))
        return folder

    @classmethod
    def find(cls, path: Path) -> RunFolder:
        """Return an existing run folder, for reading."""
        if (path / "summary.json").is_file():
            raise RunFolderError(f"{path} holds several seeds: name one of them, such as {path / 'seed-0'}")
        if not (path / "config.toml").is_file():
            if seeds := begun_seeds(path):
                raise RunFolderError(
                    f"{path} holds several seeds that are not finished: go on with --resume, or name one of them, such "
                    f"as {seeds[0]}"
                )
            why = "it has no config.toml" if path.exists() else "there is nothing at that place"
            raise RunFolderError(f"{path} is not a run folder: {why}")
        folder = cls(path)
        folder._check_schema()
        return folder

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return (self.path / "done").exists()

    @property
    def whole(self) -> bool:
        """Whether nothing is left to do: the run is finished and has what it left, as far as the marker lists it."""
        left = self._left()
        return bool(left) and all((self.path / name).exists() for name in left)

    def check_left(self, path: Path) -> None:
        """Raise an error where the run was finished with a file that is gone now, and where a file is not whole."""
        if path.exists():
            if cut_short(path):
                raise self._damaged(path, "it has no end or no head", _AGAIN)
        elif path.relative_to(self.path).as_posix() in self._left():
            raise RunFolderError(f"{path} is gone: --resume (in Python, resume=True) makes it from the rest")

    def _left(self) -> list[str]:
        try:
            return (self.path / "done").read_text().split() if self.done else []
        except ValueError as error:
            raise self._damaged(self.path / "done", error, _AGAIN) from None

    @staticmethod
    def _damaged(path: Path, why: object, cure: str) -> RunFolderError:
        return RunFolderError(f"{path} is damaged ({why}): {cure}")

    def settings(self) -> Settings:
        """Return the settings that the folder was made with."""
        return from_flat(self._stored_settings())

    def data(self) -> dict[str, Any]:
        """Return the fingerprint and facts of the data."""
        out: dict[str, Any] = self._read("data.json")
        return out

    def environment(self) -> dict[str, Any]:
        """Return the software, hardware, commit and command that made the folder."""
        out: dict[str, Any] = self._read("environment.json")
        return out

    def result(self) -> dict[str, Any]:
        """Return the result of a finished run."""
        out: dict[str, Any] = self._read("result.json")
        return out

    def finish(self, result: Mapping[str, Any], models: Collection[str] = ()) -> None:
        """Write the result, then the marker with the names of what the run left.

        Parameters
        ----------
        models : the final ones; of other stages it is no loss if their files go
        """
        write_atomic(self.path / "result.json", _json(result))
        tables = [self.scores_path(), *map(self.scores_path, models), *map(self.coreset_path, models)]
        tables = [path for path in (*tables, self.path / "predictions.parquet") if path.exists()]
        left = {self.path / "result.json", *map(self.stage_path, models), *tables}
        names = sorted(path.relative_to(self.path).as_posix() for path in left)
        write_atomic(self.path / "done", "".join(f"{name}\n" for name in names))

    def scores_path(self, method: str = "tcsl_cs") -> Path:
        """Return where a method's scores lie."""
        return self.path / ("scores.parquet" if method == "tcsl_cs" else f"scores-{method}.parquet")

    def coreset_path(self, method: str) -> Path:
        """Return where a method's coreset lies."""
        return self.path / ("coreset.parquet" if method == "tcsl_cs" else f"coreset-{method}.parquet")

    def checkpoint(self, stage: str) -> Checkpoint:
        """Return where a running stage saves its last epoch."""
        from tcsl.training.checkpoint import Checkpoint

        return Checkpoint(self.path / "checkpoints" / f"{stage}.part.safetensors")

    def save_stage(self, stage: str, tensors: dict[str, Tensor]) -> None:
        """Write a finished stage; its last epoch's checkpoint is not needed any more."""
        from tcsl.training.checkpoint import save_tensors

        save_tensors(self.stage_path(stage), tensors, schema=SCHEMA, stage=stage)
        self.checkpoint(stage).remove()

    def stage_path(self, stage: str) -> Path:
        """Return where a finished stage lies."""
        return self.path / "checkpoints" / f"{stage}.safetensors"

    def has_stage(self, stage: str) -> bool:
        """Tell whether a stage is finished and its file there."""
        return self.stage_path(stage).exists()

    def load_stage(self, stage: str) -> dict[str, Tensor] | None:
        """Return a finished stage, or None."""
        return self._stage(stage) if self.has_stage(stage) else None

    def stage_table(self, stage: str, name: str) -> Tensor | None:
        """Return one table of a finished stage, without its net; None where there is none."""
        return self._stage(stage, only=name).get(name) if self.has_stage(stage) else None

    def _stage(self, stage: str, *, only: str | None = None) -> dict[str, Tensor]:
        from tcsl.training.checkpoint import load_tensors

        self.check_left(self.stage_path(stage))
        return load_tensors(self.stage_path(stage), only=only)[0]

    def report(self, epoch: Epoch) -> None:
        """Append an epoch to metrics.jsonl; what an interrupted run wrote of the same or later epochs goes."""
        path = self.path / "metrics.jsonl"
        if epoch.stage not in self._seen:
            self._seen.add(epoch.stage)
            kept = [
                line for line in self.metrics() if not (line["stage"] == epoch.stage and line["epoch"] >= epoch.epoch)
            ]
            write_atomic(path, "".join(json.dumps(line) + "\n" for line in kept))
        try:
            with open(path, "a") as stream:
                stream.write(json.dumps(asdict(epoch)) + "\n")
        except OSError as error:
            raise RunFolderError(
                f"could not write {path}: {error.strerror}. Free some space, then go on with --resume"
            ) from error

    def metrics(self) -> list[dict[str, Any]]:
        """Return the epochs reported so far; a line that a kill cut short is left out."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        try:
            return [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        except ValueError as error:
            raise self._damaged(path, error, "delete it; what it says of losses and seconds is lost") from None

    def seconds(self) -> dict[str, float]:
        """Return the training time of each stage, over all the sessions it took."""
        out: dict[str, float] = {}
        for line in self.metrics():
            out[line["stage"]] = out.get(line["stage"], 0.0) + line["seconds"]
        return out

    def memory(self) -> dict[str, int | None]:
        """Return the peak memory of each stage, bytes: on a CUDA device since its start, else the process's so far.

        Where several trainings share a CUDA device in turns, it is of all of them, since the last that began a stage.
        It is the largest of all the sessions it took; None where no session could tell, or is older than this number.
        """
        out: dict[str, int | None] = {}
        for line in self.metrics():
            known = [peak for peak in (out.get(line["stage"]), line.get("memory")) if peak is not None]
            out[line["stage"]] = max(known, default=None)
        return out

    def spent(self) -> dict[str, Any]:
        """Return what a result says of its stages: their seconds and their peak memory."""
        return {"seconds": self.seconds(), "memory": self.memory()}

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text())
        except ValueError as error:  # of the text, or of what it says
            cure = _AGAIN if name == "result.json" else _ELSEWHERE
            raise self._damaged(self.path / name, error, cure) from None
        except FileNotFoundError:
            self.check_left(self.path / name)
            unfinished = name == "result.json" and not self.done
            why = (
                "the run is not finished, go on with --resume" if unfinished else "it is gone, run it in another folder"
            )
            raise RunFolderError(f"{self.path} has no {name}: {why}") from None

    def _stored_settings(self) -> dict[str, Any]:
        try:
            return flatten(tomllib.loads((self.path / "config.toml").read_text()))
        except ValueError as error:
            raise self._damaged(self.path / "config.toml", error, _ELSEWHERE) from None

    def _check_schema(self) -> None:
        schema = self.data()["schema"]
        if schema > SCHEMA:
            raise RunFolderError(f"{self.path} was made by a newer tcsl (schema {schema}, this one reads {SCHEMA})")

    def _check_same(self, settings: Settings, data: Mapping[str, Any]) -> None:
        self._check_schema()
        stored, asked = self._stored_settings(), flat(settings)
        rows = [
            f"  {name}: the folder has {stored.get(name)!r}, this run asks for {asked.get(name)!r}"
            for name in dict.fromkeys([*stored, *asked])
            if stored.get(name) != asked.get(name)
        ]
        found = self.data()
        names = ["work", "coreset", "fingerprint", "test", "units", "groups", "val", "judged_on"]
        rows += [
            f"  {name}: the folder has {found.get(name)!r}, this run has {data.get(name)!r}"
            for name in names
            if found.get(name) != data.get(name)
        ]
        began_with, files = found.get("files", {}), data.get("files", {})
        rows += [
            f"  {name}: its content has changed since"
            for name in files
            if began_with.get(name, files[name]) != files[name]  # one that is gone now is asked for where it is needed
        ]
        if rows:
            raise RunFolderError(
                f"{self.path} was made with other settings or data; choose another place with --out:\n"
                + "\n".join(rows)
            )

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"cannot make the run folder {self.path}: {error.strerror}") from None

    def _acquire(self) -> None:
        """Hold the folder until this process ends or `close` is called."""
        try:
            import fcntl
        except ImportError:  # not on this system: two runs in one folder are then the user's to avoid
            return
        try:
            self._lock = open(self.path / "lock", "a")  # noqa: SIM115
        except OSError as error:
            raise RunFolderError(
                f"cannot write in {self.path}: {error.strerror}; copy the folder to where you may write, or use --out"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise RunFolderError(f"another process is working in {self.path}; wait for it, or use --out") from None
        for stale in self.path.rglob(".*.part"):  # of a process that was killed while it wrote
            stale.unlink()

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def begun_seeds(path: Path) -> list[Path]:
    """Return the run folders of a run of several seeds that is not finished; none of another folder."""
    if (path / "summary.json").exists() or (path / "config.toml").exists():
        return []
    return [place for place in seed_folders(path) if (place / "config.toml").exists()]


def seed_folders(path: Path) -> list[Path]:
    """Return the folders of the seeds in a run of several, in their order."""
    seeds = [place for place in path.glob("seed-*") if place.name.removeprefix("seed-").isdigit()]
    return sorted(seeds, key=lambda place: int(place.name.removeprefix("seed-")))


def _begun(name: str) -> bool:
    """Tell whether a file is one that `RunFolder.open` writes before config.toml, if a kill leaves it at that."""
    return name in ("lock", "data.json", "environment.json") or name.endswith(".part")


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"
