"""Canonical JSON, its hash, and the fields in which two specs differ."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from ctrobust.errors import SpecError
from ctrobust.specs.run_spec import TrainSpec
from ctrobust.specs.user_model_spec import RunSpec, UserModelSpec
from ctrobust.specs.validation_errors import explain

SCHEMA = 1
_KINDS: dict[str, type[RunSpec]] = {"TrainSpec": TrainSpec, "UserModelSpec": UserModelSpec}


def canonical(spec: BaseModel) -> str:
    """Canonical JSON: sorted keys, no spaces, fields at their default left out."""
    fields = {"schema": SCHEMA, "kind": type(spec).__name__, **spec.model_dump(mode="json", exclude_defaults=True)}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def spec_hash(spec: BaseModel) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:16]


def describe(spec: BaseModel) -> str:
    """The text of a spec.json: the canonical fields, their hash, and for people every value including defaults."""
    content = {
        "canonical": json.loads(canonical(spec)),
        "hash": spec_hash(spec),
        "resolved": spec.model_dump(mode="json"),
    }
    return json.dumps(content, indent=2) + "\n"


def read_description(text: str) -> RunSpec:
    """Read the text of a spec.json. Only its canonical part counts; the oldest files hold nothing else."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not a spec: {error!r}") from None
    if isinstance(content, dict) and "canonical" in content:
        return from_canonical(json.dumps(content["canonical"]))
    return from_canonical(text)


def from_canonical(text: str) -> RunSpec:
    """Read the canonical JSON of a training run, or of a network of the user; another schema or kind is an error."""
    try:
        fields = json.loads(text)
        schema, kind = fields.pop("schema"), fields.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise SpecError(f"not a spec: {error!r}") from None
    if schema != SCHEMA or not isinstance(kind, str) or kind not in _KINDS:
        known = " or ".join(_KINDS)
        raise SpecError(f"a spec of schema {schema}, kind {kind}; this version reads schema {SCHEMA}, kind {known}")
    try:
        return _KINDS[kind].model_validate_json(json.dumps(fields))
    except ValidationError as error:
        raise SpecError(explain(error)) from None


def differences(first: BaseModel, second: BaseModel) -> str:
    """The fields in which two specs differ, with both values.

    Example:
        >>> from ctrobust.specs.run_spec import ModelSpec
        >>> differences(TrainSpec(), TrainSpec(lr=0.1, model=ModelSpec(width=32)))
        'model.width 64 and 32, lr 0.01 and 0.1'
    """
    return ", ".join(f"{key} {a} and {b}" for key, (a, b) in changed_fields(first, second).items())


def changed_fields(first: BaseModel, second: BaseModel) -> dict[str, tuple[Any, Any]]:
    """The fields in which two specs differ, by dotted name, with both values; None where one has no such field."""
    a, b = _flatten(first.model_dump(mode="json")), _flatten(second.model_dump(mode="json"))
    return {key: (a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)}


def _flatten(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one table with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in fields.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
