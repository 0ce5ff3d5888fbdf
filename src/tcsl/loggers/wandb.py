"""Weights & Biases: after `wandb login`, or with WANDB_MODE=offline and a `wandb sync` later; files in RUN/wandb.

A resumed run goes on under its id. Offline the tool cannot go on in a file: it is written anew from the run's
metrics.jsonl, so that no epoch is there twice.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcsl.errors import InputError
from tcsl.loggers.base import Final, Identity, Kind, run_name
from tcsl.runs import RunFolder


class Wandb:
    """One run of a project ($WANDB_PROJECT, or tcsl): STAGE/NAME over STAGE/epoch, settings as its config."""

    def __init__(self, folder: RunFolder, settings: Mapping[str, Any], identity: Identity) -> None:
        """Begin a run, or go on with the one that the folder has."""
        import wandb

        known = identity.get()
        if known is None:
            identity.set(known := secrets.token_hex(4))
        self._run: Any = wandb.init(
            id=known,
            resume="allow",
            reinit="create_new",  # seeds that share a GPU are threads of one process
            project=os.environ.get("WANDB_PROJECT", "tcsl"),
            name=os.environ.get("WANDB_NAME", run_name(folder)),
            dir=folder.path,
            config=dict(settings),
            settings=wandb.Settings(console="off", silent=True),  # the terminal has our own progress
        )
        here = Path(self._run.dir).parent
        offline = here.name.startswith("offline-run-")
        # Two sessions in one second: the tool appends -1, -2, ... to the second one's name.
        self._earlier = [path for path in here.parent.glob(f"offline-run-*-{known}*") if path != here and offline]
        self._stages: set[str] = set()
        self.sent = self._run.step  # a row a line; offline a run begins with none
        self.where = shlex.join(["wandb", "sync", str(here)]) if offline else self._run.url or "disabled"

    def epoch(self, stage: str, epoch: int, values: Mapping[str, float]) -> None:
        """Send the numbers of an epoch."""
        if stage not in self._stages:
            self._stages.add(stage)
            self._run.define_metric(f"{stage}/*", step_metric=f"{stage}/epoch")
        self._run.log({f"{stage}/epoch": epoch} | {f"{stage}/{name}": value for name, value in values.items()})

    def finish(self, final: Final) -> None:
        """Send numbers and texts as the summary, and the page as a file of the run."""
        self._run.summary.update({**final.numbers, **final.texts})
        if final.page is not None:
            # A copy, not the link that the tool would make: an offline run may be synced from another machine.
            self._run.save(shutil.copy(final.page, self._run.dir), base_path=self._run.dir, policy="now")

    def close(self, *, failed: bool) -> None:
        """Send what is left, and remove what earlier sessions wrote offline, if all of it has been sent again."""
        self._run.finish(exit_code=int(failed))
        for path in self._earlier if self._stages else ():
            shutil.rmtree(path)


def check() -> None:
    """Log in, where the run is not offline; the tool asks for a key where there is a terminal."""
    import wandb

    if wandb.setup().settings.mode in ("offline", "dryrun", "disabled"):
        return
    try:
        wandb.login()
    except wandb.Error as error:
        raise InputError(
            f"the logger 'wandb' is not logged in: {error} Or set WANDB_MODE=offline, and send the run later with "
            "`wandb sync`"
        ) from None


KIND = Kind("wandb", Wandb, check)
