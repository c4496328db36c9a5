"""A recipe in a few words, for people."""

from typing import Any

from ctrobust.specs.defaults import given_only
from ctrobust.specs.methods import METHODS
from ctrobust.specs.recipe import NaturalSpec
from ctrobust.specs.run_spec import TrainSpec


def describe_recipe(spec: TrainSpec) -> str:
    """Name the method of natural training, or the adversarial recipe with the fields that differ from its defaults.

    Example:
        >>> from ctrobust.specs.defaults import train_spec
        >>> describe_recipe(train_spec({"recipe": {"name": "fast", "gamma": 2.0}}))
        'fast gamma=2'
    """
    changed = spec.recipe.model_dump(exclude_defaults=True, exclude={"name"})
    if isinstance(spec.recipe, NaturalSpec):
        shown = {
            "recipe": changed,
            "model": spec.model.model_dump(exclude_defaults=True, exclude={"name", "width", "head"}),
        }
        given = given_only(shown)
        return next((name for name, fields in METHODS.items() if fields == given), _fields("natural", changed))
    return _fields(spec.recipe.name, changed)


def _fields(name: str, changed: dict[str, Any]) -> str:
    return " ".join(
        [
            name,
            *(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in changed.items()),
        ]
    )
