"""One small trained network, of which each test gets a copy."""

import shutil
from pathlib import Path

import pytest

from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import train


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "run"
    train(train_spec({"data": "digits", "limit": 64, "epochs": 1, "model": {"width": 8}}), RunDirectory(path))
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))
