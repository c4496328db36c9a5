"""On what a number was made."""

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
from ctrobust.training.environment import _commit, joined


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
    assert (commit is not None and re.fullmatch(r"[0-9a-f]{12,}\+?", commit) is not None) == checkout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_at_a_tag_it_is_the_commit_too_and_changed_files_are_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:  # a hook's, which name another repository
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


def test_a_run_keeps_every_environment_it_was_made_in_and_is_warned_of_what_rounds_otherwise(
    recwarn: pytest.WarningsRecorder,
) -> None:
    here = environment()
    assert joined([], here) == [here]
    assert joined([here], dict(here)) == [here]
    later = {**here, "commit": "another"}
    assert joined([here], later) == [here, later]
    assert not recwarn.list
    other = {**later, "threads": -1, "cpu_capability": "other"}
    with pytest.warns(
        UserWarning, match=rf"began with threads {here['threads']}, now -1, cpu_capability .*, now other: "
    ):
        assert joined([here, later], other) == [here, later, other]
