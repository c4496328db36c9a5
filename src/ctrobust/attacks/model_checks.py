"""Checks of models and batches, and a context that leaves a model as it was."""

import contextlib
import math
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from ctrobust.attacks.finite_checks import check_finite_logits, magnitude
from ctrobust.errors import InputError
from ctrobust.model_outputs import as_logits

PROBABILITIES = "the model gives probabilities: each output row is >= 0 and sums to 1. Remove its softmax"

warned_of: set[str] = set()
"""What this process has warned of and does not warn of again."""


def check_batch(x: Tensor, y: Tensor, keys: Tensor | None, *, check_range: bool = True) -> Tensor:
    """Raise unless these are images (N, ...) in [0, 1] with labels (N,); return the keys (N,), by default 0..N-1."""
    for what, given in (("images", x), ("labels", y)):
        if not isinstance(given, Tensor):
            raise InputError(f"{what} are a torch tensor, got {type(given).__name__}")
    if not x.is_floating_point():
        raise InputError(f"images are floating point in [0, 1], got {x.dtype}; divide uint8 images by 255")
    if x.dim() < 2 or len(x) == 0:
        raise InputError(f"images have shape (N, ...) with N >= 1, got {tuple(x.shape)}")
    if y.shape != x.shape[:1] or y.is_floating_point() or y.dtype == torch.bool:
        raise InputError(f"labels are integers of shape ({len(x)},), got {y.dtype} of shape {tuple(y.shape)}")
    if check_range:  # reading the values makes the host wait for the device
        low, high = torch.stack(x.aminmax()).tolist()
        if not (low >= 0.0 and high <= 1.0):
            raise InputError(f"images are in [0, 1], got values from {low:.9g} to {high:.9g}; {_advice(low, high)}")
    if keys is None:
        return torch.arange(len(x), device=x.device)
    if keys.shape != y.shape or keys.dtype != torch.int64:
        raise InputError(f"keys are int64 of shape ({len(x)},), got {keys.dtype} of shape {tuple(keys.shape)}")
    return keys.to(x.device)


def _advice(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return "NaN and infinity are no pixels"
    if low >= 0 and high > 2:
        return "divide by 255"
    return "clamp what rounding left, and normalize inside the model"


def check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"a model is a torch.nn.Module, got {type(model).__name__}; wrap a function in one")


def probabilities(logits: Tensor) -> bool:
    """Return whether a model's outputs are probabilities: a softmax shrinks the losses' gradients, which masks them."""
    return bool((logits.min() >= 0) & ((logits.sum(1) - 1).abs().max() < 1e-3))  # one tensor to read, not two


def warn_of_probabilities(logits: Tensor, consequence: str) -> None:
    """Warn, with the consequence, if the outputs for at least two images are probabilities."""
    if len(logits) > 1 and logits.dim() == 2 and probabilities(logits.detach()):
        warnings.warn(f"{PROBABILITIES}. {consequence}", stacklevel=3)


def check_logits(output: object, y: Tensor) -> Tensor:
    """Return a model's logits; raise unless they are finite (N, C) and labels (N,) in 0..C-1, with one device read."""
    logits = check_logits_shape(output, len(y))
    inside = ((y >= 0) & (y < logits.shape[1])).all()
    if not (inside & (magnitude(logits) < torch.inf)):
        check_finite_logits(logits)
        check_labels(y, logits.shape[1])
    return logits


def check_logits_shape(output: object, count: int) -> Tensor:
    """Return the logits of a model's output; raise unless they are floats (N, C) with N = count and C >= 2."""
    logits = as_logits(output)
    if not logits.is_floating_point():
        raise InputError(f"the model gives a floating tensor of logits, got {logits.dtype}")
    if logits.dim() != 2 or len(logits) != count or logits.shape[1] < 2:
        raise InputError(f"the model gives logits (N, C) = ({count}, C), C >= 2, got {tuple(logits.shape)}")
    return logits


def check_labels(y: Tensor, classes: int) -> None:
    low, high = torch.stack(y.aminmax()).tolist()
    if not (low >= 0 and high < classes):
        raise InputError(f"labels are in 0..{classes - 1}, got {low} to {high}")


def clean_pass(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the logits (N, C) of clean images; a model that writes into its input raises an error."""
    given = x.clone()
    with torch.no_grad():
        logits = check_logits(model(given), y).clone()  # the model may reuse its output's memory
    if not torch.equal(given, x):
        raise InputError("the model changes its input in place: write x - mean, not x.sub_(mean)")
    return logits


def modes(model: nn.Module) -> list[tuple[nn.Module, bool]]:
    """List each module with its mode; a frozen TorchScript module has none."""
    return [(module, module.training) for module in model.modules() if hasattr(module, "training")]


def warn_of_training(model: nn.Module) -> None:
    """Warn if modules are in training mode that then behave differently: those of torch, and our regularizers."""
    kinds = (_DropoutNd, _NormBase, nn.RReLU)
    acting = {
        type(module).__name__
        for module, training in modes(model)
        if training and (isinstance(module, kinds) or hasattr(module, "step_key"))
    }
    if acting:
        warnings.warn(
            f"the model is in training mode, where {', '.join(sorted(acting))} computes otherwise (BatchNorm also "
            "moves its statistics) and attacks are slower; to measure robustness, call model.eval() first",
            stacklevel=4,
        )


def warn_of_repeated_draws(model: nn.Module) -> None:
    """Warn, once in a process, if an attack without keys is called on a model in training mode."""
    if getattr(model, "training", False) and "keys" not in warned_of:
        warned_of.add("keys")
        warnings.warn(
            "the model is in training mode and the attack is called without keys: its random start for the example at "
            "position i of a batch is the same in every call. To draw other starts in each step, pass keys that "
            "change, as keys=torch.arange(len(x)) + step * len(x)",
            stacklevel=4,
        )


@contextlib.contextmanager
def untouched(model: nn.Module, x: Tensor) -> Iterator[None]:
    """Enable gradients, and at the end restore the global random generators and the mode of each module."""
    before = modes(model)
    devices = [x.device] if x.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        for module, mode in before:
            module.training = mode
