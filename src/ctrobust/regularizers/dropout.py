"""Dropout: features are dropped at random during training, and the others are scaled up."""

from torch import Tensor, nn

from ctrobust import draws
from ctrobust.regularizers.step_key import StepKey, check_drop, resolve_step_key, sample_keys


class Dropout(nn.Module):
    """Inverted dropout on (N, D) features, v * m / (1 - drop), m ~ Bernoulli(1 - drop); identity in eval mode."""

    step_key: StepKey | None

    def __init__(self, drop: float = 0.5) -> None:
        super().__init__()
        self.drop = check_drop(drop)
        self.step_key = None

    def masks(self, x: Tensor, k: int) -> Tensor:
        """Masks of the kept features, (k, N, D) bool."""
        key = resolve_step_key(self.step_key, x)
        keys = sample_keys(key.keys, k)
        return draws.keep(keys, key.stream, x.shape[1:].numel(), self.drop).view(k, *x.shape)

    def forward(self, x: Tensor) -> Tensor:
        return self.sample(x, nn.Identity(), 1)

    def sample(self, x: Tensor, first: nn.Module, k: int) -> Tensor:
        """Apply `first` to the features under k masks, as multi-sample dropout does: (N, D) -> (k * N, ...)."""
        if not self.training or self.drop == 0.0:
            out: Tensor = first(x.repeat(k, *[1] * (x.dim() - 1)))
        else:
            # Scaling before the copies are made costs D products per example instead of k * D. The mask is converted
            # once because products with a boolean convert it again in each forward and backward pass.
            kept = self.masks(x, k).to(x.dtype)
            out = first(((x / (1.0 - self.drop)) * kept).flatten(0, 1))
        return out

    def extra_repr(self) -> str:
        return f"drop={self.drop}"
