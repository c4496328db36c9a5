"""PGD against the closed form of linear models, and its keyed starts."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust import draws
from ctrobust.attacks import PGD
from ctrobust.attacks.attack_losses import Loss
from ctrobust.specs.attack_fields import Norm, Success

EPS = 0.05


def plain(logits: Tensor, y: Tensor, _: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


def problem(C: int) -> tuple[nn.Sequential, Tensor, Tensor, Tensor]:
    """A linear model where class 1 dominates the other wrong ones of label 0; images; labels; w_1 - w_0."""
    generator = torch.Generator().manual_seed(C)
    layer = nn.Linear(12, C, dtype=torch.float64)
    layer.weight.data = 0.1 * torch.randn(C, 12, generator=generator, dtype=torch.float64)
    # No pixel moves the difference of the two by less than .5.
    layer.weight.data[1] = torch.tensor([0.6, -0.9] * 6, dtype=torch.float64)
    layer.weight.data[0] = torch.tensor([-0.4, 0.1, 0.0, 0.2] * 3, dtype=torch.float64)
    layer.bias.data = torch.tensor([0.9, 0.0] + [-60.0] * (C - 2), dtype=torch.float64)
    x = torch.rand(64, 1, 3, 4, generator=generator, dtype=torch.float64)
    x[:8] = x[:8].round()
    direction = (layer.weight[1] - layer.weight[0]).detach().view(1, 3, 4)
    return nn.Sequential(nn.Flatten(), layer), x, torch.zeros(64, dtype=torch.int64), direction


def best(x: Tensor, direction: Tensor, eps: float) -> Tensor:
    """The corner of ball and box that is farthest along w_1 - w_0."""
    return (x + eps * direction.sign()).clamp(0, 1)


def start_of(eps: float, x: Tensor, keys: Tensor | None = None, seed: int = 0) -> Tensor:
    """The start of PGD, by one step of size 0."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 3, dtype=x.dtype))
    attack = PGD(eps, steps=1, step_size=0.0, success="last", seed=seed)
    return attack(model, x, torch.zeros(len(x), dtype=torch.int64), keys)


@pytest.mark.parametrize("random_start", [True, False])
@pytest.mark.parametrize(
    ("C", "loss"),
    [(2, "ce"), (2, "margin"), (2, "sce(gamma=0)"), (2, plain), (6, "ce"), (6, "sce(gamma=5)"), (6, "std"),
     (6, "dlr"), (6, "margin"), (6, plain)],
)  # fmt: skip
def test_ends_in_the_best_corner(C: int, loss: str | Loss, random_start: bool) -> None:
    model, x, y, direction = problem(C)
    x_adv = PGD(EPS, steps=9, loss=loss, random_start=random_start, success="last")(model, x, y)
    torch.testing.assert_close(x_adv, best(x, direction, EPS), rtol=0, atol=1e-15)


def test_kl_ends_in_one_of_two_corners() -> None:
    model, x, y, direction = problem(6)
    x_adv = PGD(EPS, steps=9, loss="kl", success="last")(model, x, y)
    toward, away = ((x_adv - best(x, sign * direction, EPS)).abs().flatten(1).amax(1) < 1e-15 for sign in (1, -1))
    assert (toward | away).all()
    assert toward.any()
    assert away.any()


@pytest.mark.parametrize(("steps", "step_size"), [(1, 0.01), (3, 0.01), (3, 0.02), (9, 0.02)])
def test_each_step_is_of_the_given_size_until_the_ball_ends(steps: int, step_size: float) -> None:
    model, x, y, direction = problem(6)
    attack = PGD(EPS, steps=steps, step_size=step_size, random_start=False, success="last")
    expected = best(x, direction, min(steps * step_size, EPS))
    torch.testing.assert_close(attack(model, x, y), expected, rtol=0, atol=1e-15)


def test_a_step_is_a_quarter_of_the_radius_by_default() -> None:
    model, x, y, _ = problem(6)
    for steps in (1, 3):
        default, given = (
            PGD(EPS, steps=steps, step_size=size, random_start=False, success="last") for size in (None, EPS / 4)
        )
        assert torch.equal(default(model, x, y), given(model, x, y))
        assert (default(model, x, y) - x).abs().max().item() == pytest.approx(steps * EPS / 4, rel=1e-9)


