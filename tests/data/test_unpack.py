import gzip
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from ctrobust.data.cifar import CIFAR10
from ctrobust.data.download import unpack
from ctrobust.errors import DataError

FILES = {"set/a.bin": b"aaaa", "set/b.bin": b"bb"}
SET = replace(CIFAR10, members={"a.bin": 4, "b.bin": 10})


def archive(path: Path, files: dict[str, bytes], *more: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in more:
            tar.addfile(member)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    return tmp_path / "set"


def test_only_expected_members_are_written(tmp_path: Path, folder: Path) -> None:
    extra = {
        "set/readme.html": b"hello",
        "../escape": b"x",
        "/absolute": b"x",
        "other/a.bin": b"wrong",
        "set/deep/a.bin": b"wrong",
        "set/../set/a.bin": b"wrong",
    }
    directory = tarfile.TarInfo("set")
    directory.type = tarfile.DIRTYPE
    unpack(archive(tmp_path / "x.tar.gz", extra | FILES, directory), folder, SET)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a.bin": b"aaaa", "b.bin": b"bb"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "x.tar.gz"]


def test_existing_files_are_kept(tmp_path: Path, folder: Path) -> None:
    (folder / "a.bin").write_bytes(b"mine")
    unpack(archive(tmp_path / "x.tar.gz", FILES), folder, SET)
    assert (folder / "a.bin").read_bytes() == b"mine"
    assert (folder / "b.bin").read_bytes() == b"bb"


def link(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, folder: Path, kind: bytes) -> None:
    path = archive(tmp_path / "x.tar.gz", {"set/b.bin": b"bb"}, link("set/a.bin", kind))
    with pytest.raises(DataError, match=r"x.tar.gz: set/a.bin is not a regular file"):
        unpack(path, folder, SET)
    assert not (folder / "a.bin").exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"set/a.bin": b"aaaa"}, r"x.tar.gz: set/b.bin missing"),
        ({"set/a.bin": b"aaaaa"}, "set/a.bin of 5 bytes, expected at most 4"),
        ({"set/huge": bytes(2 << 20)}, "set/huge of 2,097,152 bytes, expected at most 1,048,576"),
    ],
)
def test_missing_and_oversized_members_are_refused(
    tmp_path: Path, folder: Path, files: dict[str, bytes], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        unpack(archive(tmp_path / "x.tar.gz", files), folder, SET)


def test_damaged_archives_are_refused(tmp_path: Path, folder: Path) -> None:
    path = archive(tmp_path / "x.tar.gz", {f"set/{number}": bytes(range(256)) * 9 for number in range(40)})
    content = path.read_bytes()
    for damaged in (b"", b"text", content[:200], content[:50] + b"\xff" * 50 + content[100:], gzip.compress(b"text")):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"x.tar.gz"):
            unpack(path, folder, SET)
    assert not list(folder.iterdir())
