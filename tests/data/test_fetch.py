import gzip
import hashlib
import io
import tarfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ctrobust import data
from ctrobust.data import PUBLISHED, fetch
from ctrobust.data.cifar import CIFAR10
from ctrobust.data.download import download
from ctrobust.data.published import Download
from ctrobust.errors import DataError, InputError
from tests.data.conftest import Server

Write = Callable[..., None]


@pytest.fixture
def published(
    server: Server, tmp_path: Path, write_split: Write, write_cifar: Write, monkeypatch: pytest.MonkeyPatch
) -> Server:
    """Serve small versions of MNIST and CIFAR-10."""
    made = tmp_path / "made"
    for prefix in ("train", "t10k"):
        write_split(made / "mnist", prefix)
    files = []
    for remote in PUBLISHED["mnist"].downloads:
        content = (made / "mnist" / remote.name).read_bytes()
        server.serve(f"/{remote.name}", content)
        sha256 = hashlib.sha256(content).hexdigest()
        files.append(Download(remote.name, (server.url(f"/{remote.name}"),), len(content), sha256))
    monkeypatch.setitem(PUBLISHED, "mnist", replace(PUBLISHED["mnist"], downloads=tuple(files)))
    write_cifar(made, CIFAR10)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(made / CIFAR10.folder, CIFAR10.folder)
    content = packed.getvalue()
    (remote,) = PUBLISHED["cifar10"].downloads
    server.serve(f"/{remote.name}", content)
    archive = Download(remote.name, (server.url(f"/{remote.name}"),), len(content), hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(PUBLISHED, "cifar10", replace(PUBLISHED["cifar10"], downloads=(archive,)))
    return server


def test_missing_files_are_downloaded(published: Server, places: dict[str, Path]) -> None:
    seen: list[tuple[int, int | None]] = []
    folder = fetch("mnist", places["root"], lambda done, total: seen.append((done, total)))
    assert folder == places["root"] / "mnist"
    assert len(data.load("mnist", "test", places["root"])) == 20
    total = sum(remote.size for remote in PUBLISHED["mnist"].downloads)
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
    assert len(published.asked) == 4


def test_existing_files_are_kept(published: Server, places: dict[str, Path], write_split: Write) -> None:
    folder = places["root"] / "mnist"
    write_split(folder, "train", 7, gz=False)
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    fetch("mnist", places["root"])
    assert published.asked == ["/t10k-images-idx3-ubyte.gz"]
    assert len(data.load("mnist", "train", places["root"])) == 7
    assert (folder / "t10k-labels-idx1-ubyte.gz").read_bytes() == b"damaged"


def test_an_archive_is_unpacked_and_removed(published: Server, places: dict[str, Path]) -> None:
    folder = fetch("cifar10", places["root"])
    assert len(data.load("cifar10", "train", places["root"])) == 20
    assert sorted(path.name for path in places["root"].iterdir()) == [CIFAR10.folder]
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == {*CIFAR10.members}
    fetch("cifar10", places["root"])
    assert len(published.asked) == 1


def test_an_archive_that_was_put_there_by_hand_is_verified_and_kept(published: Server, places: dict[str, Path]) -> None:
    (remote,) = PUBLISHED["cifar10"].downloads
    places["root"].mkdir()
    archive = places["root"] / remote.name
    archive.write_bytes(b"not it")
    with pytest.raises(
        DataError, match=r"cifar-10-binary.tar.gz: 6 bytes that are not the published ones.*; remove it to download"
    ):
        fetch("cifar10", places["root"])
    archive.unlink()
    download(remote, archive)
    published.asked.clear()
    fetch("cifar10", places["root"])
    assert archive.exists()
    assert len(data.load("cifar10", "test", places["root"])) == 4
    assert not published.asked


def test_the_folder_of_downloads(
    published: Server, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert fetch("mnist") == places["cache"] / "mnist"
    monkeypatch.setenv("CTROBUST_DATA", str(places["environment"]))
    assert fetch("mnist") == places["environment"] / "mnist"
    assert fetch("mnist", tmp_path / "a" / "b") == tmp_path / "a" / "b" / "mnist"
    assert published.asked


def test_a_failed_download_can_be_continued(published: Server, places: dict[str, Path]) -> None:
    answer = published.routes.pop("/t10k-images-idx3-ubyte.gz")
    with pytest.raises(DataError) as caught:
        fetch("mnist", places["root"])
    target = places["root"] / "mnist" / "t10k-images-idx3-ubyte.gz"
    assert f"Put it by hand at {target}" in str(caught.value)
    assert {path.name for path in target.parent.iterdir()} == {
        ".lock",
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
    }
    published.routes["/t10k-images-idx3-ubyte.gz"] = answer
    published.asked.clear()
    fetch("mnist", places["root"])
    assert published.asked == ["/t10k-images-idx3-ubyte.gz", "/t10k-labels-idx1-ubyte.gz"]


def test_concurrent_fetches_download_once(published: Server, places: dict[str, Path]) -> None:
    threads = [threading.Thread(target=fetch, args=("cifar10", places["root"])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(published.asked) == 1
    assert len(data.load("cifar10", "test", places["root"])) == 4


def test_load_uses_the_network_only_when_asked(published: Server, places: dict[str, Path], write_split: Write) -> None:
    places["root"].mkdir()
    with pytest.raises(DataError, match=r"mnist was not found.*ctrobust data fetch mnist"):
        data.load("mnist", root=places["root"])
    assert not published.asked
    seen: list[int] = []
    loaded = data.load("mnist", root=places["root"], download=True, progress=lambda done, _total: seen.append(done))
    assert len(loaded) == 20
    assert seen
    published.asked.clear()
    data.load("mnist", root=places["root"], download=True)
    data.load("digits", root=places["root"], download=True)
    write_split(places["system"] / "fashion-mnist", "train")
    data.load("fashion-mnist", root=places["root"], download=True)
    assert not published.asked


def test_a_damaged_file_is_not_downloaded_again(published: Server, places: dict[str, Path]) -> None:
    folder = fetch("mnist", places["root"])
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"damaged"))
    published.asked.clear()
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz is not an IDX file"):
        data.load("mnist", root=places["root"], download=True)
    assert not published.asked


@pytest.mark.parametrize("name", ["digits", "folder:x", "nothing", "svhn"])
def test_names_that_are_not_published_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"cannot be downloaded. Allowed: {', '.join(sorted(PUBLISHED))}"):
        fetch(name)


def test_a_root_that_cannot_be_written_is_reported(places: dict[str, Path]) -> None:
    places["root"].write_bytes(b"a file")
    with pytest.raises(DataError, match=r"root.* cannot be written: "):
        fetch("mnist", places["root"])
