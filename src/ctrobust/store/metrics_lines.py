"""The lines of a metrics.jsonl: one JSON object per epoch, in order."""

import json
from typing import Any


def parse_metrics(content: bytes) -> tuple[list[dict[str, Any]], int]:
    r"""Return the good lines, and the number of damaged ones.

    A line is good if it is an object whose `epoch` is larger than that of the good line before, and whose `loss`, if
    it has one, is a number. A last line without its end was cut off by a kill, which damages nothing: its epoch is
    trained again.

    Example:
        >>> parse_metrics(b'{"epoch": 1}\n?\n{"epoch": 3}\n{"epo')
        ([{'epoch': 1}, {'epoch': 3}], 1)
    """
    lines = content.split(b"\n")
    good: list[dict[str, Any]] = []
    damaged = 0
    for number, line in enumerate(lines, start=1):
        fields = _parse(line)
        if fields is not None and fields["epoch"] > (good[-1]["epoch"] if good else 0):
            good.append(fields)
        elif number < len(lines):
            damaged += 1
    return good, damaged


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or type(fields.get("epoch")) is not int:
        return None
    return fields if isinstance(fields.get("loss", 0.0), int | float) else None
