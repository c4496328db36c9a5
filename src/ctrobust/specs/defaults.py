"""From fields that a user gives to a complete spec: named methods, and defaults that depend on the data and recipe."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ctrobust.errors import SpecError, closest
from ctrobust.regular_file import read_regular_file
from ctrobust.specs.factory_name import is_factory
from ctrobust.specs.methods import METHODS
from ctrobust.specs.recipe import RECIPE_SPECS, AdversarialSpec, recipe_name
from ctrobust.specs.run_spec import TrainSpec
from ctrobust.specs.validation_errors import explain

DATA_DEFAULTS: dict[str, dict[str, Any]] = {
    "digits": {"batch_size": 16, "lr": 0.02},
    "cifar10": {"augment": "crop-flip", "model": {"name": "resnet18"}},
    "cifar100": {"augment": "crop-flip", "model": {"name": "resnet18"}},
}
"""Data set -> the defaults that differ from those of TrainSpec; digits has few images and needs smaller batches."""

STEPS_PER_EPOCH = 50
"""Number of steps per epoch that the default batch size gives on data of the user, if they have enough images."""

SMALLEST_BATCH = 8
MOST_SPEC_BYTES = 1 << 20


def fitting_batch_size(images: int) -> int:
    """The largest power of two, from 8 to 128, that divides an epoch into at least 50 steps.

    Example:
        >>> [fitting_batch_size(images) for images in (60000, 6400, 6399, 1000, 100)]
        [128, 128, 64, 16, 8]
    """
    largest = min(int(TrainSpec.model_fields["batch_size"].default), max(1, images // STEPS_PER_EPOCH))
    return max(SMALLEST_BATCH, 1 << (largest.bit_length() - 1))


def defaults_for(fields: Mapping[str, Any], train_images: int | None = None) -> dict[str, Any]:
    """The defaults that follow from the given data, recipe and schedule.

    Adversarial training has no dropout, later milestones and a warm-up before them; on CIFAR it has the recipe's rate.
    A network of the user is trained as it is, unless a method is named.
    `train_images`, the number of training images of data of the user, makes the batch size fit them.

    Example:
        >>> defaults_for({"data": "cifar10", "recipe": {"name": "free"}})
        {'augment': 'crop-flip', 'model': {'name': 'resnet18', 'noise': 'none'}, 'lr': 0.1}
    """
    data, schedule = fields.get("data", "digits"), fields.get("schedule")
    defaults = DATA_DEFAULTS.get(str(data), {})
    if train_images is not None:
        defaults = {**defaults, "batch_size": fitting_batch_size(train_images)}
    model = fields.get("model")
    if "method" not in fields and isinstance(model, Mapping) and is_factory(str(model.get("name"))):
        defaults = merge(defaults, {"model": {"noise": "none"}})
    recipe = RECIPE_SPECS.get(str(recipe_name(fields.get("recipe"))))
    if recipe is None or not issubclass(recipe, AdversarialSpec):
        return dict(defaults)
    defaults = merge(defaults, {"model": {"noise": "none"}})
    shape = str(schedule.get("name", "cyclic") if isinstance(schedule, Mapping) else "cyclic")
    if str(data).startswith("cifar") and shape in recipe.rates:
        defaults |= {"lr": recipe.rates[shape]}
    if shape == "multistep":
        defaults |= {"schedule": {"milestones": (2 / 3, 5 / 6), "warmup": True}}
    return defaults


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested tables; values of `over` win.

    Example:
        >>> merge({"model": {"drop": 0.1, "width": 32}}, {"model": {"drop": 0.5}})
        {'model': {'drop': 0.5, 'width': 32}}
    """
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and key in merged:
            if isinstance(merged[key], Mapping):  # a value where a table belongs stays, and the validator rejects it
                merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def given_only(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not None, without tables that are then empty.

    Example:
        >>> given_only({"lr": None, "model": {"drop": None}, "recipe": {"rho": 1.0, "eta": None}})
        {'recipe': {'rho': 1.0}}
    """
    inner = {key: given_only(value) if isinstance(value, Mapping) else value for key, value in fields.items()}
    return {key: value for key, value in inner.items() if value is not None and value != {}}


def train_spec(fields: Mapping[str, Any], train_images: int | None = None) -> TrainSpec:
    """Make a complete spec from nested fields; `method` names an entry of METHODS, which the other fields override.

    `train_images` is explained at `defaults_for`.

    Example:
        >>> train_spec({"method": "mdl", "recipe": {"eta": 90}}).recipe.eta
        90.0
    """
    given = dict(fields)
    method = given.pop("method", "dropout")
    if not isinstance(method, str) or method not in METHODS:
        raise SpecError(f"method = {method!r} is unknown; {closest(method, METHODS)}")
    if "method" in fields and (name := recipe_name(given.get("recipe", {}))) in RECIPE_SPECS and name != "natural":
        raise SpecError(f"method = {method!r} belongs to natural training and cannot be combined with recipe {name}")
    return _validated(merge(merge(defaults_for(fields, train_images), METHODS[method]), given))


def _validated(fields: Mapping[str, Any]) -> TrainSpec:
    try:
        return TrainSpec.model_validate(fields)
    except ValidationError as error:
        raise SpecError(explain(error)) from None


def override(stored: TrainSpec, fields: Mapping[str, Any]) -> TrainSpec:
    """Override fields of a stored spec. Naming another recipe replaces the whole recipe table.

    Example:
        >>> stored = train_spec({"data": "mnist", "recipe": {"name": "fast", "gamma": 2.0}})
        >>> override(stored, {"recipe": {"name": "fast"}}) == stored, override(stored, {"lr": 0.5}).lr
        (True, 0.5)
    """
    given, base, recipe = dict(fields), stored.model_dump(), stored.recipe.name
    method = given.pop("method", "dropout")
    if "method" in fields and (method not in METHODS or recipe != "natural"):
        return train_spec(fields)  # which is another run, or an unknown method
    given = merge(METHODS[method] if "method" in fields else {}, given)
    if recipe_name({"name": recipe, **given.get("recipe", {})}) != recipe:
        del base["recipe"]
    return _validated(merge(base, given))


def read_toml(path: Path) -> dict[str, Any]:
    """Read the fields of a TOML file of at most MOST_SPEC_BYTES."""
    try:
        return tomllib.loads(read_regular_file(path, MOST_SPEC_BYTES).decode("utf-8"))
    except FileNotFoundError:
        raise SpecError(f"no spec file {path}") from None
    except OSError as error:
        raise SpecError(f"cannot read the spec file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"cannot read the spec file {path}: {error}") from None
    except RecursionError:
        raise SpecError(f"{path} is not a spec: its values are nested too deeply") from None
    except ValueError as error:  # of TOML's syntax, or an integer of thousands of digits
        raise SpecError(f"{path} is not TOML: {error}") from None
