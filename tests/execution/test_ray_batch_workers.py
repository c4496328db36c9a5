"""Workers as actors of a real Ray on this machine, one of which is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrobust.errors import InputError
from ctrobust.execution import Sharding, ray_batch_workers
from ctrobust.execution.ray_session import ray_session
from tests.execution.shards import GRADIENTS, SEARCH, attacked, stored

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")]


def actors() -> Iterator[int]:
    """The processes of actors that this process started, by way of Ray's own processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            pid, command = int(folder.name), (folder / "cmdline").read_bytes()
            if command.startswith(b"ray::BatchActor") and os.getpid() in ancestors(pid):
                yield pid
        except (OSError, ValueError):
            continue  # it ended meanwhile


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def test_outcomes_are_those_of_one_process_although_an_actor_is_killed(
    classifier: Path, attacked_by_one: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    killed: list[int] = []

    def kill_one(_: float, __: float, stage: str) -> None:
        if "restart 2" in stage and not killed:
            killed.append(next(actors()))
            os.kill(killed[0], signal.SIGKILL)

    rows = attacked(classifier, [GRADIENTS, SEARCH], Sharding(workers=2, executor="ray"), progress=kill_one)
    assert killed
    assert stored(classifier) == stored(attacked_by_one)
    assert rows[0].facts.environment is not None
    assert rows[0].facts.environment["workers"] == 2
    assert list(actors()) == []
    assert capfd.readouterr() == ("", "")


def test_more_threads_than_a_machine_has_cpus_are_refused(classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker for which there is no room would wait for ever."""
    monkeypatch.setattr(ray_batch_workers, "ray_session", lambda address, _: ray_session(address, 1))
    with pytest.raises(InputError, match="a worker needs 2 CPUs and 0 GPUs; the cluster's machines have 1 CPUs"):
        attacked(classifier, [GRADIENTS], Sharding(workers=1, threads=2, executor="ray"))
    assert list(actors()) == []
    assert not ray_session_is_open()


def ray_session_is_open() -> bool:
    import ray

    return bool(ray.is_initialized())
