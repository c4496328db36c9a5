"""Any torch module as a Classifier, split at the layer where its head starts."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.models.classifier import Classifier, Normalize


def split(
    module: nn.Module,
    head: str,
    *,
    example: Tensor,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    noise: nn.Module | None = None,
) -> Classifier:
    """Split `module` before its layer `head`, so that noise can be inserted there; the head must end the network.

    `head` is a name from `module.named_modules()`. Inside a Sequential ("classifier.3") the head includes all layers
    after it. The parameters are shared with `module`, whose structure is not changed. `example`, images (N, C, H, W) in
    [0, 1], is run once to check that features and head together give the module's output.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
        >>> model = split(net, "3", example=torch.zeros(2, 1, 28, 28))
        >>> model.features(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 32])
    """
    if example.dim() != 4 or not example.is_floating_point():
        raise InputError(
            f"example must be images (N, C, H, W) in [0, 1]; got {example.dtype} of shape {tuple(example.shape)}"
        )
    shared: dict[int, Tensor] = {id(t): t for t in (*module.parameters(), *module.buffers())}
    body = copy.deepcopy(module, shared)  # new modules that share the tensors
    modes = [(child, child.training) for child in body.modules()]
    layers = _cut(body, head)
    mean, std = (tuple(value) * (example.shape[1] if len(value) == 1 else 1) for value in (mean, std))
    with torch.no_grad():
        normalize = Normalize(mean, std).to(example)
        expected = _eval_output(module, normalize(example))
        model = Classifier(body, layers, num_classes=expected.shape[-1], mean=mean, std=std, noise=noise)
        model.normalize = normalize
        try:
            found = _eval_output(model, example)
        except (RuntimeError, ValueError):  # shapes do not match
            found = expected.new_empty(0)
    if found.shape != expected.shape or not torch.allclose(found, expected, rtol=1e-4, atol=1e-5):
        raise InputError(
            f"the network computes more after layer {head!r}: name the last layer of its forward pass, or a layer of "
            "the Sequential that ends it"
        )
    model.train(module.training)
    for child, mode in modes:  # submodules may be in another mode than the module, frozen BatchNorm for example
        child.training = mode
    return model


def _cut(body: nn.Module, name: str) -> nn.Sequential:
    """Remove the layers from `name` on from `body`, in place, and return them."""
    names = [known for known, _ in body.named_modules() if known]
    if name not in names:
        raise InputError(f"no layer is named {name!r}; the layers are {', '.join(names)}")
    parent_name, _, child_name = name.rpartition(".")
    parent = body.get_submodule(parent_name)
    if isinstance(parent, nn.Sequential):
        start = [child for child, _ in parent.named_children()].index(child_name)
        layers = list(parent.children())[start:]
        del parent[start:]
    else:
        layers = [getattr(parent, child_name)]
        setattr(parent, child_name, nn.Identity())
    return nn.Sequential(*[leaf for layer in layers for leaf in _flatten(layer)])


def _flatten(layer: nn.Module) -> list[nn.Module]:
    """The layers of nested Sequentials, so that the noise is applied to the first layer itself."""
    if not isinstance(layer, nn.Sequential):
        return [layer]
    return [leaf for child in layer.children() for leaf in _flatten(child)]


def _eval_output(module: nn.Module, x: Tensor) -> Tensor:
    """The output in eval mode; the mode of each submodule is restored."""
    modes = {child: child.training for child in module.modules()}
    try:
        out: Tensor = module.eval()(x)
        return out
    finally:
        for child, mode in modes.items():
            child.training = mode