@pytest.mark.parametrize("loss", ["ce", "margin", "std", "sce", "dlr"])
@pytest.mark.parametrize("success", ["any", "last"])
def test_success_begins_at_the_distance_to_the_boundary(loss: str, success: Success) -> None:
    model, x, y, direction = problem(6)
    x = 0.35 + 0.3 * x
    logits = model(x).detach()
    distance = (logits[:, 0] - logits[:, 1]) / direction.abs().sum()
    reachable = ((distance > 1e-3) & (distance < 0.3)).nonzero()[:4, 0].tolist()
    assert len(reachable) == 4
    for i in reachable:
        for factor, fooled in ((1 - 1e-9, False), (1 + 1e-9, True)):
            attack = PGD(distance[i].item() * factor, steps=9, loss=loss, success=success)
            assert attack.run(model, x[i : i + 1], y[i : i + 1]).success.tolist() == [fooled]


@pytest.mark.parametrize("loss", ["ce", "margin", "std"])
def test_success_is_what_the_box_leaves_possible(loss: str) -> None:
    model, x, y, direction = problem(6)
    reached = model(best(x, direction, 0.2)).detach()
    result = PGD(0.2, steps=9, loss=loss).run(model, x, y)
    assert torch.equal(result.success, reached[:, 1] > reached[:, 0])
    assert 0 < result.success.double().mean() < 1
    assert torch.equal(model(result.x_adv).argmax(1) != y, result.success)


def test_start_is_uniform_in_the_ball_cut_by_the_box(digits: tuple[Tensor, Tensor]) -> None:
    x, keys = digits[0], torch.arange(1000, 1250)
    start = start_of(EPS, x, keys, seed=3)
    noise = draws.uniform(keys, draws.stream(3, "pgd"), (1, 14, 14)).double() * (2 * EPS) - EPS
    torch.testing.assert_close(start, (x + noise).clamp(0, 1), rtol=0, atol=1e-16)
    inner = (x > EPS) & (x < 1 - EPS)
    moved = ((start - x)[inner] / EPS).sort().values
    expected = torch.linspace(-1, 1, len(moved), dtype=torch.float64)
    assert (moved - expected).abs().max() < 4 / len(moved) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_starts_are_the_same_in_every_batch(digits: tuple[Tensor, Tensor], dtype: torch.dtype) -> None:
    x, keys = digits[0].to(dtype), torch.arange(250) * 7 - 300
    whole = start_of(EPS, x, keys)
    for size in (1, 7, 64):
        stages = [start_of(EPS, *stage) for stage in zip(torch.split(x, size), torch.split(keys, size), strict=True)]
        assert torch.equal(torch.cat(stages), whole)


def test_keys_are_positions_by_default(digits: tuple[Tensor, Tensor]) -> None:
    x = digits[0][:20]
    start = start_of(EPS, x)
    assert torch.equal(start, start_of(EPS, x, torch.arange(20)))
    for other in (start_of(EPS, x, torch.arange(1, 21)), start_of(EPS, x, seed=1)):
        assert not (start == other).flatten(1).all(1).any()


@pytest.mark.parametrize("loss", ["ce", "std", "kl", plain])
def test_outcomes_do_not_depend_on_the_batch(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], loss: str | Loss
) -> None:
    (x, y), keys = digits, torch.arange(250)
    attack = PGD(0.08, steps=5, loss=loss)
    whole = attack.run(network, x, y, keys)
    assert 0.1 < whole.success.double().mean() < 0.9
    some = torch.randperm(250, generator=torch.Generator().manual_seed(1))
    for indices in (*torch.split(some, 64), some[:7], some[7:8], keys[whole.success], keys[~whole.success]):
        stage = attack.run(network, x[indices], y[indices], keys[indices])
        for name in ("x_adv", "success", "forwards", "backwards"):
            assert torch.equal(getattr(stage, name), getattr(whole, name)[indices]), name


def test_dropping_the_fooled_changes_nothing_for_the_others(
    network: nn.Sequential, digits: tuple[Tensor, Tensor]
) -> None:
    x, y = digits
    dropping = PGD(0.08, steps=5, success="any").run(network, x, y)
    carrying = PGD(0.08, steps=5, success="last").run(network, x, y)
    active = ~dropping.success
    assert active.any()
    assert dropping.success.any()
    assert torch.equal(dropping.x_adv[active], carrying.x_adv[active])
    assert not carrying.success[active].any()


