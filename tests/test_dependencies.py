"""Dependencies: the lock file fits pyproject.toml, the page names each with its licence, and none is unused."""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "benchmarks", "docs")

NOT_IMPORTED = {
    "coverage": "pytest-cov runs it",
    "furo": "the theme of the documentation, named in its settings",
    "mypy": "a command of make types",
    "myst-parser": "the documentation's parser, named in its settings",
    "pre-commit": "a command that developers run",
    "pytest-cov": "a plugin of pytest",
    "pytest-timeout": "a plugin of pytest",
    "pytest-xdist": "a plugin of pytest",
    "ruff": "a command of make lint",
}
"""Dependencies that no Python file here imports, and why they are needed."""


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def requirements() -> list[Requirement]:
    groups = [project()["dependencies"], *project()["optional-dependencies"].values()]
    return [Requirement(text) for group in groups for text in group]


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements-lock.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def runtime() -> set[str]:
    """The dependencies that are installed without an extra."""
    return {_normal(Requirement(text).name) for text in project()["dependencies"]}


def imported(*folders: str) -> set[str]:
    """The distributions that the Python files of some folders import."""
    modules = {name for folder in folders for path in (ROOT / folder).rglob("*.py") for name in _modules(path)}
    by_module = packages_distributions()
    return {_normal(name) for module in modules for name in by_module.get(module, ())}


def _modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_the_lock_file_and_the_page_have_every_dependency(requirement: Requirement) -> None:
    version = {_normal(name): found for name, found in locked().items()}[_normal(requirement.name)]
    assert requirement.specifier.contains(version)
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert re.search(
        rf"^\| {re.escape(requirement.name)} \| {re.escape(version)} \| \S+ \| [^|]+ \|$", page, re.MULTILINE
    )


def test_every_licence_is_declared() -> None:
    assert "not declared" not in (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")


def test_no_dependency_is_unused() -> None:
    unused = {_normal(one.name) for one in requirements()} - imported(*FOLDERS) - NOT_IMPORTED.keys()
    assert unused == set()


def test_the_package_imports_what_it_depends_on_and_nothing_else() -> None:
    """Tests may import more; a package that is only there because another one needs it may go with that one."""
    named = {_normal(one.name) for one in requirements()}
    assert runtime() - imported("src") == set()
    assert imported("src") - named - {"ctrobust", "pydantic-core"} == set()  # the latter is a part of pydantic


def test_every_exception_is_a_dependency_that_nothing_imports() -> None:
    assert NOT_IMPORTED.keys() <= {_normal(one.name) for one in requirements()} - imported(*FOLDERS)
