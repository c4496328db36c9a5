"""Ranges of radii."""

import pytest

from ctrobust.errors import InputError
from ctrobust.specs import is_range, parse_range


@pytest.mark.parametrize(
    ("text", "radii"),
    [
        ("1/255..4/255", [1 / 255, 2 / 255, 3 / 255, 4 / 255]),
        (" 2/255 .. 6/255 ", [2 / 255, 4 / 255, 6 / 255]),
        ("0.05..0.4", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]),
        ("0.5/255..1/255", [0.5 / 255, 1 / 255]),
        ("1e-2..3e-2", [0.01, 0.02, 0.03]),
    ],
)
def test_a_range_has_exactly_the_values_of_the_single_texts(text: str, radii: list[float]) -> None:
    assert is_range(text)
    assert parse_range(text) == radii


def test_the_largest_range() -> None:
    assert len(parse_range("0.01..1")) == 100
    with pytest.raises(InputError, match=r"has 101 radii; at most 100"):
        parse_range("0.01..1.01")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("..8/255", "is not a range of radii"),
        ("1/255..", "is not a range of radii"),
        ("3/255..8/255", "2, 3, ... times the first, got 2.667 times"),
        ("8/255..8/255", "got 1 times"),
        ("8/255..4/255", "goes down; write the smaller radius first"),
        ("0..8/255", "are positive, got 0"),
        ("-1/255..8/255", "are positive, got -1/255"),
        ("a..b", "'a' is not a number"),
        ("1/255..4/0", "'4/0' is not a number"),
        ("1..inf", "'inf' is not finite"),
        ("nan..1", "are positive, got nan"),
    ],
)
def test_what_is_no_range_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_range(text)
    assert message in str(error.value)


def test_a_single_radius_is_no_range() -> None:
    assert not is_range("8/255")
