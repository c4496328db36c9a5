"""Models that draw at random: how to find them, and the mean of repeated passes by which they are attacked."""

import zlib
from collections import Counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.model_outputs import as_logits
from ctrobust.outcomes.masking_thresholds import THRESHOLDS


class RepeatedMean(nn.Module):
    """A model whose logits are the mean over several passes of another: what a randomized model predicts.

    Torch's generators are seeded by the images and by how often the same batch came before: the same calls give the
    same logits in every process, and a batch that is classified again, to average gradients or to confirm a success,
    meets other draws. The state of the generators is left as it was. Draws of NumPy, or of a generator of the model's
    own, are not seeded.

    Attributes:
        repeats: the number of passes.
    """

    def __init__(self, model: nn.Module, repeats: int) -> None:
        super().__init__()
        self.model, self.repeats = model, repeats
        self.training = model.training
        self._calls = Counter[int]()

    def forward(self, x: Tensor) -> Tensor:
        batch = _checksum(x)
        self._calls[batch] += 1
        with torch.random.fork_rng(devices=[x.device] if x.device.type == "cuda" else []):
            torch.manual_seed(draws.stream(batch, self._calls[batch]) & 0xFFFFFFFF)  # the CPU's generator takes 32 bits
            total = as_logits(self.model(x))
            for _ in range(self.repeats - 1):
                total = total + as_logits(self.model(x))
            return total / self.repeats


def _checksum(x: Tensor) -> int:
    """A number that changes with any bit of the images."""
    return zlib.crc32(x.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())


RANDOMNESS_IMAGES = 8
"""The number of images whose repeated passes are compared."""


def is_random(distances: Tensor | NDArray[np.float64]) -> bool:
    """Whether repeated passes differ, by the threshold of the first masking test."""
    return float(distances.max()) > (THRESHOLDS["randomized"].suspicious or 0)


def repeated_distance(model: nn.Module, x: Tensor, count: int) -> Tensor:
    """Return (N,) the largest distance between the logits of the first of `count` passes and those of the others.

    Logits z are divided by |z| + 1e-10, so that the distance is relative.
    """
    with torch.no_grad():
        logits = torch.stack([as_logits(model(x.clone())).float() for _ in range(count)])
    scaled = logits / (logits.norm(dim=2, keepdim=True) + 1e-10)
    largest: Tensor = (scaled[1:] - scaled[:1]).norm(dim=2).amax(0)
    return largest
