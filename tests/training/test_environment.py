"""The environment in which a number was computed."""

import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from ctrobust import __version__
from ctrobust.training import environment
from ctrobust.training.environment import _commit, append_environment


def test_versions_and_machine_are_json() -> None:
    found = environment()
    assert json.loads(json.dumps(found)) == found
    assert found["ctrobust"] == __version__
    assert found["python"] == platform.python_version()
    assert found["versions"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["cpus"] >= 1


def test_the_commit_is_the_one_of_the_checkout() -> None:
    checkout = (Path(__file__).parents[2] / ".git").exists()
    commit = environment()["commit"]
    assert (commit is not None and re.fullmatch(r"[0-9a-f]{12,}\+?", commit) is not None) == checkout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_tagged_commit_is_its_hash_and_changed_files_are_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:  # set in a git hook, for another repository
        monkeypatch.delenv(name)

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *identity, "-c", "tag.gpgsign=false", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert _commit(tmp_path) is None
    git("init", "--quiet")
    assert _commit(tmp_path) is None
    (tmp_path / "file").touch()
    git("add", "file")
    git("commit", "--quiet", "--message", "one")
    expected = git("rev-parse", "HEAD")[:12]
    assert _commit(tmp_path) == expected
    git("tag", "--annotate", "v1.0", "--message", "a tag")
    assert git("describe") == "v1.0"
    assert _commit(tmp_path) == expected
    (tmp_path / "file").write_text("changed")
    assert _commit(tmp_path) == f"{expected}+"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert environment()["commit"] is None


def test_a_run_keeps_all_its_environments_and_warns_of_changes_that_affect_rounding(
    recwarn: pytest.WarningsRecorder,
) -> None:
    current = environment()
    assert append_environment([], current) == [current]
    assert append_environment([current], dict(current)) == [current]
    later = {**current, "commit": "another"}
    assert append_environment([current], later) == [current, later]
    assert not recwarn.list
    other = {**later, "threads": -1, "cpu_capability": "other"}
    with pytest.warns(
        UserWarning, match=rf"started with threads {current['threads']}, now -1, cpu_capability .*, now other: "
    ):
        assert append_environment([current, later], other) == [current, later, other]
