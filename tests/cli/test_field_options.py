"""The options of `ctrobust train` are those of the spec."""

from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from ctrobust import specs
from ctrobust.cli.field_help import FIELD_HELP
from ctrobust.cli.field_options import FieldOption, field_options, fraction
from ctrobust.specs import AdversarialSpec, ModelSpec, ScheduleSpec, TrainSpec
from ctrobust.specs.fields import Radius


def option(name: str) -> FieldOption:
    (found,) = [one for one in field_options() if one.name == name]
    return found


def test_every_field_of_the_spec_has_an_option() -> None:
    names = {one.name for one in field_options()}
    fields = set(TrainSpec.model_fields) - {"model", "recipe", "schedule", "world_size"} | {"method"}
    fields |= {f"model.{name}" for name in ModelSpec.model_fields}
    fields |= {f"schedule.{name}" for name in ScheduleSpec.model_fields}
    fields |= {f"recipe.{name}" for recipe in specs.RECIPE_SPECS.values() for name in recipe.model_fields}
    assert names == fields


def test_every_sentence_of_the_help_is_about_a_field() -> None:
    assert set(FIELD_HELP) <= {one.name for one in field_options()}


def test_options_have_different_names() -> None:
    options = [one.option for one in field_options()]
    assert len(set(options)) == len(options)
    assert {"--recipe", "--model", "--schedule", "--gamma", "--batch-size"} <= set(options)


def test_a_name_that_is_taken_gets_the_name_of_its_table() -> None:
    (beta,) = [one for one in field_options(("--beta",)) if one.name == "recipe.beta"]
    assert beta.option == "--recipe-beta"


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("epochs", int, "Number of passes over the training images. Default: 10."),
        ("limit", int, "Train on the first N images only."),
        ("batch_size", int, "have a smaller default. Default: 128; 16 for digits."),
        ("model.name", str, f"package.module:function. One of {', '.join(specs.NETWORK_NAMES)}. "),
        ("recipe.name", str, f"Training recipe. One of {', '.join(specs.RECIPE_SPECS)}. Default: natural."),
        ("method", str, ", ".join(specs.METHODS)),
        ("recipe.eps", str, "Default: 8/255."),
        ("recipe.step_size", str, "For fast, madry, free, trades"),
        ("recipe.beta", float, "For trades. Default: 6."),
        ("recipe.steps", int, "Default: 7 for madry"),
        ("recipe.loss", str, "Default: ce for natural; sce for fast"),
        ("schedule.warmup", bool, "Default: no."),
        ("schedule.milestones", str, "Default: [0.5, 0.75]."),
    ],
)
def test_kind_and_help(name: str, kind: type, text: str) -> None:
    assert option(name).kind is kind
    assert text in option(name).help()


def test_a_new_recipe_needs_no_edit_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class NewSpec(AdversarialSpec):
        rates: ClassVar = {"cyclic": 0.1, "multistep": 0.1}
        name: Literal["new"]
        alpha: Annotated[Radius | None, Field(description="Radius of the noise.")] = 16 / 255
        mode: Literal["a", "b"] = "b"

    monkeypatch.setitem(specs.RECIPE_SPECS, "new", NewSpec)
    assert option("recipe.alpha").help() == "Radius of the noise. For new. Default: 16/255."
    assert option("recipe.alpha").kind is str
    assert option("recipe.mode").help() == "One of a, b. For new. Default: b."
    assert ", new. Default: natural." in option("recipe.name").help()


def test_lists_are_read_as_toml() -> None:
    assert option("schedule.milestones").value("[0.3, 0.6]") == [0.3, 0.6]
    assert option("recipe.eps").value("8/255") == "8/255"
    assert option("recipe.eps").value(None) is None


def test_a_radius_is_written_as_a_fraction_where_it_is_one() -> None:
    assert [fraction(value) for value in (8 / 255, 0.1, 1.0, 0.007)] == ["8/255", "0.1", "1", "0.007"]
