"""Edits of a spec.json after it was written."""

from typing import Any

from ctrobust.specs import RunSpec, spec_hash


def find_edit(content: dict[str, Any], spec: RunSpec) -> str | None:
    """How a spec.json differs from what was written for its canonical fields; the oldest files hold nothing else."""
    if "canonical" not in content:
        return None
    if content.get("hash") != spec_hash(spec):
        return f"its fields have the hash {spec_hash(spec)}, it says {content.get('hash')}"
    return _difference(content.get("resolved"), spec.model_dump(mode="json"))


def _difference(shown: Any, fields: dict[str, Any], table: str = "") -> str | None:
    """The first field that is shown with another value; fields of other versions are left out."""
    for key, value in fields.items():
        if not isinstance(shown, dict) or key not in shown:
            continue
        name = f"{table}{key}"
        if isinstance(value, dict):
            if found := _difference(shown[key], value, f"{name}."):
                return found
        elif shown[key] != value:
            return f"{name} is shown as {shown[key]}, and is {value}"
    return None
