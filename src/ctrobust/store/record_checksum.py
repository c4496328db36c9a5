"""The checksum of a JSON record: a changed number in it is noticed, whatever the file's layout."""

import hashlib
import json
from typing import Any


def add_checksum(text: str) -> str:
    """Add the SHA-256 of a JSON object to it, as its last field.

    Example:
        >>> text = add_checksum('{"accuracy": 0.5}')
        >>> has_valid_checksum(json.loads(text)), has_valid_checksum(json.loads(text.replace("0.5", "0.7")))
        (True, False)
    """
    fields = json.loads(text)
    return json.dumps({**fields, "sha256": _digest(fields)}, indent=2) + "\n"


def has_valid_checksum(fields: dict[str, Any]) -> bool:
    """Whether the fields are those that were written; records of earlier versions have no checksum to tell."""
    others = {key: value for key, value in fields.items() if key != "sha256"}
    return "sha256" not in fields or fields["sha256"] == _digest(others)


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
