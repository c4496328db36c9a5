"""Messages for calls as other libraries have them: a model passed to the constructor, fields by other names."""

from collections.abc import Collection, Mapping, Sequence

from torch import nn

from ctrobust.errors import InputError
from ctrobust.specs.attack_text import SYNONYMS, field_hint, format_number


def check_constructor(
    name: str, fields: Collection[str], arguments: Sequence[object], keywords: Mapping[str, object]
) -> None:
    """Raise with the right call if a model is passed, or a field that the attack does not have."""
    if (arguments and isinstance(arguments[0], nn.Module)) or isinstance(keywords.get("model"), nn.Module):
        raise InputError(
            f"{name} is made without a model and then called on it: "
            f"attack = {_constructor(name, fields, arguments[1:], keywords)}; x_adv = attack(model, x, y)"
        )
    for unknown in keywords.keys() - set(fields):
        raise InputError(f"{name} has no field {unknown!r}; {field_hint(unknown, fields)}")


def _constructor(
    name: str, fields: Collection[str], arguments: Sequence[object], keywords: Mapping[str, object]
) -> str:
    """Return the constructor call in our fields; the first positional argument after the model is eps everywhere."""
    given: dict[str, object] = {"eps": arguments[0] if arguments else 8 / 255}
    given |= {SYNONYMS.get(keyword, keyword): value for keyword, value in keywords.items()}
    return f"{name}({', '.join(f'{key}={_shown(value)}' for key, value in given.items() if key in fields)})"


def _shown(value: object) -> str:
    if isinstance(value, float) and abs(value) < float("inf"):
        return format_number(value)
    return repr(value.lower() if value in ("Linf", "L2") else value) if isinstance(value, str) else repr(value)
