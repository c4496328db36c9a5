"""What every adversarial recipe must do: one row of RECIPE_ROWS per recipe."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch

from ctrobust.recipes import RECIPES, Recipe
from ctrobust.specs import RECIPE_SPECS
from tests.recipes import test_fast, test_free, test_madry, test_n_fgsm, test_trades
from tests.recipes.descent import (
    assert_same_trajectory,
    batches,
    network,
    record_passes,
    same,
    trained,
    trained_by_reference,
    trained_with_resumes,
)
from tests.recipes.formulas import LABEL_LOSSES, STEPS, attacked_std, sce, skl, std, trades

Settings = dict[str, Any]
LABEL_CHANGES: list[Settings] = [
    {}, {"gamma": 5.0}, {"gamma": 5.0, "gamma_in": "attack"}, {"gamma": 5.0, "gamma_in": "descent"}, {"loss": "std"},
]  # fmt: skip
ONE_STEP: list[tuple[Settings, Settings]] = [
    ({"step_size": 0.01}, {"step_size": 0.01}),
    ({"eps": 0.02, "step_size": 0.03}, {"eps": 0.02, "step_size": 0.03}),
]
SEED: tuple[Settings, Settings] = ({"seed": 1}, {"seed": 1})
TRADES_LOSSES: list[tuple[Settings, Settings]] = [
    ({"gamma": 5.0}, {"attack": skl(5.0), "descent": trades(sce(5.0), skl(5.0))}),
    (
        {"gamma": 5.0, "std_at": "clean"},
        {"attack": skl(5.0, "clean"), "descent": trades(sce(5.0), skl(5.0, "clean"))},
    ),
    ({"gamma": 5.0, "gamma_in": "attack"}, {"attack": skl(5.0)}),
    ({"gamma": 5.0, "gamma_in": "descent"}, {"descent": trades(sce(5.0), skl(5.0))}),
    ({"loss": "std"}, {"attack": attacked_std, "descent": trades(std, attacked_std)}),
    ({"beta": 1.5}, {"descent": trades(beta=1.5)}),
]
TRADES_CHANGES: list[Settings] = [
    {}, {"beta": 1.0}, {"gamma": 30.0}, {"gamma": 30.0, "std_at": "clean"}, {"gamma": 30.0, "gamma_in": "attack"},
    {"gamma": 30.0, "gamma_in": "descent"}, {"loss": "std"},
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One adversarial recipe.

    Attributes:
        name: its name in RECIPES.
        reference: the published algorithm, written out.
        cases: settings of the recipe, and the settings with which the reference computes the same.
        step_ratio: the default step size over eps.
        changes: settings that all lead to different weights.
        fewer: settings that shorten the attack, used with `cases` and `changes`.
        attack_passes: number of forward passes of the attack; None if attack and descent share their passes.
        descent_passes: number of forward passes of the descent.
        attack_in_training: whether the attack runs in training mode.
        one_step_size: the step size for collapse detection.
    """

    name: str
    reference: Callable[..., None]
    cases: list[tuple[Settings, Settings]]
    step_ratio: float
    changes: list[Settings] = field(default_factory=lambda: LABEL_CHANGES)
    fewer: Settings = field(default_factory=dict)
    attack_passes: int | None = 1
    descent_passes: int = 1
    attack_in_training: bool = True
    one_step_size: float | None = None

    def make(self, **settings: Any) -> Recipe:
        return RECIPES[self.name](**settings)


RECIPE_ROWS = [
    Row("fast", test_fast.reference, [*LABEL_LOSSES, *ONE_STEP, SEED], 1.25, one_step_size=10 / 255),
    Row("madry", test_madry.reference, [*LABEL_LOSSES, *STEPS], 0.25, fewer={"steps": 3}, attack_passes=7),
    Row(
        "free", test_free.reference, [*LABEL_LOSSES, *ONE_STEP], 1.0, fewer={"replays": 3}, attack_passes=None,
    ),
    Row(
        "trades", test_trades.reference, [*TRADES_LOSSES, *STEPS], 0.007 * 255 / 8, TRADES_CHANGES,
        fewer={"steps": 5}, attack_passes=11, descent_passes=2, attack_in_training=False,
    ),
    Row("n-fgsm", test_n_fgsm.reference, [*LABEL_LOSSES, *ONE_STEP, SEED], 1.0, one_step_size=8 / 255),
]  # fmt: skip
every_recipe = pytest.mark.parametrize("row", RECIPE_ROWS, ids=lambda row: row.name)
with_attack_model = pytest.mark.parametrize(
    "row", [row for row in RECIPE_ROWS if row.attack_passes is not None], ids=lambda row: row.name
)


def test_every_recipe_has_a_row_and_a_spec() -> None:
    assert {row.name for row in RECIPE_ROWS} | {"natural"} == set(RECIPES) == set(RECIPE_SPECS)


@every_recipe
def test_without_gamma_the_weights_equal_the_baselines_bit_for_bit(row: Row) -> None:
    assert same(trained(row.make(), batches(epochs=2)), trained_by_reference(row.reference, batches(epochs=2)))


@pytest.mark.parametrize(
    ("row", "settings", "reference_settings"),
    [
        pytest.param(row, *case, id=f"{row.name}-{number}")
        for row in RECIPE_ROWS
        for number, case in enumerate([({"eps": 0.1}, {"eps": 0.1, "step_size": 0.1 * row.step_ratio}), *row.cases])
    ],
)
def test_with_any_settings_the_iterates_and_weights_follow_the_formulas(
    row: Row, settings: Settings, reference_settings: Settings
) -> None:
    recipe = row.make(**{**row.fewer, **settings})
    assert_same_trajectory(recipe, partial(row.reference, **{**row.fewer, **reference_settings}), batches())


@every_recipe
def test_every_setting_changes_the_weights(row: Row) -> None:
    found = [trained(row.make(**{**row.fewer, **settings}), batches()) for settings in row.changes]
    assert not any(same(one, two) for i, one in enumerate(found) for two in found[:i])


@every_recipe
def test_a_recipe_resumes_from_its_state(row: Row) -> None:
    make = partial(row.make, **row.fewer)
    assert same(trained_with_resumes(make, batches(epochs=2)), trained(make(), batches(epochs=2)))


@every_recipe
def test_collapse_detection_attacks_with_the_single_step_of_a_recipe(row: Row) -> None:
    assert row.make().one_step_size == row.one_step_size
    if row.one_step_size is not None:
        assert row.make(step_size=0.3).one_step_size == 0.3


@with_attack_model
def test_the_attack_calls_the_attack_model_and_the_descent_the_model(row: Row) -> None:
    assert row.attack_passes is not None
    x, y, keys = batches()[0]
    attacked, alone, model = network(seed=1), network(seed=1), network()
    in_attacked, in_alone, in_model = record_passes(attacked), record_passes(alone), record_passes(model)
    (loss,) = row.make(attack_model=attacked)(model, x, y, keys)
    next(row.make()(alone, x, y, keys))
    assert (len(in_attacked.inputs), len(in_model.inputs)) == (row.attack_passes, row.descent_passes)
    assert all(map(torch.equal, in_attacked.inputs + in_model.inputs, in_alone.inputs))
    assert in_attacked.training == [row.attack_in_training] * row.attack_passes
    assert in_attacked.parameter_gradients == [False] * row.attack_passes
    assert in_model.training == in_model.parameter_gradients == [True] * row.descent_passes
    assert in_model.input_gradients == [False] * row.descent_passes
    loss.backward()
    assert all(parameter.grad is None for parameter in attacked.parameters())
    assert all(parameter.grad is not None for parameter in model.parameters())
