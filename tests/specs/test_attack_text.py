"""Numbers and arguments as text: exact both ways, and errors with a reason."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.errors import InputError
from ctrobust.specs.attack_text import (
    format_call,
    format_number,
    parse_call,
    parse_number,
    split_arguments,
)


@settings(max_examples=200, deadline=None)
@given(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(0, 1)
    | st.integers(0, 255).map(lambda k: k / 255)
    | st.tuples(st.integers(0, 255), st.integers(1, 40)).map(lambda kn: kn[0] / 255 / kn[1])
    | st.tuples(st.integers(-500, 500), st.integers(1, 5000)).map(lambda kn: kn[0] / kn[1])
    | st.decimals(-10, 10, places=4).map(float)
)
def test_a_number_is_read_back_to_the_bit(value: float) -> None:
    assert parse_number(format_number(value)) == value


@pytest.mark.parametrize("k", range(256))
def test_grey_levels(k: int) -> None:
    assert parse_number(f"{k}/255") == k / 255
    assert parse_number(format_number(k / 255)) == k / 255
    short = len(repr(k / 255)) <= 6 or k in (0, 255)
    assert short or format_number(k / 255) == f"{k}/255"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.0, "0"), (-0.0, "0"), (1.0, "1"), (-3.0, "-3"), (0.5, "0.5"), (0.3, "0.3"), (0.03, "0.03"),
        (8 / 255, "8/255"), (16 / 255, "16/255"), (8 / 255 / 4, "2/255"), (2 / 255 / 4, "1/510"), (0.3 / 4, "0.075"),
        (1 / 7, "1/7"), (0.1 + 0.2, "0.30000000000000004"), (1e-5, "1e-05"), (1.25e-9, "1.25e-09"),
        (1e22, "10000000000000000000000"),
    ],
)  # fmt: skip
def test_shortest_exact_form(value: float, text: str) -> None:
    assert format_number(value) == text
    assert parse_number(text) == value


@pytest.mark.parametrize(
    ("text", "value", "canonical"),
    [
        ("0.5/255", 0.5 / 255, "1/510"), ("8.5/255", 8.5 / 255, "1/30"), (".3/255", 0.3 / 255, None),
        ("0.1/3", 0.1 / 3, None), ("-2.5/255", -2.5 / 255, None), ("1e-1/255", 0.1 / 255, None),
        ("8.0/255", 8 / 255, "8/255"), ("2e0/255", 2 / 255, "2/255"),
    ],
)  # fmt: skip
def test_numerators_may_be_decimal(text: str, value: float, canonical: str | None) -> None:
    assert parse_number(text) == value
    assert parse_number(format_number(value)) == value
    assert canonical in (None, format_number(value))


@settings(max_examples=200, deadline=None)
@given(st.decimals(-300, 300, places=3), st.integers(1, 1000))
def test_a_fraction_is_what_python_computes(above: Decimal, below: int) -> None:
    value = float(above) / below
    assert parse_number(f"{above}/{below}") == value
    assert parse_number(format_number(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "8/",
        "/255",
        "8/255/2",
        "1/0",
        "0.5/0",
        "8/2.5",
        "8/-2",
        "1,5",
        "0x10",
        "--1",
        "8 /255x",
        "nan/255",
        "inf/255",
        "./255",
        "0.5/",
        "1e999/3",
    ],
)
def test_invalid_numbers_raise(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_number(text)
    assert str(caught.value) == f"{text!r} is not a number; write 0.03 or 8/255"


def test_arguments() -> None:
    assert split_arguments("") == split_arguments("  ") == {}
    assert split_arguments(" a = 1 ,b=f(c=2,d=g(e=3,h=4)), i=x=y") == {
        "a": "1",
        "b": "f(c=2,d=g(e=3,h=4))",
        "i": "x=y",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "expected key=value, got 'a'"),
        ("a=", "expected key=value, got 'a='"),
        ("=1", "expected key=value, got '=1'"),
        ("a=1,", "expected key=value, got '' in 'a=1,'"),
        (",a=1", "expected key=value, got '' in ',a=1'"),
        ("a=1,b", "expected key=value, got 'b' in 'a=1,b'"),
        ("a=1,b=2, a=3", "'a' is given twice"),
    ],
)
def test_invalid_arguments_raise(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        split_arguments(text)
    assert str(caught.value) == message


def test_call() -> None:
    assert parse_call(" skl ( gamma = 8/255 , std_at=adv ) ") == ("skl", {"gamma": 8 / 255, "std_at": "adv"})
    assert parse_call("sce(gamma=-.5e-3)") == ("sce", {"gamma": -0.0005})
    assert parse_call("x-2") == ("x-2", {})
    assert parse_call("x()") == ("x", {})
    assert format_call("x", {}) == "x"
    assert format_call("skl", {"gamma": 8 / 255, "std_at": "adv"}) == "skl(gamma=8/255,std_at=adv)"


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), st.floats(-1e9, 1e9) | st.sampled_from(["adv", "clean"])))
def test_a_call_is_read_back(arguments: dict[str, float | str]) -> None:
    assert parse_call(format_call("name", arguments)) == ("name", arguments)


@pytest.mark.parametrize("text", ["", "f(", "f)", "f(a=1", "f a=1)", "1f", "f(a=1)g"])
def test_invalid_calls_raise(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_call(text)
    assert str(caught.value) == f"expected name or name(key=value,...), got {text!r}"
