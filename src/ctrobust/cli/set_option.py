"""`--set recipe.beta=6`: any field of the spec by its dotted name."""

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from ctrobust.errors import InputError


def parse_value(text: str) -> Any:
    """Read a TOML value; anything else is the text itself, so that words and fractions need no quotes.

    Example:
        >>> [parse_value(text) for text in ("6", "true", "[0.5, 0.75]", "trades", "8/255", '"6"')]
        [6, True, [0.5, 0.75], 'trades', '8/255', '6']
    """
    try:
        fields = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, an integer of thousands of digits, or too many brackets
        return text
    value = fields["value"]
    return value if len(fields) == 1 and isinstance(value, bool | int | float | str | list) else text


def parse_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Read `KEY=VALUE` texts into values by dotted name; a name given twice must have one value."""
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and key.strip()):
            raise InputError(f"--set takes FIELD=VALUE, such as recipe.beta=6; got {text!r}")
        values = combine(values, {key.strip(): parse_value(value.strip())}, "--set")
    return values


def combine(given: Mapping[str, Any], more: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Join values by dotted name; a field with two different values is refused.

    Example:
        >>> combine({"lr": 0.1}, {"recipe.gamma": 2}, "--set")
        {'lr': 0.1, 'recipe.gamma': 2}
    """
    for name, value in more.items():
        if name in given and not _same(given[name], value):
            raise InputError(f"{name} is given as {given[name]} and by {source} as {value}; give it once")
        for other in given:
            if other.startswith(f"{name}.") or name.startswith(f"{other}."):
                raise InputError(f"{min(name, other)} is a table of fields and cannot be set beside {max(name, other)}")
    return {**given, **more}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted names into tables.

    Example:
        >>> nested({"lr": 0.1, "recipe.name": "trades", "recipe.beta": 6})
        {'lr': 0.1, 'recipe': {'name': 'trades', 'beta': 6}}
    """
    fields: dict[str, Any] = {}
    for name, value in values.items():
        *tables, leaf = name.split(".")
        table = fields
        for key in tables:
            table = table.setdefault(key, {})
        table[leaf] = value
    return fields


def _same(first: Any, second: Any) -> bool:
    """Whether two values are one, also where only one was read from text that is a number."""
    return bool(first == second or parse_value(str(first)) == parse_value(str(second)))
