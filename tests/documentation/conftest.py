"""The directory and the environment of a reader who follows a page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrobust.attacks.model_checks import warned_of
from tests.cli.conftest import environment, home, inside
from tests.documentation.blocks import ROOT

__all__ = ["environment", "home", "inside"]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Path]:
    """A directory with the results of the repository; warnings that are given once have not been given yet."""
    (tmp_path / "results").symlink_to(ROOT / "results")
    before = set(warned_of)
    warned_of.clear()
    yield tmp_path
    warned_of.clear()
    warned_of.update(before)
