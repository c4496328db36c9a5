"""Unusual but valid models: each is attacked correctly, or refused with a reason."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust.attacks import APGD, FAB, FGSM, MIFGSM, PGD, Attack, AutoAttack, Square
from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.errors import InputError
from ctrobust.evaluation import evaluate, evaluate_each


class Preprocessed(nn.Module):
    """A linear classifier of a function of the images."""

    def __init__(self, function: Callable[[Tensor], Tensor], features: int = 108) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function, self.head = function, nn.Linear(features, 4)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.function(x).flatten(1))
        return logits


def plain(x: Tensor) -> Tensor:
    return x


def batch(model: nn.Module, count: int = 40) -> tuple[Tensor, Tensor]:
    """Images with black rows, all correctly classified."""
    x = torch.rand(count, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    x[:, :, 0] = 0
    with torch.no_grad():
        return x, model(x.clone()).argmax(1)


@pytest.mark.parametrize(
    "attack",
    [FGSM(0.1), PGD(0.1), MIFGSM(0.1), FAB(0.1), FAB(0.1, targets=3), FGSM(1.0, norm="l2"), APGD(1.0, norm="l2"),
     MIFGSM(1.0, norm="l2"), AutoAttack(0.1, queries=50)],
    ids=str,
)  # fmt: skip
def test_infinite_gradients_are_followed(attack: Attack) -> None:
    model = Preprocessed(torch.sqrt).eval()
    found = evaluate(model, batch(model), attack)
    assert found.robust_accuracy < 1
    assert found.distance.max() > 0


@pytest.mark.parametrize(
    "attack", [FGSM(0.1), PGD(0.1, loss="std"), PGD(1.0, norm="l2"), MIFGSM(0.1), APGD(0.1)], ids=str
)
def test_a_gradient_that_is_the_same_for_all_channels(attack: Attack) -> None:
    """Autograd returns such a gradient as an expanded tensor, which cannot be written to."""
    summed = Preprocessed(lambda x: x.sum(1), 36).eval()
    same = Preprocessed(lambda x: x[:, 0] + x[:, 1] + x[:, 2], 36).eval()
    x, y = batch(summed)
    torch.testing.assert_close(attack.run(summed, x, y).x_adv, attack.run(same, x, y).x_adv, rtol=0, atol=1e-4)


@pytest.mark.parametrize("attack", [PGD(0.1), Square(0.1, queries=10), FGSM(0.1, success="last")], ids=str)
@pytest.mark.parametrize("by", ["run", "evaluate"])
def test_a_model_that_writes_into_its_input_is_refused(attack: Attack, by: str) -> None:
    model = Preprocessed(lambda x: x.sub_(0.5)).eval()
    x, y = batch(model)
    before = x.clone()
    with pytest.raises(InputError, match="the model changes its input in place"):
        attack.run(model, x, y) if by == "run" else evaluate(model, (x, y), attack)
    assert torch.equal(x, before)


class Reusing(Preprocessed):
    """A model that returns the same memory for every output."""

    def __init__(self) -> None:
        super().__init__(plain)
        self.out = torch.zeros(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        logits = super().forward(x)
        if torch.is_grad_enabled():
            return logits
        self.out[: len(x)] = logits
        return self.out[: len(x)]


def test_a_model_that_reuses_the_memory_of_its_outputs() -> None:
    model = Reusing().eval()
    assert evaluate(model, batch(model), chunk=10).accuracy == 1.0


@pytest.mark.parametrize("attack", [FGSM(0.1), PGD(0.1), FAB(0.1), FAB(0.1, targets=3)], ids=str)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_without_gradient_is_refused(attack: Attack, frozen: bool) -> None:
    model = Preprocessed(Tensor.detach).eval().requires_grad_(requires_grad=not frozen)
    with pytest.raises(InputError, match="cannot be differentiated by the images"):
        attack.run(model, *batch(model))


@pytest.mark.parametrize(
    ("loss", "got"),
    [
        (lambda z, *_: z.sum(), "()"),
        (lambda z, *_: z[:, :1], "(40, 1)"),
        (lambda z, *_: z[:, 0].detach(), "(40,) without a gradient"),
    ],
)
def test_a_loss_without_one_value_per_example_is_refused(loss: Any, got: str) -> None:
    model = Preprocessed(plain).eval()
    x, y = batch(model)
    for attack in (PGD(0.1, loss=loss), APGD(0.1, loss=loss)):
        with pytest.raises(
            InputError, match=re.escape(f"one value for each example, (40,), that can be differentiated; got {got}")
        ):
            attack.run(model, x, y)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (lambda z, y: z[y], "this one failed with TypeError: <lambda>() takes 2 positional arguments but 3 were given"),
        (cross_entropy, "this one failed with RuntimeError: weight tensor should be defined either for all"),
        (lambda *_: 5.0, "this one gave 5.0"),
    ],
)
def test_error_of_a_failing_loss_shows_its_signature(loss: Any, reason: str) -> None:
    model = Preprocessed(plain).eval()
    x, y = batch(model)
    expected = f"a loss is called with (logits, y, clean_logits) and gives one value for each example, (N,); {reason}"
    for attack in (PGD(0.1, loss=loss), APGD(0.1, loss=loss)):
        with pytest.raises(InputError, match=re.escape(expected)):
            attack.run(model, x, y)


def test_frozen_scripts_inference_buffers_and_uint16_labels() -> None:
    model = Preprocessed(plain).eval()
    x, y = batch(model)
    expected = evaluate(model, (x, y), PGD(0.1)).robust_accuracy
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        script = torch.jit.freeze(torch.jit.script(nn.Sequential(nn.Flatten(), model.head).eval()))
    centred = Preprocessed(plain).eval()
    with torch.inference_mode():
        centred.register_buffer("mean", torch.zeros(1))
    for other in (script, centred):
        assert evaluate(other, (x, y), PGD(0.1)).robust_accuracy == expected
    assert evaluate(model, (x, y.to(torch.uint16)), PGD(0.1)).robust_accuracy == expected


@pytest.mark.parametrize("attack", [FGSM(0.5, norm="l2"), PGD(0.5, norm="l2", random_start=False), FAB(0.1)], ids=str)
def test_half_precision_and_an_image_with_zero_gradient(attack: Attack) -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(108, 8), nn.Linear(8, 4)
    nn.init.constant_(first.bias, -0.2)
    model = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second).eval().half()
    x = torch.rand(20, 3, 6, 6).half()
    x[0] = 0
    found = evaluate(model, (x, model(x).argmax(1)), attack)
    assert found.robust[0]
    assert found.robust_accuracy < 1


def test_outcomes_do_not_depend_on_the_other_attacks() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4)).eval()
    data = batch(model)
    (alone,) = evaluate_each(model, data, [FGSM(0.05)])
    together, _ = evaluate_each(model, data, [FGSM(0.05), PGD(0.05)])
    for one, other in zip(alone.arrays().values(), together.arrays().values(), strict=True):
        assert (one == other).all()


@pytest.mark.filterwarnings("ignore:the model draws at random")
def test_evaluation_of_a_randomized_model_leaves_the_generator_unchanged() -> None:
    model = Preprocessed(lambda x: x + 0.01 * torch.randn_like(x)).eval()
    data, before = batch(model), torch.get_rng_state()
    evaluate(model, data, FGSM(0.1))
    assert torch.equal(torch.get_rng_state(), before)


class Alternating(nn.Module):
    """Odd passes are confident and their CE increases with x; even passes are not, their CE decreases and dominates."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        x = x.flatten(1)[:, 0]
        odds = -8 + 3 * x if self.passes % 2 else -1 - 2 * x
        return torch.stack([-odds / 2, odds / 2], 1)


