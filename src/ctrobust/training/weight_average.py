"""An exponential moving average of the weights."""

import copy

import torch

from ctrobust.models import Classifier


class WeightAverage:
    """A second network whose weights follow those of the trained one, a step at a time.

    w_avg <- d w_avg + (1 - d) w, d = min(decay, (1 + t) / (10 + t)) after t optimizer steps

    The smaller d of the first steps lets the random weights of the start be forgotten. BatchNorm's statistics are
    averaged like weights; counts are copied.
    """

    def __init__(self, model: Classifier, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: Classifier, step: int) -> None:
        """Move towards the network after optimizer step `step`, from 0."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        others = model.state_dict()
        for name, own in self.model.state_dict().items():
            if own.is_floating_point():
                own.lerp_(others[name], share)
            else:
                own.copy_(others[name])
