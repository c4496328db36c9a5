from pathlib import Path

import pytest

from ctrobust.errors import RunError
from ctrobust.execution import train_demo
from ctrobust.execution.demo_runs import DEMO_ATTACKS, DEMO_METHODS, EPS, demo_spec
from ctrobust.execution.stored_evaluation import expand
from ctrobust.specs import FastSpec, NaturalSpec
from ctrobust.training import CheckpointPolicy
from ctrobust.training.training_callback import NoCallback


def test_the_networks_of_a_pair_differ_in_one_thing() -> None:
    dropout, mdl, fast, ctr = (demo_spec(method) for method in DEMO_METHODS)
    assert isinstance(dropout.recipe, NaturalSpec)
    assert isinstance(mdl.recipe, NaturalSpec)
    assert (dropout.recipe.samples, dropout.recipe.rho) == (1, 0)
    assert (mdl.recipe.samples, mdl.recipe.rho) == (4, 1)
    assert dropout == mdl.model_copy(update={"recipe": dropout.recipe})
    assert isinstance(fast.recipe, FastSpec)
    assert isinstance(ctr.recipe, FastSpec)
    assert (fast.recipe.gamma, ctr.recipe.gamma) == (0, 2)
    assert fast.recipe.eps == EPS
    assert fast == ctr.model_copy(update={"recipe": fast.recipe})
    assert dropout.data == fast.data == "digits"


def test_the_attacks_are_those_that_its_table_names() -> None:
    assert [str(attack) for attack in expand(DEMO_ATTACKS, [str(EPS)])] == [
        "fgsm:eps=0.1", "pgd:eps=0.1", "pgd:eps=0.1,loss=std",
    ]  # fmt: skip


def test_a_directory_with_another_run_is_left_alone(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "mdl").symlink_to(trained)
    before = sorted((path, path.stat().st_mtime_ns) for path in trained.rglob("*.*") if path.name != ".lock")
    with pytest.raises(RunError, match="mdl holds another run"):
        train_demo(tmp_path, "mdl", NoCallback(), CheckpointPolicy())
    assert sorted((path, path.stat().st_mtime_ns) for path in trained.rglob("*.*") if path.name != ".lock") == before
