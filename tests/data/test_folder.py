from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from ctrobust.data import folder, load
from ctrobust.data.folder import damaged_pictures, load_folder
from ctrobust.data.picture_list import list_pictures
from ctrobust.data.pictures import decode
from ctrobust.errors import DataError, InputError


def put(path: Path, value: int = 0, size: tuple[int, int] = (5, 4), mode: str = "RGB") -> None:
    """Write a picture of one color; the size is (width, height)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, value, 255 - value)).save(path)


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    for number in range(40):
        put(tmp_path / "cat" / f"{number}.png", number)
        put(tmp_path / "dog" / f"{number}.webp", 100 + number)
    return tmp_path


def test_both_splits(animals: Path) -> None:
    name = f"folder:{animals}"
    train, test = load(name), load(name, "test")
    assert len(train) + len(test) == 80
    assert 5 <= len(test) <= 30
    for data, split in ((train, "train"), (test, "test")):
        assert (data.name, data.split, data.classes, data.verified) == (name, split, ("cat", "dog"), False)
        assert data.images.shape[1:] == (3, 4, 5)  # they all have one size
        red = data.images[:, 0, 0, 0].long()
        assert (data.labels == (red >= 80)).all()
        x = train.images.double() / 255
        assert data.mean == pytest.approx(x.mean((0, 2, 3)).tolist())
        assert data.std == pytest.approx(x.std((0, 2, 3), correction=0).tolist())
    assert set(train.labels[:12].tolist()) == {0, 1}  # ordered by hash, not by class


def test_training_pictures_are_decoded_once_for_both_splits(animals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def count_decoded(path: str, **form: int) -> NDArray[np.uint8]:
        decoded.append(path)
        return decode(path, **form)

    monkeypatch.setattr(folder, "decode", count_decoded)
    name = f"folder:{animals}"
    load(name)
    test = load(name, "test")
    assert len(decoded) == len(set(decoded)) == 80
    assert (load(name, "test").mean, len(decoded)) == (test.mean, 80 + len(test))
    for path in animals.glob("*/*"):  # no name has changed, and every picture
        put(path, 200)
    expected = [200 / 255, 200 / 255, 55 / 255]
    assert load(name, "test").mean == pytest.approx(expected, abs=0.01)  # WebP loses a little


@pytest.mark.parametrize(("option", "shape"), [("?size=7", (7, 7)), ("", (32, 32))])
def test_pictures_of_several_sizes_are_resized(animals: Path, option: str, shape: tuple[int, int]) -> None:
    put(animals / "cat" / "tall.png", 50, (3, 90))
    assert load(f"folder:{animals}{option}").images.shape[1:] == (3, *shape)


def test_grayscale_is_kept_unless_a_picture_has_color(tmp_path: Path) -> None:
    for number in range(10):
        put(tmp_path / "a" / f"{number}.png", number, mode="L")
    assert load(f"folder:{tmp_path}").images.shape[1:] == (1, 4, 5)
    put(tmp_path / "a" / "color.jpg", 9)
    assert load(f"folder:{tmp_path}").images.shape[1:] == (3, 4, 5)


def test_a_folder_with_given_splits(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path / "train" / "a" / f"{number}.png", number)
    put(tmp_path / "val" / "a" / "x.png", 77)
    assert len(load(f"folder:{tmp_path}")) == 5
    assert load(f"folder:{tmp_path}", "test").images[:, 0, 0, 0].tolist() == [77]


def test_a_class_of_one_picture_is_in_the_training_split(tmp_path: Path) -> None:
    for number in range(30):
        put(tmp_path / f"class{number}" / "one.png", number)
    data = load(f"folder:{tmp_path}")
    assert sorted(data.labels.tolist()) == list(range(30))
    assert (data.num_classes, data.classes[0]) == (30, "class0")
    with pytest.raises(DataError, match="none of 30 pictures is in test by its hash; make a folder test"):
        load(f"folder:{tmp_path}", "test")


def test_thousands_of_classes(tmp_path: Path) -> None:
    Image.new("L", (1, 1), 7).save(tmp_path / "source.png")
    content = (tmp_path / "source.png").read_bytes()
    for number in range(3000):
        (tmp_path / "data" / f"{number:05}").mkdir(parents=True)
        (tmp_path / "data" / f"{number:05}" / "1.png").write_bytes(content)
    data = load(f"folder:{tmp_path / 'data'}")
    assert (data.num_classes, len(data), data.std) == (3000, 3000, (1.0,))
    assert sorted(data.labels.tolist()) == list(range(3000))


def test_damaged_pictures_are_listed_in_one_error(animals: Path) -> None:
    for number in range(12):
        path = animals / "cat" / f"{number}.png"
        path.write_bytes(path.read_bytes()[:-30] if number else b"")  # cuts off pixels
    (animals / "dog" / "broken.jpg").symlink_to(animals / "nothing")
    with pytest.raises(DataError) as caught:
        load(f"folder:{animals}")
    message = str(caught.value)
    assert f"{animals}: " in message
    assert "pictures cannot be read; repair or remove them:\n" in message
    assert "\n  dog/broken.jpg: is missing or not a regular file" in message
    listed = damaged_pictures(list_pictures(animals))
    assert len(listed) == 13
    assert any(line.startswith("cat/0.png: cannot identify") for line in listed)
    (animals / "dog" / "broken.jpg").unlink()
    (animals / "cat" / "0.png").unlink()  # the other pictures have valid headers
    with pytest.raises(DataError, match=r"of \d+ pictures cannot be read; .*\n  cat/\d+.png: "):
        load(f"folder:{animals}")


def test_the_first_ten_damaged_pictures_are_shown(tmp_path: Path) -> None:
    for number in range(15):
        put(tmp_path / "a" / f"{number}.png")
        (tmp_path / "a" / f"{number}.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match="15 of 15 pictures cannot be read") as caught:
        load(f"folder:{tmp_path}")
    assert str(caught.value).count("\n  a/") == 10
    assert str(caught.value).endswith("\n  and 5 more")


def test_more_pictures_than_fit_into_memory_are_refused(animals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_BYTES", 3000)
    with pytest.raises(
        DataError, match=r"at 4 x 5 the pictures take \d,\d+ bytes, expected at most 3,000; give a smal"
    ):
        load(f"folder:{animals}")
    assert len(load(f"folder:{animals}?size=2")) > 50


@pytest.mark.parametrize("size", ["0", "1025", "-3", "3.5", "x", "²", "9" * 5000])
def test_impossible_sizes_are_refused(animals: Path, size: str) -> None:
    with pytest.raises(InputError, match=r"size must be 1 to 1024; got"):
        load_folder(f"folder:{animals}?size={size}", "train")


def test_unknown_options_and_no_path_are_refused(animals: Path) -> None:
    with pytest.raises(InputError, match=r"unknown option 'side'. Allowed: size"):
        load(f"folder:{animals}?side=3")
    with pytest.raises(InputError, match="expected a path, as in folder:PATH"):
        load("folder:")
    with pytest.raises(DataError, match="nowhere does not exist"):
        load(f"folder:{animals}/nowhere")


def test_the_same_bits_every_time(animals: Path) -> None:
    name = f"folder:{animals}?size=16"
    first = load(name)
    folder._known.clear()
    second = load(name)
    assert torch.equal(first.images, second.images)
    assert np.array_equal(first.labels, second.labels)
