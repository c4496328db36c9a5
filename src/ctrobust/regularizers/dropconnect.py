"""DropConnect: weights of one Linear layer are dropped at random during training."""

import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.errors import InputError
from ctrobust.regularizers.step_key import StepKey, check_drop, resolve_step_key, sample_keys


class DropConnect(nn.Module):
    """Inverted weight mask on the head's first Linear, (W * M / (1 - drop)) v + b, M ~ Bernoulli(1 - drop).

    There is one mask per minibatch and sample; the bias is not masked. Eval mode uses the weights unchanged.
    """

    step_key: StepKey | None

    def __init__(self, drop: float = 0.5) -> None:
        super().__init__()
        self.drop = check_drop(drop)
        self.step_key = None

    def masks(self, x: Tensor, weight: Tensor, k: int) -> Tensor:
        """Masks of the kept weights, (k, O, D) bool, keyed by the weight's row and so the same on every rank."""
        rows = torch.arange(len(weight), device=weight.device)
        stream = resolve_step_key(self.step_key, x).stream
        return draws.keep(sample_keys(rows, k), stream, weight.shape[1], self.drop).view(k, *weight.shape)

    def sample(self, x: Tensor, first: nn.Module, k: int) -> Tensor:
        """Apply `first` with k differently masked weights: (N, D) -> (k * N, O)."""
        if not isinstance(first, nn.Linear):
            raise InputError(f"DropConnect masks the weights of a Linear layer, but the head starts with {first}")
        if not self.training or self.drop == 0.0:
            return nn.functional.linear(x.repeat(k, 1), first.weight, first.bias)
        weight = (first.weight / (1.0 - self.drop)) * self.masks(x, first.weight, k)
        out = x.expand(k, *x.shape) @ weight.transpose(1, 2)
        return (out if first.bias is None else out + first.bias).flatten(0, 1)

    def extra_repr(self) -> str:
        return f"drop={self.drop}"
