"""Properties of every attack with every loss: images stay in ball and box, nothing else is changed."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust.attacks import ATTACK_LOSSES, ATTACKS, FGSM, MIFGSM, PGD, Attack, parse
from ctrobust.attacks.attack_losses import Loss
from ctrobust.errors import InputError
from tests.attacks.rows import ATTACK_ROWS, LOSS_ROWS


def plain(logits: Tensor, y: Tensor, _: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


def away(logits: Tensor, _: Tensor, clean: Tensor) -> Tensor:
    """A callable that uses the clean logits; its gradient is zero at the clean image."""
    return (logits - clean).square().sum(1)


MAKES: dict[str, Callable[..., Attack]] = {
    "fgsm": FGSM,
    "pgd": partial(PGD, steps=3),
    "bim": partial(PGD, steps=3, random_start=False),
    "mifgsm": partial(MIFGSM, steps=3),
}
NAMED = [text for text in LOSS_ROWS if text not in ("sce(gamma=0)", "sce(gamma=0.5)", "sce(gamma=50)")]
every_attack = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())
every_loss = pytest.mark.parametrize("loss", [*NAMED, plain, away])

# The attacks of AutoAttack have rows of their own.
ENSEMBLES = ("autoattack", "strong")  # their attacks are tested by themselves
every_name = pytest.mark.parametrize("name", [name for name in ATTACKS if name not in ENSEMBLES])


def make_attack(name: str, eps: float = 0.1, more: str = "") -> Attack:
    return parse(f"{name}:" + ",".join(fields for fields in (f"eps={eps!r}", ATTACK_ROWS[name].fields, more) if fields))


def test_every_attack_and_loss_has_a_row() -> None:
    assert set(ATTACKS) == set(ATTACK_ROWS)
    assert {name.split("(")[0] for name in NAMED} == set(ATTACK_LOSSES)


def small(dtype: torch.dtype, C: int = 4) -> nn.Sequential:
    """A fixed network of 6 pixels."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, C))
    for parameter in model.parameters():
        parameter.data = 2 * torch.randn(parameter.shape, generator=generator)
    return model.to(dtype)


def batch(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(5, 1, 2, 3, generator=generator, dtype=dtype), torch.tensor([0, 1, 2, 3, 0])


PIXELS = st.sampled_from([0.0, 1.0]) | st.floats(0, 1, width=32)


@every_attack
@every_loss
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    pixels=st.lists(PIXELS, min_size=18, max_size=18),
    labels=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    eps=st.sampled_from([0.0, 1e-6, 1 / 255, 8 / 255, 0.3, 1.0]) | st.floats(0, 1),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    success=st.sampled_from(["any", "last"]),
    norm=st.sampled_from(["linf", "l2"]),
)
def test_images_are_in_ball_and_box(
    make: Callable[..., Attack],
    loss: str | Loss,
    pixels: list[float],
    labels: list[int],
    eps: float,
    dtype: torch.dtype,
    success: str,
    norm: str,
) -> None:
    x, y = torch.tensor(pixels, dtype=dtype).view(3, 1, 2, 3), torch.tensor(labels)
    attack = make(eps=eps, loss=loss, success=success, norm=norm)
    result = attack.run(small(dtype), x, y)
    for x_adv in (attack(small(dtype), x, y), result.x_adv):
        check_inside(x_adv, x, eps, norm)
    assert torch.equal(result.success, small(dtype)(result.x_adv).argmax(1) != y)


def check_inside(x_adv: Tensor, x: Tensor, eps: float, norm: str) -> None:
    """Check that images are in the ball, up to rounding, and exactly in the box."""
    assert (x_adv.dtype, x_adv.shape, x_adv.device) == (x.dtype, x.shape, x.device)
    assert x_adv.min() >= 0
    assert x_adv.max() <= 1
    perturbation = (x_adv.double() - x.double()).flatten(1)
    length = perturbation.abs().amax() if norm == "linf" else perturbation.square().sum(1).sqrt().amax()
    assert length <= eps + (2 if norm == "linf" else 4) * torch.finfo(x.dtype).eps


