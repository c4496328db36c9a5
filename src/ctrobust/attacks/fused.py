"""A fused copy of a model for attacks: frozen, channels_last, BatchNorm folded into the convolutions."""

import copy
import warnings
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from ctrobust import draws
from ctrobust.attacks.model_checks import modes
from ctrobust.attacks.single_channel import SingleChannelConvolution
from ctrobust.model_outputs import as_logits

TOLERANCE = 1e-4
"""The largest allowed difference between the logits of copy and original, relative to the largest logit."""

GRADIENT_TOLERANCE = 0.05
"""The largest allowed l2 distance between the gradients of copy and original, relative to the gradient's norm."""

PROBES = 4
"""The number of images on which copy and original are compared."""


class _CachedCopy(NamedTuple):
    """A fused copy, and the addresses and versions of the original's tensors when it was made."""

    versions: list[tuple[str, int, int]]
    fused: nn.Module


_cache: WeakKeyDictionary[nn.Module, _CachedCopy] = WeakKeyDictionary()
"""The last fused copy of each model that still exists."""


class FusedModel(nn.Module):
    """A model with the fused copy that attacks differentiate; each success is checked by the original.

    Attributes:
        original: the user's model.
        fused: the copy, whose logits (N, C) calling this module returns.
        logit_difference: the largest absolute difference between the logits of copy and original that `fuse` measured.
    """

    def __init__(self, original: nn.Module, fused: nn.Module, logit_difference: float = 0.0) -> None:
        super().__init__()
        # In a tuple, so that they are not submodules: calls of eval() or parameters() do not reach the user's model.
        self._pair = (original, fused)
        self.logit_difference = logit_difference
        self.eval()

    @property
    def original(self) -> nn.Module:
        return self._pair[0]

    @property
    def fused(self) -> nn.Module:
        return self._pair[1]

    def forward(self, x: Tensor) -> Tensor:
        return as_logits(self.fused(x))


def fuse(model: nn.Module, x: Tensor) -> nn.Module:
    """Return a `FusedModel` of the model, or the model itself where a copy could give other outcomes.

    The model itself is returned if it is in training mode, gives other logits the second time, cannot be copied, or if
    the logits or gradients of its copy differ from its own. Copy and original are compared on the first of the images
    `x`.

    The copy is cached as long as the model exists, and used again if none of the model's tensors was written to; it is
    compared again each time.
    """
    if isinstance(model, FusedModel) or any(mode for _, mode in modes(model)):
        return model
    devices = [x.device] if x.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
        probes = _probes(x)
        try:
            expected, again = _outputs(model, probes), as_logits(model(probes))
        except Exception:  # the attack raises the error, unless the reason is that the probes are too few
            return model
        if not torch.equal(expected[0], again):
            return model
        for make_copy in (_cached_copy, _folded_copy, _frozen_copy):
            try:
                fused = make_copy(model)
                difference = _logit_difference(_outputs(fused, probes), expected)
                if difference is not None:
                    _cache[model] = _CachedCopy(_versions(model), fused)
                    return FusedModel(model, fused, difference)
            except Exception:  # noqa: S112 - whatever a user's module raises when copied or traced
                continue
    return model


def _cached_copy(model: nn.Module) -> nn.Module:
    """Return the cached copy; raise KeyError if there is none, or if the model has changed."""
    cached = _cache[model]
    if cached.versions != _versions(model):
        raise KeyError("the model has changed")
    return cached.fused


def _versions(model: nn.Module) -> list[tuple[str, int, int]]:
    tensors = (*model.named_parameters(), *model.named_buffers())
    hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())
    return [("hooks", hooks, 0), *((name, tensor.data_ptr(), tensor._version) for name, tensor in tensors)]


def _probes(x: Tensor) -> Tensor:
    """Return the mean of a few images and noise: pixels of equal value would tie in poolings."""
    x = x[:PROBES].detach()
    noise = draws.uniform(torch.arange(len(x), device=x.device), draws.stream("prepare"), tuple(x.shape[1:]))
    return (x + noise.to(x)) / 2


