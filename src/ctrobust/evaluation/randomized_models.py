"""Models that draw at random: how to find them, and the mean of repeated passes by which they are attacked."""

import torch
from torch import Tensor, nn

from ctrobust.model_outputs import as_logits


class RepeatedMean(nn.Module):
    """A model whose logits are the mean over several passes of another: what a randomized model predicts.

    Attributes:
        repeats: the number of passes.
    """

    def __init__(self, model: nn.Module, repeats: int) -> None:
        super().__init__()
        self.model, self.repeats = model, repeats
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        total = as_logits(self.model(x))
        for _ in range(self.repeats - 1):
            total = total + as_logits(self.model(x))
        return total / self.repeats


def repeated_distance(model: nn.Module, x: Tensor, count: int) -> Tensor:
    """Return (N,) the largest distance between the logits of the first of `count` passes and those of the others.

    Logits z are divided by |z| + 1e-10, so that the distance is relative.
    """
    with torch.no_grad():
        logits = torch.stack([as_logits(model(x.clone())).float() for _ in range(count)])
    scaled = logits / (logits.norm(dim=2, keepdim=True) + 1e-10)
    largest: Tensor = (scaled[1:] - scaled[:1]).norm(dim=2).amax(0)
    return largest
