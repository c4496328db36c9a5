"""The logits in what a model returns: libraries wrap them in objects, tuples and dicts."""

from collections.abc import Mapping

from torch import Tensor

from ctrobust.errors import InputError


def as_logits(output: object) -> Tensor:
    """Return the logits of a model's output.

    They are the output itself, its attribute `logits` (Hugging Face, torchvision's models with auxiliary outputs), the
    first element of a tuple or list, or in a dict the entry `logits` or the only tensor.

    Example:
        >>> import torch
        >>> as_logits((torch.zeros(2, 3), torch.ones(2, 5))).shape, as_logits({"logits": torch.zeros(2, 4)}).shape
        (torch.Size([2, 3]), torch.Size([2, 4]))
    """
    if isinstance(output, Tensor):
        return output
    found = getattr(output, "logits", None)
    if found is None and isinstance(output, Mapping):
        tensors = [value for value in output.values() if isinstance(value, Tensor)]
        found = output.get("logits", tensors[0] if len(tensors) == 1 else None)
    elif found is None and isinstance(output, tuple | list) and output:
        found = output[0]
    if isinstance(found, Tensor):
        return found
    raise InputError(
        "the model gives logits as a tensor, as its output's attribute `logits`, as the first element of a tuple, or "
        f"as the entry 'logits' or the only tensor of a dict; got {_describe(output)}"
    )


def _describe(output: object) -> str:
    name = type(output).__name__
    if isinstance(output, Mapping):
        entries = [f"{key!r}: {type(value).__name__}" for key, value in output.items()]
        return f"{name} with {{{', '.join(entries)}}}" if entries else f"an empty {name}"
    if isinstance(output, tuple | list):
        return f"{name} of ({', '.join(type(value).__name__ for value in output)})" if output else f"an empty {name}"
    return name
