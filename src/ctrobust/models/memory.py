"""The memory that a network needs, known before it is built."""

import os
from collections.abc import Callable

import torch
from torch import nn

from ctrobust.errors import InputError

COPIES = 3
"""A network in training is there three times: weights, gradients and the optimizer's momentum."""


def check_memory(make: Callable[[], tuple[nn.Module, nn.Module]], described: str) -> None:
    """Raise if a network in training would need more memory than the machine has; `make` is run without memory."""
    most = _physical_memory()
    try:
        with torch.device("meta"):
            tensors = [tensor for module in make() for tensor in (*module.parameters(), *module.buffers())]
    except (RuntimeError, TypeError, OverflowError):  # torch has no tensors of 2**63 elements
        raise InputError(f"{described} is larger than any memory") from None
    needed = COPIES * sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if most is not None and needed > most:
        count = sum(tensor.numel() for tensor in tensors)
        raise InputError(
            f"{described} has {count:,} parameters: training needs {_gigabytes(needed)} for weights, gradients and "
            f"momentum, and this machine has {_gigabytes(most)}"
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


def _physical_memory() -> int | None:
    """The memory of this machine in bytes, where the system says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