def inner(C: int = 6) -> tuple[nn.Sequential, Tensor, Tensor, Tensor, Tensor]:
    """A linear model with images of class 0 inside the box, and their l2 distances to class 1."""
    model, x, y, direction = problem(C)
    x = 0.45 + 0.1 * x
    logits = model(x).detach()
    distance = (logits[:, 0] - logits[:, 1]) / direction.norm()
    # The box is further than the boundary.
    assert 0.4 < distance.min() < distance.max() < 0.6
    assert 0.6 * direction.abs().max() / direction.norm() < 0.4
    return model, x, y, direction, distance


@pytest.mark.parametrize("loss", ["margin", "ce", "std"])
def test_in_l2_ends_at_the_best_point_of_the_ball(loss: str) -> None:
    model, x, y, direction, _ = inner()
    expected = x + 0.5 * direction / direction.norm()
    straight = PGD(0.5, steps=5, loss=loss, norm="l2", random_start=False, success="last")(model, x, y)
    torch.testing.assert_close(straight, expected, rtol=0, atol=1e-12 if loss == "margin" else 1e-2)
    started = PGD(0.5, steps=80, loss=loss, norm="l2", success="last")(model, x, y)
    torch.testing.assert_close(started, expected, rtol=0, atol=1e-6 if loss == "margin" else 1e-2)


