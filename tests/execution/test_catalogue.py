"""The names and fields in the lists are accepted wherever options take them."""

import re

import pytest

from ctrobust import recipes, specs
from ctrobust.attacks import ATTACK_LOSSES, ATTACKS, parse
from ctrobust.cli.listing import KINDS
from ctrobust.execution.catalogue import CATALOGUE
from ctrobust.models import MODELS
from ctrobust.specs import train_spec
from ctrobust.specs.attack_loss_text import canonical_loss


def test_the_command_line_offers_every_kind() -> None:
    assert tuple(CATALOGUE) == KINDS


def test_nothing_is_missing() -> None:
    assert set(CATALOGUE["attacks"]()) == set(ATTACKS)
    assert set(CATALOGUE["models"]()) == set(MODELS)
    assert set(CATALOGUE["recipes"]()) == set(recipes.RECIPES) == set(specs.RECIPE_SPECS)
    assert set(CATALOGUE["methods"]()) == set(specs.METHODS)
    assert set(CATALOGUE["losses"]()) > set(ATTACK_LOSSES)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"data"}))
def test_a_description_is_one_line_that_ends_with_a_full_stop(kind: str) -> None:
    for name, line in CATALOGUE[kind]().items():
        assert line.endswith("."), name
        assert "\n" not in line


@pytest.mark.parametrize(("name", "line"), CATALOGUE["losses"]().items())
def test_losses(name: str, line: str) -> None:
    uses = re.search(r" For ([a-z, ]+)\.$", line)
    assert uses, line
    for use in uses[1].split(", "):
        if use == "attacks":
            assert canonical_loss(name) == name
            continue
        recipe = {"natural training": "natural", "adversarial training": "trades" if name == "skl" else "fast"}[use]
        spec = train_spec({"data": "digits", "recipe": {"name": recipe, "loss": name}})
        assert spec.recipe.loss == name


@pytest.mark.parametrize(("name", "line"), CATALOGUE["attacks"]().items())
def test_attacks_with_their_fields(name: str, line: str) -> None:
    fields = re.search(r" Fields: eps, (.*)\.$", line)
    assert fields, line
    given = [field for field in fields[1].split(", ") if "=" in field]
    assert given
    assert parse(f"{name}:eps=0.1,{','.join(given)}") == parse(f"{name}:eps=0.1")  # the listed values are the defaults


@pytest.mark.parametrize(("kind", "table"), [("recipes", "recipe"), ("models", "model")])
def test_the_fields_of_recipes_and_models_are_listed_with_their_defaults(kind: str, table: str) -> None:
    for name, line in CATALOGUE[kind]().items():
        spec = specs.RECIPE_SPECS[name] if table == "recipe" else specs.ModelSpec
        listed = line.partition(" Fields: ")[2].removesuffix(".").split(", ")
        assert [field.partition("=")[0] for field in listed] == [key for key in spec.model_fields if key != "name"]


@pytest.mark.parametrize(("name", "line"), CATALOGUE["regularizers"]().items())
def test_a_regularizer_is_chosen_by_the_field_that_is_listed(name: str, line: str) -> None:
    field = re.search(r" Set by model\.(noise|maps)=([a-z]+)\.$", line)
    assert field, line
    assert field[2] == name
    assert train_spec({"model": {field[1]: name}}).model.model_dump()[field[1]] == name
