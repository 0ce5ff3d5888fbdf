"""These tests need a CUDA device: `pytest -m gpu` on a machine with one. Elsewhere they skip."""

from pathlib import Path

import pytest
import torch


def pytest_collection_modifyitems(items):
    why = "needs a CUDA GPU: run `pytest -m gpu` on a machine with one"
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.skipif(not torch.cuda.is_available(), reason=why))
