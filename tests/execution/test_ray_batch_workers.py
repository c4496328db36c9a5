"""Workers as actors of a real Ray on this machine, one of which is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrobust.errors import InputError
from ctrobust.execution import Sharding
from ctrobust.execution.ray_batch_workers import ray_session
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


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", r"cannot use the Ray cluster at 127\.0\.0\.1:1: .*refused"),
        ("ray://127.0.0.1:1", r"cannot use the Ray cluster at ray://127\.0\.0\.1:1: .*refused"),
        ("cluster", r"--address is HOST:PORT, ray://HOST:PORT or auto; got cluster"),
    ],
)
def test_an_address_without_a_cluster_is_refused_at_once(address: str, message: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(InputError, match=message), ray_session(address, 1):
        pass
    assert signal.getsignal(signal.SIGTERM) is before
