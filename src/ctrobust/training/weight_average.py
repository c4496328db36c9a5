"""An exponential moving average of the weights."""

import copy

import torch

from ctrobust.models import Classifier


class WeightAverage:
    """A second network whose weights are the moving average of the trained network's weights.

    w_avg <- d w_avg + (1 - d) w, d = min(decay, (1 + t) / (10 + t)) after t optimizer steps

    The smaller d of the first steps reduces the share of the random initial weights. BatchNorm's running statistics are
    averaged like weights; its counts are copied.
    """

    def __init__(self, model: Classifier, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: Classifier, step: int) -> None:
        """Include the weights after optimizer step `step`, counted from 0."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        trained = model.state_dict()
        for name, average in self.model.state_dict().items():
            if average.is_floating_point():
                average.lerp_(trained[name], share)
            else:
                average.copy_(trained[name])
