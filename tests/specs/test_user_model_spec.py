"""The spec of a network that was trained elsewhere."""

import pytest
from pydantic import ValidationError

from ctrobust.specs import UserModelSpec, canonical, describe, from_canonical, read_description

SPEC = UserModelSpec(factory="nets:wide", data="digits", network="a" * 64, mean=(0.5,), std=(0.25,))


def test_it_is_read_as_it_was_written() -> None:
    assert from_canonical(canonical(SPEC)) == SPEC
    assert read_description(describe(SPEC)) == SPEC


@pytest.mark.parametrize("fields", [{"factory": "wide"}, {"network": "a" * 16}, {"weights": "x" * 64}])
def test_wrong_values_are_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        UserModelSpec.model_validate({**SPEC.model_dump(), **fields})
