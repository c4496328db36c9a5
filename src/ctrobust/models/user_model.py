"""Networks of the user: a factory that the command line names, and weights of the user's own."""

import hashlib
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from ctrobust.errors import InputError, RunError
from ctrobust.models.classifier import Normalize

FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
"""The text of a factory, `package.module:function`."""

NESTED = ("state_dict", "model_state_dict", "model", "net", "weights")
"""Keys under which training scripts put the state dict beside other things."""


@dataclass(frozen=True, eq=False)
class UserModel:
    """A network that a factory of the user builds, with the weights of a file.

    Attributes:
        factory: its text, `package.module:function`.
        weights: the weights file; None if the factory loads them itself.
        mean, std: the normalization, one value per channel; None if the network normalizes by itself.
        sha256: of the factory's name and of all tensors, the normalization's included; outcomes name the network by it.
        model: the network, in eval mode.
    """

    factory: str
    weights: Path | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    sha256: str
    model: nn.Module = field(repr=False)

    def build(self) -> nn.Module:
        """Return the network."""
        return self.model


def is_factory(text: str) -> bool:
    """Whether a text names a factory rather than a path.

    Example:
        >>> is_factory("robust.nets:wide_resnet"), is_factory("runs/demo/mdl"), is_factory("model.safetensors")
        (True, False, False)
    """
    return FACTORY.fullmatch(text) is not None


def user_model(
    factory: str,
    weights: Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> UserModel:
    """Build the network of a factory, load its weights, and put a normalization before it.

    The working directory is searched for the module first, as with `python -m`. Importing runs the module's code, so
    a factory is only ever taken from the user, never from a file.
    """
    if (mean is None) != (std is None):
        raise InputError("mean and std are given together, one value per channel")
    model = _call(import_factory(factory), factory)
    if weights is not None:
        _load(model, read_state_dict(weights), weights)
    means, stds = (None if values is None else tuple(values) for values in (mean, std))
    if means is not None and stds is not None:
        model = nn.Sequential(Normalize(means, stds), model)
    model.eval()
    return UserModel(factory, weights, means, stds, _digest(factory, model), model)


def import_factory(text: str) -> Callable[[], Any]:
    """Import the function that a text names."""
    if not is_factory(text):
        raise InputError(f"a factory is package.module:function, got {text!r}")
    module_name, _, name = text.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        where = "" if missing != module_name.split(".")[0] else f", nor in {Path.cwd()}"
        raise InputError(f"{text}: there is no module {missing!r} among the installed packages{where}") from None
    except Exception as error:
        raise InputError(f"{text}: importing {module_name} failed with {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        what = "has no" if found is None else f"has {name} as {type(found).__name__}, not as a"
        raise InputError(f"{text}: {module_name} {what} function {name!r}")
    return found  # type: ignore[no-any-return]


def _call(factory: Callable[[], Any], text: str) -> nn.Module:
    try:
        model = factory()
    except Exception as error:
        raise InputError(
            f"{text}() failed with {type(error).__name__}: {error}; a factory takes no arguments and returns a network"
        ) from error
    if not isinstance(model, nn.Module):
        raise InputError(f"{text}() returned {type(model).__name__}; a factory returns a torch.nn.Module")
    return model


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file, or of a state dict that torch.save wrote.

    This is the one place that reads a pickle: a file that the user named, by torch's loader that allows tensors and
    plain containers only, so that no code of the file is run.
    """
    if not path.is_file():
        raise RunError(f"--weights {path}: there is no such file")
    content = path.read_bytes()
    if content[:4] == b"PK\x03\x04" or (content[:1] == b"\x80" and content[8:9] != b"{"):
        return _state_dict(_load_tensors(path), path)
    try:
        return dict(safetensors.torch.load(content))
    except safetensors.SafetensorError as error:
        wanted = "a safetensors file or a state dict that torch.save wrote"
        raise RunError(f"--weights {path} is not {wanted}: {error}") from None


def _load_tensors(path: Path) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file's pickle protocol
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader raises many kinds of errors on what it does not allow
        reason = str(error).partition("\n")[0]
        raise RunError(
            f"--weights {path} holds more than tensors or is damaged, and is not read: {reason}. Save "
            "model.state_dict() instead, best with safetensors.torch.save_file"
        ) from None


def _state_dict(found: object, path: Path) -> dict[str, Tensor]:
    """The state dict in what torch.save wrote: itself, or under one of the usual keys."""
    if isinstance(found, Mapping):
        if found and all(isinstance(value, Tensor) for value in found.values()):
            return {str(name): value for name, value in found.items()}
        for key in NESTED:
            if isinstance(found.get(key), Mapping):
                return _state_dict(found[key], path)
    keys = ", ".join(map(str, list(found)[:5])) if isinstance(found, Mapping) else type(found).__name__
    raise RunError(f"--weights {path} holds no state dict; found {keys}; allowed is a dict of tensors")


def _load(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    prefix = "module."  # nn.DataParallel and DistributedDataParallel put it before each name
    if tensors and all(name.startswith(prefix) for name in tensors):
        tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:3]]
        raise RunError(f"--weights {path} does not fit the network of the factory: {' '.join(lines)}") from None


def _digest(factory: str, model: nn.Module) -> str:
    """SHA-256 of the factory's name and of every tensor of the network."""
    digest = hashlib.sha256(factory.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
