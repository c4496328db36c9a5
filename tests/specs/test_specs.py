"""Validation of specs, and the defaults that follow from method, data and recipe."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ctrobust.errors import SpecError
from ctrobust.specs import (
    DATA_DEFAULTS,
    METHODS,
    RECIPE_SPECS,
    FastSpec,
    FreeSpec,
    MadrySpec,
    ModelSpec,
    NaturalSpec,
    ScheduleSpec,
    TradesSpec,
    TrainSpec,
    canonical,
    differences,
    from_canonical,
    given_only,
    merge,
    override,
    read_toml,
    train_spec,
)


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        # unknown keys
        ({"learning_rate": 0.1}, ["unknown key learning_rate", "known: data, limit, augment, model", "lr", "seed"]),
        ({"model": {"depth": 3}}, ["unknown key model.depth", "known: name, width, noise, drop"]),
        ({"schedule": {"gamma": 1}}, ["unknown key schedule.gamma", "known: name, milestones, factor, warmup"]),
        # impossible values
        ({"epochs": 0}, ["epochs = 0", "greater than or equal to 1"]),
        ({"limit": -5}, ["limit = -5", "greater than or equal to 1"]),
        ({"lr": 0.0}, ["lr = 0.0", "greater than 0"]),
        ({"lr": float("inf")}, ["lr = inf", "finite"]),
        ({"weight_decay": float("nan")}, ["weight_decay = nan", "finite"]),
        ({"momentum": 1.0}, ["momentum = 1.0", "less than 1"]),
        ({"momentum": float("nan")}, ["momentum = nan", "less than 1"]),
        ({"model": {"name": "lenet"}}, ["model.name = 'lenet'", "'mnistnet'"]),
        ({"model": {"width": 1}}, ["model.width = 1", "greater than or equal to 2"]),
        ({"model": {"noise": "blur"}}, ["model.noise = 'blur'", "'dropout', 'dropconnect' or 'none'"]),
        ({"model": {"drop": 1.0}}, ["model.drop = 1.0", "less than 1"]),
        ({"model": {"drop": float("nan")}}, ["model.drop = nan", "less than 1"]),
        ({"recipe": {"samples": 0}}, ["recipe.samples = 0", "greater than or equal to 1"]),
        ({"recipe": {"eta": 101}}, ["recipe.eta = 101", "less than or equal to 100"]),
        ({"recipe": {"rho": -1.0}}, ["recipe.rho = -1.0", "greater than or equal to 0"]),
        ({"recipe": {"diversity": "l2"}}, ["recipe.diversity = 'l2'", "'cosine' or 'pearson'"]),
        ({"schedule": {"name": "cosine"}}, ["schedule.name = 'cosine'", "'cyclic' or 'multistep'"]),
        ({"schedule": {"milestones": [0.5, 1.0]}}, ["schedule.milestones.1 = 1.0", "less than 1"]),
        ({"schedule": {"milestones": [0.7, 0.5]}}, ["schedule", "milestones must ascend, got (0.7, 0.5)"]),
        ({"schedule": {"milestones": [0.5, 0.5]}}, ["milestones must ascend, got (0.5, 0.5)"]),
        ({"schedule": {"factor": 2.0}}, ["schedule.factor = 2.0", "less than or equal to 1"]),
        # impossible together
        ({"recipe": {"rho": 1.0}}, ["rho = 1", "needs samples >= 2"]),
        ({"recipe": {"samples": 4}, "model": {"noise": "none"}}, ["samples = 4 needs model.noise"]),
        ({"method": "mdl", "model": {"noise": "none"}}, ["samples = 4 needs model.noise"]),
        ({"recipe": {"smoothing": 0.2}}, ["smoothing = 0.2 needs loss = 'label-smoothing', got 'ce'"]),
        (
            {"recipe": {"loss": "label-smoothing", "focal_exponent": 3.0}},
            ["focal_exponent = 3 needs loss = 'focal', got 'label-smoothing'"],
        ),
        ({"recipe": {"loss": "focal", "relaxation": 0.2}}, ["relaxation = 0.2 needs loss = 'label-relaxation'"]),
        ({"recipe": {"soft_weight": 0.2}}, ["soft_weight = 0.2 needs loss = 'online-label-smoothing'"]),
        ({"recipe": {"loss": "label-smoothing", "smoothing": 1.5}}, ["recipe.smoothing = 1.5", "less than or equal"]),
        ({"model": {"maps_block": 7}}, ["maps_block = 7 needs maps = 'dropblock' or 'disout', got 'none'"]),
        ({"model": {"maps_drop": 0.2}}, ["maps_drop = 0.2 needs maps = 'dropblock' or 'disout', got 'none'"]),
        (
            {"model": {"maps": "dropblock", "maps_alpha": 2.0}},
            ["maps_alpha = 2 needs maps = 'disout', got 'dropblock'"],
        ),
        # wrong types
        ({"epochs": 10.0}, ["epochs = 10.0", "valid integer"]),
        ({"epochs": True}, ["epochs = True", "valid integer"]),
        ({"lr": "0.1"}, ["lr = '0.1'", "valid number"]),
        ({"data": 7}, ["data = 7", "valid string"]),
        ({"seed": "0"}, ["seed = '0'", "valid integer"]),
        ({"model": 3}, ["model = 3", "valid dictionary"]),
        ({"schedule": {"warmup": 1}}, ["schedule.warmup = 1", "valid boolean"]),
        ({"schedule": {"milestones": 0.5}}, ["schedule.milestones = 0.5", "valid tuple"]),
        ({"schedule": {"milestones": ["0.5"]}}, ["schedule.milestones.0 = '0.5'", "valid number"]),
        # recipes
        (
            {"recipe": {"name": "fst"}},
            ["recipe.name = 'fst' is unknown; did you mean 'fast'? known: natural, fast, madry"],
        ),
        (
            {"recipe": {"name": ["fast"]}},
            ["recipe.name = \"['fast']\" is unknown; did you mean 'fast'? known: natural"],
        ),
        ({"recipe": 3}, ['recipe = 3: Input should be a table, as [recipe] with name = "fast"']),
        ({"gamma": 2.0}, ["unknown key gamma (it belongs to [recipe]); known: data, ", ", method"]),
        ({"milestones": [0.5]}, ["unknown key milestones (it belongs to [schedule])"]),
        ({"epoch": 2}, ["unknown key epoch; did you mean 'epochs'? known: "]),
        (
            {"recipe": {"name": "fast", "gama": 2.0}},
            ["unknown key recipe.gama of recipe fast; did you mean 'gamma'? "],
        ),
        (
            {"recipe": {"name": "fast", "beta": 2.0}},
            ["unknown key recipe.beta of recipe fast (it belongs to trades); known: name, loss, eps"],
        ),
        ({"recipe": {"name": "madry", "rho": 1.0}}, ["unknown key recipe.rho of recipe madry (it belongs to natural)"]),
        (
            {"recipe": {"gamma": 1.0}},
            ["unknown key recipe.gamma of recipe natural (it belongs to fast, madry, free, trades"],
        ),
        (
            {"recipe": {"name": "free", "steps": 3}},
            ["unknown key recipe.steps of recipe free (it belongs to madry, trades)"],
        ),
        ({"recipe": {"name": "fast", "colour": 1}}, ["unknown key recipe.colour of recipe fast; known: name, loss"]),
        ({"recipe": {"name": "fast", "eps": 8}}, ["recipe.eps = 8", "less than or equal to 1"]),
        ({"recipe": {"name": "fast", "eps": "8 of 255"}}, ["recipe.eps = '8 of 255'", "valid number"]),
        ({"recipe": {"name": "fast", "eps": "1/0"}}, ["recipe.eps = '1/0'", "valid number"]),
        ({"recipe": {"name": "fast", "step_size": 0.0}}, ["recipe.step_size = 0.0", "greater than 0"]),
        ({"recipe": {"name": "fast", "gamma": -1.0}}, ["recipe.gamma = -1.0", "greater than or equal to 0"]),
        ({"recipe": {"name": "fast", "loss": "skl"}}, ["recipe.loss = 'skl'", "'sce' or 'std'"]),
        ({"recipe": {"name": "trades", "loss": "sce"}}, ["recipe.loss = 'sce'", "'skl' or 'std'"]),
        ({"recipe": {"name": "trades", "std_at": "y"}}, ["recipe.std_at = 'y'", "'adv' or 'clean'"]),
        ({"recipe": {"name": "free", "replays": 0}}, ["recipe.replays = 0", "greater than or equal to 1"]),
        ({"recipe": {"name": "fast", "gamma": 101.0}}, ["recipe.gamma = 101.0", "less than or equal to 100"]),
        ({"recipe": {"name": "fast", "gamma_in": "attack"}}, ["gamma_in = 'attack' needs gamma > 0"]),
        ({"recipe": {"name": "trades", "std_at": "clean"}}, ["std_at = 'clean' needs gamma > 0"]),
        ({"recipe": {"name": "trades", "loss": "std", "std_at": "clean"}}, ["std_at = 'clean' needs gamma > 0"]),
        ({"recipe": {"name": "trades", "loss": "std", "second_clean_pass": True}}, ["second_clean_pass has no effect"]),
        ({"recipe": {"samples": 4, "eta": 90.0}}, ["eta = 90.0 belongs to MDL and needs rho > 0"]),
        (
            {"recipe": {"samples": 4, "diversity": "pearson"}},
            ["diversity = 'pearson' belongs to MDL"],
        ),
        ({"recipe": {"name": "fast", "loss": "std", "gamma": 2.0}}, ["gamma = 2 has no effect with loss = 'std'"]),
        (
            {"recipe": {"name": "fast"}, "method": "dropout"},
            ["method = 'dropout' belongs to natural training and cannot be combined with recipe fast"],
        ),
        ({"stop_on_collapse": True}, ["stop_on_collapse is for adversarial recipes"]),
        ({"ema": 1.0}, ["ema = 1.0", "less than 1"]),
        ({"validation": -1}, ["validation = -1", "greater than or equal to 0"]),
        # methods
        (
            {"method": "mixup"},
            ["method = 'mixup' is unknown", "known: dropout, focal, dropblock, multi-sample-dropout"],
        ),
        ({"method": ["mdl"]}, ["method = ['mdl'] is unknown", "known: dropout"]),
        ({"seed": 2**70}, ["seed = 1180591620717411303424", "less than"]),
        ({"seed": -(2**63) - 1}, ["seed = -9223372036854775809", "greater than or equal to"]),
        ({"method": 3}, ["method = 3 is unknown", "known: dropout"]),
    ],
)
def test_refused_with_key_value_and_what_is_allowed(fields: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(SpecError) as error:
        train_spec(fields)
    for part in parts:
        assert part in str(error.value)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(SpecError) as error:
        train_spec({"epochs": 0, "lr": -1.0, "colour": "red"})
    assert [line.split(":")[0] for line in str(error.value).splitlines()] == [
        "epochs = 0",
        "lr = -1.0",
        "unknown key colour; known",
    ]


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        TrainSpec().seed = 1  # type: ignore[misc]


def test_the_methods_are_the_papers() -> None:
    made = {name: train_spec({"method": name}) for name in METHODS}
    assert {name: (spec.recipe, spec.model.noise) for name, spec in made.items()} == {
        "dropout": (NaturalSpec(), "dropout"),
        "multi-sample-dropout": (NaturalSpec(samples=4, rho=0.0), "dropout"),
        "mdl": (NaturalSpec(samples=4, rho=1.0, eta=100.0, diversity="cosine"), "dropout"),
        "mdl-pcc": (NaturalSpec(samples=4, rho=1.0, eta=100.0, diversity="pearson"), "dropout"),
        "dropconnect": (NaturalSpec(), "dropconnect"),
        "dropconnect+mdl": (NaturalSpec(samples=4, rho=1.0), "dropconnect"),
        "focal": (NaturalSpec(loss="focal"), "none"),
        "label-relaxation": (NaturalSpec(loss="label-relaxation"), "none"),
        "label-smoothing": (NaturalSpec(loss="label-smoothing"), "none"),
        "label-smoothing+mdl": (NaturalSpec(loss="label-smoothing", samples=4, rho=1.0), "dropout"),
        "online-label-smoothing": (NaturalSpec(loss="online-label-smoothing"), "none"),
        "online-label-smoothing+mdl": (NaturalSpec(loss="online-label-smoothing", samples=4, rho=1.0), "dropout"),
        "dropblock": (NaturalSpec(), "none"),
        "disout": (NaturalSpec(), "none"),
    }
    assert {name: spec.model.maps for name, spec in made.items() if spec.model.maps != "none"} == {
        "dropblock": "dropblock",
        "disout": "disout",
    }
    assert all(spec.model.drop == 0.5 for spec in made.values())
    assert train_spec({}) == made["dropout"]
    assert train_spec({"data": "mnist"}) == TrainSpec(data="mnist")


def test_given_fields_override_the_method() -> None:
    spec = train_spec({"method": "mdl", "recipe": {"samples": 8}})
    assert spec.recipe == NaturalSpec(samples=8, rho=1.0)
    assert METHODS["mdl"] == {"recipe": {"samples": 4, "rho": 1.0}}


def test_defaults_of_a_data_set_can_be_overridden() -> None:
    usual = DATA_DEFAULTS["digits"]
    assert train_spec({"method": "mdl", "data": "digits"}).model_dump(include=set(usual)) == usual
    spec = train_spec({"data": "digits", "lr": 0.5})
    assert (spec.lr, spec.batch_size) == (0.5, usual["batch_size"])
    assert train_spec({"data": "cifar10", "method": "mdl"}).augment == "crop-flip"
    assert train_spec({"data": "cifar10", "augment": "none"}).augment == "none"


def test_canonical_json_keeps_the_recipes_name_and_omits_its_defaults() -> None:
    for name, kind in RECIPE_SPECS.items():
        spec = TrainSpec.model_validate({"recipe": {"name": name}})
        assert isinstance(spec.recipe, kind)
        kept = "" if name == "natural" else f'"recipe":{{"name":"{name}"}},'
        assert canonical(spec) == f'{{"kind":"TrainSpec",{kept}"schema":1}}'
        assert from_canonical(canonical(spec)) == spec


def test_the_recipes_are_the_papers() -> None:
    assert train_spec({"recipe": {"name": "fast"}}).recipe == FastSpec(name="fast", eps=8 / 255, gamma=0.0)
    assert train_spec({"recipe": {"name": "madry"}}).recipe == MadrySpec(name="madry", eps=8 / 255, steps=7)
    assert train_spec({"recipe": {"name": "free"}}).recipe == FreeSpec(name="free", eps=8 / 255, replays=8)
    assert train_spec({"recipe": {"name": "trades"}}).recipe == TradesSpec(
        name="trades", steps=10, beta=6.0, std_at="adv"
    )


def test_a_radius_may_be_a_fraction() -> None:
    fields = {"name": "fast", "eps": "16/255", "step_size": "0.1"}
    recipe = train_spec({"recipe": fields}).recipe
    assert recipe == FastSpec(name="fast", eps=16 / 255, step_size=0.1)


@pytest.mark.parametrize(
    ("recipe", "cyclic", "multistep"),
    [("fast", 0.2, 0.2), ("madry", 0.2, 0.2), ("free", 0.1, 0.1), ("trades", 0.2, 0.1)],
)
def test_adversarial_training_has_its_own_defaults(recipe: str, cyclic: float, multistep: float) -> None:
    fields: dict[str, Any] = {"data": "cifar10", "recipe": {"name": recipe}}
    spec = train_spec(fields)
    assert (spec.lr, spec.schedule, spec.augment) == (cyclic, ScheduleSpec(), "crop-flip")
    assert spec.model == ModelSpec(name="resnet18", noise="none")
    spec = train_spec({**fields, "schedule": {"name": "multistep"}})
    assert (spec.lr, spec.schedule.milestones, spec.schedule.warmup) == (multistep, (2 / 3, 5 / 6), True)
    spec = train_spec(
        {**fields, "lr": 0.3, "model": {"noise": "dropout"}, "schedule": {"name": "multistep", "warmup": False}}
    )
    assert (spec.lr, spec.model.noise, spec.schedule.warmup) == (0.3, "dropout", False)
    spec = train_spec({"data": "digits", "recipe": {"name": recipe}})
    assert (spec.lr, spec.batch_size, spec.model.noise) == (0.02, 16, "none")


def test_differences_are_named_with_both_values() -> None:
    one = TrainSpec(seed=1)
    two = TrainSpec(seed=2, recipe=NaturalSpec(samples=4, rho=0.5))
    assert differences(one, two) == "recipe.samples 1 and 4, recipe.rho 0.0 and 0.5, seed 1 and 2"
    assert differences(one, one) == ""


def test_merge_goes_into_tables_and_changes_neither() -> None:
    base: dict[str, Any] = {"a": 1, "t": {"x": 1, "y": {"z": 1}}, "s": {"k": 1}}
    over: dict[str, Any] = {"b": 2, "t": {"y": {"w": 2}}, "s": 3, "new": {"n": 1}}
    before = json.dumps([base, over])
    assert merge(base, over) == {"a": 1, "b": 2, "t": {"x": 1, "y": {"z": 1, "w": 2}}, "s": 3, "new": {"n": 1}}
    assert json.dumps([base, over]) == before


def test_a_value_in_place_of_a_table_is_left_for_the_validator() -> None:
    assert merge({"model": 3}, {"model": {"width": 32}}) == {"model": 3}


def test_given_only_keeps_zero_false_and_the_empty_string() -> None:
    fields = {"a": 0, "b": False, "c": "", "d": None, "t": {"e": None, "u": {"f": None}}}
    assert given_only(fields) == {"a": 0, "b": False, "c": ""}


def test_a_toml_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'method = "mdl"\nepochs = 50\n[recipe]\neta = 90\n[schedule]\nname = "multistep"\nmilestones = [0.5, 0.75]\n'
    )
    spec = train_spec(read_toml(path))
    assert spec.recipe == NaturalSpec(samples=4, rho=1.0, eta=90.0)
    assert spec.schedule == ScheduleSpec(name="multistep")
    assert spec.epochs == 50


@pytest.mark.parametrize(
    ("stored", "fields", "expected"),
    [
        ({"method": "mdl", "lr": 0.5}, {}, {"method": "mdl", "lr": 0.5}),
        ({"method": "mdl", "lr": 0.5}, {"world_size": 2}, {"method": "mdl", "lr": 0.5, "world_size": 2}),
        ({"method": "mdl", "lr": 0.5}, {"method": "mdl"}, {"method": "mdl", "lr": 0.5}),
        ({"data": "cifar10", "lr": 0.5}, {"data": "cifar10"}, {"data": "cifar10", "lr": 0.5}),
        (
            {"recipe": {"name": "trades", "gamma": 3.0}, "lr": 0.5},
            {"recipe": {"beta": 1.0}},
            {"recipe": {"name": "trades", "gamma": 3.0, "beta": 1.0}, "lr": 0.5},
        ),
        (
            {"method": "mdl", "lr": 0.5},
            {"recipe": {"name": "fast"}},
            {"recipe": {"name": "fast"}, "lr": 0.5, "model": {"noise": "dropout"}},
        ),
        # another method is what it would be by itself
        ({"recipe": {"name": "fast"}, "lr": 0.5}, {"method": "mdl"}, {"method": "mdl"}),
    ],
)
def test_fields_override_a_stored_spec(
    stored: dict[str, Any], fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert override(train_spec(stored), fields) == train_spec(expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "mld"}, "method = 'mld' is unknown"),
        ({"lr": -1.0}, "lr = -1.0"),
        ({"recipe": {"name": "slow"}}, "recipe.name = 'slow' is unknown"),
        ({"recipe": {"beta": 1.0}}, "unknown key recipe.beta of recipe natural"),
    ],
)
def test_override_rejects_wrong_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        override(train_spec({"method": "mdl"}), fields)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"epochs = ", "is not TOML"),
        (b"epochs = 1\nepochs = 2", "is not TOML"),
        (b"data = \"\xff\xfe\"", "cannot read the spec file"),
        (None, "no spec file"),
    ],
)  # fmt: skip
def test_a_damaged_or_missing_toml_file_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "run.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SpecError, match=message) as error:
        read_toml(path)
    assert str(path) in str(error.value)


def test_a_folder_is_not_a_toml_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"cannot read the spec file {re.escape(str(tmp_path))}"):
        read_toml(tmp_path)


@pytest.mark.parametrize(("images", "expected"), [(10**6, 128), (6400, 128), (6399, 64), (400, 8), (5, 8), (-3, 8)])
def test_the_default_batch_size_of_data_of_the_user(images: int, expected: int) -> None:
    fields = {"data": "folder:pics", "recipe": {"name": "fast"}}
    assert train_spec(fields, train_images=images).batch_size == expected
    assert train_spec({**fields, "batch_size": 100}, train_images=images).batch_size == 100
    assert train_spec(fields).batch_size == 128
