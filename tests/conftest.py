"""One thread a test process: the suite runs one process a core."""

import os

import pytest
import torch

import ctrobust.losses  # noqa: F401  a package before its modules: some share a function's name

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def in_ci() -> bool:
    """Whether a missing optional component is a failure."""
    return os.environ.get("CI") == "true"
