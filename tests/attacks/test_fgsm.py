"""FGSM against the closed form of linear models."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust.attacks import FGSM
from ctrobust.attacks.attack_losses import Loss
from ctrobust.specs.attack_fields import Success

EPS = 0.05


def plain(logits: Tensor, y: Tensor, _: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


def linear(weight: Tensor, bias: Tensor) -> nn.Sequential:
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.weight.data, layer.bias.data = weight, bias
    return nn.Sequential(nn.Flatten(), layer)


def problem(C: int) -> tuple[nn.Sequential, Tensor, Tensor, Tensor]:
    """A linear model where class 1 dominates the other wrong ones of label 0; images; labels; w_1 - w_0."""
    generator = torch.Generator().manual_seed(C)
    weight = torch.zeros(C, 12, dtype=torch.float64)
    # Half of the pixels raise class 1 and half lower it, none by less than .5.
    weight[1] = (0.5 + torch.rand(12, generator=generator, dtype=torch.float64)) * torch.tensor([1, -1] * 6)
    weight[0] = -weight[1] * torch.rand(12, generator=generator, dtype=torch.float64)
    weight[2:] = 0.1 * torch.randn(C - 2, 12, generator=generator, dtype=torch.float64)
    bias = torch.full((C,), -60.0, dtype=torch.float64)
    bias[:2] = torch.tensor([0.4, 0.0])
    x = torch.rand(64, 1, 3, 4, generator=generator, dtype=torch.float64)
    x[:8] = x[:8].round()
    return linear(weight, bias), x, torch.zeros(64, dtype=torch.int64), (weight[1] - weight[0]).view(1, 3, 4)


def best(x: Tensor, direction: Tensor, eps: float) -> Tensor:
    """The corner of ball and box that is farthest along w_1 - w_0."""
    return (x + eps * direction.sign()).clamp(0, 1)


@pytest.mark.parametrize("loss", ["ce", "margin", "sce(gamma=0)", plain])
def test_two_classes(loss: str | Loss) -> None:
    model, x, y, direction = problem(2)
    assert torch.equal(FGSM(EPS, loss=loss, success="last")(model, x, y), best(x, direction, EPS))


@pytest.mark.parametrize("loss", ["ce", "sce", "sce(gamma=5)", "std", "dlr", "margin", plain])
def test_one_wrong_class_dominates(loss: str | Loss) -> None:
    model, x, y, direction = problem(6)
    assert torch.equal(FGSM(EPS, loss=loss, success="last")(model, x, y), best(x, direction, EPS))


@pytest.mark.parametrize("loss", ["kl", "skl", "skl(gamma=1,std_at=clean)"])
def test_divergences_go_to_one_of_two_corners(loss: str) -> None:
    # Away from the clean output on the side of the start beside it.
    model, x, y, direction = problem(6)
    x_adv = FGSM(EPS, loss=loss, success="last")(model, x, y)
    toward, away = ((x_adv == best(x, sign * direction, EPS)).flatten(1).all(1) for sign in (1, -1))
    assert (toward | away).all()
    assert toward.any()
    assert away.any()


def test_the_start_near_the_image_is_keyed() -> None:
    model, x, y, _ = problem(6)
    attack, keys = FGSM(EPS, loss="kl", success="last"), torch.arange(100, 164)
    x_adv = attack(model, x, y, keys)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))[:40]
    assert torch.equal(attack(model, x[order], y[order], keys[order]), x_adv[order])
    assert not torch.equal(attack(model, x, y), x_adv)
    assert not torch.equal(FGSM(EPS, loss="kl", success="last", seed=1)(model, x, y, keys), x_adv)


@pytest.mark.parametrize("loss", ["ce", "margin", "std", "sce", "dlr"])
@pytest.mark.parametrize("success", ["any", "last"])
def test_success_begins_at_the_distance_to_the_boundary(loss: str, success: Success) -> None:
    model, x, y, direction = problem(6)
    x = 0.35 + 0.3 * x
    logits = model(x).detach()
    distance = (logits[:, 0] - logits[:, 1]) / direction.abs().sum()
    reachable = ((distance > 1e-3) & (distance < 0.3)).nonzero()[:6, 0].tolist()
    assert len(reachable) == 6
    for i in reachable:
        for factor, fooled in ((1 - 1e-9, False), (1 + 1e-9, True)):
            attack = FGSM(distance[i].item() * factor, loss=loss, success=success)
            assert attack.run(model, x[i : i + 1], y[i : i + 1]).success.tolist() == [fooled]


@pytest.mark.parametrize("loss", ["ce", "margin", "std"])
def test_success_is_what_the_box_leaves_possible(loss: str) -> None:
    model, x, y, direction = problem(6)
    reached = model(best(x, direction, 0.2)).detach()
    fooled = FGSM(0.2, loss=loss).run(model, x, y).success
    assert torch.equal(fooled, reached[:, 1] > reached[:, 0])
    assert 0 < fooled.double().mean() < 1


@pytest.mark.parametrize("loss", ["ce", "margin", "std", "sce(gamma=5)", "dlr", plain])
def test_in_l2_the_step_is_along_the_gradient(loss: str | Loss) -> None:
    model, x, y, direction = problem(6)
    x_adv = FGSM(0.3, loss=loss, norm="l2", success="last")(model, x, y)
    expected = (x + 0.3 * direction / direction.norm()).clamp(0, 1)
    torch.testing.assert_close(x_adv, expected, rtol=0, atol=1e-12 if loss == "margin" else 2e-2)


@pytest.mark.parametrize("success", ["any", "last"])
def test_success_in_l2_begins_at_the_distance_to_the_boundary(success: Success) -> None:
    model, x, y, direction = problem(6)
    x = 0.35 + 0.3 * x
    logits = model(x).detach()
    distance = (logits[:, 0] - logits[:, 1]) / direction.norm()
    reachable = ((distance > 1e-3) & (distance < 0.3)).nonzero()[:6, 0].tolist()
    assert len(reachable) == 6
    for i in reachable:
        for factor, fooled in ((1 - 1e-9, False), (1 + 1e-9, True)):
            attack = FGSM(distance[i].item() * factor, loss="margin", norm="l2", success=success)
            assert attack.run(model, x[i : i + 1], y[i : i + 1]).success.tolist() == [fooled]


@pytest.mark.parametrize("loss", ["ce", "margin"])
@pytest.mark.parametrize("C", [2, 3, 6])
def test_targeted_goes_to_the_class(loss: str, C: int) -> None:
    model, x, y, direction = problem(C)
    found = FGSM(0.2, loss=loss, targeted=True, success="last").run(model, x, y + 1)
    assert torch.equal(found.x_adv, best(x, direction, 0.2))
    assert torch.equal(found.success, model(found.x_adv).argmax(1) == 1)
    assert 0 < found.success.double().mean() < 1
    away = FGSM(0.2, loss=loss, targeted=True, success="last").run(model, x, y)
    assert torch.equal(away.x_adv, best(x, -direction, 0.2))
    assert torch.equal(away.success, model(away.x_adv).argmax(1) == 0)


def test_targeted_does_not_attack_examples_that_are_already_in_the_class() -> None:
    model, x, y, _ = problem(6)
    there = model(x).argmax(1) == 0
    assert 0 < there.double().mean() < 1
    found = FGSM(0.2, targeted=True).run(model, x, y, clean_logits=model(x).detach())
    assert torch.equal(found.x_adv[there], x[there])
    assert found.success[there].all()
    assert not found.forwards[there].any()
    assert (found.forwards[~there] == 2).all()


def test_text_and_comparison() -> None:
    attack = FGSM(8 / 255, loss="skl( std_at=adv, gamma=1.0 )", success="last", seed=3)
    assert str(attack) == "fgsm:eps=8/255,loss=skl(gamma=1),success=last,seed=3"
    assert attack == FGSM(8 / 255, loss="skl(gamma=1)", success="last", seed=3)
    assert len({attack, FGSM(8 / 255), FGSM(8 / 255, loss="ce")}) == 2
    assert math.isclose(attack.eps, 8 / 255)
