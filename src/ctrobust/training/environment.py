"""The environment in which a number was computed."""

import os
import platform
import subprocess
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ctrobust._version import __version__


def environment() -> dict[str, Any]:
    """Describe versions, machine and, in a git checkout, the commit."""
    return {
        "ctrobust": __version__,
        "commit": _commit(Path(__file__).resolve().parents[3]),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "versions": {name: version(name) for name in ("torch", "numpy", "safetensors", "pydantic", "scikit-learn")},
    }


ROUNDING = ("machine", "threads", "cpu_capability", "versions")
"""The entries that decide how float32 rounds."""


def append_environment(environments: list[dict[str, Any]], current: dict[str, Any]) -> list[dict[str, Any]]:
    """Append the current environment to those of a run, unless it equals the last one.

    A run is repeated bit for bit only if no entry of ROUNDING changes; a change is warned of.
    """
    if environments and environments[-1] == current:
        return environments
    changed = [key for key in ROUNDING if environments and environments[-1].get(key) != current[key]]
    if changed:
        values = ", ".join(f"{key} {environments[-1].get(key)}, now {current[key]}" for key in changed)
        warnings.warn(
            f"this run started with {values}: it continues, but its bits will differ from an uninterrupted run",
            stacklevel=2,
        )
    return [*environments, current]


def _commit(checkout: Path) -> str | None:
    """Return twelve digits of the commit, followed by `+` if files differ from it; None outside a git checkout."""
    if not (checkout / ".git").exists():
        return None
    try:
        described = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", "-C", str(checkout), "describe", "--always", "--exclude=*", "--dirty=+", "--abbrev=12"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()