def _outputs(model: nn.Module, probes: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the logits (N, C), and the gradient (N, ...) of a fixed linear combination of them or None."""
    at = probes.clone().requires_grad_()
    logits = as_logits(model(at))
    if not logits.requires_grad:
        return logits, None
    combination = (logits * torch.linspace(-1.0, 1.0, logits.shape[-1]).to(logits)).sum()
    return logits.detach(), torch.autograd.grad(combination, at, allow_unused=True)[0]


def _logit_difference(found: tuple[Tensor, Tensor | None], expected: tuple[Tensor, Tensor | None]) -> float | None:
    """Return the largest difference of the logits; None if they or the gradients differ by more than is allowed.

    Gradients of an exact copy differ by roundings at the kinks of activations, and so are compared by their norm.
    """
    (logits, gradient), (expected_logits, expected_gradient) = found, expected
    if logits.shape != expected_logits.shape or logits.dtype != expected_logits.dtype:
        return None
    difference = (logits - expected_logits).abs().max()
    if not bool(difference <= TOLERANCE * expected_logits.abs().max().clamp(min=1.0)):
        return None
    if gradient is None or expected_gradient is None:
        return float(difference) if gradient is expected_gradient else None
    close = (gradient - expected_gradient).norm() <= GRADIENT_TOLERANCE * expected_gradient.norm()
    return float(difference) if bool(close) else None


def _frozen_copy(model: nn.Module) -> nn.Module:
    """Return a copy whose parameters need no gradient, in the memory format in which convolutions are fastest."""
    return _freeze(copy.deepcopy(model))


def _freeze(fused: nn.Module) -> nn.Module:
    fused.requires_grad_(False)
    for module in list(fused.modules()):
        if isinstance(module, nn.Conv2d):
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for name, child in module.named_children():
            if SingleChannelConvolution.supports(child):
                setattr(module, name, SingleChannelConvolution(child))
    return fused


def _folded_copy(model: nn.Module) -> nn.Module:
    """Return a frozen copy with every BatchNorm that follows a convolution folded into it; raise if there is none."""
    if any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()):
        raise ValueError("hooks would be called with the tracer's proxies in place of tensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fused, count = _fold(copy.deepcopy(model))
    if not count:
        raise ValueError("nothing to fold")
    return _freeze(fused.eval())


def _fold(module: nn.Module) -> tuple[nn.Module, int]:
    """Return the module with its BatchNorms folded, and their number; if it cannot be traced, fold its children."""
    if not any(isinstance(child, nn.BatchNorm2d) for child in module.modules()):
        return module, 0
    try:
        traced = fx.symbolic_trace(module)
    except Exception:
        counts = 0
        for name, child in list(module.named_children()):
            folded, count = _fold(child)
            if count:
                setattr(module, name, folded)
                counts += count
        return module, counts
    count = _fold_traced(traced)
    return (traced, count) if count else (module, 0)


def _fold_traced(traced: fx.GraphModule) -> int:
    """Fold in place each BatchNorm with running statistics that is the only user of a convolution's output."""
    modules: dict[str, Any] = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(modules[node.target], nn.Identity):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    calls = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    count = 0
    for node in list(traced.graph.nodes):
        if node.op != "call_module" or not isinstance(modules[node.target], nn.BatchNorm2d):
            continue
        before = node.args[0]
        convolution = modules.get(before.target) if before.op == "call_module" else None
        alone = len(before.users) == 1 and calls.count(before.target) == 1 and calls.count(node.target) == 1
        if not isinstance(convolution, nn.Conv2d) or not alone or modules[node.target].running_var is None:
            continue
        parent, _, name = before.target.rpartition(".")
        modules[before.target] = fuse_conv_bn_eval(convolution, modules[node.target])
        setattr(traced.get_submodule(parent), name, modules[before.target])
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
        count += 1
    _flatten(traced)
    return count


def _flatten(traced: fx.GraphModule) -> None:
    """Make every called module a direct child: chains of attribute lookups cost a few percent of a forward pass."""
    calls = [node for node in traced.graph.nodes if node.op == "call_module"]
    called = {node.target: traced.get_submodule(node.target) for node in calls}
    names = {target: f"module{number}" for number, target in enumerate(called)}
    for target, module in called.items():  # after all lookups, because a child may already have such a name
        traced.add_module(names[target], module)
    for node in calls:
        node.target = names[node.target]
    traced.delete_all_unused_submodules()
    traced.recompile()
