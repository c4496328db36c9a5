from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ctrobust import data
from ctrobust.data.cifar import CIFAR10, CIFAR100
from ctrobust.data.mnist import FILES
from ctrobust.errors import DataError, InputError
from tests.data.conftest import names_file

# One row per published data set: the shape of its images, its number of classes, and a class.
PUBLISHED = [
    ("mnist", (1, 28, 28), 10, "7"),
    ("fashion-mnist", (1, 28, 28), 10, "Trouser"),
    ("kmnist", (1, 28, 28), 10, "tsu"),
    ("cifar10", (3, 32, 32), 10, "frog"),
    ("cifar100", (3, 32, 32), 100, "aquarium_fish"),
]


def test_the_table_has_every_published_data_set() -> None:
    assert [name for name, *_ in PUBLISHED] == list(data.PUBLISHED)
    assert ("digits", *data.PUBLISHED) == data.DATASETS


@pytest.mark.parametrize(("name", "shape", "classes", "one"), PUBLISHED)
def test_published_data_sets(
    places: dict[str, Path],
    write_split: Callable[..., None],
    write_cifar: Callable[..., None],
    name: str,
    shape: tuple[int, ...],
    classes: int,
    one: str,
) -> None:
    published = data.PUBLISHED[name]
    if published.members:
        write_cifar(places["root"], published)
    else:
        for prefix in ("train", "t10k"):
            write_split(places["root"] / name, prefix)
    for split in data.SPLITS:
        loaded = data.load(name, split, root=places["root"])
        assert (loaded.name, loaded.split, loaded.verified) == (name, split, False)
        assert loaded.images.shape[1:] == shape
        assert loaded.labels.dtype == torch.int64
        assert loaded.num_classes == len(set(loaded.classes)) == classes
        assert one in loaded.classes
        assert (loaded.mean, loaded.std) == (published.mean, published.std)
    (row,) = [row for row in data.available(places["root"]) if row.name == name]
    assert (row.splits, row.place, row.verified) == (data.SPLITS, places["root"] / published.folder, False)
    assert row.description


def test_every_download_has_urls_a_size_and_a_checksum() -> None:
    downloads = [download for published in data.PUBLISHED.values() for download in published.downloads]
    assert len({download.sha256 for download in downloads}) == len(downloads)
    for download in downloads:
        assert download.urls
        assert all(url.startswith(("https://", "http://")) for url in download.urls)
        assert all(url.endswith("/" + download.name) for url in download.urls)
        assert len(bytes.fromhex(download.sha256)) == 32
        assert 4_000 < download.size < 200_000_000


def test_downloads_are_the_files_that_loading_searches_for() -> None:
    for name, published in data.PUBLISHED.items():
        assert published.name == name
        files = {file for files in published.files.values() for file in files}
        assert set(published.sha256) <= files
        assert all(len(bytes.fromhex(digest)) == 32 for digest in published.sha256.values())
        if published.members:
            assert set(published.members) == {*files, names_file(published)}
            assert set(published.sha256) == files
        else:
            assert published.folder == name
            assert published.files == FILES
            assert {download.name for download in published.downloads} == {f"{file}.gz" for file in files}
    assert CIFAR10.members["data_batch_5.bin"] == 30_730_000
    assert CIFAR100.members["train.bin"] == 153_700_000


def test_every_kind_takes_a_path(tmp_path: Path) -> None:
    for kind in data.PATH_LOADERS:
        with pytest.raises(DataError, match=f"{tmp_path / 'nothing'} does not exist"):
            data.load(f"{kind}:{tmp_path / 'nothing'}")


def test_train_is_the_default_split() -> None:
    assert data.load("digits").split == "train"


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("fashionmnist", "fashion-mnist"),
        ("minst", "mnist"),
        ("cifar-10", "cifar10"),
        ("folders:PATH", "folder:PATH"),
        ("svhn", None),
        ("MNIST-fashion", None),
        ("", None),
        (":", None),
    ],
)
@pytest.mark.parametrize("use", [data.load, data.check, lambda name: data.load(name, download=True)])
def test_unknown_names_are_refused_with_the_known_ones(
    places: dict[str, Path], name: str, suggested: str | None, use: Callable[[str], object]
) -> None:
    with pytest.raises(InputError) as caught:
        use(name)
    message = str(caught.value)
    assert repr(name) in message
    assert f"known: {', '.join(sorted(data.DATASETS))}, folder:PATH, npz:PATH" in message
    assert ("did you mean" in message) == (suggested is not None)
    assert f"{suggested!r}?" in message or suggested is None
    assert not any(place.exists() for place in places.values())


@pytest.mark.parametrize("name", [*data.DATASETS, "folder:x", "npz:x"])
def test_unknown_splits_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=rf"unknown split 'validation' of {name}; known: train, test"):
        data.load(name, "validation")
