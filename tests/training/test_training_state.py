"""Recipes are built from their specs, with the constants of their losses."""

from typing import Any

import pytest
import torch

from ctrobust import losses
from ctrobust.recipes import RECIPES, Natural, OnlineSmoothing, SingleProcess
from ctrobust.specs import train_spec
from ctrobust.training.training_state import build_recipe

LOGITS, Y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3, 0, 1])


def natural(**recipe: Any) -> Natural:
    built = build_recipe(train_spec({"recipe": recipe}), 4, SingleProcess())
    assert isinstance(built, Natural)
    return built


@pytest.mark.parametrize("name", list(losses.LOSSES))
def test_every_registered_loss_can_be_descended(name: str) -> None:
    built = natural(loss=name).loss
    assert not isinstance(built, OnlineSmoothing)
    assert torch.equal(built(LOGITS, Y), losses.LOSSES[name](LOGITS, Y))


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ({"loss": "label-smoothing", "smoothing": 0.3}, losses.label_smoothing(LOGITS, Y, epsilon=0.3)),
        ({"loss": "focal", "focal_exponent": 0.5}, losses.focal(LOGITS, Y, gamma=0.5)),
        ({"loss": "label-relaxation", "relaxation": 0.3}, losses.label_relaxation(LOGITS, Y, alpha=0.3)),
    ],
)
def test_the_constants_of_a_loss_come_from_the_spec(recipe: dict[str, Any], expected: torch.Tensor) -> None:
    built = natural(**recipe).loss
    assert not isinstance(built, OnlineSmoothing)
    assert torch.equal(built(LOGITS, Y), expected)
    assert not torch.equal(losses.LOSSES[recipe["loss"]](LOGITS, Y), expected)


def test_the_weight_of_soft_labels_comes_from_the_spec() -> None:
    default, given = natural(loss="online-label-smoothing"), natural(loss="online-label-smoothing", soft_weight=0.25)
    model = torch.nn.Linear(2, 4)
    x, found = torch.rand(6, 2), []
    for recipe in (default, given):
        (loss,) = recipe(model, x, Y)  # type: ignore[arg-type]
        found.append(loss)
    cross_entropy = losses.cross_entropy(model(x), Y).mean()  # soft labels are zero in the first epoch
    torch.testing.assert_close(found, [0.5 * cross_entropy, 0.75 * cross_entropy])


@pytest.mark.parametrize("name", sorted(set(RECIPES) - {"natural"}))
def test_every_adversarial_recipe_is_built_with_the_fields_of_its_spec(name: str) -> None:
    spec = train_spec({"seed": 3, "recipe": {"name": name, "eps": 0.1, "step_size": 0.02, "gamma": 1.0}})
    built: Any = build_recipe(spec, 4, SingleProcess(), attack_model=None)
    assert type(built) is RECIPES[name]
    assert (built.eps, built.step_size) == (0.1, 0.02)
    assert name == "free" or built.starts.seed == 3
