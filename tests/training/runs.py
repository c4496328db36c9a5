"""Functions that the tests of training runs share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctrobust.store import RunDirectory

STOPPING = (sys.executable, str(Path(__file__).with_name("stopping.py")))


def after(batches: int) -> Callable[[], bool]:
    """A `CheckpointPolicy.stop` that requests the stop after a number of batches."""
    answers = iter([False] * (batches - 1) + [True])
    return lambda: next(answers)


def metrics(run: RunDirectory) -> list[dict[str, Any]]:
    """The metrics without the times, which differ between runs."""
    return [{key: line[key] for key in line if "seconds" not in key} for line in run.read_metrics()]


def until_stopped(process: subprocess.Popen[str]) -> None:
    """Wait until the STOPPING command is stopped; it must not end before."""
    status = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert status is not None
    assert status.si_code == os.CLD_STOPPED, process.communicate()