def mean_loss(at: Tensor, y: Tensor) -> Tensor:
    model = Alternating()
    return torch.stack([nn.functional.cross_entropy(model(at), y) for _ in range(20)]).mean()


@pytest.mark.parametrize("targeted", [False, True])
def test_eot_averages_the_loss(targeted: bool) -> None:
    x, y = torch.full((1, 1, 1, 1), 0.5, dtype=torch.float64), torch.tensor([int(targeted)])
    at, sign = x.clone().requires_grad_(), -1 if targeted else 1
    value = mean_loss(at, y)
    (expected,) = torch.autograd.grad(sign * value, at)
    state = AttackState(Alternating(), x, y, targeted=targeted)
    gradient, values, _ = state.gradient(x, torch.tensor([0]), resolve_loss("ce"), eot=20)
    assert gradient.sign().equal(expected.sign())
    torch.testing.assert_close((sign * values).exp()[0], value.detach())
    for attack in (
        PGD(0.3, eot=20, random_start=False, targeted=targeted),
        APGD(0.3, steps=20, eot=20, targeted=targeted),
    ):
        assert sign * mean_loss(attack(Alternating(), x, y), y) > sign * value
    assert targeted or expected < 0


def test_eot_average_of_confident_passes_does_not_vanish() -> None:
    class Confident(Alternating):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 100

    x, y = torch.full((1, 1, 1, 1), 0.5), torch.tensor([0])
    gradient, values, _ = AttackState(Confident(), x, y).gradient(x, torch.tensor([0]), resolve_loss("ce"), eot=4)
    assert gradient.item() < -1
    assert values.item() == pytest.approx(-200 - torch.tensor(2.0).log().item(), abs=0.1)
