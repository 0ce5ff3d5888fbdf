"""MLflow: to MLFLOW_TRACKING_URI where that is set, else to a database in the run folder, RUN/mlflow.db.

A resumed run goes on under its id; epochs that the store has already are not sent again.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tcsl.errors import InputError
from tcsl.loggers.base import Final, Identity, Kind, run_name
from tcsl.runs import RunFolder

_PAUSE = 1.0  # seconds from one sending to the next: into a database it takes 5 to 20 ms, more than some epochs
_AT_ONCE = 100  # what the tool takes in one sending: 100 params, 1,000 metrics
_LONGEST = 6000  # characters of a param


class Mlflow:
    """One run of an experiment ($MLFLOW_EXPERIMENT_NAME, or tcsl): metrics STAGE/NAME by epoch, settings as params."""

    def __init__(self, folder: RunFolder, settings: Mapping[str, Any], identity: Identity) -> None:
        """Begin a run, or go on with the one that the folder has."""
        import mlflow

        given = mlflow.tracking.is_tracking_uri_set()
        path = folder.path.resolve()
        if not given and "?" in str(path):
            raise InputError(
                f"the logger 'mlflow' cannot have a database in a folder with ? in its name, got {path}: choose "
                "another place with --out, or set MLFLOW_TRACKING_URI"
            )
        uri = mlflow.get_tracking_uri() if given else f"sqlite:///{path / 'mlflow.db'}"
        self._client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
        artifacts = None if given else (path / "mlflow").as_uri()
        known = identity.get()
        if known is None or not self._has(known):
            experiment = self._experiment(artifacts)
            known = self._client.create_run(experiment, run_name=run_name(folder)).info.run_id
            identity.set(known)
        params = [mlflow.entities.Param(name, str(value)[:_LONGEST]) for name, value in settings.items()]
        for start in range(0, len(params), _AT_ONCE):  # the same again changes nothing
            self._client.log_batch(known, params=params[start : start + _AT_ONCE])
        self._id = known
        self._client.update_run(known, status="RUNNING")
        self._metric = mlflow.entities.Metric
        self._waiting: list[Any] = []
        self._sent_at = time.monotonic()
        self.sent = self._count()
        look = shlex.join(["mlflow", "ui", "--backend-store-uri", uri])
        self.where = f"run {known}" if given else look  # not the address of a server, which may hold a password

    def epoch(self, stage: str, epoch: int, values: Mapping[str, float]) -> None:
        """Send the numbers of an epoch, with others that came shortly before or after."""
        now = int(1000 * time.time())
        self._waiting += [self._metric(f"{stage}/{name}", value, now, epoch) for name, value in values.items()]
        if time.monotonic() - self._sent_at > _PAUSE:
            self._send()

    def finish(self, final: Final) -> None:
        """Send numbers as metrics, texts as tags, and the page as an artifact."""
        now = int(1000 * time.time())
        there = self._client.get_run(self._id).data.metrics  # of a run that was sent before
        self._waiting += [
            self._metric(name, float(value), now, 0)
            for name, value in final.numbers.items()
            if there.get(name) != value
        ]
        for name, text in final.texts.items():
            self._client.set_tag(self._id, name, text)
        if final.page is not None:
            self._client.log_artifact(self._id, str(final.page))

    def close(self, *, failed: bool) -> None:
        """Send what is left."""
        self._send()
        self._client.set_terminated(self._id, "KILLED" if failed else "FINISHED")

    def _send(self) -> None:
        while self._waiting:
            self._client.log_batch(self._id, metrics=self._waiting[:_AT_ONCE])
            del self._waiting[:_AT_ONCE]
        self._sent_at = time.monotonic()

    def _has(self, run_id: str) -> bool:
        """Tell whether the store has the run; another store may be set by now, or it was deleted."""
        from mlflow.exceptions import MlflowException

        try:
            return bool(self._client.get_run(run_id).info.lifecycle_stage == "active")
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise

    def _experiment(self, artifacts: str | None) -> str:
        from mlflow.exceptions import MlflowException

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "tcsl")
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name, artifacts))
            except MlflowException:  # another seed may have made it meanwhile
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _count(self) -> int:
        """Return how many epochs the store has of the run: each ends with its loss."""
        losses = [name for name in self._client.get_run(self._id).data.metrics if name.endswith("/loss")]
        return sum(len(self._client.get_metric_history(self._id, name)) for name in losses)


def check() -> None:
    """Refuse a package that can only write to a server, where none is named."""
    import mlflow

    if mlflow.tracking.is_tracking_uri_set():
        return
    try:
        for module in ("sqlalchemy", "alembic"):
            import_module(module)
    except ImportError as error:
        raise InputError(
            f"the logger 'mlflow' has nowhere to write to: a database in the run folder needs more than mlflow-skinny "
            f"({error}): pip install 'tcsl[mlflow]', or set MLFLOW_TRACKING_URI to a server"
        ) from None


KIND = Kind("mlflow", Mlflow, check)
