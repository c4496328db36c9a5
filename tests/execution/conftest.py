"""Small trained networks, of which each test gets a copy."""

import shutil
from pathlib import Path

import pytest

from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import train
from tests.execution.shards import GRADIENTS, SEARCH, SPEC, attacked


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "run"
    train(train_spec({"data": "digits", "limit": 64, "epochs": 1, "model": {"width": 8}}), RunDirectory(path))
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture(scope="session")
def attacked_by_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that has learned a little, attacked by one process."""
    path = tmp_path_factory.mktemp("one") / "run"
    train(SPEC, RunDirectory(path))
    for row in attacked(path, [GRADIENTS, SEARCH]):
        assert 0 < row.evaluation.robust_accuracy < row.evaluation.accuracy
    return path


@pytest.fixture
def classifier(attacked_by_one: Path, tmp_path: Path) -> Path:
    """The same network, not attacked yet."""
    return Path(shutil.copytree(attacked_by_one, tmp_path / "run", ignore=shutil.ignore_patterns("outcomes")))