@pytest.mark.parametrize(("steps", "step_size"), [(1, 0.01), (3, 0.02), (9, 0.05)])
def test_in_l2_each_step_is_of_the_given_length(steps: int, step_size: float) -> None:
    model, x, y, direction, _ = inner()
    attack = PGD(0.2, steps=steps, step_size=step_size, loss="margin", norm="l2", random_start=False, success="last")
    expected = x + min(steps * step_size, 0.2) * direction / direction.norm()
    torch.testing.assert_close(attack(model, x, y), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("random_start", [True, False])
@pytest.mark.parametrize("loss", ["ce", "margin", "dlr"])
def test_success_in_l2_begins_at_the_distance_to_the_boundary(loss: str, random_start: bool) -> None:
    model, x, y, _, distance = inner()
    for i in range(6):
        for factor, fooled in ((0.999, False), (1.001, True)):
            attack = PGD(distance[i].item() * factor, steps=40, loss=loss, norm="l2", random_start=random_start)
            assert attack.run(model, x[i : i + 1], y[i : i + 1]).success.tolist() == [fooled]


def test_start_in_l2_is_in_the_ball_and_the_box(digits: tuple[Tensor, Tensor]) -> None:
    x = digits[0]
    attack = PGD(2.0, steps=1, step_size=0.0, norm="l2", success="last", seed=3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(196, 3, dtype=x.dtype))
    start = attack(model, x, torch.zeros(250, dtype=torch.int64))
    moved = (start - x).flatten(1).norm(dim=1)
    assert moved.max() <= 2 + 1e-12
    assert moved.min() > 0.5  # much is cut off at black and white
    direction = draws.normal(torch.arange(250), draws.stream(3, "pgd"), (1, 14, 14)).double()
    inside = (x > 0.01) & (x < 0.99) & (start > 0) & (start < 1)
    assert torch.equal((start - x).sign()[inside], direction.sign()[inside])


def near(count: int) -> tuple[nn.Module, Tensor, Tensor]:
    """Images so near to the boundary that about half of the starts are beyond it."""
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    model = nn.Linear(4, 2, dtype=torch.float64)
    model.weight.data, model.bias.data = torch.stack([0 * signs, signs]), torch.zeros(2, dtype=torch.float64)
    return model, (0.5 - 5e-5 * signs).expand(count, 4), torch.zeros(count, dtype=torch.int64)


@pytest.mark.parametrize("success", ["any", "last"])
def test_restarts_have_other_starts_and_skip_fooled_examples(success: Success) -> None:
    model, x, y = near(200)
    starts = []
    for restart in range(3):
        stream = draws.stream(7, "pgd", restart) if restart else draws.stream(7, "pgd")
        starts.append(x + draws.uniform(torch.arange(200), stream, (4,)).double() * 0.2 - 0.1)
    beyond = torch.stack([model(start).argmax(1) == 1 for start in starts])
    fooled = beyond.any(0)
    first = beyond.double().argmax(0)
    assert 0.8 < fooled.double().mean() < 1
    assert set(first.tolist()) == {0, 1, 2}

    attack = PGD(0.1, steps=1, step_size=0.0, restarts=3, success=success, seed=7)
    result = attack.run(model, x, y)
    assert torch.equal(result.success, fooled)
    for i in range(200):
        expected = starts[first[i] if fooled[i] else 2][i]
        torch.testing.assert_close(result.x_adv[i], expected, rtol=0, atol=1e-15)
    # A clean pass where misclassified images are not attacked; for each start one to differentiate and one to classify;
    # a start that was seen to fool needs neither the latter nor a gradient.
    tries = torch.where(fooled, first + 1, 3)
    clean, unneeded = (1, fooled.long()) if success == "any" else (0, torch.zeros(200, dtype=torch.int64))
    assert torch.equal(result.backwards, tries - unneeded)
    assert torch.equal(result.forwards, clean + 2 * tries - unneeded)
    assert torch.equal(attack(model, x, y), result.x_adv)


def test_one_restart_is_the_default() -> None:
    model, x, y = near(50)
    assert torch.equal(PGD(0.1, steps=2, restarts=1)(model, x, y), PGD(0.1, steps=2)(model, x, y))


class NoisyGradient(nn.Module):
    """A linear model whose gradient is disturbed anew at each pass, though its logits are not."""

    def __init__(self, model: nn.Module, noise: float) -> None:
        super().__init__()
        self.model, self.noise = model, noise

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        nothing = (torch.randn_like(x) * self.noise * (x - x.detach())).flatten(1).sum(1)
        return torch.stack([logits[:, 0], logits[:, 1] + nothing], 1)


def test_averaging_overcomes_noise_in_the_gradient() -> None:
    model, x, y, direction = problem(2)
    noisy = NoisyGradient(model, 3.0)
    reached = {}
    for eot in (1, 30, 300):
        torch.manual_seed(0)
        state = torch.get_rng_state()
        x_adv = PGD(EPS, steps=4, loss="margin", random_start=False, success="last", eot=eot)(noisy, x, y)
        assert torch.equal(torch.get_rng_state(), state)
        reached[eot] = ((x_adv - x) * direction).flatten(1).sum(1).mean().item()
    most = ((best(x, direction, EPS) - x) * direction).flatten(1).sum(1).mean().item()
    assert reached[1] < 0.5 * most < 0.8 * most < reached[30] < reached[300]
    assert reached[300] > 0.97 * most


@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_a_randomized_model_is_attacked_without_eot(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:60], digits[1][:60]
    model = nn.Sequential(nn.Dropout(0.3), network)
    for attack in (PGD(0.1, steps=12), PGD(0.1, steps=12, eot=4)):
        result = attack.run(model, x, y)
        # Drawn from the caller's generator, which is then put back: the same again.
        assert torch.equal(attack.run(model, x, y).x_adv, result.x_adv)
        assert result.success.double().mean() > 0.5
    assert not network.training


@pytest.mark.parametrize("loss", ["ce", "margin"])
@pytest.mark.parametrize("C", [2, 3, 6])
def test_targeted_ends_in_the_best_corner(loss: str, C: int) -> None:
    model, x, y, direction = problem(C)
    for label, sign in ((1, 1), (0, -1)):
        attack = PGD(EPS, steps=9, loss=loss, targeted=True, success="last")
        result = attack.run(model, x, y + label)
        torch.testing.assert_close(result.x_adv, best(x, sign * direction, EPS), rtol=0, atol=1e-15)
        assert torch.equal(result.success, model(result.x_adv).argmax(1) == label)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("loss", ["ce", "margin"])
def test_targeted_reaches_classes_of_a_network(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], loss: str, norm: Norm
) -> None:
    (x, y), eps = digits, 0.3 if norm == "linf" else 3.0
    target = (y + 1 + torch.arange(250) % 9) % 10
    result = PGD(eps, steps=20, loss=loss, norm=norm, targeted=True).run(network, x, target)
    assert torch.equal(network(result.x_adv).argmax(1) == target, result.success)
    assert result.success.double().mean() > 0.8
    there = network(x).argmax(1) == target
    assert torch.equal(result.x_adv[there], x[there])


def test_text_and_comparison() -> None:
    attack = PGD(8 / 255, steps=7, step_size=2 / 255, loss="sce(gamma=5.0)", random_start=False, seed=2)
    assert str(attack) == "pgd:eps=8/255,steps=7,step_size=2/255,loss=sce(gamma=5),random_start=false,seed=2"
    assert str(PGD(0.3, step_size=0.3 / 4)) == "pgd:eps=0.3,step_size=0.075"
    assert len({attack, PGD(0.3), PGD(0.3, steps=20)}) == 2
