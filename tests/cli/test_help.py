"""Version, help, typos, tracebacks and colours: what answers before any work is done."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ctrobust._version import __version__
from tests.cli.command import COLOURS, Inside, Terminal, ctrobust


def test_version(tmp_path: Path, environment: dict[str, str]) -> None:
    assert ctrobust("--version", tmp_path, environment) == (0, f"ctrobust {__version__}\n", "")


def test_the_module_is_the_command(tmp_path: Path, environment: dict[str, str]) -> None:
    words = [sys.executable, "-m", "ctrobust", "--version"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ctrobust {__version__}\n", "")


def test_interrupted_while_it_loads(tmp_path: Path, environment: dict[str, str]) -> None:
    # the first that the command line imports, which swallows exceptions as some packages do
    (tmp_path / "typer.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    pass"
    )
    done = ctrobust("demo", tmp_path, {**environment, "PYTHONPATH": str(tmp_path)})
    assert done == (130, "", "")


def test_help_names_commands_and_exit_codes(tmp_path: Path, environment: dict[str, str]) -> None:
    code, out, err = ctrobust("--help", tmp_path, environment)
    assert (code, err) == (0, "")
    for word in ("demo", "train", "evaluate", "--debug", "--version", "Exit codes: 0 done; 1 internal error; 2 "):
        assert word in out
    assert "\x1b" not in out


@pytest.mark.parametrize("command", ["demo", "train", "evaluate"])
def test_each_commands_help_has_an_example(inside: Inside, command: str) -> None:
    for option in ("--help", "-h"):
        code, out, err = inside(f"{command} {option}")
        assert (code, err) == (0, "")
        assert f"Example: ctrobust {command} --" in out or f"Example: ctrobust {command} runs/" in out


@pytest.mark.parametrize(
    ("args", "code", "messages"),
    [
        ("trian", 2, ["No such command 'trian'", "Did you mean 'train'"]),
        ("train --epocs 3", 2, ["No such option: --epocs", "--epochs"]),
        ("train --epochs three", 2, ["--epochs", "valid integer"]),
        ("evaluate", 2, ["Missing argument", "run"]),
        ("train --config absent.toml", 3, ["error: no spec file absent.toml"]),
    ],
)
def test_a_typo_is_told_at_once(
    tmp_path: Path, environment: dict[str, str], args: str, code: int, messages: list[str]
) -> None:
    done = ctrobust(args, tmp_path, environment)
    assert (done.code, done.out) == (code, "")
    for message in messages:
        assert message.lower() in done.err.lower()
    assert "Traceback" not in done.err
    assert "\x1b" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback(tmp_path: Path, environment: dict[str, str]) -> None:
    code, out, err = ctrobust("--debug train --config absent.toml", tmp_path, environment)
    assert (code, out) == (3, "")
    assert err.startswith("Traceback (most recent call last):")
    assert err.endswith("error: no spec file absent.toml\n")


def test_debug_of_what_is_wrong_later(inside: Inside) -> None:
    done = inside("--debug train --method dropot")
    assert done.code == 3
    assert "Traceback (most recent call last)" in done.err
    assert done.err.splitlines()[-1].startswith("error: method = 'dropot' is unknown")


@pytest.mark.parametrize(("changed", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_only_where_they_are_wanted(
    terminal: Callable[..., Terminal], changed: dict[str, str], coloured: bool
) -> None:
    shown = terminal("train --config absent.toml", **changed)
    assert shown.end() == 3
    assert "error:" in shown.text
    assert "no spec file absent.toml" in shown.text
    assert bool(COLOURS.search(shown.text)) is coloured


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_threads_that_wait_give_way_before_torch_is_loaded_unless_the_user_says_otherwise(
    tmp_path: Path, environment: dict[str, str], given: dict[str, str], expected: str | None
) -> None:
    script = (
        "import os, sys; from ctrobust import cli, display; assert 'torch' not in sys.modules\n"
        "display.status = lambda _: print(os.environ.get('GOMP_SPINCOUNT')) or sys.exit()\n"
        "cli._prepare(None)"
    )
    kept = {name: value for name, value in environment.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env={**kept, **given}, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")
