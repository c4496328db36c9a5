import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.data import cifar
from ctrobust.data.cifar import CIFAR10, CIFAR100, read_cifar
from ctrobust.data.published import Published, load_published
from ctrobust.errors import DataError
from tests.data.conftest import names_file, rewrite, traced_peak

Write = Callable[..., None]
BOTH = pytest.mark.parametrize("published", [CIFAR10, CIFAR100], ids=["cifar10", "cifar100"])


def record(*labels: int, value: int = 0) -> bytes:
    return bytes(labels) + bytes([value]) * 3072


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cifar")


@BOTH
def test_both_splits(places: dict[str, Path], write_cifar: Write, published: Published) -> None:
    write_cifar(places["system"], published)
    for split, names in published.files.items():
        data = load_published(published, split)
        count = 4 * len(names)
        assert data.images.shape == (count, 3, 32, 32)
        assert torch.equal(data.images[:, 1, 2, 3], torch.arange(count, dtype=torch.uint8) % 4)
        assert torch.equal(data.labels, torch.arange(count) % 4)
        assert (data.name, data.split, data.classes) == (published.name, split, published.classes)
        assert (data.mean, data.std) == (published.mean, published.std)
        assert not data.verified


def test_channels_are_red_green_blue_and_rows_run_left_to_right(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    (tmp_path / "a").write_bytes(b"\3" + pixels[0].tobytes() + b"\7" + pixels[1].tobytes())
    images, labels = read_cifar([tmp_path / "a"], (10,))
    assert np.array_equal(images, pixels)
    assert labels.tolist() == [3, 7]


def test_the_fine_label_is_the_class(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(record(19, 99) + record(0, 5))
    assert read_cifar([tmp_path / "a"], (20, 100))[1].tolist() == [99, 5]


def test_files_are_concatenated_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "_CHUNK", 2)
    for name, values in (("a", range(5)), ("b", range(5, 8))):
        (tmp_path / name).write_bytes(b"".join(record(value, value=value) for value in values))
    images, labels = read_cifar([tmp_path / "a", tmp_path / "b"], (10,))
    assert labels.tolist() == images[:, 0, 0, 0].tolist() == list(range(8))


def test_only_the_published_contents_are_verified(places: dict[str, Path], write_cifar: Write) -> None:
    write_cifar(places["system"], CIFAR10)
    folder = places["system"] / CIFAR10.folder
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in CIFAR10.sha256}
    own = replace(CIFAR10, sha256=sums)
    assert load_published(own, "train").verified
    path = folder / "data_batch_3.bin"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert not load_published(own, "train").verified
    assert load_published(own, "test").verified


def test_constants_are_complete() -> None:
    for published, count in ((CIFAR10, 10), (CIFAR100, 100)):
        assert len(set(published.classes)) == count
        assert set(published.sha256) == {name for names in published.files.values() for name in names}
        assert all(len(bytes.fromhex(digest)) == 32 for digest in published.sha256.values())
    assert list(CIFAR100.classes) == sorted(CIFAR100.classes)


def test_a_missing_data_set_is_reported_with_what_to_put_where(places: dict[str, Path], write_cifar: Write) -> None:
    write_cifar(places["system"], CIFAR10)
    missing = places["system"] / CIFAR10.folder / "data_batch_4.bin"
    missing.unlink()
    with pytest.raises(DataError) as caught:
        load_published(CIFAR10, "train")
    message = str(caught.value)
    assert "cifar10 was not found. Put data_batch_1.bin and data_batch_2.bin and" in message
    assert "into a folder cifar-10-batches-bin" in message
    assert "ctrobust data fetch cifar10" in message
    assert f"\n  {missing}: No such file" in message


def test_class_names_must_agree_if_their_file_exists(places: dict[str, Path], write_cifar: Write) -> None:
    write_cifar(places["system"], CIFAR10)
    path = places["system"] / CIFAR10.folder / names_file(CIFAR10)
    path.write_text("airplane\nbicycle\n")
    with pytest.raises(DataError, match=r"batches.meta.txt: class 1 is 'bicycle', expected 'automobile'"):
        load_published(CIFAR10, "test")
    path.write_bytes(b"airplane\n\xff")
    with pytest.raises(DataError, match="class 1 is '\ufffd', expected 'automobile'"):
        load_published(CIFAR10, "test")
    path.write_text("airplane\n")
    with pytest.raises(DataError, match=r"batches.meta.txt: 1 class names, expected 10"):
        load_published(CIFAR10, "test")
    path.unlink()
    assert len(load_published(CIFAR10, "test")) == 4


