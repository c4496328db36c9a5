"""What tests of runs share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctrobust.store import RunDirectory

STOPPING = (sys.executable, str(Path(__file__).with_name("stopping.py")))


def after(batches: int) -> Callable[[], bool]:
    """A stop that says so after as many batches."""
    left = iter([False] * (batches - 1) + [True])
    return lambda: next(left)


def metrics(run: RunDirectory) -> list[dict[str, Any]]:
    """The metrics without the seconds, which no run repeats."""
    return [{key: value for key, value in line.items() if key != "seconds"} for line in run.read_metrics()]


def until_stopped(process: subprocess.Popen[str]) -> None:
    """Wait until STOPPING stands still; it must not end before."""
    found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None
    assert found.si_code == os.CLD_STOPPED, process.communicate()
