"""Version, help, typos, tracebacks and colours: everything that needs no torch."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ctrobust._version import __version__
from ctrobust.cli.field_options import field_options
from tests.cli.command import COLOURS, Inside, Terminal, ctrobust


def test_version(tmp_path: Path, environment: dict[str, str]) -> None:
    assert ctrobust("--version", tmp_path, environment) == (0, f"ctrobust {__version__}\n", "")


def test_the_module_is_the_command(tmp_path: Path, environment: dict[str, str]) -> None:
    words = [sys.executable, "-m", "ctrobust", "--version"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ctrobust {__version__}\n", "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupted_while_it_loads(tmp_path: Path, environment: dict[str, str], name: str) -> None:
    # typer is the first package that the command line imports; this one swallows exceptions as some packages do
    (tmp_path / "typer.py").write_text(
        f"import os, signal\ntry:\n    os.kill(os.getpid(), signal.{name})\nexcept BaseException:\n    pass"
    )
    done = ctrobust("demo", tmp_path, {**environment, "PYTHONPATH": str(tmp_path)})
    assert done == (130, "", "")


def test_help_names_commands_and_exit_codes(tmp_path: Path, environment: dict[str, str]) -> None:
    code, out, err = ctrobust("--help", tmp_path, environment)
    assert (code, err) == (0, "")
    for word in ("demo", "train", "evaluate", "--debug", "--version", "Exit codes: 0 done; 1 internal error, "):
        assert word in out
    assert "\x1b" not in out


@pytest.mark.parametrize("command", ["demo", "train", "evaluate"])
def test_each_commands_help_has_an_example(inside: Inside, command: str) -> None:
    for option in ("--help", "-h"):
        code, out, err = inside(f"{command} {option}")
        assert (code, err) == (0, "")
        assert f"Example: ctrobust {command} --" in out or f"Example: ctrobust {command} runs/" in out


def test_the_help_of_train_shows_the_common_options_with_their_defaults(inside: Inside) -> None:
    code, out, _ = inside("train --help")
    assert code == 0
    shown = set(re.findall(r"--[a-z-]+", out.partition("Example:")[0]))
    assert shown == {
        "--data", "--method", "--recipe", "--model", "--epochs", "--lr", "--batch-size", "--gamma", "--eps", "--seed",
        "--out", "--resume", "--config", "--set", "--data-root", "--json", "--help-all", "--help",
    }  # fmt: skip
    for text in ("Default: digits", "Default: 10.", "Default: 128; 16 for digits.", "Default: 8/255."):
        assert text in " ".join(out.replace("│", " ").split())


def test_help_all_shows_every_option(inside: Inside) -> None:
    code, out, err = inside("train --help-all")
    assert (code, err) == (0, "")
    shown = set(re.findall(r"--[a-z-]+", out))
    assert shown >= {option.option for option in field_options()}
    assert shown >= {"--devices", "--num-nodes", "--strategy", "--accelerator", "--threads", "--tensorboard"}
    assert "Default: 7 for madry; 10 for trades" in " ".join(out.replace("│", " ").split())
    assert "--beta" not in inside("train --help").out


@pytest.mark.parametrize("args", ["--help", "train --help", "train --help-all", "evaluate --help", "list --help"])
def test_help_loads_no_torch(tmp_path: Path, environment: dict[str, str], args: str) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    done = ctrobust(args, tmp_path, {**environment, "PYTHONPATH": str(tmp_path)})
    assert (done.code, done.err) == (0, "")


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
def test_a_typo_is_reported_at_once(
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


def test_debug_shows_the_traceback_of_a_wrong_spec(inside: Inside) -> None:
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
def test_waiting_threads_give_way_before_torch_is_loaded_unless_the_environment_sets_otherwise(
    tmp_path: Path, environment: dict[str, str], given: dict[str, str], expected: str | None
) -> None:
    script = (
        "import os, sys; from ctrobust.cli import torch_setup; assert 'torch' not in sys.modules\n"
        "torch_setup.spinner = lambda _: print(os.environ.get('GOMP_SPINCOUNT')) or sys.exit()\n"
        "torch_setup.load_torch(None)"
    )
    kept = {name: value for name, value in environment.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env={**kept, **given}, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")
