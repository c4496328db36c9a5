"""A fused copy computes the same as the model, faster; a model whose copy might not is not copied."""

import copy
import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctrobust import models
from ctrobust.attacks import PGD, Attack, fuse
from ctrobust.attacks.fused import FusedModel


def unit(inputs: int, outputs: int, **options: Any) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs, **options), nn.ReLU())


def plain(**options: Any) -> nn.Module:
    return nn.Sequential(unit(3, 6, **options), unit(6, 6, **options), nn.Flatten(), nn.Linear(6 * 64, 5))


class Net(nn.Module):
    """Convolutions and BatchNorms connected by a function of the test."""

    def __init__(self, function: Callable[["Net", Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.a, self.b = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.n, self.m = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.loose = nn.BatchNorm2d(3, track_running_stats=False)
        self.block = unit(3, 3)
        self.head = nn.Linear(192, 5)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.function(self, x).flatten(1))
        return logits


def bright(x: Tensor) -> bool:
    return bool(x.mean() > 0.5)


def without_gradient(net: Net, x: Tensor) -> Tensor:
    with torch.no_grad():
        fixed = net.n(net.a(x))
    return net.b(x) + fixed  # type: ignore[no-any-return]


# How a network is wired, and how many of its BatchNorms the copy still runs.
WIRED: dict[str, tuple[Callable[[Net, Tensor], Tensor], int]] = {
    "one after the other": (lambda net, x: net.m(net.b(net.n(net.a(x)).relu())), 0),
    "a convolution used twice": (lambda net, x: net.n(net.a(net.a(x))), 1),
    "a convolution used twice, once normalized": (lambda net, x: net.n(net.a(x)) + net.a(x.flip(3)), 1),
    "a normalization used twice": (lambda net, x: net.n(net.b(net.n(net.a(x)))), 2),
    "an output used elsewhere too": (lambda net, x: (z := net.a(x)) + net.n(z) * net.m(net.b(x)), 1),
    "normalized by the batch": (lambda net, x: net.loose(net.a(x)) + net.m(net.b(x)), 1),
    "normalized first": (lambda net, x: net.a(net.n(x)), 1),
    "called by keyword": (lambda net, x: net.n(input=net.a(x)), 1),
    "weights looked at": (lambda net, x: net.n(net.a(x)) * net.a.weight.sum(), 1),
    "statistics looked at": (lambda net, x: net.n(net.a(x)) * net.n.weight.sum(), 0),
    "a way that depends on the image": (lambda net, x: net.block(net.n(net.a(x)) if bright(x) else net.a(x)), 1),
    "a way that depends on the batch": (lambda net, x: net.block(x) if len(x) > 2 else net.block(x + 0), 0),
    "a branch without gradient": (without_gradient, 1),
    "an image without gradient": (lambda net, x: net.n(net.a(x.detach())) + net.m(net.b(x)), 0),
    "nothing to fold": (lambda net, x: net.a(x).relu(), 0),
}


def in_eval_mode(model: nn.Module) -> nn.Module:
    """Put the model into evaluation mode, with random BatchNorm statistics and weights."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d) and module.running_var is not None:
                assert module.running_mean is not None
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.3, 3)
            if isinstance(module, nn.BatchNorm2d) and module.affine:
                module.weight.uniform_(0.5, 2)
                module.bias.normal_(0, 0.3)
    return model.eval()


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


X = torch.rand(7, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def normalizations(model: nn.Module, x: Tensor) -> int:
    """Count the BatchNorms that are called."""
    calls: list[int] = []
    modules = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    handles = [module.register_forward_hook(lambda *_: calls.append(1)) for module in modules]
    model(x)
    for handle in handles:
        handle.remove()
    return len(calls)


def gradient(model: nn.Module, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(model(x).square().sum(), x)[0]


def check_same(model: nn.Module, x: Tensor = X) -> FusedModel:
    fused_model = fuse(model, x)
    assert isinstance(fused_model, FusedModel)
    assert fused_model.original is model
    assert fused_model.fused is not model
    torch.testing.assert_close(fused_model(x), model(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient(fused_model, x), gradient(model, x), rtol=1e-3, atol=1e-4)
    assert not any(parameter.requires_grad for parameter in fused_model.fused.parameters())
    return fused_model


@pytest.mark.parametrize("name", WIRED)
def test_every_wiring_is_fused(name: str) -> None:
    function, left = WIRED[name]
    model = in_eval_mode(Net(function))
    fused_model = check_same(model)
    for x in (X, X[:2], X / 4, 0.8 + X / 5):
        torch.testing.assert_close(fused_model(x), model(x), rtol=1e-4, atol=1e-5)
    assert normalizations(fused_model.fused, X) == left


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"affine": False}, {"eps": 0.1}])
def test_batch_norms_are_folded(dtype: torch.dtype, options: dict[str, Any]) -> None:
    model = in_eval_mode(plain(**options)).to(dtype)
    assert normalizations(model, X.to(dtype)) == 2
    fused_model = check_same(model, X.to(dtype))
    assert normalizations(fused_model.fused, X.to(dtype)) == 0
    assert fused_model(X.to(dtype)).dtype == dtype


def test_convolutions_without_bias_in_groups_and_strides() -> None:
    first = nn.Conv2d(3, 6, 3, stride=2, bias=False, groups=3)
    model = in_eval_mode(nn.Sequential(first, nn.BatchNorm2d(6), nn.Identity(), nn.Flatten(), nn.Linear(54, 5)))
    assert normalizations(check_same(model).fused, X) == 0


def test_modules_may_have_any_names() -> None:
    names = ("part4", "part3", "part2", "part1", "part0")  # those that the copy gives, in another order
    layers = (nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 5))
    model = in_eval_mode(nn.Sequential(OrderedDict(zip(names, layers, strict=True))))
    assert normalizations(check_same(model).fused, X) == 0


@pytest.mark.parametrize("name", ["mnistnet", "vgg16", "resnet18"])
def test_every_normalization_of_our_networks_is_folded(name: str) -> None:
    channels, width = (1, 64) if name == "mnistnet" else (3, 4)
    model = in_eval_mode(models.build(name, num_classes=10, in_channels=channels, width=width))
    side = 28 if name == "mnistnet" else 32
    x = torch.rand(5, channels, side, side)
    fused_model = fuse(model, x)
    assert isinstance(fused_model, FusedModel)
    torch.testing.assert_close(fused_model(x), model(x), rtol=1e-4, atol=1e-4)
    assert normalizations(fused_model.fused, x) == 0
    assert normalizations(model, x) == {"mnistnet": 0, "vgg16": 13, "resnet18": 20}[name]
    convolutions = [module for module in fused_model.fused.modules() if isinstance(module, nn.Conv2d)]
    assert all(module.weight.is_contiguous(memory_format=torch.channels_last) for module in convolutions)


def wrapped(model: nn.Module) -> nn.Module:
    """Normalization with a check that no tracer passes, as in front of many networks."""

    class Front(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if x.dim() != 4:
                raise ValueError(x.dim())
            return (x - 0.5) / 0.2

    return nn.Sequential(Front(), model)


def test_foldable_modules_inside_untraceable_ones_are_folded() -> None:
    fused_model = check_same(in_eval_mode(wrapped(wrapped(plain()))))
    assert normalizations(fused_model.fused, X) == 0


class Fingerprint:
    """Everything of a model that making a copy must not change."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.state = {name: (value, value.clone()) for name, value in model.state_dict(keep_vars=True).items()}
        self.seen = self._seen()

    def _seen(self) -> list[object]:
        modules = [
            (name, id(module), module.training, list(module._forward_hooks.items()),
             list(module._forward_pre_hooks.items()), list(vars(module)))
            for name, module in self.model.named_modules()
        ]  # fmt: skip
        tensors = [
            (name, id(value), value.requires_grad, value.stride(), value.grad)
            for name, value in self.model.state_dict(keep_vars=True).items()
        ]
        return [modules, tensors]

    def check(self) -> None:
        assert self._seen() == self.seen
        for name, value in self.model.state_dict(keep_vars=True).items():
            same, before = self.state[name]
            assert value is same
            assert torch.equal(value, before)


@pytest.mark.parametrize("name", WIRED)
def test_the_model_is_unchanged(name: str) -> None:
    model = in_eval_mode(Net(WIRED[name][0]))
    model.get_parameter("a.weight").requires_grad_(False)
    seen: list[Tensor] = []
    if name != "nothing to fold":
        model.get_submodule("b").register_forward_hook(lambda _, __, output: seen.append(output))
    before, generator = Fingerprint(model), torch.get_rng_state()
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode():
            fuse(model, X)
            PGD(0.05, steps=10).run(model, X, torch.zeros(7, dtype=torch.int64))
            assert torch.is_grad_enabled() == (mode is torch.enable_grad)
    before.check()
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(type(output) is Tensor for output in seen)


def test_the_copy_shares_nothing_with_the_model() -> None:
    model = in_eval_mode(plain())
    fused_model = check_same(model)
    expected = fused_model(X)
    with torch.no_grad():
        for value in (*model.parameters(), *model.buffers()):
            value.zero_()
    assert torch.equal(fused_model(X), expected)


def test_the_model_and_its_copy_are_no_submodules() -> None:
    model = in_eval_mode(plain())
    fused_model = check_same(model)
    assert list(fused_model.parameters()) == []
    assert not fused_model.training
    fused_model.train()
    assert not any(module.training for module in (*model.modules(), *fused_model.fused.modules()))
    assert fuse(fused_model, X) is fused_model


class Stubborn(nn.Module):
    """A linear model that is copied by a function of the test."""

    def __init__(self, copied: Callable[["Stubborn"], nn.Module]) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
        self.copied = copied

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x)
        return logits

    def __deepcopy__(self, memo: dict[int, object]) -> nn.Module:
        return self.copied(self)


def raising(_: Stubborn) -> nn.Module:
    raise TypeError("cannot be copied")


def twice(model: Stubborn) -> nn.Module:
    inner = copy.deepcopy(model.inner)
    with torch.no_grad():
        for parameter in inner.parameters():
            parameter.mul_(1.01)
    return inner


def wider(model: Stubborn) -> nn.Module:
    return nn.Sequential(copy.deepcopy(model.inner), nn.Linear(5, 6))


class Straight(nn.Module):
    """The same logits with the opposite gradient."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x.detach() + x.detach() - x)
        return logits + 0 * x.sum()


class Blind(nn.Module):
    """The same logits without any gradient."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x.detach())
        return logits


@pytest.mark.parametrize(
    "copied",
    [
        raising,
        twice,
        wider,
        lambda model: copy.deepcopy(model.inner).double(),
        lambda model: Straight(copy.deepcopy(model.inner)),
        lambda model: Blind(copy.deepcopy(model.inner)),
        lambda model: nn.Sequential(copy.deepcopy(model.inner), nn.Unflatten(1, (5, 1))),
    ],
)
def test_a_copy_with_other_outputs_is_not_used(copied: Callable[[Stubborn], nn.Module]) -> None:
    model = Stubborn(copied).eval()
    before = Fingerprint(model)
    assert fuse(model, X) is model
    result = PGD(0.05, steps=12).run(model, X, model(X).argmax(1))
    assert torch.equal(result.success, model(result.x_adv).argmax(1) != model(X).argmax(1))
    before.check()


def test_a_model_without_gradient_is_copied_too() -> None:
    model = Blind(nn.Sequential(nn.Flatten(), nn.Linear(192, 5)).requires_grad_(False)).eval()
    fused_model = fuse(model, X)
    assert isinstance(fused_model, FusedModel)
    assert torch.equal(fused_model(X), model(X))


class Drawing(nn.Module):
    """A model that is random in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = in_eval_mode(plain())

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x + 0.01 * torch.randn_like(x))
        return logits


def test_a_randomized_model_is_not_fused() -> None:
    model = Drawing().eval()
    state = torch.get_rng_state()
    assert fuse(model, X) is model
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_in_training_mode_is_not_fused() -> None:
    model = in_eval_mode(plain())
    inner = next(module for module in model.modules() if isinstance(module, nn.BatchNorm2d))
    inner.train()
    assert fuse(model, X) is model
    assert inner.training


@pytest.mark.parametrize(
    "output",
    [lambda z: (z, z), lambda z: {"logits": z}, lambda z: z.tolist(), lambda z: z.sum(), lambda z: z.argmax(1)],
)
def test_outputs_that_are_no_logits_raise_no_error(output: Callable[[Tensor], object]) -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> object:
            return output(x.flatten(1))

    model = Odd().eval()
    fused_model = fuse(model, X)
    assert fused_model is model or isinstance(fused_model, FusedModel)


def test_a_model_that_needs_larger_batches_is_not_fused() -> None:
    class Sized(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(7, 192)

    model = Sized().eval()
    assert fuse(model, X) is model
    assert PGD(0.05, steps=12, success="last").run(model, X, torch.arange(7)).x_adv.shape == X.shape


def test_the_copy_runs_hooks_that_change_the_output() -> None:
    model = in_eval_mode(plain())
    model.register_forward_hook(lambda _, __, output: 2 * output)
    model.get_submodule("0").register_forward_pre_hook(lambda _, inputs: (inputs[0] / 2,))
    fused_model = check_same(model)
    assert normalizations(fused_model.fused, X) == 2


def copied(model: nn.Module) -> nn.Module:
    fused_model = fuse(model, X)
    assert isinstance(fused_model, FusedModel)
    return fused_model.fused


def wake(model: nn.Module) -> None:
    """Write to the weights without changing their version counters."""
    model.get_parameter("3.weight").data.mul_(2.0)


CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "written": lambda model: model.get_parameter("3.bias").detach().add_(1e-7),
    "written unseen": wake,
    "loaded": lambda model: model.load_state_dict(model.state_dict()),
    "a hook": lambda model: model.register_forward_hook(lambda *_: None),
    "another module": lambda model: setattr(model, "3", nn.Linear(6 * 64, 5).eval()),
    "another activation": lambda model: setattr(model.get_submodule("0"), "2", nn.Softplus().eval()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_copy_is_cached_until_the_model_changes(change: str) -> None:
    model = in_eval_mode(plain())
    first = copied(model)
    assert copied(model) is first
    assert PGD(0.05, steps=10).run(model, X, torch.zeros(7, dtype=torch.int64)).forwards.any()
    assert copied(model) is first
    CHANGES[change](model)
    second = copied(model)
    assert second is not first
    torch.testing.assert_close(second(X), model(X), rtol=1e-4, atol=1e-4)
    assert copied(model) is second


def test_the_copy_is_deleted_with_its_model() -> None:
    model = in_eval_mode(plain())
    there = weakref.ref(copied(model))
    assert there() is not None
    del model
    gc.collect()
    assert there() is None


def test_a_model_is_fused_on_black_images() -> None:
    # All positions are equal, so that poolings could choose any.
    body = nn.Sequential(unit(3, 6), nn.MaxPool2d(2), unit(6, 6), nn.MaxPool2d(2))
    model = in_eval_mode(nn.Sequential(body, nn.Flatten(), nn.Linear(24, 5)))
    fused_model = fuse(model, torch.zeros_like(X))
    assert isinstance(fused_model, FusedModel)
    assert normalizations(fused_model.fused, X) == 0


@pytest.mark.parametrize("attack", [PGD(0.03, steps=12), PGD(0.4, steps=12, norm="l2", restarts=2), PGD(0.03, steps=3)])
def test_attacks_find_the_same_images_with_a_copy(attack: Attack) -> None:
    # In float64 roundings do not matter.
    model, x = in_eval_mode(plain()).double(), X.double()
    y = model(x).argmax(1)
    y[0] = (y[0] + 1) % 5
    fused_model = check_same(model, x)
    by_model, by_copy = attack.run(model, x, y), attack.run(fused_model, x, y)
    in_training = attack.run(FusedModel(model, model), x, y)
    assert by_model.success[0]
    for other in (by_copy, in_training):
        assert torch.equal(other.success, by_model.success)
        torch.testing.assert_close(other.x_adv, by_model.x_adv, rtol=0, atol=1e-12)


def test_the_largest_logit_difference_is_reported() -> None:
    model = in_eval_mode(plain())
    fused = fuse(model, x := torch.rand(2, 3, 8, 8))
    assert isinstance(fused, FusedModel)
    with torch.no_grad():
        size = model(x).abs().max().item()
    assert 0.0 < fused.logit_difference < 1e-5 * max(size, 1.0)
    linear = fuse(nn.Sequential(nn.Flatten(), nn.Linear(12, 4)).eval(), torch.rand(2, 3, 2, 2))
    assert isinstance(linear, FusedModel)
    assert linear.logit_difference == 0.0
