"""Error messages for a spec that does not validate."""

from typing import Any

from pydantic import BaseModel, ValidationError

from ctrobust.errors import closest
from ctrobust.specs.recipe import RECIPE_SPECS
from ctrobust.specs.run_spec import ModelSpec, ScheduleSpec, TrainSpec


def explain(error: ValidationError) -> str:
    """Name each wrong key with its value and what is allowed, one per line."""
    lines = []
    for found in error.errors():
        # pydantic puts the recipe's name into the location of its fields, but that name is not a key
        location = tuple(p for i, p in enumerate(found["loc"]) if not (i == 1 and found["loc"][0] == "recipe"))
        key = ".".join(str(piece) for piece in location)
        message = found["msg"].removeprefix("Value error, ")
        if found["type"] == "extra_forbidden":
            lines.append(_unknown_key(key, found["loc"]))
        elif found["type"] == "union_tag_invalid":
            name = found["ctx"]["tag"]
            lines.append(f"recipe.name = {name!r} is unknown; {closest(name, RECIPE_SPECS)}")
        elif found["type"] == "union_tag_not_found":
            lines.append(f'{key} = {found["input"]!r}: Input should be a table, as [recipe] with name = "fast"')
        else:
            lines.append(f"{key} = {found['input']!r}: {message}" if key else message)
    return "\n".join(lines)


def _unknown_key(key: str, location: tuple[int | str, ...]) -> str:
    if location[0] == "recipe":
        recipe, word = RECIPE_SPECS[str(location[1])], str(location[-1])
        owners = [name for name, other in RECIPE_SPECS.items() if word in other.model_fields]
        where = f" (it belongs to {', '.join(owners)})" if owners else _table_of(word)
        return f"unknown key {key} of recipe {location[1]}{_hint(word, where, list(recipe.model_fields))}"
    table: Any = TrainSpec
    for piece in location[:-1]:
        table = table.model_fields[str(piece)].annotation
    allowed = [*table.model_fields, *(["method"] if table is TrainSpec else [])]
    word = str(location[-1])
    return f"unknown key {key}{_hint(word, _table_of(word), allowed)}"


def _hint(word: str, where: str, known: list[str]) -> str:
    """Where a key belongs, or else the key that was probably meant; and all that are known."""
    return f"{where}; known: {', '.join(known)}" if where else f"; {closest(word, known)}"


def _table_of(word: str) -> str:
    """In brackets: the table that a key belongs to, if there is one."""
    tables: list[tuple[str, type[BaseModel]]] = [("model", ModelSpec), ("schedule", ScheduleSpec)]
    tables += [("recipe", recipe) for recipe in RECIPE_SPECS.values()]
    for name, table in tables:
        if word != "name" and word in table.model_fields:
            return f" (it belongs to [{name}])"
    return ""
