from pathlib import Path

import pytest

from ctrobust.errors import RunError
from ctrobust.execution import train_demo
from ctrobust.execution.demo import ATTACKS, EPS, METHODS, demo_spec
from ctrobust.execution.evaluating import expand
from ctrobust.specs import METHODS as KNOWN
from ctrobust.training import Saving
from ctrobust.training.loop import Silent


def test_the_networks_differ_in_their_recipe_alone() -> None:
    dropout, mdl = (demo_spec(method) for method in METHODS)
    assert set(METHODS) <= set(KNOWN)
    assert (dropout.recipe.samples, dropout.recipe.rho) == (1, 0)
    assert (mdl.recipe.samples, mdl.recipe.rho) == (4, 1)
    assert dropout == mdl.model_copy(update={"recipe": dropout.recipe})
    assert dropout.data == "digits"


def test_the_attacks_are_those_that_its_table_names() -> None:
    assert [str(attack) for attack in expand(ATTACKS, [EPS])] == [
        "fgsm:eps=0.1", "pgd:eps=0.1", "pgd:eps=0.1,loss=std",
    ]  # fmt: skip


def test_a_directory_with_another_run_is_left_alone(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "mdl").symlink_to(trained)
    before = sorted((path, path.stat().st_mtime_ns) for path in trained.rglob("*.*") if path.name != ".lock")
    with pytest.raises(RunError, match="mdl holds another run"):
        train_demo(tmp_path, "mdl", Silent(), Saving())
    assert sorted((path, path.stat().st_mtime_ns) for path in trained.rglob("*.*") if path.name != ".lock") == before
