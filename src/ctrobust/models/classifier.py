"""The one shape of every network here: image in [0, 1] -> normalize -> body -> noise -> head -> logits."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.regularizers import HeadNoise


class Normalize(nn.Module):
    """(x - mean) / std per channel; the constants are saved with the weights."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise InputError(f"mean and std need one value a channel, std > 0; got mean {mean}, std {std}")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each channel."""
        if x.dim() != 4 or x.shape[1] != len(self.mean):
            raise InputError(f"the network takes images (N, {len(self.mean)}, H, W), got {tuple(x.shape)}")
        return (x - self.mean) / self.std


class Classifier(nn.Module):
    """A network split where its head starts, so that noise can be put there and sampled many times.

    Attributes:
        normalize: the first layer.
        body: image -> features (N, D).
        noise: random in training, absent in evaluation; or None.
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
            raise InputError(f"noise needs a sample(x, first, k) method and a draw, as Dropout has; got {noise}")
        self.normalize = Normalize(mean, std)
        self.body = body
        self.noise = noise
        self.head = head
        self.num_classes = num_classes

    def features(self, x: Tensor) -> Tensor:
        """What the head sees: (N, D)."""
        features: Tensor = self.body(self.normalize(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, C); in training mode under one draw of the noise."""
        return self._logits(self.features(x), 1)

    def sample_logits(self, x: Tensor, k: int) -> Tensor:
        """Logits of k sub-networks (k, N, C): the body runs once, the head k times as one batch.

        In eval mode there is no noise and the k are the same.
        """
        if k < 1:
            raise InputError(f"k, the number of samples, is at least 1, got {k}")
        if not self.training:
            return self(x).expand(k, -1, -1)  # type: ignore[no-any-return]
        if self.noise is None and k > 1:
            raise InputError(f"{k} samples of a head without noise are all the same: build the model with one")
        logits = self._logits(self.features(x), k)
        return logits.view(k, len(x), logits.shape[-1])

    def _logits(self, features: Tensor, k: int) -> Tensor:
        """The head under k draws of the noise, or as it is: (N, D) -> (k * N, C)."""
        layers = list(self.head)
        out = features
        if self.training and isinstance(self.noise, HeadNoise):
            out = self.noise.sample(features, layers.pop(0), k)
        for layer in layers:
            out = layer(out)
        return out
