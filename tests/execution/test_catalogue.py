"""What the lists name can be written where it is asked for."""

import re

import pytest

from ctrobust.attacks import parse
from ctrobust.attacks.attack_losses import canonical
from ctrobust.execution.catalogue import CATALOGUE
from ctrobust.specs import train_spec


@pytest.mark.parametrize(("name", "line"), CATALOGUE["losses"]().items())
def test_losses(name: str, line: str) -> None:
    uses = re.search(r" For ([a-z, ]+)\.$", line)
    assert uses, line
    for use in uses[1].split(", "):
        if use == "attacks":
            assert canonical(name) == name
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
    assert parse(f"{name}:eps=0.1,{','.join(given)}") == parse(f"{name}:eps=0.1")  # they are the defaults
