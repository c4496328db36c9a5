"""The structure of every network here: image in [0, 1] -> normalize -> body -> noise -> head -> logits."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.regularizers import HeadNoise


class Normalize(nn.Module):
    """Normalize to (x - mean) / std per channel; the constants are saved with the weights."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise InputError(f"mean and std need one value per channel, std > 0; got mean {mean}, std {std}")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != len(self.mean):
            raise InputError(f"the network takes images (N, {len(self.mean)}, H, W); got {tuple(x.shape)}")
        return (x - self.mean) / self.std


class Classifier(nn.Module):
    """A network split where its head starts, so that noise can be inserted there and sampled several times.

    Attributes:
        normalize: the first layer.
        body: image -> features (N, D).
        noise: the regularizer before the head, used in training mode only; or None.
        head: features -> logits.
    """

    noise: nn.Module | None

    def __init__(
        self,
        body: nn.Module,
        head: nn.Sequential,
        *,
        num_classes: int,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        noise: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if noise is not None and not isinstance(noise, HeadNoise):
            raise InputError(
                f"noise needs a method sample(x, first, k) and an attribute step_key, as Dropout has; got {noise}"
            )
        self.normalize = Normalize(mean, std)
        self.body = body
        self.noise = noise
        self.head = head
        self.num_classes = num_classes

    def features(self, x: Tensor) -> Tensor:
        """The features (N, D) that the head takes."""
        features: Tensor = self.body(self.normalize(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, C); in training mode with one sample of the noise."""
        return self._logits(self.features(x), 1)

    def sample_logits(self, x: Tensor, k: int) -> Tensor:
        """Logits of k sub-networks (k, N, C): the body runs once, the head k times as one batch.

        In eval mode there is no noise, and the k logits are the same.
        """
        if k < 1:
            raise InputError(f"k, the number of samples, must be at least 1; got {k}")
        if not self.training:
            return self(x).expand(k, -1, -1)  # type: ignore[no-any-return]
        if self.noise is None and k > 1:
            raise InputError(f"{k} samples of a head without noise are all the same; build the model with noise")
        logits = self._logits(self.features(x), k)
        return logits.view(k, len(x), logits.shape[-1])

    def _logits(self, features: Tensor, k: int) -> Tensor:
        """Apply the head with k samples of the noise in training mode, else once: (N, D) -> (k * N, C)."""
        layers = list(self.head)
        out = features
        if self.training and isinstance(self.noise, HeadNoise):
            out = self.noise.sample(features, layers.pop(0), k)
        for layer in layers:
            out = layer(out)
        return out
