"""The examples of an evaluation, in batches for its model."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ctrobust.attacks.model_checks import check_batch, clean_pass, untouched
from ctrobust.data import as_examples, to_float
from ctrobust.errors import InputError
from ctrobust.model_outputs import as_logits

ProgressCallback = Callable[[float, float, str], None]
"""Called with the forward passes done and in all, both estimates, and the name of the running stage."""

Examples = Any
"""What `ctrobust.data.as_examples` reads, or a pair of float images (N, ...) in [0, 1] and labels (N,)."""


class ModelInputs:
    """Where, and in which precision, a model takes its images: on its device, but in at least float32."""

    def __init__(self, model: nn.Module) -> None:
        tensors = itertools.chain(model.parameters(), model.buffers())
        self.reference = next((tensor for tensor in tensors if tensor.is_floating_point()), None)
        dtype = None if self.reference is None else self.reference.dtype
        self.half = dtype if dtype in (torch.float16, torch.bfloat16) else None

    def in_float32(self, model: nn.Module) -> nn.Module:
        """The model for float32 images: half-precision images would leave the ball by their rounding."""
        return model if self.half is None else _HalfPrecision(model, self.half)

    def place(self, x: Tensor, y: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images, as a data set has them, with their labels and keys, on the model's device."""
        x = to_float(x) if x.dtype == torch.uint8 else x
        if self.reference is not None:
            device, dtype = self.reference.device, torch.float32 if self.half else self.reference.dtype
            x, y, keys = x.to(device, dtype), y.to(device), keys.to(device)
        return x, y, keys


class EvaluationBatches:
    """Images, labels and keys in batches of a size."""

    def __init__(self, model: nn.Module, data: Examples, limit: int | None, size: int) -> None:
        self.images, self.labels = _examples(data, limit)
        self.size = size
        self.inputs = ModelInputs(model)

    def load(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images, labels and keys of these positions, for the model."""
        return self.inputs.place(self.images[index], self.labels[index], index)

    def clean_logits(self, model: nn.Module, progress: ProgressCallback) -> Tensor:
        """Classify all images, which were checked when they were read: logits (N, C)."""
        logits = []
        with untouched(model, self.load(torch.arange(1))[0]):
            for index in torch.split(torch.arange(len(self.labels)), self.size):
                x, y, _ = self.load(index)
                logits.append(clean_pass(model, x, y))
                progress(float(index[-1]) + 1, float(len(self.labels)), "clean images")
        return torch.cat(logits)


class _HalfPrecision(nn.Module):
    """A half-precision model with float32 images and logits."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.dtype = model, dtype
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        logits = as_logits(self.model(x.to(self.dtype)))
        return logits.float() if logits.is_floating_point() else logits


def _examples(data: Examples, limit: int | None) -> tuple[Tensor, Tensor]:
    """The first `limit` images and labels; float tensors keep their shape and precision."""
    if limit is not None and limit < 1:
        raise InputError(f"limit is at least 1, got {limit}")
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(one, Tensor) for one in data):
        images, labels = data
        if images.dtype != torch.uint8:
            check_batch(images[:limit], labels[:limit], None)
            return images[:limit].detach(), labels[:limit].to(torch.int64)
    return as_examples(data, limit)
