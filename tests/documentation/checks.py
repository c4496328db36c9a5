"""How commands that are not run are checked: ctrobust's by its own command line, make's and pip's by their files."""

import re
import tomllib
from pathlib import Path
from typing import Any

import typer.main

from ctrobust.cli import app
from tests.documentation.blocks import ROOT


def parse_only(words: list[str]) -> None:
    """Parse a command, also behind a launcher; a wrong option, a missing argument or an unknown value raises."""
    at = next(i for i, word in enumerate(words) if Path(word).name == "ctrobust")
    command: Any = typer.main.get_command(app)
    context, rest = None, words[at:]
    while hasattr(command, "get_command"):  # a group of commands
        context = command.make_context(rest[0], rest[1:2], parent=context)
        command, rest = command.get_command(context, rest[1]), rest[1:]
        assert command is not None, f"ctrobust has no command {rest[0]}"
    command.make_context(rest[0], rest[1:], parent=context)


def check_make(words: list[str]) -> None:
    """A target of the Makefile."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert all(word in targets for word in words[1:] if "=" not in word), words


def check_pip(words: list[str]) -> None:
    """This package, from a checkout or by name, with extras that exist."""
    package = re.fullmatch(r"(?:\.|ctrobust)(?:\[([\w,]+)\])?", words[-1])
    assert words[:2] == ["pip", "install"]
    assert package is not None, words
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set((package[1] or "").split(",")) - {""} <= project["optional-dependencies"].keys()
