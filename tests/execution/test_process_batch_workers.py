"""Workers as processes: real ones, one of which is killed."""

import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import pytest

from ctrobust.execution import Sharding
from tests.execution.shards import ENSEMBLE, GRADIENTS, SEARCH, attacked, stored

pytestmark = pytest.mark.slow


def test_outcomes_are_those_of_one_process_although_a_worker_is_killed(classifier: Path, attacked_by_one: Path) -> None:
    killed: list[int] = []

    def kill_one(_: float, __: float, stage: str) -> None:
        """Kill a worker when the second stage begins."""
        if "restart 2" in stage and not killed:
            process = multiprocessing.active_children()[0]
            assert process.pid is not None
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)

    attacked(classifier, [GRADIENTS, SEARCH], Sharding(workers=2), progress=kill_one)
    assert killed
    assert stored(classifier) == stored(attacked_by_one)
    assert multiprocessing.active_children() == []


def test_an_ensemble_by_workers_is_that_of_one_process(classifier: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copytree(classifier, tmp_path / "alone"))
    attacked(alone, [ENSEMBLE])
    attacked(classifier, [ENSEMBLE], Sharding(workers=2))
    assert stored(classifier) == stored(alone)
