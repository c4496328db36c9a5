"""MI-FGSM against its recursion written out, and the closed form of linear models."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust.attacks import MIFGSM, PGD
from ctrobust.attacks.attack_losses import Loss
from ctrobust.specs.attack_fields import Norm, Success

EPS = 0.08


def plain(logits: Tensor, y: Tensor, _: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


def by_hand(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, size: float, steps: int, momentum: float, norm: Norm
) -> Tensor:
    """The recursion, one example at a time."""
    found = []
    for image, label in zip(x, y, strict=True):
        adv, memory = image.clone(), torch.zeros_like(image)
        for _ in range(steps):
            at = adv.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(cross_entropy(model(at[None]), label[None]), at)
            memory = momentum * memory + gradient / gradient.abs().mean()
            adv = adv + size * (memory.sign() if norm == "linf" else memory / memory.norm())
            offset = adv - image
            if norm == "linf":
                offset = offset.clamp(-eps, eps)
            elif offset.norm() > eps:
                offset = offset * eps / offset.norm()
            adv = (image + offset).clamp(0, 1)
        found.append(adv)
    return torch.stack(found)


@pytest.mark.parametrize("loss", ["ce", plain])
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize(("steps", "momentum"), [(1, 1.0), (3, 1.0), (10, 1.0), (10, 0.3), (5, 0.0)])
def test_agrees_with_the_recursion(
    network: nn.Sequential,
    digits: tuple[Tensor, Tensor],
    loss: str | Loss,
    norm: Norm,
    steps: int,
    momentum: float,
) -> None:
    x, y = digits[0][:12], digits[1][:12]
    eps = EPS if norm == "linf" else 1.0
    attack = MIFGSM(eps, steps=steps, momentum=momentum, loss=loss, norm=norm, success="last")
    expected = by_hand(network, x, y, eps, eps / 4, steps, momentum, norm)
    torch.testing.assert_close(attack(network, x, y), expected, rtol=0, atol=1e-9)


def test_momentum_matters(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:50], digits[1][:50]
    found = [MIFGSM(EPS, momentum=momentum, success="last")(network, x, y) for momentum in (0.0, 0.5, 1.0)]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert ((found[one] - found[other]).abs().flatten(1).amax(1) > 1e-3).double().mean() > 0.5


def test_without_momentum_it_is_pgd_from_the_image(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits
    for success in ("any", "last"):
        mine = MIFGSM(EPS, steps=5, momentum=0.0, success=success).run(network, x, y)
        pgd = PGD(EPS, steps=5, random_start=False, success=success).run(network, x, y)
        for field in ("x_adv", "success", "forwards", "backwards"):
            assert torch.equal(getattr(mine, field), getattr(pgd, field)), field


class Turning(nn.Module):
    """Two classes whose difference first has one gradient and beyond a point another, both given."""

    def __init__(self, first: Tensor, then: Tensor, at: float) -> None:
        super().__init__()
        self.first, self.then, self.at = first, then, at

    def forward(self, x: Tensor) -> Tensor:
        slope = torch.where(((x - 0.5).abs().amax(1) < self.at)[:, None], self.first, self.then)
        return torch.stack([torch.ones_like(x[:, 0]) * 1e3, (slope * x).sum(1)], 1)


def test_the_accumulated_gradient_outweighs_a_smaller_one() -> None:
    # The gradients' means are divided out: (4, 2) -> (4/3, 2/3), then (-1, 2) -> (-2/3, 4/3): their sum keeps signs.
    model = Turning(torch.tensor([4.0, 2.0]).double(), torch.tensor([-1.0, 2.0]).double(), 0.01)
    x, y = torch.full((1, 2), 0.5, dtype=torch.float64), torch.tensor([0])
    for momentum, expected in ((1.0, [0.54, 0.54]), (0.4, [0.5, 0.54])):
        attack = MIFGSM(0.2, steps=2, step_size=0.02, momentum=momentum, loss="margin")
        torch.testing.assert_close(
            attack(model, x, y), torch.tensor([expected], dtype=torch.float64), rtol=0, atol=1e-15
        )


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_zero_gradient_changes_neither_image_nor_accumulated_gradient(norm: Norm) -> None:
    still = torch.zeros(2, dtype=torch.float64)
    x, y = torch.full((3, 2), 0.5, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
    flat = Turning(still, still, 0.01)
    assert torch.equal(MIFGSM(0.2, norm=norm, loss="margin")(flat, x, y), x)
    # Where the slope ends the memory of it leads on.
    ending = Turning(torch.tensor([3.0, 4.0]).double(), still, 0.005)
    length = torch.tensor([1.0, 1.0] if norm == "linf" else [0.6, 0.8], dtype=torch.float64)
    found = MIFGSM(0.2, steps=4, step_size=0.02, norm=norm, loss="margin")(ending, x, y)
    torch.testing.assert_close(found, x + 4 * 0.02 * length, rtol=0, atol=1e-15)
    at_once = MIFGSM(0.2, steps=4, step_size=0.02, momentum=0.0, norm=norm, loss="margin")(ending, x, y)
    torch.testing.assert_close(at_once, x + 0.02 * length, rtol=0, atol=1e-15)


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e30])
def test_gradients_of_any_size(scale: float) -> None:
    model = Turning(torch.tensor([1.0, -3.0]) * scale, torch.tensor([1.0, -3.0]) * scale, 0.01)
    x, y = torch.full((2, 2), 0.5), torch.zeros(2, dtype=torch.int64)
    found = MIFGSM(0.2, steps=2, step_size=0.02, loss="margin", success="last")(model, x, y)
    torch.testing.assert_close(found, torch.tensor([[0.54, 0.46]] * 2))


def problem(C: int) -> tuple[nn.Sequential, Tensor, Tensor, Tensor]:
    """A linear model where class 1 dominates the other wrong ones of label 0; images; labels; w_1 - w_0."""
    generator = torch.Generator().manual_seed(C)
    layer = nn.Linear(12, C, dtype=torch.float64)
    layer.weight.data = 0.1 * torch.randn(C, 12, generator=generator, dtype=torch.float64)
    layer.weight.data[1] = torch.tensor([0.6, -0.9] * 6, dtype=torch.float64)
    layer.weight.data[0] = torch.tensor([-0.4, 0.1, 0.0, 0.2] * 3, dtype=torch.float64)
    layer.bias.data = torch.tensor([0.9, 0.0] + [-60.0] * (C - 2), dtype=torch.float64)
    x = torch.rand(64, 1, 3, 4, generator=generator, dtype=torch.float64)
    x[:8] = x[:8].round()
    direction = (layer.weight[1] - layer.weight[0]).detach().view(1, 3, 4)
    return nn.Sequential(nn.Flatten(), layer), x, torch.zeros(64, dtype=torch.int64), direction


@pytest.mark.parametrize(("C", "loss"), [(2, "ce"), (2, "margin"), (6, "ce"), (6, "std"), (6, "dlr"), (6, "sce")])
def test_ends_in_the_best_corner(C: int, loss: str) -> None:
    model, x, y, direction = problem(C)
    x_adv = MIFGSM(EPS, loss=loss, success="last")(model, x, y)
    torch.testing.assert_close(x_adv, (x + EPS * direction.sign()).clamp(0, 1), rtol=0, atol=1e-15)


@pytest.mark.parametrize("success", ["any", "last"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_success_begins_at_the_distance_to_the_boundary(norm: Norm, success: Success) -> None:
    model, x, y, direction = problem(6)
    x = 0.45 + 0.1 * x[:5]
    logits = model(x).detach()
    length = direction.abs().sum() if norm == "linf" else direction.norm()
    for i, distance in enumerate(((logits[:, 0] - logits[:, 1]) / length).tolist()):
        for factor, fooled in ((1 - 1e-9, False), (1 + 1e-9, True)):
            attack = MIFGSM(distance * factor, loss="margin", norm=norm, success=success)
            assert attack.run(model, x[i : i + 1], y[i : i + 1]).success.tolist() == [fooled]


@pytest.mark.parametrize("loss", ["ce", "margin"])
def test_targeted(loss: str, network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    model, x, y, direction = problem(6)
    for label, sign in ((1, 1), (0, -1)):
        result = MIFGSM(EPS, loss=loss, targeted=True, success="last").run(model, x, y + label)
        corner = (x + sign * EPS * direction.sign()).clamp(0, 1)
        torch.testing.assert_close(result.x_adv, corner, rtol=0, atol=1e-15)
        assert torch.equal(result.success, model(result.x_adv).argmax(1) == label)
    images, labels = digits
    target = (labels + 1) % 10
    found = MIFGSM(0.4, loss=loss, targeted=True).run(network, images, target)
    assert found.success.double().mean() > 0.6
    assert torch.equal(network(found.x_adv).argmax(1) == target, found.success)


def test_accumulated_gradients_are_not_mixed_up_when_examples_are_broken(
    network: nn.Sequential, digits: tuple[Tensor, Tensor]
) -> None:
    x, y = digits
    dropping = MIFGSM(EPS, success="any").run(network, x, y)
    carrying = MIFGSM(EPS, success="last").run(network, x, y)
    active = ~dropping.success
    assert 0.1 < active.double().mean() < 0.9
    torch.testing.assert_close(dropping.x_adv[active], carrying.x_adv[active], rtol=0, atol=1e-12)
    assert not carrying.success[active].any()


def test_outcomes_do_not_depend_on_the_batch(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    (x, y), keys = digits, torch.arange(250)
    for loss in ("ce", "kl"):
        attack = MIFGSM(EPS, steps=5, loss=loss)
        whole = attack.run(network, x, y, keys)
        some = torch.randperm(250, generator=torch.Generator().manual_seed(1))
        for indices in (*torch.split(some, 64), some[:7], some[7:8], keys[whole.success], keys[~whole.success]):
            stage = attack.run(network, x[indices], y[indices], keys[indices])
            for name in ("x_adv", "success", "forwards", "backwards"):
                assert torch.equal(getattr(stage, name), getattr(whole, name)[indices]), name


def test_eot_averages_gradients() -> None:
    model, x, y, _ = problem(6)
    single = MIFGSM(0.3, steps=4).run(model, x, y)
    averaged = MIFGSM(0.3, steps=4, eot=2).run(model, x, y)
    torch.testing.assert_close(averaged.x_adv, single.x_adv, rtol=0, atol=1e-15)
    assert torch.equal(averaged.backwards, 2 * single.backwards)


def test_text_and_comparison() -> None:
    attack = MIFGSM(8 / 255, step_size=2 / 255, momentum=0.9, loss="sce(gamma=5.0)", seed=2)
    assert str(attack) == "mifgsm:eps=8/255,step_size=2/255,momentum=0.9,loss=sce(gamma=5),seed=2"
    assert str(MIFGSM(0.3)) == "mifgsm:eps=0.3"
    assert len({attack, MIFGSM(0.3), MIFGSM(0.3, steps=10)}) == 2
