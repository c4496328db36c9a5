"""What is said of a spec that is none."""

import difflib
from typing import Any

from pydantic import ValidationError

from ctrobust.specs.fields import SpecModel
from ctrobust.specs.recipe import RECIPE_SPECS
from ctrobust.specs.train import ModelSpec, ScheduleSpec, TrainSpec


def explain(error: ValidationError) -> str:
    """Each wrong key with its value and what is allowed, one a line."""
    lines = []
    for part in error.errors():
        # a recipe's place is named by its kind as well, which is no key
        location = tuple(p for i, p in enumerate(part["loc"]) if not (i == 1 and part["loc"][0] == "recipe"))
        key = ".".join(str(piece) for piece in location)
        message = part["msg"].removeprefix("Value error, ")
        if part["type"] == "extra_forbidden":
            lines.append(_unknown(key, part["loc"]))
        elif part["type"] == "union_tag_invalid":
            lines.append(f"recipe.name = {part['ctx']['tag']!r} is unknown; allowed: {', '.join(RECIPE_SPECS)}")
        elif part["type"] == "union_tag_not_found":
            lines.append(f'{key} = {part["input"]!r}: Input should be a table, as [recipe] with name = "fast"')
        else:
            lines.append(f"{key} = {part['input']!r}: {message}" if key else message)
    return "\n".join(lines)


def _unknown(key: str, location: tuple[int | str, ...]) -> str:
    """What to say of a key that is not one."""
    part: Any = TrainSpec
    for piece in location[:-1]:
        part = RECIPE_SPECS.get(str(piece)) if part is RECIPE_SPECS else part.model_fields[str(piece)].annotation
        part = RECIPE_SPECS if piece == "recipe" else part
    allowed = [*part.model_fields, *(["method"] if part is TrainSpec else [])]
    if location[0] != "recipe":
        return f"unknown key {key}{_meant(str(location[-1]), allowed)}; allowed: {', '.join(allowed)}"
    owners = [name for name, recipe in RECIPE_SPECS.items() if location[-1] in recipe.model_fields]
    where = f" (it belongs to {', '.join(owners)})" if owners else ""
    meant = where or _meant(str(location[-1]), allowed)
    return f"unknown key {key} of recipe {location[1]}{meant}; allowed: {', '.join(allowed)}"


def _meant(word: str, allowed: list[str]) -> str:
    """In brackets: the table that a key belongs to, or the key that was probably meant."""
    owners: list[tuple[str, type[SpecModel]]] = [("model", ModelSpec), ("schedule", ScheduleSpec)]
    owners += [("recipe", recipe) for recipe in RECIPE_SPECS.values()]
    for table, part in owners:
        if word != "name" and word in part.model_fields:
            return f" (it belongs to [{table}])"
    near = difflib.get_close_matches(word, allowed, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
