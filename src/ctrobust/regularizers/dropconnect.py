"""DropConnect: weights of one Linear layer are dropped at random during training."""

import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.errors import InputError
from ctrobust.regularizers.step_key import Draw, check_drop, fresh, sample_keys


class DropConnect(nn.Module):
    """Inverted weight mask on the head's first Linear, (W * M / (1 - drop)) v + b, M ~ Bernoulli(1 - drop).

    One mask per minibatch and sample, the bias unmasked; plain weights in eval mode.
    """

    draw: Draw | None

    def __init__(self, drop: float = 0.5) -> None:
        super().__init__()
        self.drop = check_drop(drop)
        self.draw = None

    def masks(self, x: Tensor, weight: Tensor, k: int) -> Tensor:
        """Keep-masks of the weight, k of them: (k, O, D) bool, keyed by the weight's row: the same on every rank."""
        rows = torch.arange(len(weight), device=weight.device)
        stream = fresh(self.draw, x).stream
        return draws.keep(sample_keys(rows, k), stream, weight.shape[1], self.drop).view(k, *weight.shape)

    def sample(self, x: Tensor, first: nn.Module, k: int) -> Tensor:
        """Apply `first` with k differently masked weights: (N, D) -> (k * N, O)."""
        if not isinstance(first, nn.Linear):
            raise InputError(f"DropConnect masks a Linear layer's weights, but the head starts with {first}")
        if not self.training or self.drop == 0.0:
            return nn.functional.linear(x.repeat(k, 1), first.weight, first.bias)
        weight = (first.weight / (1.0 - self.drop)) * self.masks(x, first.weight, k)
        out = x.expand(k, *x.shape) @ weight.transpose(1, 2)
        return (out if first.bias is None else out + first.bias).flatten(0, 1)

    def extra_repr(self) -> str:
        """The drop rate."""
        return f"drop={self.drop}"
