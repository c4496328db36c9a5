"""`--set FIELD=VALUE`."""

import pytest

from ctrobust.cli.set_option import combine, nested, parse_assignments, parse_value
from ctrobust.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("6", 6),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("true", True),
        ("[0.5, 0.75]", [0.5, 0.75]),
        ('"quoted"', "quoted"),
        ("trades", "trades"),
        ("8/255", "8/255"),
        ("folder:my pics", "folder:my pics"),
        ("", ""),
        ("2020-01-01", "2020-01-01"),
        ("{a = 1}", "{a = 1}"),
        ("1\nother = 2", "1\nother = 2"),
        ("[1, 2", "[1, 2"),
    ],
)
def test_a_value_is_toml_or_the_text_itself(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_dotted_names_become_tables() -> None:
    values = parse_assignments(["recipe.name=trades", " recipe.beta = 6 ", "data=npz:a=b.npz"])
    assert nested(values) == {"recipe": {"name": "trades", "beta": 6}, "data": "npz:a=b.npz"}


@pytest.mark.parametrize("text", ["recipe.beta", "=6", "", " =6"])
def test_an_assignment_needs_a_name_and_a_value(text: str) -> None:
    with pytest.raises(InputError, match=r"--set takes FIELD=VALUE, such as recipe\.beta=6; got"):
        parse_assignments([text])


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({"recipe.gamma": 2.0}, {"recipe.gamma": 2}),
        ({"recipe.eps": "0.1"}, {"recipe.eps": 0.1}),
        ({"recipe.eps": "8/255"}, {"recipe.eps": "8/255"}),
        ({"schedule.warmup": True}, {"schedule.warmup": True}),
    ],
)
def test_one_value_may_be_given_twice(given: dict[str, object], more: dict[str, object]) -> None:
    assert combine(given, more, "--set") == more


def test_two_values_of_one_field_are_refused() -> None:
    with pytest.raises(InputError, match=r"recipe.gamma is given as 2.0 and by --set as 3; give it once"):
        combine({"recipe.gamma": 2.0}, {"recipe.gamma": 3}, "--set")
    with pytest.raises(InputError, match=r"lr is given as 1 and by --set as 2"):
        parse_assignments(["lr=1", "lr=2"])


@pytest.mark.parametrize("texts", [["recipe=fast", "recipe.gamma=2"], ["recipe.gamma=2", "recipe=fast"]])
def test_a_table_and_its_field_are_refused_together(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"recipe is a table of fields and cannot be set beside recipe.gamma"):
        parse_assignments(texts)
