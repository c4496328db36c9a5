"""What a run and an evaluation are: values that can be written, read and hashed. No torch.

A spec's canonical JSON holds the schema version and the fields that differ from their defaults, so that a field added
later leaves the hashes of older runs as they were. Where a run computes (device, threads, folders) is no part of it.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ctrobust.errors import SpecError

SCHEMA = 1

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    """Frozen, and strict: an unknown key or a value of another type is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelSpec(_Part):
    """The network."""

    name: Literal["mnistnet", "vgg16", "resnet18", "resnet50"] = "mnistnet"
    width: Annotated[int, Field(ge=2)] = 64
    noise: Literal["dropout", "dropconnect", "none"] = "dropout"
    drop: Share = 0.5
    maps: Literal["none", "dropblock", "disout"] = "none"


class NaturalSpec(_Part):
    """Natural training: `samples` is K; rho = 0 with K > 1 is multi-sample dropout, rho > 0 MDL."""

    name: Literal["natural"] = "natural"
    loss: Literal["ce", "label-smoothing", "focal", "label-relaxation", "online-label-smoothing"] = "ce"
    samples: Count = 1
    rho: NonNegative = 0.0
    eta: Annotated[float, Field(ge=0, le=100)] = 100.0
    diversity: Literal["cosine", "pearson"] = "cosine"

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if self.rho > 0 and self.samples < 2:
            raise ValueError(f"rho = {self.rho:g} compares pairs of sub-networks and needs samples >= 2")
        return self


class ScheduleSpec(_Part):
    """The learning rate over the run."""

    name: Literal["cyclic", "multistep"] = "cyclic"
    milestones: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(default=(0.5, 0.75), strict=False)
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    warmup: bool = False

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones ascend, got {self.milestones}")
        return self


class TrainSpec(_Part):
    """One training run."""

    data: str = "digits"
    limit: Count | None = None
    augment: Literal["none", "crop-flip"] = "none"
    model: ModelSpec = ModelSpec()
    recipe: NaturalSpec = NaturalSpec()
    schedule: ScheduleSpec = ScheduleSpec()
    epochs: Count = 10
    batch_size: Count = 128
    lr: Positive = 0.01
    momentum: Share = 0.9
    weight_decay: NonNegative = 5e-4
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 0
    precision: Literal["fp32", "bf16"] = "fp32"
    world_size: Count = 1

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.batch_size < self.world_size:
            raise ValueError(f"batch_size = {self.batch_size} cannot be shared by {self.world_size} processes")
        return self

    @model_validator(mode="after")
    def _noise(self) -> Self:
        if self.recipe.samples > 1 and self.model.noise == "none":
            raise ValueError(f"samples = {self.recipe.samples} needs model.noise: without it all samples are the same")
        return self


class EvaluationSpec(_Part):
    """One attack on one model: the outcomes of a run are kept under this hash."""

    data: str
    split: Literal["train", "test"] = "test"
    limit: Count | None = None
    attack: str
    chunk: Count = 256
    weights: str = Field(description="sha256 of the weights")
    contents: str | None = Field(default=None, description="sha256 of data that is not the published one")


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

CUSTOMARY: dict[str, dict[str, Any]] = {
    "digits": {"batch_size": 16, "lr": 0.02},
    "cifar10": {"augment": "crop-flip", "model": {"name": "resnet18"}},
    "cifar100": {"augment": "crop-flip", "model": {"name": "resnet18"}},
}
"""What a data set is trained with where the user does not say otherwise; the digits are few."""


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
    try:
        customary = CUSTOMARY.get(str(given.get("data", "digits")), {})
        return TrainSpec.model_validate(merge(merge(customary, METHODS[method]), given))
    except ValidationError as error:
        raise SpecError(_explain(error)) from None


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


def differences(first: BaseModel, second: BaseModel) -> str:
    """The fields in which two specs differ, with both values.

    Example:
        >>> differences(TrainSpec(), TrainSpec(lr=0.1, model=ModelSpec(width=32)))
        'model.width 64 and 32, lr 0.01 and 0.1'
    """
    a, b = _flat(first.model_dump(mode="json")), _flat(second.model_dump(mode="json"))
    return ", ".join(f"{key} {a.get(key)} and {b.get(key)}" for key in {**a, **b} if a.get(key) != b.get(key))


def _flat(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in fields.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def canonical(spec: BaseModel) -> str:
    """Canonical JSON: sorted keys, no spaces, defaults left out."""
    fields = {"schema": SCHEMA, "kind": type(spec).__name__, **spec.model_dump(mode="json", exclude_defaults=True)}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def spec_hash(spec: BaseModel) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:16]


def from_canonical(text: str) -> TrainSpec:
    """The inverse of `canonical` for runs; refuses another schema or kind."""
    try:
        fields = json.loads(text)
        schema, kind = fields.pop("schema"), fields.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise SpecError(f"not a spec: {error!r}") from None
    if (schema, kind) != (SCHEMA, "TrainSpec"):
        raise SpecError(f"a spec of schema {schema}, kind {kind}; this version reads schema {SCHEMA}, kind TrainSpec")
    try:
        return TrainSpec.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        raise SpecError(_explain(error)) from None


def _explain(error: ValidationError) -> str:
    """Each wrong key with its value and what is allowed, one a line."""
    lines = []
    for part in error.errors():
        key = ".".join(str(piece) for piece in part["loc"])
        if part["type"] == "extra_forbidden":
            lines.append(f"unknown key {key}; allowed: {', '.join(_siblings(part['loc']))}")
        elif key:
            lines.append(f"{key} = {part['input']!r}: {part['msg'].removeprefix('Value error, ')}")
        else:
            lines.append(part["msg"].removeprefix("Value error, "))
    return "\n".join(lines)


def _siblings(location: tuple[int | str, ...]) -> list[str]:
    """The keys allowed beside the one at `location`."""
    part: Any = TrainSpec
    for piece in location[:-1]:
        part = part.model_fields[str(piece)].annotation
    return list(part.model_fields)
