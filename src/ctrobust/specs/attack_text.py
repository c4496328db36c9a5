"""Attacks and losses as text: `pgd:eps=8/255,loss=sce(gamma=5)`. Every text parses back to the same value. No torch."""

import dataclasses
import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

from ctrobust.errors import InputError, closest

Value = float | str

_CALL = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_NUMBER = re.compile(r"[-+]?[0-9.][0-9.eE+-]*(?:/[0-9]+)?")


SYNONYMS = {
    "alpha": "step_size", "eps_iter": "step_size", "eps_step": "step_size",
    "abs_stepsize": "step_size", "epsilon": "eps", "eps_max": "eps", "iters": "steps", "n_iter": "steps",
    "num_iter": "steps", "nb_iter": "steps", "num_steps": "steps", "max_iter": "steps", "max_iterations": "steps",
    "iterations": "steps", "n_restarts": "restarts", "num_restarts": "restarts", "eot_iter": "eot",
    "n_queries": "queries", "max_queries": "queries", "decay": "momentum", "decay_factor": "momentum",
    "n_target_classes": "targets", "rand_init": "random_start",
}  # fmt: skip
"""Names of fields in torchattacks, AutoAttack, ART, foolbox and advertorch -> ours."""


def parse_number(text: str) -> float:
    """Parse a decimal number, or a fraction of one and a whole number; the value is that of the same text in Python.

    Example:
        >>> parse_number("8/255") == 8 / 255, parse_number("0.5/255") == 0.5 / 255, parse_number("1e-3")
        (True, True, 0.001)
    """
    above, slash, below = text.partition("/")
    try:
        if not slash:
            return float(text)
        numerator, denominator = Fraction(above), int(below) if below.isdecimal() else 0
        if numerator.denominator == 1:
            return float(numerator / denominator)  # exact for integers of any size, which a float rounds
        return float(above) / denominator
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InputError(f"{text!r} is not a number; write 0.03 or 8/255") from None


def format_number(value: float) -> str:
    """Return a short exact form: an integer, a short decimal, a fraction of 255 or of a small denominator, or repr.

    Example:
        >>> format_number(8 / 255), format_number(0.1), format_number(2.0), format_number(8 / 255 / 4)
        ('8/255', '0.1', '2', '2/255')
    """
    if value == int(value):
        return str(int(value))
    decimal = repr(float(value))
    if len(decimal) <= 6:
        return decimal
    over_255 = Fraction(round(value * 255), 255)
    if float(over_255) == value:
        return f"{round(value * 255)}/255"
    near = Fraction(value).limit_denominator(5000)
    return str(near) if float(near) == value else decimal


def format_value(value: Value) -> str:
    return value if isinstance(value, str) else format_number(value)


def split_arguments(text: str) -> dict[str, str]:
    """Split `a=1,b=f(c=2,d=3)` into a dict; commas inside parentheses do not split."""
    pieces, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            pieces.append(text[start:i])
            start = i + 1
    pieces.append(text[start:])
    arguments: dict[str, str] = {}
    for piece in pieces if text.strip() else []:
        key, equals, value = piece.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key or not value:
            where = f" in {text!r}" if len(pieces) > 1 else ""
            raise InputError(f"expected key=value, got {piece.strip()!r}{where}")
        if key in arguments:
            raise InputError(f"{key!r} is given twice")
        arguments[key] = value
    return arguments


def parse_call(text: str) -> tuple[str, dict[str, Value]]:
    """Parse `name` or `name(key=value,...)`.

    Example:
        >>> parse_call("sce(gamma=5)")
        ('sce', {'gamma': 5.0})
    """
    match = _CALL.fullmatch(text)
    if not match:
        raise InputError(f"expected name or name(key=value,...), got {text!r}")
    arguments = split_arguments(match[2] or "")
    return match[1], {k: parse_number(v) if _NUMBER.fullmatch(v) else v for k, v in arguments.items()}


def format_call(name: str, arguments: Mapping[str, Value]) -> str:
    """Write what `parse_call` reads."""
    inside = ",".join(f"{key}={format_value(value)}" for key, value in arguments.items())
    return f"{name}({inside})" if inside else name


def field_hint(name: str, fields: Collection[str]) -> str:
    """Return the end of an error message about an unknown field: ours of that meaning, or all fields."""
    ours = SYNONYMS.get(name)
    return f"write {ours}" if ours in fields else closest(name, list(fields))


def parse_attack(text: str, registry: Mapping[str, tuple[Any, Mapping[str, Value]]]) -> Any:
    """Parse `name:key=value,...` as an attack; the registry maps names to a class and the fields that the name sets."""
    name, _, rest = text.strip().partition(":")
    if name not in registry:
        word = re.split("[^a-z0-9-]", name)[0]
        if word in registry:
            raise InputError(f"expected {word}:key=value,..., got {text!r}")
        raise InputError(f"unknown attack {name!r}; {closest(name, list(registry))}")
    attack_class, preset = registry[name]
    fields = {field.name: field for field in dataclasses.fields(attack_class)}
    values: dict[str, Any] = dict(preset)
    for key, value in split_arguments(rest).items():
        if key not in fields:
            raise InputError(f"attack {name!r} has no field {key!r}; {field_hint(key, fields)}")
        if key in preset:
            raise InputError(f"attack {name!r} sets {key}={preset[key]} itself; got {key}={value}")
        values[key] = _parse_field(key, value, str(fields[key].type))
    missing = [key for key, field in fields.items() if field.default is dataclasses.MISSING and key not in values]
    if missing:
        raise InputError(f"attack {name!r} needs {' and '.join(missing)}: write {name}:{missing[0]}=8/255")
    return attack_class(**values)


def _parse_field(key: str, text: str, declared: str) -> int | float | str | bool:
    """Parse a field's value by the field's declared type."""
    if "bool" in declared:
        if text not in ("true", "false"):
            raise InputError(f"{key} is true or false, got {text!r}")
        return text == "true"
    if "float" in declared:
        return parse_number(text)
    if "int" in declared:
        if not re.fullmatch(r"-?[0-9]{1,99}", text):
            raise InputError(f"{key} is a whole number, got {text!r}")
        return int(text)
    return text


def format_attack(attack: Any) -> str:
    """Return the canonical text: the class's name in lower case, and the fields in order that are not at their default.

    A class of fields alone, such as `PGDFields`, has the name of its attack.
    """
    name = type(attack).__name__.removesuffix("Fields").lower()
    pieces = []
    for field in dataclasses.fields(attack):
        value = getattr(attack, field.name)
        if value != field.default:
            plain = str(value).lower() if isinstance(value, bool) else value
            pieces.append(f"{field.name}={plain if callable(plain) else format_value(plain)}")
    return f"{name}:{','.join(pieces)}" if pieces else name
