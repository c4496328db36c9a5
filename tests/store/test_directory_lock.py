"""Directories held by one process, also if somebody removes files or the directory itself."""

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest
from filelock import FileLock

from ctrobust.errors import RunError
from ctrobust.store import RunDirectory
from tests.store.test_run_directory import holder

flock = fcntl.flock


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


@pytest.fixture
def files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system on which directories cannot be locked."""

    def refusing(handle: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", refusing)


def test_no_file_can_be_removed_to_get_around_the_lock(run: RunDirectory) -> None:
    with holder(run):
        assert list(run.path.iterdir()) == []
        for _ in range(2):
            with pytest.raises(RunError, match="run is in use by another process"), run.locked():
                pytest.fail("two processes hold the run")
            (run.path / ".lock").unlink(missing_ok=True)
        assert list(run.path.iterdir()) == []


def test_a_removed_directory_is_noticed(run: RunDirectory) -> None:
    with run.locked() as lock:
        lock.check()
        run.path.rename(run.path.with_name("elsewhere"))
        with pytest.raises(RunError, match="run was removed or renamed while this process used it; the process stops"):
            lock.check()
        with RunDirectory(run.path).locked() as other:
            other.check()
            with pytest.raises(RunError, match=r"run was replaced while .* another one may use .*run now"):
                lock.check()


@pytest.mark.usefixtures("files_only")
def test_where_directories_cannot_be_locked_a_file_is(run: RunDirectory) -> None:
    with run.locked() as lock:
        with pytest.raises(RunError, match="in use by another process"), RunDirectory(run.path).locked():
            pytest.fail("held twice")
        lock.check()
        (run.path / ".lock").unlink()
        with pytest.raises(RunError, match=r"\.lock was removed"):
            lock.check()
        with RunDirectory(run.path).locked(), pytest.raises(RunError, match=r"\.lock was replaced"):
            lock.check()
    assert list(run.path.iterdir()) == []


def test_the_lock_file_of_an_earlier_version_counts_and_stays(run: RunDirectory) -> None:
    run.path.mkdir()
    with (
        FileLock(run.path / ".lock"),
        pytest.raises(RunError, match="in use by another process"),
        RunDirectory(run.path).locked(),
    ):
        pytest.fail("held twice")
    (run.path / ".lock").write_text("mine")
    with run.locked() as lock:
        lock.check()
    assert (run.path / ".lock").read_text() == "mine"
