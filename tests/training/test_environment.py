"""On what a number was made."""

import json
import platform
import re
from pathlib import Path

import pytest
import torch

from ctrobust import __version__
from ctrobust.training import environment


def test_versions_and_machine_are_told_as_json() -> None:
    found = environment()
    assert json.loads(json.dumps(found)) == found
    assert found["ctrobust"] == __version__
    assert found["python"] == platform.python_version()
    assert found["versions"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["cpus"] >= 1


def test_the_commit_is_that_of_the_checkout() -> None:
    checkout = (Path(__file__).parents[2] / ".git").exists()
    commit = environment()["commit"]
    assert (commit is not None and re.fullmatch(r"\S*[0-9a-f]{7,}\+?", commit) is not None) == checkout


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert environment()["commit"] is None
