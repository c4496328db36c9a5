"""The options of `ctrobust train`, derived from the training spec: one per field, with its choices and default."""

import functools
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ctrobust import specs
from ctrobust.cli.field_help import FIELD_HELP
from ctrobust.cli.set_option import parse_value

SHOWN = (
    "data", "method", "recipe.name", "model.name", "epochs", "lr", "batch_size", "recipe.gamma", "recipe.eps", "seed",
)  # fmt: skip
"""The fields that --help shows, in this order; --help-all shows the others too."""

PANELS = {"": "Other fields of the run", "model": "Other fields of the network", "recipe": "Other fields of the recipe",
          "schedule": "Learning rate schedule"}  # fmt: skip
NOT_OFFERED = ("world_size",)
"""--devices and --num-nodes set the number of processes."""


@dataclass(frozen=True)
class FieldOption:
    """One field of the spec as an option.

    Attributes:
        name: dotted name of the field, such as recipe.gamma.
        option: name on the command line, such as --gamma.
        owners: the recipes that have the field, each with its definition; other fields have one owner, "".
    """

    name: str
    option: str
    owners: dict[str, FieldInfo]

    @property
    def parameter(self) -> str:
        return "field_" + self.name.replace(".", "_")

    @property
    def kind(self) -> type:
        """The type that the command line checks; what is text here is checked by the spec."""
        kind, metadata = _plain_type(next(iter(self.owners.values())))
        takes_fractions = any(isinstance(one, BeforeValidator) for one in metadata)
        return kind if kind in (bool, int) or (kind is float and not takes_fractions) else str

    def choices(self) -> list[str]:
        """The values that a field with few values may have, over all recipes."""
        kinds = [_plain_type(field)[0] for field in self.owners.values()]
        values = [value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
        values += [value for field in self.owners.values() for value in field.examples or ()]
        return list(dict.fromkeys(values))

    def defaults(self) -> str:
        """The default, with the recipes and data sets that have another."""
        by_owner: dict[str, list[str]] = {}
        for owner, field in self.owners.items():
            if field.default is not None and field.default is not PydanticUndefined:
                by_owner.setdefault(self._shown(field.default), []).append(owner)
        if not by_owner:
            return ""
        if len(by_owner) == 1:
            texts = list(by_owner)
        else:
            texts = [f"{value} for {', '.join(owners)}" for value, owners in by_owner.items()]
        by_data: dict[str, list[str]] = {}
        for data, fields in specs.DATA_DEFAULTS.items():
            if (value := _lookup(fields, self.name)) is not None:
                by_data.setdefault(self._shown(value), []).append(data)
        texts += [f"{value} for {', '.join(names)}" for value, names in by_data.items()]
        return f"Default: {'; '.join(texts)}."

    def help(self) -> str:
        """The sentence about the field, its choices, the recipes that have it, and its default."""
        description = next(iter(self.owners.values())).description or ""
        parts = [FIELD_HELP.get(self.name, description)]
        if choices := self.choices():
            parts.append(f"One of {', '.join(choices)}.")
        if self.name.startswith("recipe.") and len(self.owners) < len(specs.RECIPE_SPECS):
            parts.append(f"For {', '.join(self.owners)}.")
        return " ".join(part for part in [*parts, self.defaults()] if part)

    def typer_parameter(self) -> inspect.Parameter:
        table = self.name.rpartition(".")[0]
        hidden = self.name not in SHOWN
        flag = f"{self.option}/--no-{self.option[2:]}" if self.kind is bool else self.option
        panel = PANELS.get(table, f"Fields of {table}") if hidden else None
        option = typer.Option(flag, help=self.help(), hidden=hidden, rich_help_panel=panel, show_default=False)
        kind: Any = self.kind
        return inspect.Parameter(
            self.parameter, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
        )

    def value(self, given: Any) -> Any:
        """The option's value as the spec takes it: lists are written as in TOML."""
        return parse_value(given) if isinstance(given, str) and given.startswith("[") else given

    def _shown(self, value: object) -> str:
        if isinstance(value, float):
            return fraction(value) if self.kind is str else f"{value:g}"
        if isinstance(value, bool):
            return "yes" if value else "no"
        return str(list(value)) if isinstance(value, tuple) else str(value)


def fraction(radius: float) -> str:
    """Write a radius as a fraction of 255 where it is one.

    Example:
        >>> fraction(8 / 255), fraction(0.1)
        ('8/255', '0.1')
    """
    levels = radius * 255
    return f"{round(levels)}/255" if radius < 1 and abs(levels - round(levels)) < 1e-9 else f"{radius:g}"


def field_options(reserved: tuple[str, ...] = ()) -> list[FieldOption]:
    """One option per field of the spec, those of SHOWN first; a name that is taken gets its table's name before it."""
    fields = _fields()
    taken, options = set(reserved), []
    for name in [*SHOWN, *(name for name in fields if name not in SHOWN)]:
        table, _, leaf = name.rpartition(".")
        short = (table if leaf == "name" else leaf).replace("_", "-")
        option = f"--{short}" if f"--{short}" not in taken else f"--{name.replace('.', '-').replace('_', '-')}"
        taken.add(option)
        options.append(FieldOption(name, option, fields[name]))
    return options


def with_field_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field; it receives the given ones, by dotted name, as its argument `given`."""
    own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "given"]
    options = field_options(tuple(f"--{one.name.replace('_', '-')}" for one in own))

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        values = {option.name: option.value(arguments.pop(option.parameter)) for option in options}
        command(given={name: value for name, value in values.items() if value is not None}, **arguments)

    parameters = [*(option.typer_parameter() for option in options), *own]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    del run.__wrapped__
    return run


def _fields() -> dict[str, dict[str, FieldInfo]]:
    """Dotted name -> owner -> definition, of every field that is a value."""
    methods = tuple(specs.METHODS)
    kind: Any = Literal[methods]
    found = {"method": {"": FieldInfo(annotation=kind, default=methods[0])}}
    for name, field in specs.TrainSpec.model_fields.items():
        if name == "recipe":
            for recipe, spec in specs.RECIPE_SPECS.items():
                for leaf, inner in spec.model_fields.items():
                    found.setdefault(f"recipe.{leaf}", {})[recipe] = inner
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= {f"{name}.{leaf}": {"": inner} for leaf, inner in field.annotation.model_fields.items()}
        elif name not in NOT_OFFERED:
            found[name] = {"": field}
    return found


def _plain_type(field: FieldInfo) -> tuple[Any, list[Any]]:
    """The type of a field without None and Annotated, and the metadata of both."""
    kind, metadata = field.annotation, list(field.metadata)
    while get_origin(kind) in (Annotated, Union, types.UnionType):
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            metadata += more
        else:
            (kind,) = [one for one in get_args(kind) if one is not types.NoneType]
    return kind, metadata


def _lookup(fields: dict[str, Any], dotted: str) -> Any:
    for key in dotted.split("."):
        fields = fields.get(key, {}) if isinstance(fields, dict) else {}
    return fields if fields != {} else None
