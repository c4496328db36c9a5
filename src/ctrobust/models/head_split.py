"""Any torch module as a Classifier, split by the name of the layer where its head starts."""

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
    """Wrap `module` so that noise can be put before its layer `head`, which must end the network.

    `head` is a name from `module.named_modules()`. Inside a Sequential ("classifier.3") the head is all from there on.
    The parameters are shared with `module`, whose structure stays as it was. `example`, images (N, C, H, W) in [0, 1],
    is run once to check that features and head together give what the module gives.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
        >>> model = split(net, "3", example=torch.zeros(2, 1, 28, 28))
        >>> model.features(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 32])
    """
    if example.dim() != 4 or not example.is_floating_point():
        raise InputError(f"example is images (N, C, H, W) in [0, 1], got {example.dtype} of {tuple(example.shape)}")
    shared: dict[int, Tensor] = {id(t): t for t in (*module.parameters(), *module.buffers())}
    body = copy.deepcopy(module, shared)  # a new structure around the same tensors
    modes = [(part, part.training) for part in body.modules()]
    layers = _cut(body, head)
    mean, std = (tuple(value) * (example.shape[1] if len(value) == 1 else 1) for value in (mean, std))
    with torch.no_grad():
        normalize = Normalize(mean, std).to(example)
        expected = _evaluated(module, normalize(example))
        model = Classifier(body, layers, num_classes=expected.shape[-1], mean=mean, std=std, noise=noise)
        model.normalize = normalize
        try:
            found = _evaluated(model, example)
        except (RuntimeError, ValueError):  # the shapes no longer fit
            found = expected.new_empty(0)
    if found.shape != expected.shape or not torch.allclose(found, expected, rtol=1e-4, atol=1e-5):
        raise InputError(
            f"the network does more after {head!r} than that layer does: name the last layer of its forward pass, "
            f"or the place in the Sequential that ends it"
        )
    model.train(module.training)
    for part, mode in modes:  # the module's own parts, frozen ones among them, keep theirs
        part.training = mode
    return model


def _cut(body: nn.Module, name: str) -> nn.Sequential:
    """Take the layers from `name` on out of `body`, in place."""
    names = [known for known, _ in body.named_modules() if known]
    if name not in names:
        raise InputError(f"no layer is named {name!r}; the layers are {', '.join(names)}")
    parent_name, _, own = name.rpartition(".")
    parent = body.get_submodule(parent_name)
    if isinstance(parent, nn.Sequential):
        start = [child for child, _ in parent.named_children()].index(own)
        layers = list(parent.children())[start:]
        del parent[start:]
    else:
        layers = [getattr(parent, own)]
        setattr(parent, own, nn.Identity())
    return nn.Sequential(*[inner for layer in layers for inner in _flat(layer)])


def _flat(layer: nn.Module) -> list[nn.Module]:
    """The layers of nested Sequentials, so that noise meets the first real one."""
    if not isinstance(layer, nn.Sequential):
        return [layer]
    return [inner for child in layer.children() for inner in _flat(child)]


def _evaluated(module: nn.Module, x: Tensor) -> Tensor:
    """The output in eval mode; each part's mode is put back."""
    modes = {part: part.training for part in module.modules()}
    try:
        out: Tensor = module.eval()(x)
        return out
    finally:
        for part, mode in modes.items():
            part.training = mode
