import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import fuse
from ctrobust.attacks.fused import FusedModel
from ctrobust.evaluation import evaluate
from ctrobust.evaluation.randomized_models import RepeatedMean, repeated_distance


class Counting(nn.Module):
    """Logits (number of the call, 0)."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.stack([torch.full((len(x),), float(self.calls)), torch.zeros(len(x))], 1)


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) + 0.3 * torch.randn(len(x), x[0].numel())


def test_the_mean_of_repeated_passes() -> None:
    assert RepeatedMean(Counting(), 4)(torch.zeros(3, 1)).tolist() == [[2.5, 0.0]] * 3


def test_draws_are_a_function_of_the_images_and_of_how_often_they_came_before() -> None:
    dropout, x = nn.Dropout(0.5).train(), torch.rand(4, 5)
    first, second = RepeatedMean(dropout, 3), RepeatedMean(dropout, 3)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    found = first(x)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(1)
    assert torch.equal(second(x), found)
    again = first(x)
    assert not torch.equal(again, found)
    assert torch.equal(second(x), again)
    moved = x.clone()
    moved[0, 0] += 1e-6
    assert not torch.equal(RepeatedMean(dropout, 3)(moved)[1:], found[1:])
    assert torch.equal(RepeatedMean(dropout, 3)(x.half()), RepeatedMean(dropout, 3)(x.half()))


def test_a_random_model_is_not_fused_and_its_repeated_passes_differ() -> None:
    x = torch.rand(4, 1, 1, 3)
    assert isinstance(fuse(nn.Flatten().eval(), x), FusedModel)
    model = RepeatedMean(Noisy().eval(), 2)
    assert fuse(model, x) is model


def test_a_random_model_is_warned_of_in_evaluations() -> None:
    x, y = torch.rand(6, 1, 1, 3), torch.arange(6) % 3
    with pytest.warns(UserWarning, match="the model draws at random"):
        evaluate(Noisy().eval(), (x, y))
    evaluate(RepeatedMean(Noisy().eval(), 20), (x, y))  # a warning would be an error


def test_the_distance_is_relative_and_the_largest() -> None:
    assert repeated_distance(Counting(), torch.zeros(2, 1), 5).tolist() == [0.0, 0.0]  # the direction is the same
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
        layer.bias.copy_(torch.tensor([1.0, 0.0]))
    turning = nn.Sequential(Counting(), layer)
    angle = torch.tensor(5.0).atan() - torch.tensor(1.0).atan()  # from logits (1, 1) to (1, 5)
    torch.testing.assert_close(repeated_distance(turning, torch.zeros(2, 1), 5), 2 * (angle / 2).sin().expand(2))


def test_dropout_in_eval_mode_is_not_random() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    x = torch.rand(5, 4)
    assert repeated_distance(model.eval(), x, 5).max() == 0
    assert repeated_distance(model.train(), x, 5).max() > 1e-4
