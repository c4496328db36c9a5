"""Dropout: features are dropped at random during training, and the rest scaled up."""

from torch import Tensor, nn

from ctrobust import draws
from ctrobust.regularizers.step_key import Draw, check_drop, fresh, sample_keys


class Dropout(nn.Module):
    """Inverted dropout on (N, D) features, v * m / (1 - drop), m ~ Bernoulli(1 - drop); identity in eval mode."""

    draw: Draw | None

    def __init__(self, drop: float = 0.5) -> None:
        super().__init__()
        self.drop = check_drop(drop)
        self.draw = None

    def masks(self, x: Tensor, k: int) -> Tensor:
        """Keep-masks, k for each example: (k, N, D) bool."""
        draw = fresh(self.draw, x)
        keys = sample_keys(draw.keys, k)
        return draws.keep(keys, draw.stream, x.shape[1:].numel(), self.drop).view(k, *x.shape)

    def forward(self, x: Tensor) -> Tensor:
        """Drop once."""
        return self.sample(x, nn.Identity(), 1)

    def sample(self, x: Tensor, first: nn.Module, k: int) -> Tensor:
        """Apply `first` to k differently dropped copies of the features: multi-sample dropout."""
        if not self.training or self.drop == 0.0:
            out: Tensor = first(x.repeat(k, *[1] * (x.dim() - 1)))
        else:
            # Scaled before the copies are made: D products an example instead of k * D. The mask is converted once:
            # products with a boolean convert it each time, forward and backward.
            kept = self.masks(x, k).to(x.dtype)
            out = first(((x / (1.0 - self.drop)) * kept).flatten(0, 1))
        return out

    def extra_repr(self) -> str:
        """The drop rate."""
        return f"drop={self.drop}"
