from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ctrobust import data
from ctrobust.data.cifar import CIFAR10, CIFAR100
from ctrobust.errors import DataError, InputError


def test_every_name_of_the_registry_is_also_the_name_of_what_it_loads(
    places: dict[str, Path], write_split: Callable[..., None], write_cifar: Callable[..., None]
) -> None:
    for name in ("mnist", "fashion-mnist"):
        write_split(places["root"] / name)
    for published in (CIFAR10, CIFAR100):
        write_cifar(places["root"], published)
    for name in data.DATASETS:
        loaded = data.load(name, root=places["root"])
        assert (loaded.name, loaded.split) == (name, "train")
        assert loaded.images.shape[1:] == ((3, 32, 32) if name.startswith("cifar") else (1, 28, 28))
        assert loaded.labels.dtype == torch.int64
        assert loaded.num_classes == (100 if name == "cifar100" else 10)


def test_every_kind_takes_a_path(tmp_path: Path) -> None:
    for kind in data.KINDS:
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
        ("MNIST-fashion", None),
        ("", None),
        (":", None),
    ],
)
def test_unknown_names_are_refused_with_the_closest(name: str, suggested: str | None) -> None:
    with pytest.raises(InputError) as caught:
        data.load(name)
    message = str(caught.value)
    assert repr(name) in message
    assert "Allowed: cifar10, cifar100, digits, fashion-mnist, mnist, folder:PATH, npz:PATH" in message
    assert ("did you mean" in message) == (suggested is not None)
    assert f"{suggested!r}?" in message or suggested is None


@pytest.mark.parametrize("name", [*data.DATASETS, "folder:x", "npz:x"])
def test_unknown_splits_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=rf"unknown split 'validation' of {name}. Allowed: train, test"):
        data.load(name, "validation")
