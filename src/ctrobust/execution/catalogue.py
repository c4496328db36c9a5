"""What exists, by name, with one line each."""

import dataclasses
import inspect
from collections.abc import Callable

from ctrobust import attacks, data, losses, models, recipes, regularizers, specs
from ctrobust.attacks.attack_text import format_number


def _line(thing: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _attacks() -> dict[str, str]:
    """The fields that a name sets itself are told as such, the others with their defaults."""
    rows = {}
    for name, (kind, preset) in attacks.ATTACKS.items():
        fixed = ", ".join(f"{key}={value}" for key, value in preset.items())
        fields = ", ".join(_field(field) for field in dataclasses.fields(kind) if field.name not in preset)  # type: ignore[arg-type]
        rows[name] = f"{_line(kind)}{f' With {fixed}.' if fixed else ''} Fields: {fields}."
    return rows


def _field(field: "dataclasses.Field[object]") -> str:
    """Its name, and its default where it has one that can be written."""
    if field.default is dataclasses.MISSING or field.default is None:
        return field.name
    return f"{field.name}={str(field.default).lower()}"


def _losses() -> dict[str, str]:
    """By the names that options take, with what each is for."""
    natural = {**losses.LOSSES, "online-label-smoothing": losses.online_label_smoothing}
    ascended = {name: natural.get(name) or getattr(losses, name) for name in attacks.ATTACK_LOSSES}
    uses = {"natural training": natural, "adversarial training": ("sce", "skl", "std"), "attacks": ascended}
    return {
        name: f"{_line(loss)} For {', '.join(use for use, names in uses.items() if name in names)}."
        for name, loss in {**natural, **ascended}.items()
    }


def _recipes() -> dict[str, str]:
    """With the fields of their specs, and the defaults of those."""
    rows = {}
    for name, kind in recipes.RECIPES.items():
        fields = {key: field.default for key, field in specs.RECIPE_SPECS[name].model_fields.items() if key != "name"}
        told = ", ".join(key if value is None else f"{key}={_value(value)}" for key, value in fields.items())
        rows[name] = f"{_line(kind)} Fields: {told}."
    return rows


def _value(value: object) -> str:
    return format_number(value) if isinstance(value, float) else str(value)


def _methods() -> dict[str, str]:
    return {
        name: ", ".join(f"{part}.{key}={value}" for part, keys in fields.items() for key, value in keys.items())
        or "the defaults: dropout before the head, cross-entropy"
        for name, fields in specs.METHODS.items()
    }


CATALOGUE: dict[str, Callable[[], dict[str, str]]] = {
    "attacks": _attacks,
    "data": lambda: {row.name: row.description for row in data.available()},
    "losses": _losses,
    "methods": _methods,
    "models": lambda: {name: _line(entry) for name, entry in models.MODELS.items()},
    "recipes": _recipes,
    "regularizers": lambda: {
        kind.__name__.lower(): _line(kind)
        for kind in (regularizers.Dropout, regularizers.DropConnect, regularizers.DropBlock, regularizers.Disout)
    },
}
"""Kind -> name -> line."""
