"""Two nets that are trained side by side: one is to take the shortcut, the other to avoid it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Pair(nn.Module):
    """Two nets on the same inputs; while they are trained, their logits are side by side, (batch, 2 classes)."""

    def __init__(self, biased: nn.Module, debiased: nn.Module) -> None:
        """Take both nets."""
        super().__init__()
        self.biased, self.debiased = biased, debiased

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the biased net's logits, then the debiased net's; in evaluation mode, the debiased net's alone."""
        debiased: Tensor = self.debiased(inputs)
        return torch.cat([self.biased(inputs), debiased], 1) if self.training else debiased
