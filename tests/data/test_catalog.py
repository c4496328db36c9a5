import gzip
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ctrobust.data import PUBLISHED, SPLITS, CatalogRow, Finding, available, check
from ctrobust.data.cifar import CIFAR10, CIFAR100
from ctrobust.errors import DataError, InputError

Write = Callable[..., None]


def rows(root: Path | None = None) -> dict[str, CatalogRow]:
    return {row.name: row for row in available(root)}


def test_nothing_is_found_in_empty_folders(places: dict[str, Path]) -> None:
    found = rows()
    assert list(found) == ["digits", *PUBLISHED, "folder:PATH", "npz:PATH"]
    assert (found["digits"].splits, found["digits"].verified) == (SPLITS, True)
    for name in ("mnist", "cifar100", "npz:PATH"):
        assert (found[name].splits, found[name].place, found[name].verified) == ((), None, None)
    assert not any(place.exists() for place in places.values())


def test_folders_and_splits_that_are_found(places: dict[str, Path], write_split: Write, write_cifar: Write) -> None:
    write_split(places["root"] / "mnist", "t10k")
    write_split(places["system"] / "fashion-mnist", "train", gz=False)
    write_cifar(places["root"], CIFAR10)
    found = rows(places["root"])
    assert (found["mnist"].splits, found["mnist"].place) == (("test",), places["root"] / "mnist")
    assert found["mnist"].verified is False
    assert (found["fashion-mnist"].place, found["fashion-mnist"].verified) == (
        places["system"] / "fashion-mnist",
        False,
    )
    assert (found["cifar10"].splits, found["cifar10"].verified) == (SPLITS, False)
    assert found["cifar100"].splits == ()


@pytest.mark.parametrize("repacked", [False, True])
def test_published_files_are_verified_by_their_checksums(
    places: dict[str, Path], write_split: Write, write_cifar: Write, monkeypatch: pytest.MonkeyPatch, repacked: bool
) -> None:
    for prefix in ("train", "t10k"):
        write_split(places["system"] / "mnist", prefix)
    write_cifar(places["system"], CIFAR100)
    folder = places["system"] / "mnist"
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    if repacked:  # the published files are uncompressed, these are not
        sums = {name[:-3]: hashlib.sha256(gzip.decompress(data)).hexdigest() for name, data in contents.items()}
    else:
        sums = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    monkeypatch.setitem(PUBLISHED, "mnist", replace(PUBLISHED["mnist"], sha256=sums, downloads=()))
    folder = places["system"] / CIFAR100.folder
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in CIFAR100.sha256}
    monkeypatch.setitem(PUBLISHED, "cifar100", replace(CIFAR100, sha256=sums))
    assert rows()["mnist"].verified is True
    assert rows()["cifar100"].verified is True


def test_a_wrong_root_is_refused(places: dict[str, Path]) -> None:
    with pytest.raises(DataError, match=r"the data root .* does not exist"):
        available(places["root"])


def test_a_file_that_cannot_be_read_is_reported(places: dict[str, Path]) -> None:
    folder = places["system"] / CIFAR10.folder
    for names in CIFAR10.files.values():
        for name in names:
            (folder / name).mkdir(parents=True)
    with pytest.raises(DataError, match=r"data_batch_1.bin is a folder"):
        available()


def test_check_of_the_embedded_set() -> None:
    assert check("digits") == [
        Finding("ok", "train: 1,442 images, 1 x 28 x 28, of 10 classes, as published"),
        Finding("ok", "test: 355 images, 1 x 28 x 28, of 10 classes, as published"),
    ]


def test_check_reports_overlap_and_small_classes(places: dict[str, Path], write_split: Write) -> None:
    write_split(places["system"] / "mnist", "train", 20)
    write_split(places["system"] / "mnist", "t10k", 11)
    assert check("mnist") == [
        Finding("ok", "train: 20 images, 1 x 28 x 28, of 10 classes"),
        Finding("note", "train: unverified: other contents, order or number than published"),
        Finding("ok", "test: 11 images, 1 x 28 x 28, of 10 classes"),
        Finding("note", "test: unverified: other contents, order or number than published"),
        Finding("note", "test: 9 classes have one image: 1, 2, 3, 4, 5, 6, 7, 8, 9"),
        Finding("note", "11 images of test are in train too, pixel for pixel"),
    ]


def test_check_reports_missing_data_and_refuses_unknown_names(places: dict[str, Path], write_split: Write) -> None:
    write_split(places["system"] / "mnist", "train", labels=[3] * 20)
    found = check("mnist")
    assert [finding.level for finding in found] == ["ok", "note", "note", "error"]
    assert found[2].text == "train: 9 classes have no image: 0, 1, 2, 4, 5, 6, 7, 8, 9"
    assert found[3].text.startswith("test: mnist was not found")
    with pytest.raises(InputError, match="unknown data set 'nothing'"):
        check("nothing")


def test_check_of_a_folder_lists_every_damaged_picture(tmp_path: Path) -> None:
    for number in range(60):
        path = tmp_path / "a" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((2, 2), number, np.uint8)).save(path)
    (tmp_path / "a" / "notes.txt").touch()
    name = f"folder:{tmp_path}"
    assert [finding.level for finding in check(name)] == ["note", "ok", "ok"]
    assert check(name)[0].text == "1 files are not named as pictures and are ignored"
    for number in range(15):
        (tmp_path / "a" / f"{number}.png").write_bytes(b"damaged")
    found = check(name)
    assert [finding.level for finding in found] == ["error"] * 15 + ["note"]
    assert {finding.text.partition(":")[0] for finding in found[:15]} == {f"a/{number}.png" for number in range(15)}
    assert check(f"{name}/a") == [
        Finding("error", f"{tmp_path}/a holds no folders; expected one folder of pictures for each class")
    ]


def test_check_of_many_classes_shows_the_first_ten(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (30, 2, 2), dtype=np.uint8)
    labels = np.arange(15)
    np.savez(
        tmp_path / "a.npz", images_train=images[:15], labels_train=labels, images_test=images[15:], labels_test=labels
    )
    shown = ", ".join(map(str, range(10))) + ", ..."
    assert Finding("note", f"train: 15 classes have one image: {shown}") in check(f"npz:{tmp_path / 'a.npz'}")
