"""Files that are there whole or not at all."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ctrobust.errors import RunError
from ctrobust.store import write_atomic
from ctrobust.store.atomic import remove_leftovers, set_aside

OLD = b"what was there before"
DIE_WRITING = """
import os, pathlib, signal, sys
from ctrobust.store import write_atomic
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
write_atomic(pathlib.Path(sys.argv[1]), b"new")
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("content", [b"", b"one line\n", bytes(range(256)) * 5000])
def test_the_content_is_written_over_what_was_there(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    write_atomic(path, content)
    assert path.read_bytes() == content
    assert names(tmp_path) == ["file"]


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "b" / "file", b"x")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"x"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_any_new_file(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_atomic(tmp_path / "file", b"x")
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
        assert os.umask(mask) == mask
    finally:
        os.umask(before)


def test_a_reader_keeps_the_old_content_while_the_new_one_comes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    with path.open("rb") as file:
        write_atomic(path, b"new")
        assert file.read() == OLD
    assert path.read_bytes() == b"new"


def test_a_folder_in_the_way_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "inside").write_bytes(OLD)
    with pytest.raises(RunError, match=r"cannot write .*file: Is a directory; the file that was there is intact"):
        write_atomic(tmp_path / "file", b"x")
    assert (tmp_path / "file" / "inside").read_bytes() == OLD
    assert names(tmp_path) == ["file"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").write_bytes(OLD)
    with pytest.raises(RunError, match=r"cannot write .*folder/file: (File exists|Not a directory)"):
        write_atomic(tmp_path / "folder" / "file", b"x")
    assert (tmp_path / "folder").read_bytes() == OLD


def test_a_name_too_long_for_the_file_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="File name too long"):
        write_atomic(tmp_path / ("n" * 300), b"x")
    assert names(tmp_path) == []


def test_a_full_disk_leaves_the_old_content_and_no_leftover(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handled = signal.getsignal(signal.SIGXFSZ)
    assert handled == signal.SIG_IGN  # as Python sets it: a limit is an error, not a signal
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(RunError, match=r"cannot write .*file: File too large; the file that was there is intact"):
            write_atomic(path, b"x" * 20_000)
        write_atomic(tmp_path / "small", b"y" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["file", "small"]


def test_a_read_only_folder_is_refused() -> None:
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(OLD)
        path.parent.chmod(0o555)
        if root:
            os.seteuid(65534)  # root may write everywhere
        try:
            with pytest.raises(RunError, match="Permission denied"):
                write_atomic(path, b"x")
            assert path.read_bytes() == OLD
        finally:
            if root:
                os.seteuid(0)
            path.parent.chmod(0o700)


def test_an_interrupt_while_writing_leaves_the_old_content_and_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def interrupted(_handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"x")
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["file"]


def test_killed_while_writing_the_old_content_stays_and_the_leftover_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    write_atomic(path, OLD)
    ended = subprocess.run([sys.executable, "-c", DIE_WRITING, path], timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == OLD
    (leftover,) = set(names(path.parent)) - {"file"}
    assert leftover.startswith(".file.")
    remove_leftovers(path.parent)
    assert names(path.parent) == ["file"]


def test_only_leftovers_are_removed(tmp_path: Path) -> None:
    alive = f".model.safetensors.ctrobust-{os.getppid()}-abcd1234.tmp"
    kept = [
        "notes.tmp",
        ".hidden",
        ".lock",
        "last.safetensors",
        ".mine.12345678.tmp",
        ".ctrobust-x-abcd1234.tmp",
        alive,
    ]
    for name in kept:
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted(kept)


def test_the_old_file_is_kept_under_another_name(tmp_path: Path) -> None:
    path, kept = tmp_path / "file", tmp_path / "kept"
    write_atomic(path, b"1", keep_as=kept)
    assert names(tmp_path) == ["file"]
    for old, new in ((b"1", b"2"), (b"2", b"3")):
        write_atomic(path, new, keep_as=kept)
        assert (path.read_bytes(), kept.read_bytes()) == (new, old)
        assert names(tmp_path) == ["file", "kept"]


def test_the_file_is_there_at_every_moment_of_a_write_that_keeps_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept, moments = tmp_path / "file", tmp_path / "kept", list[tuple[bytes, bytes]]()
    path.write_bytes(b"2")
    kept.write_bytes(b"1")
    link, replace = os.link, os.replace

    def seen(function: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def recording(source: Path, target: Path) -> None:
            moments.append((path.read_bytes(), kept.read_bytes()))
            function(source, target)
            moments.append((path.read_bytes(), kept.read_bytes()))

        return recording

    monkeypatch.setattr(os, "link", seen(link))
    monkeypatch.setattr(os, "replace", seen(replace))
    write_atomic(path, b"3", keep_as=kept)
    assert moments == [(b"2", b"1")] * 3 + [(b"2", b"2")] * 2 + [(b"3", b"2")]


def test_killed_between_the_two_renames_the_next_write_goes_on(tmp_path: Path) -> None:
    path, kept = tmp_path / "file", tmp_path / "kept"
    path.write_bytes(b"2")
    os.link(path, kept)  # both names are of one file, which a rename leaves alone
    write_atomic(path, b"3", keep_as=kept)
    assert (path.read_bytes(), kept.read_bytes()) == (b"3", b"2")
    assert names(tmp_path) == ["file", "kept"]


def test_without_hard_links_the_old_file_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_source: Path, _target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    path, kept = tmp_path / "file", tmp_path / "kept"
    path.write_bytes(b"1")
    monkeypatch.setattr(os, "link", refused)
    write_atomic(path, b"2", keep_as=kept)
    assert (path.read_bytes(), kept.read_bytes()) == (b"2", b"1")
    assert names(tmp_path) == ["file", "kept"]


def test_damaged_files_are_set_aside_under_a_free_name(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for number in (1, 2):
        path.write_bytes(b"%d" % number)
        assert set_aside(path).name == f"metrics.jsonl.damaged-{number}"
    assert names(tmp_path) == ["metrics.jsonl.damaged-1", "metrics.jsonl.damaged-2"]
    with pytest.raises(RunError, match=r"cannot rename .*metrics\.jsonl: No such file"):
        set_aside(path)
