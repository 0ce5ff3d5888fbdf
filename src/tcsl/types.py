"""Names for the plain things that functions here take and return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]
Progress = Callable[[str, int, int | None], None]  # what is done, how far it is, and of how much
