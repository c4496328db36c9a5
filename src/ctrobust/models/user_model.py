"""Networks of the user: a factory that the command line names, and weights of the user's own."""

import contextlib
import hashlib
import importlib
import io
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
from ctrobust.models.tensor_files import MOST_TENSOR_BYTES
from ctrobust.regular_file import read_regular_file
from ctrobust.specs import is_factory

NESTED = ("state_dict", "model_state_dict", "model", "net", "weights")
"""Keys under which training scripts put the state dict beside other things."""


@dataclass(frozen=True, eq=False)
class UserModel:
    """A network that a factory of the user builds, with the weights of a file.

    Attributes:
        factory: its text, `package.module:function`.
        weights: the weights file; None if the factory loads them itself.
        mean, std: the normalization, one value per channel; None if the network normalizes by itself.
        weights_sha256: that of the weights file.
        sha256: of the factory's name and of all tensors, the normalization's included; outcomes name the network by it.
        model: the network, in eval mode.
        repeats: the passes over which the logits of a network that draws at random are averaged, else 1.
    """

    factory: str
    weights: Path | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    weights_sha256: str | None
    sha256: str
    model: nn.Module = field(repr=False)
    repeats: int = 1

    def build(self) -> nn.Module:
        """Return the network."""
        return self.model


def user_model(
    factory: str,
    weights: Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> UserModel:
    """Build the network of a factory, load its weights, and put a normalization before it.

    The working directory is searched for the module first, as with `python -m`. Importing runs the module's code, so
    a factory is only ever taken from the user, never from a file. Weights that no file gives are drawn from seed 0, so
    that the network is the same in every process.
    """
    if (mean is None) != (std is None):
        raise InputError("mean and std are given together, one value per channel")
    digest = None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = call_factory(factory)
    if weights is not None:
        content = _read_weights(weights)
        digest = hashlib.sha256(content).hexdigest()
        _load(model, parse_state_dict(content, weights), weights)
    means, stds = (None if values is None else tuple(values) for values in (mean, std))
    if means is not None and stds is not None:
        model = nn.Sequential(Normalize(means, stds), model)
    _check_eval_mode(model.eval(), factory)
    return UserModel(factory, weights, means, stds, digest, _digest(factory, model), model)


def _check_eval_mode(model: nn.Module, factory: str) -> None:
    """Raise if a module is in training mode in spite of eval(), where its outputs would depend on the batch."""
    for name, module in model.named_modules():
        if getattr(module, "training", False):  # a frozen TorchScript module has no mode
            raise InputError(
                f"{factory}: {name or 'the network'} ({type(module).__name__}) is in training mode after eval(); let "
                "its method train() follow its argument"
            )


def import_factory(text: str) -> Callable[[], Any]:
    """Import the function that a text names."""
    if not is_factory(text):
        raise InputError(f"a factory is package.module:function, got {text!r}")
    module_name, _, name = text.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
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


def call_factory(text: str) -> nn.Module:
    """Import a factory and call it."""
    factory = import_factory(text)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            model = factory()
    except Exception as error:
        raise InputError(
            f"{text}() failed with {type(error).__name__}: {error}; a factory takes no arguments and returns a network"
        ) from error
    if not isinstance(model, nn.Module):
        raise InputError(f"{text}() returned {type(model).__name__}; a factory returns a torch.nn.Module")
    return model


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file, or of a state dict that torch.save wrote."""
    return parse_state_dict(_read_weights(path), path)


def _read_weights(path: Path) -> bytes:
    try:
        return read_regular_file(path, MOST_TENSOR_BYTES)
    except FileNotFoundError:
        raise RunError(f"--weights {path}: there is no such file") from None
    except OSError as error:
        raise RunError(f"--weights {path} cannot be read: {error.strerror or error}") from None


def parse_state_dict(content: bytes, path: Path) -> dict[str, Tensor]:
    """Parse the bytes of a safetensors file, or of a state dict that torch.save wrote; `path` is named in errors.

    This is the one place that reads a pickle: a file that the user named, by torch's loader that allows tensors and
    plain containers only, so that no code of the file is run.
    """
    if content[:4] == b"PK\x03\x04" or (content[:1] == b"\x80" and content[8:9] != b"{"):
        return _state_dict(_load_tensors(content, path), path)
    try:
        return dict(safetensors.torch.load(content))
    except safetensors.SafetensorError as error:
        wanted = "a safetensors file or a state dict that torch.save wrote"
        raise RunError(f"--weights {path} is not {wanted}: {error}") from None


def _load_tensors(content: bytes, path: Path) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file's pickle protocol
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # the loader raises many kinds of errors on what it does not allow
        reason = "it holds Python objects, such as a whole module" if "weights_only" in str(error) else "it is damaged"
        raise RunError(
            f"--weights {path} is not read: {reason}; nothing but tensors is loaded. Save model.state_dict() instead, "
            "best with safetensors.torch.save_file"
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
    if {"normalize.mean", "normalize.std"} <= tensors.keys():
        raise RunError(
            f"--weights {path} was written by ctrobust train; evaluate its run directory, with --model FACTORY if a "
            "factory of your own built the network"
        )
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
