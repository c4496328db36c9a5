"""Writes requirements-lock.txt and docs/dependencies.md from the environment that runs it: `make lock`."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 120
LOCK, PAGE = ROOT / "requirements-lock.txt", ROOT / "docs" / "dependencies.md"


def direct() -> dict[str, str]:
    """The dependencies that pyproject.toml names, each with what needs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"ctrobust": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, str] = {}
    for group, requirements in groups.items():
        for requirement in requirements:
            found.setdefault(re.split("[<>=!~ \\[]", requirement)[0], group)
    return found


def licence(name: str) -> str:
    """The licence that a package declares, in one line."""
    metadata = distribution(name).metadata
    classifiers = [one.rpartition(" :: ")[2] for one in metadata.get_all("Classifier") or [] if "License" in one]
    declared = [*(metadata.get_all("License-Expression") or []), ", ".join(classifiers)]
    declared += [*(metadata.get_all("License") or []), "not declared"]
    text = next(filter(None, declared))
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def locked() -> dict[str, str]:
    """Every installed package by its normalized name with its version, without local parts such as +cpu."""
    command = [sys.executable, "-m", "pip", "list", "--format=freeze", "--exclude-editable"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    pairs = (line.partition("==")[::2] for line in lines if "==" in line)
    found = {re.sub("[-_.]+", "-", name).lower(): version.partition("+")[0] for name, version in pairs}
    return {name: version for name, version in found.items() if name not in ("pip", "setuptools")}


def main() -> None:
    versions, named = locked(), direct()
    LOCK.write_text(
        "# The versions that the tests ran with, written by `make lock`.\n"
        + "".join(f"{name}=={version}\n" for name, version in sorted(versions.items(), key=lambda one: one[0].lower()))
    )
    rows = [(name, versions[name], group, licence(name)) for name, group in sorted(named.items())]
    others = [name for name in sorted(versions, key=str.lower) if name not in named]
    lines = [
        "# Dependencies",
        "",
        "`make lock` writes this page and `requirements-lock.txt`, which holds the version of every package that the",
        "tests ran with. A test compares both with `pyproject.toml`, and looks for dependencies that nothing imports.",
        "",
        "`make audit` looks up every locked version in PyPI's list of known vulnerabilities with `pip-audit`. It needs",
        "the network, and fails if a package cannot be looked up. The versions below have not been audited yet: the",
        "machine that the lock file was written on does not reach that service.",
        "",
        "| package | version | needed by | licence |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        "They need these packages in turn:",
        "",
        "| package | version | licence |",
        "|---|---|---|",
        *(f"| {name} | {versions[name]} | {licence(name)} |" for name in others),
    ]
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