@every_name
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [0.0, 1 / 255, 0.3, 1.0])
def test_images_of_every_name_are_in_ball_and_box(name: str, eps: float, dtype: torch.dtype) -> None:
    x, y = batch(dtype)
    x[1:3] = x[1:3].round()
    model = small(dtype).eval()
    for norm in ("linf", "l2"):
        preset = ATTACKS[name][1].get("norm")
        if preset not in (None, norm):
            continue
        attack = make_attack(name, eps, "" if preset else f"norm={norm}")
        assert (attack.norm, attack.eps) == (norm, eps)
        result = attack.run(model, x, y)
        check_inside(result.x_adv, x, eps, norm)
        assert torch.equal(result.success, model(result.x_adv).argmax(1) != y)
        misclassified = model(x).argmax(1) != y
        assert result.success[misclassified].all()
        assert torch.equal(result.x_adv[misclassified], x[misclassified])
        if eps == 0.0:
            assert torch.equal(result.success, misclassified)
        called = attack(model, x, y)
        check_inside(called, x, eps, norm)
        assert torch.equal(called, result.x_adv)


@every_name
def test_every_name_breaks_some_examples(name: str) -> None:
    # Otherwise the test above would pass for attacks that do nothing.
    x, _ = batch()
    model = small(torch.float64)[:2].eval()
    y = model(x).argmax(1)
    assert make_attack(name, 0.5).run(model, x, y).success.double().mean() >= 0.6


@every_attack
@every_loss
def test_images_are_perturbed(make: Callable[..., Attack], loss: str | Loss) -> None:
    # Otherwise the test above would pass for attacks that do nothing.
    x, y = batch()
    moved = (make(eps=0.1, loss=loss, success="last")(small(torch.float64), x, y) - x).abs().flatten(1).amax(1)
    if loss is away and make is not MAKES["pgd"]:
        assert not moved.any()
    elif make is MAKES["fgsm"]:
        torch.testing.assert_close(moved, torch.full_like(moved, 0.1), rtol=1e-9, atol=0)
    else:
        assert moved.min() > 0.02


