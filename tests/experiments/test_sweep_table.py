"""Sweeps as tables."""

from typing import Any

import pytest

from ctrobust.errors import SpecError
from ctrobust.experiments import sweep_table
from ctrobust.experiments.sweep_table import MOST_TRAININGS
from ctrobust.specs import EvaluationJob, TrainingJob, TrainSpec, spec_hash, train_spec

FIELDS: dict[str, Any] = {
    "title": "Fast-AT",
    "base": {"data": "mnist", "epochs": 2, "recipe": {"name": "fast", "eps": 0.1}},
    "vary": {"recipe": {"gamma": [0, 2.0, 3]}, "lr": [0.1, 0.2]},
    "seeds": [0, 1, 2],
    "attacks": ["s-pgd: eps=0.1", "autoattack:eps=0.1"],
    "limit": 100,
}


def test_every_combination_is_a_row_and_every_attack_a_column() -> None:
    table = sweep_table("gammas", FIELDS)
    assert [row.label for row in table.rows] == [
        f"gamma {gamma}, lr {lr}" for gamma in ("0", "2", "3") for lr in ("0.1", "0.2")
    ]
    assert table.row_headers == ("gamma", "lr")
    assert [column.label for column in table.columns] == ["accuracy", "pgd:eps=0.1,loss=std", "autoattack:eps=0.1"]
    assert len(table.cells) == 18
    assert (table.name, table.preset, table.title) == ("gammas", "sweep", "Fast-AT")


def test_seeds_are_pooled_and_specs_are_those_of_single_trainings() -> None:
    table = sweep_table("gammas", FIELDS)
    accuracy, attacked = table.cell("gamma 2, lr 0.2", "accuracy"), table.cell("gamma 2, lr 0.2", "autoattack:eps=0.1")
    fields = {"data": "mnist", "epochs": 2, "recipe": {"name": "fast", "eps": 0.1, "gamma": 2.0}, "lr": 0.2}
    specs = [train_spec({**fields, "seed": seed}) for seed in (0, 1, 2)]
    assert accuracy.jobs == tuple(TrainingJob(training=spec) for spec in specs)
    assert attacked.jobs == tuple(
        EvaluationJob(training=spec, attack="autoattack:eps=0.1", limit=100) for spec in specs
    )
    assert (accuracy.metric, attacked.metric) == ("accuracy", "robust_accuracy")


def test_names_are_whole_where_their_last_words_are_equal() -> None:
    table = sweep_table("x", {"vary": {"model": {"name": ["mnistnet"]}, "schedule": {"name": ["cyclic", "multistep"]}}})
    assert [row.label for row in table.rows] == [
        "model.name mnistnet, schedule.name cyclic",
        "model.name mnistnet, schedule.name multistep",
    ]


def test_values_may_be_methods_data_and_lists_and_dotted_names_may_be_quoted() -> None:
    vary = {"method": ["dropout", "mdl"], "data": ["digits", "mnist"], "schedule.milestones": [[0.5], [0.2, 0.4]]}
    table = sweep_table("x", {"base": {"schedule": {"name": "multistep"}}, "vary": vary})
    assert len(table.rows) == 8
    spec = table.cell("method mdl, data digits, milestones [0.2, 0.4]", "accuracy").jobs[0].training
    assert spec.schedule.milestones == (0.2, 0.4)
    assert spec.batch_size == 16  # the default of digits


def test_nothing_varied_is_one_row_and_a_varied_seed_is_pooled() -> None:
    table = sweep_table("x", {"vary": {"seed": [4, 5]}})
    assert [row.label for row in table.rows] == ["base"]
    assert [job.training for job in table.cells[0].jobs] == [TrainSpec(**_digits(), seed=seed) for seed in (4, 5)]
    assert [job.training.seed for job in sweep_table("x", {"base": {"seed": 3}}).cells[0].jobs] == [3]


def _digits() -> dict[str, Any]:
    return {"batch_size": 16, "lr": 0.02}


def test_specs_are_made_as_the_caller_wants() -> None:
    table = sweep_table("x", {}, lambda fields: train_spec({**fields, "batch_size": 7}))
    assert table.cells[0].jobs[0].training.batch_size == 7


def test_hashes_are_those_of_the_same_training_elsewhere() -> None:
    job = sweep_table("x", {"base": {"method": "mdl"}}).cells[0].jobs[0]
    assert spec_hash(job) == "e5cb633eff2fb7f3"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"atacks": []}, r"unknown key atacks \(did you mean attacks\?\); allowed: title, base, vary, seeds, "),
        ({"title": 3}, "title = 3; allowed is a caption"),
        ({"base": 3}, "base = 3; allowed is a table of fields"),
        ({"vary": [1]}, r"vary = \[1\]; allowed is a table of lists"),
        ({"vary": {"lr": 0.1}}, r"vary.lr = 0.1; allowed is a list of at least one value"),
        ({"vary": {"lr": []}}, r"vary.lr = \[\]; allowed is a list of at least one value"),
        ({"vary": {"lr": [0.1, 0.10]}}, "vary.lr has 0.1 twice"),
        ({"vary": {"recipe": {"gama": [1]}}}, "base with recipe.gama = 1: unknown key recipe.gama"),
        (
            {"vary": {"method": ["mdk"]}},
            "base with method = 'mdk': method = 'mdk' is unknown; did you mean 'mdl'\\? known: dropout, ",
        ),
        ({"base": {"recipe": 3}, "vary": {"recipe": {"rho": [1]}}}, "base.recipe = 3 is a value, but vary.recipe.rho"),
        ({"base": {"epochs": 0}}, "base: epochs = 0: "),
        ({"seeds": []}, r"seeds = \[\]; allowed is a list of at least one value"),
        ({"seeds": [1, 1]}, "seeds has 1 twice"),
        ({"seeds": [True]}, r"seeds = \[True\]; allowed is a list of whole numbers"),
        ({"seeds": 3}, "seeds = 3; allowed is a list of whole numbers"),
        ({"seeds": [1], "base": {"seed": 1}}, "seeds and base.seed are both given"),
        ({"seeds": [1], "vary": {"seed": [1]}}, "seeds and vary.seed are both given"),
        ({"attacks": "pgd:eps=0.1"}, "attacks = 'pgd:eps=0.1'; allowed is a list of texts"),
        ({"attacks": ["pdg:eps=0.1"]}, r"attacks: unknown attack 'pdg'; did you mean 'pgd'\?"),
        ({"attacks": ["none"]}, "attacks: 'none' is no attack"),
        ({"limit": 0}, "limit = 0; allowed is a whole number of at least 1"),
        ({"limit": 2.5}, "limit = 2.5; allowed is a whole number"),
    ],
)
def test_wrong_files_are_explained(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        sweep_table("x", fields)


def test_a_sweep_is_bounded_and_so_is_its_error() -> None:
    many = [step / 1000 for step in range(1, 200)]
    with pytest.raises(SpecError, match=f"the sweep has 39,601 trainings; allowed are {MOST_TRAININGS:,}"):
        sweep_table("x", {"vary": {"lr": many, "momentum": many}})
    with pytest.raises(SpecError) as caught:
        sweep_table("x", {"seeds": ["0"] * 100_000})
    assert len(str(caught.value)) < 200
