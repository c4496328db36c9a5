"""On what a number was made."""

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
    """Versions, machine and, in a checkout, the commit."""
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
"""What decides how float32 rounds."""


def joined(before: list[dict[str, Any]], now: dict[str, Any]) -> list[dict[str, Any]]:
    """The environments of a run so far and, where it is another, that in which it goes on.

    A run is repeated to the bit only where nothing of ROUNDING changes; what does is warned of.
    """
    if before and before[-1] == now:
        return before
    changed = [key for key in ROUNDING if before and before[-1].get(key) != now[key]]
    if changed:
        was = ", ".join(f"{key} {before[-1].get(key)}, now {now[key]}" for key in changed)
        warnings.warn(f"this run began with {was}: it goes on, but not to the bits of an undisturbed run", stacklevel=2)
    return [*before, now]


def _commit(here: Path) -> str | None:
    """Twelve digits of the commit of the checkout at `here`, `+` behind them where files differ."""
    if not (here / ".git").exists():
        return None
    try:
        described = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", "-C", str(here), "describe", "--always", "--exclude=*", "--dirty=+", "--abbrev=12"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()
