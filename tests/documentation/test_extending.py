"""The page on extending the package: its files and diffs are applied to a copy of the sources, and its commands run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation.blocks import ROOT, SHELL, Block, page_blocks
from tests.documentation.checks import check_make
from tests.documentation.exceptions import SOURCE_PAGE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COPIED = ("src", "tests", "pyproject.toml", "README.md", "docs", "Makefile")


def apply_diff(block: Block, tree: Path) -> None:
    """Replace the old lines of each hunk by the new ones; the old lines must occur exactly once in the file."""
    header, _, rest = block.text.partition("\n")
    file = tree / header.removeprefix("--- ")
    text = file.read_text(encoding="utf-8")
    for hunk in rest.split("@@\n"):
        lines = hunk.splitlines()
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[:1] != without) for without in "+-")
        assert f"\n{text}".count(f"\n{old}") == 1, f"{block.where}: not once in {header}:\n{old}"
        text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
    file.write_text(text, encoding="utf-8")


def run(words: list[str], tree: Path) -> None:
    """Run a command with the changed sources."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=tree, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


def test_an_attack_a_loss_and_a_recipe_are_added_as_the_page_says(tmp_path: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        shutil.copytree(source, tmp_path / name, ignore=ignored) if source.is_dir() else shutil.copy(source, tmp_path)
    for block in page_blocks(ROOT / SOURCE_PAGE):
        if block.language == "python":
            assert block.file is not None, block.where
            (tmp_path / block.file).write_text(block.text.partition("\n")[2], encoding="utf-8")
        elif block.language == "diff":
            apply_diff(block, tmp_path)
        else:
            assert block.language in SHELL, block.where
            for words in block.commands:
                check_make(words) if words[0] == "make" else run(words, tmp_path)
    run(["ruff", "check", "src", "tests"], tmp_path)
    run(["ruff", "format", "--check", "src", "tests"], tmp_path)
    run(["mypy", "--strict", "src"], tmp_path)
