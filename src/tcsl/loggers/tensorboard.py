"""TensorBoard: event files in RUN/tensorboard.

They are written anew when a run is resumed, from its metrics.jsonl, so that no epoch is there twice.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tcsl.loggers.base import Final, Identity, Kind
from tcsl.runs import RunFolder


class TensorBoard:
    """Scalars STAGE/NAME over the epochs; settings with the final numbers in the tab of hyperparameters."""

    sent = 0

    def __init__(self, folder: RunFolder, settings: Mapping[str, Any], identity: Identity) -> None:
        """Write nothing yet: what is there stays until the first epoch."""
        self._path, self._settings = folder.path / "tensorboard", settings
        self.where = shlex.join(["tensorboard", "--logdir", str(self._path)])

    @cached_property
    def _writer(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        for earlier in self._path.glob("events.out.tfevents.*"):
            earlier.unlink()
        return SummaryWriter(self._path, flush_secs=10)

    def epoch(self, stage: str, epoch: int, values: Mapping[str, float]) -> None:
        """Write the numbers of an epoch."""
        for name, value in values.items():
            self._writer.add_scalar(f"{stage}/{name}", value, epoch)

    def finish(self, final: Final) -> None:
        """Write settings, numbers and texts; a page has no place here, so its path is said."""
        plain = {k: v if isinstance(v, bool | int | float | str) else str(v) for k, v in self._settings.items()}
        self._writer.add_hparams(plain, final.numbers, run_name=".")
        page = {} if final.page is None else {"page": str(final.page)}
        for name, text in (final.texts | page).items():
            self._writer.add_text(name, text)

    def close(self, *, failed: bool) -> None:
        """Write what is left."""
        if "_writer" in self.__dict__:
            self._writer.close()


KIND = Kind("torch.utils.tensorboard", TensorBoard)
