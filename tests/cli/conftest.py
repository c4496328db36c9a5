"""A new user's home and environment, and a small run.

Commands that start, stop or print to a terminal are processes of their own. Commands that fail or print JSON call the
same entry point in this process, which has loaded torch already.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctrobust.cli import main
from ctrobust.data import locate
from tests.cli.command import Done, Inside, Terminal, ctrobust

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home without data sets."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def environment(home: Path) -> dict[str, str]:
    """The environment of a new user, without settings of colours or data."""
    unset = {"CTROBUST_DATA", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "COLUMNS", "TTY_COMPATIBLE"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    if "COVERAGE_PROCESS_START" in kept:  # commands run elsewhere
        kept["COVERAGE_PROCESS_START"] = str(ROOT / "pyproject.toml")
        kept.setdefault("COVERAGE_FILE", str(ROOT / ".coverage"))
    place = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    return {**kept, **place, "OMP_NUM_THREADS": "1", "TERM": "xterm-256color"}


@pytest.fixture
def inside(
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Inside:
    """Run the command's entry point in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("CTROBUST_DATA", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.setattr(locate, "SYSTEM_ROOT", tmp_path / "system")

    def run(line: str, *more: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["ctrobust", *line.split(), *more])
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capfd.readouterr()
        assert isinstance(exit_.value.code, int)
        return Done(exit_.value.code, out, err)

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> tuple[Path, Done]:
    """A small run in its default directory, and what its training printed."""
    folder = tmp_path_factory.mktemp("trained")
    done = ctrobust("train --data digits --limit 200 --epochs 1 --batch-size 32", folder, environment)
    assert done.code == 0, done.err
    (run,) = (folder / "runs").iterdir()
    return run, done


@pytest.fixture
def run(trained: tuple[Path, Done], tmp_path: Path) -> Path:
    """A copy of the small run."""
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


@pytest.fixture
def terminal(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def start(line: str, **changed: str) -> Terminal:
        started.append(Terminal(line, tmp_path, {**environment, **changed}))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        os.close(one.master)
