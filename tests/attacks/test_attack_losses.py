"""Attack losses have the gradient direction of the losses they replace, also where these underflow."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ctrobust import losses
from ctrobust.attacks import FGSM, PGD
from ctrobust.attacks.attack_losses import (
    ATTACK_LOSSES,
    Loss,
    least_classes,
    log_odds,
    log_sce,
    resolve_loss,
)
from tests.attacks.rows import LOSS_ROWS, Plain

PAIRS = {text: row.plain for text, row in LOSS_ROWS.items() if row.plain is not None}
"""The text of an attack loss, and the loss that it replaces."""

UNDERFLOWING = [text for text, row in LOSS_ROWS.items() if row.underflows]
every_pair = pytest.mark.parametrize(("text", "plain"), PAIRS.items())


def gradient(loss: Loss, logits: Tensor, y: Tensor) -> Tensor:
    logits = logits.clone().requires_grad_()
    return torch.autograd.grad(loss(logits, y, logits.detach()).sum(), logits)[0]


def as_loss(plain: Plain) -> Loss:
    return lambda z, y, _: plain(z, y)


# On a grid, so that wrong classes are tied or clearly not.
ROWS = st.lists(st.integers(-64, 64).map(lambda i: i / 8), min_size=3, max_size=8)


@every_pair
@settings(max_examples=40, deadline=None)
@given(row=ROWS, label=st.integers(0, 7))
def test_gradient_has_the_direction_of_the_losss_gradient(
    text: str, plain: Plain, row: list[float], label: int
) -> None:
    z, y = torch.tensor([row], dtype=torch.float64), torch.tensor([label % len(row)])
    ours, theirs = gradient(resolve_loss(text).untargeted, z, y), gradient(as_loss(plain), z, y)
    if not theirs.any():
        assert not ours.any()
        return
    torch.testing.assert_close(ours / ours.norm(), theirs / theirs.norm(), rtol=0, atol=1e-6)
    clear = theirs.abs() > 1e-6 * theirs.abs().max()
    assert clear.any()
    assert torch.equal(ours.sign()[clear], theirs.sign()[clear])


@every_pair
@settings(max_examples=40, deadline=None)
@given(row=ROWS, other=ROWS, label=st.integers(0, 7))
def test_values_are_ordered_as_the_loss_orders_them(
    text: str, plain: Plain, row: list[float], other: list[float], label: int
) -> None:
    # An increasing function of the loss: which of two outputs is worse does not change.
    C = min(len(row), len(other))
    z, y = torch.tensor([row[:C], other[:C]], dtype=torch.float64), torch.full((2,), label % C)
    ours, theirs = resolve_loss(text).untargeted(z, y, z), plain(z, y)
    if abs(theirs[0] - theirs[1]) > 1e-6 * theirs.abs().max():
        assert (ours[0] > ours[1]) == (theirs[0] > theirs[1])


@every_pair
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 1e2, 1e4])
def test_values_and_gradients_are_finite(text: str, plain: Plain, dtype: torch.dtype, scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    z = (scale * torch.randn(60, 5, generator=generator, dtype=torch.float64)).to(dtype)
    y = torch.arange(60) % 5
    value, grad = resolve_loss(text).untargeted(z, y, z), gradient(resolve_loss(text).untargeted, z, y)
    assert value.dtype == dtype
    assert value.shape == plain(z, y).shape == (60,)
    assert value.isfinite().all()
    assert grad.isfinite().all()
    assert (grad.abs().amax(1) >= LOSS_ROWS[text].slope).all()


def test_log_odds_by_hand() -> None:
    z = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64).log()
    assert log_odds(z, torch.tensor([0])).item() == pytest.approx(0.0, abs=1e-15)
    assert log_odds(z, torch.tensor([1])).item() == pytest.approx(math.log(0.7 / 0.3))
    assert log_sce(z, torch.tensor([0]), 2.0).item() == pytest.approx(math.log(0.891498), abs=1e-6)


@pytest.mark.parametrize("odds", [-1e4, -300.0, -40.0, -17.001, -16.999, -5.0, 0.0, 5.0, 30.0, 1e4])
def test_log_sce_without_deviation_is_log_softplus_of_the_odds(odds: float) -> None:
    z, y = torch.tensor([[0.0, odds]], dtype=torch.float64), torch.tensor([0])
    # Where exp would underflow or overflow, the leading term.
    exact = odds if odds < -30 else math.log(math.log1p(math.exp(odds)) if odds < 30 else odds)
    assert log_sce(z, y, 0.0).item() == pytest.approx(exact, abs=1e-7)
    assert log_sce(z.float(), y, 0.0).item() == pytest.approx(exact, rel=2e-6)


class Confident(nn.Module):
    """A model whose logits are multiplied by a factor."""

    def __init__(self, model: nn.Module, factor: float) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x) * self.factor
        return logits


@pytest.fixture(scope="module")
def sure(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> tuple[nn.Sequential, Tensor, Tensor]:
    """The network in float32 and images that it classifies correctly, by a margin of at least .3 in the logits."""
    x, y = digits
    with torch.no_grad():
        kept = losses.margin(network(x), y) < -0.3
    assert kept.sum() > 150
    return copy.deepcopy(network).float(), x[kept].float(), y[kept]


@pytest.mark.parametrize("factor", [1e3, 1e4])
@pytest.mark.parametrize("text", UNDERFLOWING)
def test_an_over_confident_model_is_fooled_where_the_plain_loss_stalls(
    sure: tuple[nn.Sequential, Tensor, Tensor], text: str, factor: float
) -> None:
    single, x, y = sure
    model = Confident(single, factor)
    wanting = x.clone().requires_grad_()
    dead = torch.autograd.grad(PAIRS[text](model(wanting), y).sum(), wanting)[0]
    assert not dead.any()

    stalled = FGSM(0.1, loss=as_loss(PAIRS[text]), success="last").run(model, x, y)
    assert torch.equal(stalled.x_adv, x)
    assert not stalled.success.any()
    walked = PGD(0.1, steps=5, random_start=False, loss=as_loss(PAIRS[text])).run(model, x, y)
    assert torch.equal(walked.x_adv, x)
    assert not walked.success.any()

    for attack in (FGSM(0.1, loss=text, success="last"), PGD(0.1, steps=5, loss=text, success="last")):
        found = attack.run(model, x, y)
        exact = attack.run(Confident(copy.deepcopy(single).double(), factor), x.double(), y)
        assert found.success.double().mean() > 0.3
        assert torch.equal(found.success, exact.success)


@pytest.mark.parametrize("text", UNDERFLOWING)
@pytest.mark.parametrize("factor", [1.0, 1e3, 1e4])
def test_over_confidence_does_not_change_the_images_found(text: str, factor: float) -> None:
    # A linear model of three classes, one of which never matters: the best image does not depend on the factor.
    layer = nn.Linear(6, 3)
    layer.weight.data = torch.tensor([[1.0, -1, 1, -1, 1, -1], [-1.0, 1, 2, 1, -1, 1], [0.0, 0, 0, 0, 0, 0]])
    layer.bias.data = torch.tensor([2.0, 0.0, -30.0])
    x = torch.rand(40, 6, generator=torch.Generator().manual_seed(0))
    y = layer(x).argmax(1)
    assert y.unique().tolist() == [0, 1]
    direction = layer.weight[1 - y] - layer.weight[y]
    found = FGSM(0.1, loss=text, success="last").run(Confident(layer, factor), x, y)
    assert torch.equal(found.x_adv, (x + 0.1 * direction.sign()).clamp(0, 1))
    assert 0.3 < found.success.double().mean() < 1
    doubled = FGSM(0.1, loss=text, success="last").run(Confident(layer.double(), 1.0), x.double(), y)
    assert torch.equal(found.success, doubled.success)


def test_divergences_and_callables_need_clean_logits() -> None:
    assert {name for name in ATTACK_LOSSES if resolve_loss(name).needs_clean} == {"kl", "skl"}
    assert {name for name in ATTACK_LOSSES if resolve_loss(name).flat_at_clean} == {"kl", "skl"}
    given = resolve_loss(as_loss(losses.std))
    assert (given.needs_clean, given.flat_at_clean) == (True, False)


def test_the_other_attack_losses_are_the_losses_themselves() -> None:
    generator = torch.Generator().manual_seed(0)
    z, clean = torch.randn(2, 9, 5, generator=generator)
    y = torch.arange(9) % 5
    expected = {
        "kl": losses.kl(z, clean),
        "skl": losses.skl(z, clean, y, gamma=2.0, std_at="adv"),
        "skl(gamma=1,std_at=clean)": losses.skl(z, clean, y, gamma=1.0, std_at="clean"),
        "dlr": losses.dlr(z, y),
        "margin": losses.margin(z, y),
        "std": losses.log_std(z, y),
    }
    for text, value in expected.items():
        assert torch.equal(resolve_loss(text).untargeted(z, y, clean), value), text


def test_forms_toward_a_target_class() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(9, 5, generator=generator)
    y, target = torch.arange(9) % 5, (torch.arange(9) * 2 + 1) % 5
    y = torch.where(y == target, (y + 1) % 5, y)
    expected = {text: row.toward(z, y, target) for text, row in LOSS_ROWS.items() if row.toward is not None}
    for text, value in expected.items():
        found = resolve_loss(text).value(z, y, z, target)
        torch.testing.assert_close(found, value)
        assert torch.equal(resolve_loss(text).value(z, y, z, None), resolve_loss(text).untargeted(z, y, z))
    assert {name for name in ATTACK_LOSSES if resolve_loss(name).toward_target is not None} == set(expected)


def test_a_callable_needs_two_classes() -> None:
    assert least_classes(as_loss(losses.std)) == 2
