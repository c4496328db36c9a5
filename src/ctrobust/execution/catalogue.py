"""What exists, by name, with one line each."""

import inspect
from collections.abc import Callable

from ctrobust import attacks, data, losses, models, recipes, regularizers, specs


def _line(thing: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _attacks() -> dict[str, str]:
    rows = {}
    for name, (kind, preset) in attacks.ATTACKS.items():
        fixed = ", ".join(f"{key}={value}" for key, value in preset.items())
        rows[name] = f"{_line(kind)} With {fixed}." if fixed else _line(kind)
    return rows


def _methods() -> dict[str, str]:
    return {
        name: ", ".join(f"{part}.{key}={value}" for part, keys in fields.items() for key, value in keys.items())
        or "the defaults: dropout before the head, cross-entropy"
        for name, fields in specs.METHODS.items()
    }


CATALOGUE: dict[str, Callable[[], dict[str, str]]] = {
    "attacks": _attacks,
    "data": lambda: {row.name: row.description for row in data.available()},
    "losses": lambda: {
        name.replace("_", "-"): _line(getattr(losses, name)) for name in losses.__all__ if name != "LOSSES"
    },
    "methods": _methods,
    "models": lambda: {name: _line(entry) for name, entry in models.MODELS.items()},
    "recipes": lambda: {name: _line(entry) for name, entry in recipes.RECIPES.items()},
    "regularizers": lambda: {
        kind.__name__.lower(): _line(kind)
        for kind in (regularizers.Dropout, regularizers.DropConnect, regularizers.DropBlock, regularizers.Disout)
    },
}
"""Kind -> name -> line."""
