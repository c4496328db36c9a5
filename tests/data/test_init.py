from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ctrobust import data
from ctrobust.errors import InputError


def test_every_name_of_the_registry_is_also_the_name_of_what_it_loads(
    places: dict[str, Path], write_split: Callable[..., None]
) -> None:
    for name in ("mnist", "fashion-mnist"):
        write_split(places["root"] / name)
    places["root"].mkdir(exist_ok=True)
    for name in data.DATASETS:
        loaded = data.load(name, root=places["root"])
        assert (loaded.name, loaded.split) == (name, "train")
        assert loaded.images.shape[1:] == (1, 28, 28)
        assert loaded.labels.dtype == torch.int64
        assert loaded.num_classes == 10


def test_train_is_the_default_split() -> None:
    assert data.load("digits").split == "train"


@pytest.mark.parametrize(
    ("name", "suggested"), [("fashionmnist", "fashion-mnist"), ("minst", "mnist"), ("MNIST-fashion", None), ("", None)]
)
def test_unknown_names_are_refused_with_the_closest(name: str, suggested: str | None) -> None:
    with pytest.raises(InputError) as caught:
        data.load(name)
    message = str(caught.value)
    assert repr(name) in message
    assert "digits, fashion-mnist, mnist" in message
    assert ("did you mean" in message) == (suggested is not None)
    assert f"{suggested!r}?" in message or suggested is None


@pytest.mark.parametrize("name", list(data.DATASETS))
def test_unknown_splits_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=rf"unknown split 'validation' of {name}. Allowed: train, test"):
        data.load(name, "validation")
