"""Noise: its draws, which of them an example gets, and how often a draw breaks a linear model."""

import math

import pytest
import torch
from torch import Tensor, nn

from ctrobust import draws, losses
from ctrobust.attacks import Noise
from ctrobust.attacks.projections import distance, project
from ctrobust.attacks.random_starts import ball_start
from ctrobust.specs.attack_fields import Norm


def linear(weight: list[list[float]], bias: list[float]) -> nn.Module:
    layer = nn.Linear(len(weight[0]), len(weight)).double()
    layer.weight.data, layer.bias.data = torch.tensor(weight).double(), torch.tensor(bias).double()
    return nn.Sequential(nn.Flatten(), layer).eval()


def all_draws(attack: Noise, x: Tensor, keys: Tensor) -> Tensor:
    """Every draw of every example, (draws, N, ...)."""
    starts = [
        ball_start(x, keys, draws.stream(attack.seed, "noise", number), attack.eps, attack.norm)
        for number in range(attack.draws)
    ]
    return torch.stack([project(start, x, attack.eps, attack.norm) for start in starts])


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_example_gets_its_first_misclassified_draw_or_that_of_the_largest_margin(norm: Norm) -> None:
    model = linear([[2.0, 0, 0, 1], [0, 2.0, 1, 0], [1, 0, 2.0, 0]], [0.1, 0, 0])
    x = torch.rand(40, 1, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y, keys = model(x).argmax(1), torch.arange(7, 47)
    attack = Noise(0.15, draws=8, norm=norm, seed=3)
    result = attack.run(model, x, y, keys)
    assert 4 < result.success.sum() < 36
    assert not result.backwards.any()
    every = all_draws(attack, x, keys)
    for i in range(len(x)):
        margin = losses.margin(model(every[:, i]), y[i].expand(attack.draws))
        broken = (margin > 0).nonzero()[:, 0]
        best = int(broken[0]) if len(broken) else int(margin.argmax())
        assert bool(result.success[i]) == (len(broken) > 0)
        assert torch.equal(result.x_adv[i], every[best, i])
        assert result.forwards[i] == (2 + best if len(broken) else 1 + attack.draws)


def test_draws_break_a_linear_model_as_often_as_their_volume_says() -> None:
    # One pixel at .5, class 1 above .5 + s eps: a uniform draw is there with probability (1 - s) / 2.
    eps, count, number = 0.1, 2000, 3
    x, y = torch.full((count, 1), 0.5, dtype=torch.float64), torch.zeros(count, dtype=torch.int64)
    for s in (0.2, 0.8, 0.99):
        model = linear([[0.0], [1.0]], [0.5 + s * eps, 0.0])
        broken = Noise(eps, draws=number).run(model, x, y).success.double().mean().item()
        expected = 1 - (1 - (1 - s) / 2) ** number
        assert abs(broken - expected) < 4 * math.sqrt(expected * (1 - expected) / count), s
    assert not Noise(eps, draws=50).run(linear([[0.0], [1.0]], [0.5 + 1.001 * eps, 0.0]), x, y).success.any()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_draws_fill_the_ball(norm: Norm) -> None:
    model = linear([[0.0] * 4, [0.0] * 4], [2.0, 0.0])
    x, y = torch.full((500, 4), 0.5, dtype=torch.float64), torch.zeros(500, dtype=torch.int64)
    lengths = distance(Noise(0.2, draws=1, norm=norm)(model, x, y), x, norm)
    # The length of a uniform point of a d-dimensional ball, in the ball's norm, has the mean eps d / (d + 1).
    assert lengths.mean().item() == pytest.approx(0.2 * 4 / 5, rel=0.03)


def test_the_seed_and_the_keys_choose_the_draws() -> None:
    model = linear([[0.0] * 4, [0.0] * 4], [2.0, 0.0])
    x, y = torch.full((3, 4), 0.5, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
    first = Noise(0.2, draws=2)(model, x, y)
    assert torch.equal(first, Noise(0.2, draws=2)(model, x, y, torch.arange(3)))
    for other in (Noise(0.2, draws=2, seed=1)(model, x, y), Noise(0.2, draws=2)(model, x, y, torch.arange(3, 6))):
        assert not (other == first).any()
    assert not (first[0] == first[1]).any()
