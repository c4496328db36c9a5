"""Networks of the user in training: built by a factory, with noise before the head if the spec has it."""

import shlex

import torch
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.model_outputs import as_logits
from ctrobust.models.classifier import Classifier
from ctrobust.models.head_split import split
from ctrobust.models.user_model import call_factory
from ctrobust.regularizers import HEAD_NOISE
from ctrobust.specs import ModelSpec


def build_user_network(
    spec: ModelSpec, factory: str | None, in_channels: int, num_classes: int, image_size: tuple[int, int]
) -> Classifier:
    """Build the network of a spec whose name is a factory; its images are in [0, 1], not normalized.

    Code is run only where the user names it: `factory` comes from the command line, and must be that of the spec.
    Without noise the whole network is the body; the logits are taken from an output that contains them.
    """
    if factory is None:
        raise InputError(
            f"the network is built by {spec.name}; code of your own is run only where you name it. Add to the command:"
            f"\n  --model {shlex.quote(spec.name)}"
        )
    if factory != spec.name:
        raise InputError(f"the network was built by {spec.name}, and --model names {factory}")
    network = call_factory(factory)
    if spec.noise == "none":
        zeros, ones = (0.0,) * in_channels, (1.0,) * in_channels
        return Classifier(_LogitsOf(network), nn.Sequential(), num_classes=num_classes, mean=zeros, std=ones)
    head = spec.head or _last_linear(network, spec)
    example = torch.full((2, in_channels, *image_size), 0.5)
    _check_tensor_output(network, example, spec)
    try:
        return split(network, head, example=example, noise=HEAD_NOISE[spec.noise](spec.drop))
    except InputError as error:
        raise InputError(f"{spec.noise} cannot be put before layer {head!r} of {factory}: {error}{_remedy()}") from None


class _LogitsOf(nn.Module):
    """A network of the user, whose output is its logits alone."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return as_logits(self.network(x))


def _last_linear(network: nn.Module, spec: ModelSpec) -> str:
    names: list[str] = [name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not names:
        raise InputError(f"{spec.name} has no linear layer to put {spec.noise} before{_remedy()}")
    return names[-1]


def _check_tensor_output(network: nn.Module, example: Tensor, spec: ModelSpec) -> None:
    """Raise unless the network takes the images and returns a tensor, which noise before its head needs."""
    mode = network.training
    try:
        with torch.no_grad():
            output = network.eval()(example)
    except (RuntimeError, ValueError, TypeError) as error:
        shape = "x".join(map(str, example.shape[1:]))
        reason = str(error).partition("\n")[0]
        raise InputError(f"{spec.name} cannot take images of {shape}: {type(error).__name__}: {reason}") from None
    finally:
        network.train(mode)
    if not isinstance(output, Tensor):
        found = type(output).__name__
        raise InputError(f"{spec.name} returns {found}; {spec.noise} needs a network that returns a tensor{_remedy()}")


def _remedy() -> str:
    return ". Name the layer by --head, or train the network as it is with --noise none and without --method"
