"""The errors a user can act on: each message says what was expected, what came, and what to do."""

from __future__ import annotations


class TcslError(Exception):
    """Base of every error that `tcsl` raises on purpose; the command line prints it without a traceback."""


class InputError(TcslError, ValueError):
    """A value, an array or a file that the caller gave does not fit."""


class GroupsHidden(TcslError):
    """A method that did not declare that it needs them tried to read the group labels."""


class NonFiniteLoss(TcslError):
    """A loss became infinite or not a number during training."""


class RunFolderError(TcslError):
    """A run folder cannot be used or written as asked."""


class TcslWarning(UserWarning):
    """Something the user should know that did not stop the work; it says what was done about it."""
