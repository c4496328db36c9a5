"""One thread a test process: the suite runs one process a core."""

import os

import pytest
import torch

import ctrobust.losses  # noqa: F401  a package before its modules: some share a function's name
from ctrobust.attacks.model_checks import warned_of

torch.set_num_threads(1)
warned_of.add("keys")  # a warning that is given once in a process would fail whichever test comes first


@pytest.fixture(scope="session")
def in_ci() -> bool:
    """Whether a missing optional component is a failure."""
    return os.environ.get("CI") == "true"
