"""A copy of the model made for attacks: frozen, channels_last, BatchNorm folded into the convolutions."""

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

TOLERANCE = 1e-4
"""How far the copy's logits may be from the model's, relative to their size."""

GRADIENT_TOLERANCE = 0.05
"""The same for the gradient, relative to its length."""

PROBES = 4
"""On so many images the two are compared."""


class _Made(NamedTuple):
    """A copy made before, and what the model was then: where each of its tensors is, and how often it was written."""

    state: list[tuple[str, int, int]]
    fused: nn.Module


_known: WeakKeyDictionary[nn.Module, _Made] = WeakKeyDictionary()
"""The last copy of each model that still exists."""


class FusedModel(nn.Module):
    """A model and the copy of it that attacks differentiate; `own` is the user's, and has the last word on success."""

    def __init__(self, original: nn.Module, fused: nn.Module) -> None:
        super().__init__()
        # In a tuple, so that they are not submodules: modes and parameters of the user's model stay its own.
        self._pair = (original, fused)
        self.eval()

    @property
    def original(self) -> nn.Module:
        """The user's model."""
        return self._pair[0]

    @property
    def fused(self) -> nn.Module:
        """The copy."""
        return self._pair[1]

    def forward(self, x: Tensor) -> Tensor:
        """The copy's logits (N, C)."""
        logits: Tensor = self.fused(x)
        return logits


def fuse(model: nn.Module, x: Tensor) -> nn.Module:
    """The model for use by many attacks, as a `Prepared`; or as it is, where that could change what it computes.

    A model in training mode, one that gives other logits the second time, that cannot be copied, or whose copy does not
    give its logits and gradients is left as it is. `x` are images to compare on.

    The copy is kept as long as the model lives, and used again if the model's tensors were not written since; it is
    compared again each time.
    """
    if isinstance(model, FusedModel) or any(mode for _, mode in modes(model)):
        return model
    devices = [x.device] if x.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
        probes = _probes(x)
        try:
            expected, again = _outputs(model, probes), model(probes)
        except Exception:  # the attack will say so, unless it is that these images are too few
            return model
        if not torch.equal(expected[0], again):
            return model
        for candidate in (_made_before, _folded, _frozen):
            try:
                fused = candidate(model)
                if _same(_outputs(fused, probes), expected):
                    _known[model] = _Made(_state(model), fused)
                    return FusedModel(model, fused)
            except Exception:  # noqa: S112 - whatever a user's module raises when copied or traced
                continue
    return model


def _made_before(model: nn.Module) -> nn.Module:
    """The copy that is kept; raises where there is none, or the model has changed since."""
    made = _known[model]
    if made.state != _state(model):
        raise KeyError("the model has changed")
    return made.fused


def _state(model: nn.Module) -> list[tuple[str, int, int]]:
    tensors = (*model.named_parameters(), *model.named_buffers())
    hooks = sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())
    return [("hooks", hooks, 0), *((name, tensor.data_ptr(), tensor._version) for name, tensor in tensors)]


def _probes(x: Tensor) -> Tensor:
    """A few of the images, each halfway to noise: pixels of equal value would tie in poolings."""
    x = x[:PROBES].detach()
    noise = draws.uniform(torch.arange(len(x), device=x.device), draws.stream("prepare"), tuple(x.shape[1:]))
    return (x + noise.to(x)) / 2


def _outputs(model: nn.Module, probes: Tensor) -> tuple[Tensor, Tensor | None]:
    """The logits (N, C), and the gradient (N, ...) of a fixed mixture of them; None where there is none."""
    at = probes.clone().requires_grad_()
    logits: Tensor = model(at)
    if not logits.requires_grad:
        return logits, None
    mixture = (logits * torch.linspace(-1.0, 1.0, logits.shape[-1]).to(logits)).sum()
    return logits.detach(), torch.autograd.grad(mixture, at, allow_unused=True)[0]


def _same(found: tuple[Tensor, Tensor | None], expected: tuple[Tensor, Tensor | None]) -> bool:
    """Whether a copy gives the model's logits, and its gradient but for roundings at the kinks of activations."""
    (logits, gradient), (original, own_gradient) = found, expected
    if logits.shape != original.shape or logits.dtype != original.dtype:
        return False
    if not bool(((logits - original).abs() <= TOLERANCE * original.abs().max().clamp(min=1.0)).all()):
        return False
    if gradient is None or own_gradient is None:
        return gradient is own_gradient
    return bool((gradient - own_gradient).norm() <= GRADIENT_TOLERANCE * own_gradient.norm())


def _frozen(model: nn.Module) -> nn.Module:
    """A copy whose parameters take no gradient, in the layout that convolutions are quickest in."""
    return _freeze(copy.deepcopy(model))


def _freeze(fused: nn.Module) -> nn.Module:
    fused.requires_grad_(False)
    for module in list(fused.modules()):
        if isinstance(module, nn.Conv2d):
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for name, child in module.named_children():
            if SingleChannelConvolution.takes(child):
                setattr(module, name, SingleChannelConvolution(child))
    return fused


def _folded(model: nn.Module) -> nn.Module:
    """The same with every BatchNorm that follows a convolution folded into it; raises where there is none."""
    if any(part._forward_hooks or part._forward_pre_hooks for part in model.modules()):
        raise ValueError("hooks would see the tracer's stand-ins for tensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fused, count = _fold(copy.deepcopy(model))
    if not count:
        raise ValueError("nothing to fold")
    return _freeze(fused.eval())


def _fold(module: nn.Module) -> tuple[nn.Module, int]:
    """A module with its BatchNorms folded, and how many; where it cannot be traced, its children are tried."""
    if not any(isinstance(part, nn.BatchNorm2d) for part in module.modules()):
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
    """Fold in place each BatchNorm of fixed statistics whose input is a convolution's output, used nowhere else."""
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
    """Make every module it calls its own child: a chain of lookups before each call costs a few percent of a pass."""
    calls = [node for node in traced.graph.nodes if node.op == "call_module"]
    called = {node.target: traced.get_submodule(node.target) for node in calls}
    names = {target: f"part{number}" for number, target in enumerate(called)}
    for target, module in called.items():  # all were looked up before: a child may have such a name
        traced.add_module(names[target], module)
    for node in calls:
        node.target = names[node.target]
    traced.delete_all_unused_submodules()
    traced.recompile()
