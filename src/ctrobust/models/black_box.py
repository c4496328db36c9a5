"""A model that is reached only through a function: an API, ONNX Runtime, TensorFlow Lite."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ctrobust.errors import InputError

ImageFunction = Callable[[NDArray[np.float32]], Any]
"""Images (N, C, H, W) in [0, 1] -> logits (N, classes)."""


class BlackBox(nn.Module):
    """A function from NumPy images to logits, as a torch module that has no gradient.

    Square and noise attack it; attacks that need a gradient are refused. If the function gives probabilities, as many
    services do, their logarithms are the logits.

    Attributes:
        function: takes float32 images (N, C, H, W) in [0, 1] and returns logits (N, classes).
        probabilities: whether the function returns probabilities instead.

    Example:
        >>> model = BlackBox(lambda images: images.reshape(len(images), -1)[:, :3])
        >>> model(torch.rand(2, 1, 4, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(self, function: ImageFunction, *, probabilities: bool = False) -> None:
        super().__init__()
        if not callable(function):
            raise InputError(f"a black box is a function of images, got {type(function).__name__}")
        self.function, self.probabilities = function, probabilities
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Call the function on a copy of the images; the result has no gradient."""
        images = x.detach().cpu().numpy().astype(np.float32, copy=True)
        try:
            values = np.asarray(self.function(images), dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(f"the function of a black box gives logits as an array of numbers; {error}") from error
        if values.ndim != 2 or len(values) != len(x) or values.shape[1] < 2:
            raise InputError(
                f"the function of a black box gives logits (N, C) = ({len(x)}, C), C >= 2, got {values.shape}"
            )
        if self.probabilities:
            if not (values.min() >= 0 and np.abs(values.sum(1) - 1).max() < 1e-2):
                raise InputError("the function of a black box gives probabilities that are not, or do not sum to 1")
            values = np.log(np.maximum(values, np.finfo(np.float32).tiny))
        return torch.from_numpy(values).to(x.device)
