"""Checksums of JSON records."""

import json
from typing import Any

import pytest

from ctrobust.store.record_checksum import add_checksum, has_valid_checksum

FIELDS: dict[str, Any] = {"count": 8, "share": 0.1, "names": ["a", "\u00fc"], "nested": {"x": None, "y": 1e-300}}


def test_every_changed_digit_or_letter_is_noticed() -> None:
    text, noticed = add_checksum(json.dumps(FIELDS)), 0
    assert has_valid_checksum(json.loads(text))
    for place, character in enumerate(text):
        if character.isalnum() and '"sha256"' not in text[max(0, place - 8) : place + 9]:
            changed = text[:place] + ("7" if character != "7" else "8") + text[place + 1 :]
            try:
                fields = json.loads(changed)
            except ValueError:
                continue
            if fields != json.loads(text):
                assert not has_valid_checksum(fields), changed
                noticed += 1
    assert noticed > 80


@pytest.mark.parametrize("indent", [None, 4])
def test_the_layout_and_order_do_not_matter(indent: int | None) -> None:
    fields = json.loads(add_checksum(json.dumps(FIELDS)))
    again = json.loads(json.dumps(dict(reversed(fields.items())), indent=indent))
    assert has_valid_checksum(again)


def test_fields_without_a_checksum_are_accepted() -> None:
    assert has_valid_checksum(FIELDS)
