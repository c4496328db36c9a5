"""What `ctrobust list` prints: everything that exists of a kind, by name, with a description of one line."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ctrobust import attacks, data, losses, models, recipes, regularizers, specs
from ctrobust.experiments import EXPERIMENTS, PRESETS
from ctrobust.specs.attack_text import format_number


def _first_line(thing: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _assignment(name: str, value: object) -> str:
    """A field with its value as an option or TOML takes it, such as `eps=8/255`; the name alone if there is none."""
    if value is None:
        return name
    if isinstance(value, bool):
        return f"{name}={str(value).lower()}"
    return f"{name}={format_number(value) if isinstance(value, float) else value}"


def _spec_fields(fields: dict[str, FieldInfo]) -> str:
    return ", ".join(_assignment(name, field.default) for name, field in fields.items() if name != "name")


def _attacks() -> dict[str, str]:
    """Each attack with the fields that its name sets, and the other fields with their defaults."""
    rows = {}
    for name, (kind, preset) in attacks.ATTACKS.items():
        fixed = ", ".join(f"{key}={value}" for key, value in preset.items())
        fields = [
            _assignment(field.name, None if field.default is dataclasses.MISSING else field.default)
            for field in dataclasses.fields(kind)  # type: ignore[arg-type]
            if field.name not in preset
        ]
        rows[name] = f"{_first_line(kind)}{f' With {fixed}.' if fixed else ''} Fields: {', '.join(fields)}."
    return rows


def _losses() -> dict[str, str]:
    """Each loss by the name that options take, with its uses."""
    natural = _loss_names(specs.NaturalSpec)
    adversarial = _loss_names(*(kind for name, kind in specs.RECIPE_SPECS.items() if name != "natural"))
    uses = {"natural training": natural, "adversarial training": adversarial, "attacks": list(attacks.ATTACK_LOSSES)}
    rows = {}
    for name in dict.fromkeys([*natural, *adversarial, *attacks.ATTACK_LOSSES]):
        function = losses.LOSSES.get(name) or getattr(losses, name.replace("-", "_"))
        used_for = ", ".join(use for use, names in uses.items() if name in names)
        rows[name] = f"{_first_line(function)} For {used_for}."
    return rows


def _loss_names(*kinds: type[BaseModel]) -> list[str]:
    """The losses that any of these recipes can descend."""
    return [str(name) for kind in kinds for name in get_args(kind.model_fields["loss"].annotation)]


def _methods() -> dict[str, str]:
    """Each method of natural training with the fields that it sets."""
    rows = {}
    for name, tables in specs.METHODS.items():
        fields = [f"{table}.{key}={value}" for table, fields in tables.items() for key, value in fields.items()]
        defaults = "Keeps the defaults: dropout before the head, cross-entropy."
        rows[name] = f"Sets {', '.join(fields)}." if fields else defaults
    return rows


def _models() -> dict[str, str]:
    fields = _spec_fields(specs.ModelSpec.model_fields)
    return {name: f"{_first_line(build)} Fields: {fields}." for name, build in models.MODELS.items()}


def _recipes() -> dict[str, str]:
    return {
        name: f"{_first_line(kind)} Fields: {_spec_fields(specs.RECIPE_SPECS[name].model_fields)}."
        for name, kind in recipes.RECIPES.items()
    }


def _regularizers() -> dict[str, str]:
    """Each regularizer with the field of the spec that chooses it."""
    rows = {name: f"{_first_line(kind)} Set by model.noise={name}." for name, kind in regularizers.HEAD_NOISE.items()}
    for name, kind in (("dropblock", regularizers.DropBlock), ("disout", regularizers.Disout)):
        rows[name] = f"{_first_line(kind)} Set by model.maps={name}."
    return rows


CATALOGUE: dict[str, Callable[[], dict[str, str]]] = {
    "attacks": _attacks,
    "data": lambda: {row.name: row.description for row in data.available()},
    "experiments": lambda: {name: f"{plan(PRESETS['paper']).title}." for name, plan in EXPERIMENTS.items()},
    "losses": _losses,
    "methods": _methods,
    "models": _models,
    "recipes": _recipes,
    "regularizers": _regularizers,
}
"""Kind -> name -> description."""
