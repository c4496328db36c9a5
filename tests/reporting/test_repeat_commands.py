"""The printed commands repeat what was stored."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from ctrobust.cli.field_options import field_options
from ctrobust.cli.set_option import nested, parse_assignments, parse_value
from ctrobust.experiments import PRESETS, experiment
from ctrobust.reporting.repeat_commands import evaluate_command, train_command
from ctrobust.reporting.report_models import networks_of
from ctrobust.reporting.report_runs import read_runs
from ctrobust.specs import TrainSpec, merge, train_spec
from ctrobust.store import Store
from tests.reporting.made_runs import make_run, make_user_run

RESULTS = Path(__file__).parents[2] / "results"


def parsed(command: str) -> TrainSpec:
    """The spec that `ctrobust train` makes of a command's words."""
    words = shlex.split(command)
    assert words[:2] == ["ctrobust", "train"]
    assert words[-2] == "--out"
    names = {option.option: option.name for option in field_options()}
    values: dict[str, Any] = {}
    for option, value in zip(words[2:-2:2], words[3:-2:2], strict=True):
        values |= parse_assignments([value]) if option == "--set" else {names[option]: parse_value(value)}
    return train_spec(nested(values))


@pytest.mark.parametrize("run", sorted(path.name for path in RESULTS.iterdir()))
def test_a_stored_training_is_repeated(run: str) -> None:
    spec = next(one for one in Store(RESULTS).runs() if one.path.name == run).read_spec()
    assert parsed(train_command(spec, "again")) == spec


def test_trainings_of_the_paper_are_repeated() -> None:
    jobs = [job for name in ("table1", "table6") for cell in experiment(name, "laptop").cells for job in cell.jobs]
    specs = list(dict.fromkeys(job.training for job in jobs))[::7]
    assert len(specs) > 5
    assert [parsed(train_command(spec, "x")) for spec in specs] == specs
    assert PRESETS["laptop"].reduced


def test_an_evaluation_names_everything_that_differs_from_the_defaults(tmp_path: Path) -> None:
    make_run(tmp_path / "a b", attacks=[("pgd:eps=0.1,loss=sce(gamma=5)", 0.5)])
    (network,) = networks_of(read_runs([tmp_path]).runs[0])
    commands = [evaluate_command(network, one.record) for one in network.evaluations]
    path = shlex.quote(str(tmp_path / "a b"))
    assert commands == [
        f"ctrobust evaluate {path} --limit 120",
        f"ctrobust evaluate {path} --attack 'pgd:eps=0.1,loss=sce(gamma=5)' --limit 120",
    ]


def test_a_network_that_was_trained_elsewhere_is_named_by_its_factory(tmp_path: Path) -> None:
    run = make_user_run(tmp_path / "theirs", mean=(0.5,))
    (network,) = networks_of(read_runs([run.path]).runs[0])
    (record,) = [one.record for one in network.evaluations if one.attack.startswith("pgd")]
    assert evaluate_command(network, record) == (
        f"ctrobust evaluate nets:wide --weights WEIGHTS --mean 0.5 --std 0.5 --data digits --out {run.path} "
        "--attack pgd:eps=0.1 --limit 120"
    )


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, "--model nets:wide"),
        ({"method": "mdl"}, "--model nets:wide --set model.noise=dropout --set recipe.rho=1 --set recipe.samples=4"),
        (
            {"model": {"noise": "dropout", "head": "fc"}},
            "--model nets:wide --set model.head=fc --set model.noise=dropout",
        ),
    ],
)
def test_a_training_of_a_network_of_the_user(fields: dict[str, Any], options: str) -> None:
    spec = train_spec(merge(fields, {"data": "mnist", "model": {"name": "nets:wide"}}))
    assert train_command(spec, "again") == f"ctrobust train --data mnist {options} --out again"