class Unchanged:
    """What an attack must not change: modes, gradients and flags of a model, the images, torch's modes, the RNG."""

    def __init__(self, model: nn.Module, *tensors: Tensor) -> None:
        self.model, self.tensors, self.copies = model, tensors, [tensor.detach().clone() for tensor in tensors]
        self.state = {name: value.clone() for name, value in model.state_dict().items()}
        self.grads = [(p.grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()]
        self.flags = self._flags()
        self.generator = torch.get_rng_state()

    def _flags(self) -> tuple[object, ...]:
        modes = [module.training for module in self.model.modules()]
        requires_grad = [tensor.requires_grad for tensor in (*self.model.parameters(), *self.tensors)]
        return modes, requires_grad, torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    def check(self) -> None:
        assert self._flags() == self.flags
        assert torch.equal(torch.get_rng_state(), self.generator)
        for parameter, (grad, value) in zip(self.model.parameters(), self.grads, strict=True):
            assert parameter.grad is grad
            assert grad is None or (value is not None and torch.equal(grad, value))
        for name, value in self.model.state_dict().items():
            assert torch.equal(value, self.state[name])
        for tensor, value in zip(self.tensors, self.copies, strict=True):
            assert torch.equal(tensor, value)
            assert tensor.grad is None


@contextlib.contextmanager
def unchanged(model: nn.Module, *tensors: Tensor) -> Iterator[None]:
    before = Unchanged(model, *tensors)
    yield
    before.check()


@every_attack
@every_loss
@pytest.mark.parametrize("success", ["any", "last"])
@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_model_inputs_and_generator_are_unchanged(make: Callable[..., Attack], loss: str | Loss, success: str) -> None:
    x, y = batch()
    model = nn.Sequential(nn.Dropout(0.5), *small(torch.float64), nn.Dropout(0.1).eval())
    model[2].eval()
    model[2].get_parameter("bias").requires_grad_(False)
    weight = model[4].get_parameter("weight")
    weight.grad = torch.ones_like(weight)
    clean = model(x).detach()
    state = torch.get_rng_state()
    model(x)
    assert not torch.equal(state, torch.get_rng_state())  # The model draws from the global generator.
    attack = make(eps=0.1, loss=loss, success=success)
    with unchanged(model, x, y, clean):
        attack(model, x, y)
    with unchanged(model, x, y, clean):
        attack.run(model, x, y, clean_logits=clean)


@every_name
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_every_name_leaves_model_inputs_and_generator_unchanged(name: str, training: bool) -> None:
    x, y = batch()
    model = nn.Sequential(*small(torch.float64), nn.Dropout(0.3)).train(training)
    weight = model[1].get_parameter("weight")
    weight.grad = torch.ones_like(weight)
    model[3].get_parameter("bias").requires_grad_(False)
    clean = model(x).detach()
    with unchanged(model, x, y, clean):
        make_attack(name).run(model, x, y, clean_logits=clean)
    with unchanged(model, x, y, clean):
        make_attack(name)(model, x, y)
    with torch.inference_mode(), unchanged(model, x, y, clean):
        make_attack(name).run(model, x.clone(), y)


@every_name
def test_outcomes_of_every_name_do_not_depend_on_the_batch(name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    x, keys = torch.rand(24, 1, 2, 3, generator=generator, dtype=torch.float64), torch.arange(40, 64)
    model = small(torch.float64).eval()
    y = model(x).argmax(1)
    attack = make_attack(name, 0.06)
    whole = attack.run(model, x, y, keys)
    order = torch.randperm(24, generator=generator)
    for some in (order, order[:7], order[7:8], whole.success.nonzero()[:, 0], (~whole.success).nonzero()[:, 0]):
        if len(some):
            result = attack.run(model, x[some], y[some], keys[some])
            for field in ("success", "forwards", "backwards"):
                assert torch.equal(getattr(result, field), getattr(whole, field)[some]), field
            torch.testing.assert_close(result.x_adv, whole.x_adv[some], rtol=0, atol=1e-12)


@every_name
def test_every_name_takes_images_of_any_shape(name: str) -> None:
    _, y = batch()
    for shape in ((6,), (1, 2, 3), (3, 2, 1)):
        if len(shape) == 1 and name == "square":
            continue  # Square needs images
        x = torch.rand(5, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        result = make_attack(name).run(small(torch.float64).eval(), x, y)
        assert result.x_adv.shape == x.shape
        assert result.success.shape == result.forwards.shape == result.backwards.shape == (5,)


@every_name
def test_every_name_refuses_one_class(name: str) -> None:
    x, _ = batch()
    with pytest.raises(InputError, match=r"C >= 2, got \(5, 1\)"):
        make_attack(name).run(small(torch.float64, C=1), x, torch.zeros(5, dtype=torch.int64))


class Failing(nn.Module):
    """A randomized model that changes its own mode, and in the third call raises or returns NaN."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.inner, self.dropout, self.error, self.calls = small(torch.float64), nn.Dropout(0.5), error, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.inner.eval()
        self.dropout.train()
        logits: Tensor = self.inner(self.dropout(x))
        if self.calls < 3:
            return logits
        if self.error is not None:
            raise self.error
        return logits * float("nan")


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt("broken"), None])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("random_start", [True, False])
@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_model_inputs_and_generator_are_unchanged_if_the_model_fails(
    error: BaseException | None, training: bool, random_start: bool
) -> None:
    x, y = batch()
    model = Failing(error).train(training)
    kind, message = (InputError, "logits are not all finite") if error is None else (type(error), "broken")
    with unchanged(model, x, y), pytest.raises(kind, match=message):
        PGD(0.1, success="last", random_start=random_start)(model, x, y)
    assert model.calls == 3


def test_model_and_inputs_are_unchanged_if_inputs_are_refused() -> None:
    x, y = batch()
    model = small(torch.float64)
    for images, labels in ((x + 1, y), (x, y + 4), (x, y[1:])):
        with unchanged(model, images, labels), pytest.raises(InputError):
            PGD(0.1)(model, images, labels)


@every_attack
@every_loss
def test_works_in_every_gradient_mode(make: Callable[..., Attack], loss: str | Loss) -> None:
    x, y = batch()
    model, attack = small(torch.float64), make(eps=0.1, loss=loss)
    expected = attack.run(model, x, y)
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode(), unchanged(model, x, y):
            result = attack.run(model, x, y)
        assert torch.equal(result.x_adv, expected.x_adv)
        assert torch.equal(result.success, expected.success)
        assert not result.x_adv.is_inference()
        assert not result.x_adv.requires_grad


@every_attack
def test_works_with_images_made_in_inference_mode(make: Callable[..., Attack]) -> None:
    x, y = batch()
    model = small(torch.float64)
    with torch.inference_mode():
        made = x.clone()
    for success in ("any", "last"):
        attack = make(eps=0.1, success=success)
        assert torch.equal(attack(model, made, y), attack(model, x, y))


@every_attack
def test_works_with_frozen_parameters(make: Callable[..., Attack]) -> None:
    x, y = batch()
    model, attack = small(torch.float64), make(eps=0.1)
    expected = attack(model, x, y)
    frozen = copy.deepcopy(model).requires_grad_(False)
    with unchanged(frozen, x, y):
        assert torch.equal(attack(frozen, x, y), expected)


@every_attack
def test_works_with_images_that_require_a_gradient(make: Callable[..., Attack]) -> None:
    x, y = batch()
    model, attack = small(torch.float64), make(eps=0.1)
    expected = attack(model, x, y)
    leaf = x.clone().requires_grad_()
    for images in (leaf, leaf * 1):
        x_adv = attack(model, images, y)
        assert torch.equal(x_adv, expected)
        assert not x_adv.requires_grad
    assert leaf.grad is None


@every_attack
def test_images_are_copied(make: Callable[..., Attack]) -> None:
    x, y = batch()
    model = small(torch.float64)
    for success in ("any", "last"):
        x_adv = make(eps=0.0, success=success)(model, x, y)
        assert torch.equal(x_adv, x)
        assert x_adv.data_ptr() != x.data_ptr()


@every_attack
@pytest.mark.parametrize("success", ["any", "last"])
def test_memory_layout_does_not_matter(make: Callable[..., Attack], success: str) -> None:
    generator = torch.Generator().manual_seed(2)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3)).double()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2
    x, y = torch.rand(6, 3, 5, 5, generator=generator, dtype=torch.float64), torch.arange(6) % 3
    attack = make(eps=0.1, success=success)
    expected = attack.run(model, x, y)
    last = x.contiguous(memory_format=torch.channels_last)
    for images in (last, x.transpose(2, 3).contiguous().transpose(2, 3), torch.stack([x, x], -1)[..., 0]):
        assert not images.is_contiguous()
        result = attack.run(model, images, y)
        assert torch.equal(result.x_adv, expected.x_adv)
        assert torch.equal(result.success, expected.success)
    assert attack(model, last, y).is_contiguous(memory_format=torch.channels_last)
    one = x[:1].expand(6, 3, 5, 5)
    assert torch.equal(attack(model, one, y), attack(model, one.contiguous(), y))


@every_attack
@pytest.mark.parametrize("loss", ["std", "dlr", "sce", "skl"])
def test_two_classes_are_too_few_for_some_losses(make: Callable[..., Attack], loss: str) -> None:
    x, _ = batch()
    y = torch.zeros(5, dtype=torch.int64)
    model = small(torch.float64, C=2)
    with unchanged(model, x), pytest.raises(InputError, match=r"this loss needs at least 3 classes; got 2"):
        make(eps=0.1, loss=loss, success="last")(model, x, y)


@every_attack
@pytest.mark.parametrize("loss", ["ce", "margin", "kl", "sce(gamma=0)", "skl(gamma=0)"])
def test_two_classes_are_enough_for_others(make: Callable[..., Attack], loss: str) -> None:
    x, _ = batch()
    result = make(eps=0.1, loss=loss).run(small(torch.float64, C=2), x, torch.zeros(5, dtype=torch.int64))
    assert result.success.shape == (5,)
    assert result.x_adv.isfinite().all()


@every_attack
@pytest.mark.parametrize("loss", ["ce", "margin", "sce(gamma=0)"])
def test_one_class_is_refused(make: Callable[..., Attack], loss: str) -> None:
    x, _ = batch()
    with pytest.raises(InputError, match=r"C >= 2, got \(5, 1\)"):
        make(eps=0.1, loss=loss, success="last")(small(torch.float64, C=1), x, torch.zeros(5, dtype=torch.int64))
