"""From what a user says to a whole spec: the methods by name, and what is customary where nothing is said."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ctrobust.errors import SpecError
from ctrobust.specs.recipe import recipe_name
from ctrobust.specs.train import TrainSpec
from ctrobust.specs.validation_errors import explain

_MDL = {"samples": 4, "rho": 1.0}
_PLAIN = {"noise": "none"}

METHODS: dict[str, dict[str, Any]] = {
    "dropout": {},
    "focal": {"model": _PLAIN, "recipe": {"loss": "focal"}},
    "dropblock": {"model": {**_PLAIN, "maps": "dropblock"}},
    "multi-sample-dropout": {"recipe": {"samples": 4}},
    "disout": {"model": {**_PLAIN, "maps": "disout"}},
    "label-relaxation": {"model": _PLAIN, "recipe": {"loss": "label-relaxation"}},
    "mdl": {"recipe": _MDL},
    "mdl-pcc": {"recipe": {**_MDL, "diversity": "pearson"}},
    "dropconnect": {"model": {"noise": "dropconnect"}},
    "dropconnect+mdl": {"model": {"noise": "dropconnect"}, "recipe": _MDL},
    "label-smoothing": {"model": _PLAIN, "recipe": {"loss": "label-smoothing"}},
    "label-smoothing+mdl": {"recipe": {**_MDL, "loss": "label-smoothing"}},
    "online-label-smoothing": {"model": _PLAIN, "recipe": {"loss": "online-label-smoothing"}},
    "online-label-smoothing+mdl": {"recipe": {**_MDL, "loss": "online-label-smoothing"}},
}
"""The rows of the paper's tables 1 and 2: each a set of fields that its user may still change."""

DATA_DEFAULTS: dict[str, dict[str, Any]] = {
    "digits": {"batch_size": 16, "lr": 0.02},
    "cifar10": {"augment": "crop-flip", "model": {"name": "resnet18"}},
    "cifar100": {"augment": "crop-flip", "model": {"name": "resnet18"}},
}
"""What a data set is trained with where the user does not say otherwise; the digits are few."""

ADVERSARIAL_RATES: dict[str, dict[str, float]] = {
    "fast": {"cyclic": 0.2, "multistep": 0.2},
    "madry": {"cyclic": 0.2, "multistep": 0.2},
    "free": {"cyclic": 0.1, "multistep": 0.1},
    "trades": {"cyclic": 0.2, "multistep": 0.1},
}
"""The paper's learning rates on CIFAR, by recipe and schedule."""


def data_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The usual settings for the data, recipe and schedule that are given.

    Adversarial training has no dropout, later milestones and a warm-up before them.

    Example:
        >>> customary({"data": "cifar10", "recipe": {"name": "free"}})
        {'augment': 'crop-flip', 'model': {'name': 'resnet18', 'noise': 'none'}, 'lr': 0.1}
    """
    data, schedule = fields.get("data", "digits"), fields.get("schedule")
    usual = DATA_DEFAULTS.get(str(data), {})
    name = recipe_name(fields.get("recipe"))
    if name not in ADVERSARIAL_RATES:
        return dict(usual)
    usual = merge(usual, {"model": {"noise": "none"}})
    shape = schedule.get("name", "cyclic") if isinstance(schedule, Mapping) else "cyclic"
    if str(data).startswith("cifar"):
        usual |= {"lr": ADVERSARIAL_RATES[name].get(str(shape), 0.1)}
    if shape == "multistep":
        usual |= {"schedule": {"milestones": (2 / 3, 5 / 6), "warmup": True}}
    return usual


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables, those of `over` winning.

    Example:
        >>> merge({"model": {"drop": 0.1, "width": 32}}, {"model": {"drop": 0.5}})
        {'model': {'drop': 0.5, 'width': 32}}
    """
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and key in merged:
            if isinstance(merged[key], Mapping):  # what stands for a table and is none is left, to be refused
                merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def given_only(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not None, without the tables that are then empty.

    Example:
        >>> given_only({"lr": None, "model": {"drop": None}, "recipe": {"rho": 1.0, "eta": None}})
        {'recipe': {'rho': 1.0}}
    """
    inner = {key: given_only(value) if isinstance(value, Mapping) else value for key, value in fields.items()}
    return {key: value for key, value in inner.items() if value is not None and value != {}}


def train_spec(fields: Mapping[str, Any]) -> TrainSpec:
    """A spec from nested fields; `method` names a setting of METHODS, below what is given beside it.

    Example:
        >>> train_spec({"method": "mdl", "recipe": {"eta": 90}}).recipe.eta
        90.0
    """
    given = dict(fields)
    method = given.pop("method", "dropout")
    if not isinstance(method, str) or method not in METHODS:
        raise SpecError(f"method = {method!r} is unknown; allowed: {', '.join(METHODS)}")
    if "method" in fields and (name := recipe_name(given.get("recipe", {}))) in ADVERSARIAL_RATES:
        raise SpecError(f"method = {method!r} is one of natural training and cannot be joined with recipe {name}")
    return _validated(merge(merge(data_defaults(given), METHODS[method]), given))


def _validated(fields: Mapping[str, Any]) -> TrainSpec:
    try:
        return TrainSpec.model_validate(fields)
    except ValidationError as error:
        raise SpecError(explain(error)) from None


def override(stored: TrainSpec, fields: Mapping[str, Any]) -> TrainSpec:
    """A spec with what is said of it anew; the rest stays, but for the recipe where another kind is named.

    Example:
        >>> stored = train_spec({"data": "mnist", "recipe": {"name": "fast", "gamma": 2.0}})
        >>> laid_over(stored, {"recipe": {"name": "fast"}}) == stored, laid_over(stored, {"lr": 0.5}).lr
        (True, 0.5)
    """
    given, base, kind = dict(fields), stored.model_dump(), stored.recipe.name
    method = given.pop("method", "dropout")
    if "method" in fields and (method not in METHODS or kind != "natural"):
        return train_spec(fields)  # another run, or a wrong word
    given = merge(METHODS[method] if "method" in fields else {}, given)
    if recipe_name({"name": kind, **given.get("recipe", {})}) != kind:
        del base["recipe"]
    return _validated(merge(base, given))


def read_toml(path: Path) -> dict[str, Any]:
    """The fields of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(f"no spec file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read the spec file {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path} is not TOML: {error}") from None