MALFORMED = {
    "empty": (b"", (10,), "is empty; expected records of 3073 bytes"),
    "one byte": (b"\0", (10,), "1 bytes are 0 records of 3073 bytes and 1 more"),
    "cut short": (record(1) + record(2)[:-1], (10,), "6145 bytes are 1 records of 3073 bytes and 3072 more"),
    "trailing byte": (record(1) + b"\0", (10,), "3074 bytes are 1 records of 3073 bytes and 1 more, expected none"),
    "another format": (record(1, 2), (10,), "3074 bytes are 1 records of 3073 bytes and 1 more"),
    "gzip": (b"\x1f\x8b" + bytes(98), (20, 100), "100 bytes are 0 records of 3074 bytes and 100 more"),
    "label": (record(9) + record(10), (10,), "label 10 in record 1, expected 0 to 9"),
    "fine label": (record(19, 100), (20, 100), ": label 100 in record 0, expected 0 to 99"),
    "coarse label": (record(20, 99), (20, 100), "coarse label 20 in record 0, expected 0 to 19"),
}


@pytest.mark.parametrize(("content", "limits", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_files_are_refused(tmp_path: Path, content: bytes, limits: tuple[int, ...], message: str) -> None:
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_cifar([tmp_path / "a.bin"], limits)
    assert str(tmp_path / "a.bin") in str(caught.value)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "is a folder; expected a CIFAR file"), (tmp_path / "none", "does not exist")):
        with pytest.raises(DataError, match=message):
            read_cifar([path], (10,))


def test_a_file_of_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(3073 * 1_000_001)  # takes no room on the disk
    with pytest.raises(DataError, match="a: 1000001 images, expected at most 1000000"):
        read_cifar([tmp_path / "a"], (10,))


@pytest.mark.parametrize(("change", "message"), [(-3073, "became shorter"), (3073, "became longer")])
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: int, message: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(record(1) * 3)
    count = cifar._count

    def change_after(path: Path, size: int) -> int:
        found = count(path, size)
        path.write_bytes(record(1) * (3 + change // 3073))
        return found

    monkeypatch.setattr(cifar, "_count", change_after)
    with pytest.raises(DataError, match=f"a {message} while it was read"):
        read_cifar([path], (10,))


def test_memory_stays_within_twice_the_file(tmp_path: Path) -> None:
    content = record(1) * 4000
    (tmp_path / "a").write_bytes(content)
    read_cifar([tmp_path / "a"], (10,))  # imports and caches
    assert traced_peak(lambda: read_cifar([tmp_path / "a"], (10,))) < 1.5 * len(content)


@given(
    st.lists(st.tuples(st.integers(0, 22), st.integers(0, 102), st.binary(max_size=9)), max_size=2),
    st.binary(max_size=40),
    st.integers(0, 40),
    st.sampled_from([(10,), (20, 100)]),
)
@settings(max_examples=2000, deadline=None, database=None)
def test_random_bytes_are_read_or_refused(
    scratch: Path, records: list[tuple[int, int, bytes]], tail: bytes, cut: int, limits: tuple[int, ...]
) -> None:
    path = scratch / "garbage"
    content = b"".join(bytes([a, b][-len(limits) :]) + c.ljust(3072, c[:1] or b"\0") for a, b, c in records) + tail
    content = content[: len(content) - min(cut, len(tail))]
    rewrite(path, content)
    try:
        images, labels = read_cifar([path], limits)
    except DataError as error:
        named = str(path) in str(error)
    else:
        rows = np.frombuffer(content, np.uint8).reshape(len(labels), -1)
        assert np.array_equal(rows[:, -3072:], images.reshape(len(labels), -1))
        assert np.array_equal(rows[:, len(limits) - 1], labels)
        assert len(labels)
        assert labels.max() < limits[-1]
        return
    assert named
