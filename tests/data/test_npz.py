from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ctrobust.data import load
from ctrobust.data.npz import load_npz
from ctrobust.errors import DataError, InputError
from tests.data.conftest import traced_peak

RNG = np.random.default_rng(0)


def images(*shape: int) -> NDArray[np.uint8]:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, compressed: bool = False, **arrays: Any) -> str:
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return f"npz:{path}"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((6, 5, 4), None), ((6, 5, 4, 3), (0, 3, 1, 2)), ((6, 3, 5, 4), (0, 1, 2, 3)), ((6, 5, 4, 1), (0, 3, 1, 2))],
)
def test_given_splits(
    tmp_path: Path, shape: tuple[int, ...], axes: tuple[int, ...] | None, order: Any, compressed: bool
) -> None:
    train, test = images(*shape), images(4, *shape[1:])
    parts = {"images_train": np.asarray(train, order=order), "images_test": np.asarray(test, order=order)}
    labels = {"labels_train": np.array([0, 1, 2, 0, 1, 2], ">i2"), "labels_test": np.array([2, 0, 0, 1], np.uint8)}
    name = save(tmp_path / "a.npz", compressed, **parts, **labels, classes=np.array(["x", "y", "größer"]))
    for split, array, expected in (("train", train, [0, 1, 2, 0, 1, 2]), ("test", test, [2, 0, 0, 1])):
        data = load(name, split)
        planes = array[:, None] if axes is None else array.transpose(axes)
        assert np.array_equal(data.images.numpy(), planes)
        assert data.labels.tolist() == expected
        assert (data.name, data.split, data.classes, data.verified) == (name, split, ("x", "y", "größer"), False)
        own = (train[:, None] if axes is None else train.transpose(axes)) / 255
        assert data.mean == pytest.approx(own.mean((0, 2, 3)))
        assert data.std == pytest.approx(own.std((0, 2, 3)))


def test_split_by_the_hash_of_the_contents(tmp_path: Path) -> None:
    pool = images(150, 3, 3)
    everything = np.concatenate([pool, pool[::-1]])  # every image twice
    name = save(tmp_path / "a.npz", images=everything, labels=np.arange(300) % 150 % 3)
    train, test = load(name, "train"), load(name, "test")
    assert len(train) + len(test) == 300
    assert 30 <= len(test) <= 90

    def contents(data: torch.Tensor) -> set[bytes]:
        return {image.numpy().tobytes() for image in data}

    assert not contents(train.images) & contents(test.images)  # equal images are in the same split
    assert (train.mean, train.std) == (test.mean, test.std)
    assert train.mean == pytest.approx([train.images.double().mean().item() / 255])
    more = save(tmp_path / "b.npz", images=np.concatenate([everything, images(50, 3, 3)]), labels=np.arange(350) % 3)
    assert contents(train.images) <= contents(load(more, "train").images)
    assert contents(test.images) <= contents(load(more, "test").images)


def test_classes_without_names_are_numbered(tmp_path: Path) -> None:
    name = save(tmp_path / "a.npz", images=images(40, 4, 4, 3), labels=np.arange(40) % 4)
    assert load(name).classes == ("0", "1", "2", "3")


def test_a_class_of_one_image_is_in_the_training_split(tmp_path: Path) -> None:
    for seed in range(10):
        one = np.random.default_rng(seed).integers(0, 256, (40, 4, 4), dtype=np.uint8)
        name = save(tmp_path / "a.npz", images=one, labels=np.array([1] + [0] * 39))
        assert 1 in load(name).labels


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    name = save(tmp_path / "a.npz", images=images(1, 4, 4), labels=np.array([0]))
    assert len(load(name, "train")) == 1
    with pytest.raises(DataError, match="none of 1 images is in test by its hash; name the splits' arrays"):
        load(name, "test")


GOOD: dict[str, Any] = {"images": images(6, 5, 4), "labels": np.array([0, 1, 2, 0, 1, 2])}
PARTED: dict[str, Any] = {
    "images_train": images(3, 5, 4),
    "labels_train": np.array([0, 1, 2]),
    "images_test": images(2, 5, 4),
    "labels_test": np.array([0, 1]),
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no arrays": ({}, "a.npz holds no arrays; expected images, labels, or images_train"),
    "no images": ({"labels": GOOD["labels"]}, "holds the arrays labels; expected images, labels, or images_train"),
    "no names": (
        {"arr_0": np.zeros((6, 5, 4)), "arr_1": GOOD["labels"]},
        "holds the arrays arr_0, arr_1; expected images",
    ),
    "no images, floats": (
        {"x": np.zeros((6, 5)), "labels": GOOD["labels"]},
        "holds the arrays labels, x; expected images",
    ),
    "other names": ({"x": GOOD["images"], "y": GOOD["labels"]}, "arrays x, y; expected images, labels"),
    "one more": (GOOD | {"extra": np.zeros(1, np.int8)}, "arrays extra, images, labels; expected"),
    "no test": ({"images_train": GOOD["images"], "labels_train": GOOD["labels"]}, "arrays images_train, labels_train"),
    "both": (GOOD | PARTED, "arrays images, images_test, images_train"),
    "floats": (GOOD | {"images": np.zeros((6, 5, 4))}, r"images is float64 \(6, 5, 4\), expected uint8"),
    "objects": (GOOD | {"labels": np.array([{}] * 6)}, r"labels is object \(6\), but Python objects are never read"),
    "structures": (GOOD | {"labels": np.zeros(6, "i4,i4")}, "labels is .*f0.*, expected integers"),
    "int16 images": (GOOD | {"images": np.zeros((6, 5, 4), np.int16)}, r"images is int16 \(6, 5, 4\), expected uint8"),
    "flat images": (GOOD | {"images": images(6, 20)}, r"images is uint8 \(6, 20\), expected uint8 \(N, H, W\)"),
    "five sizes": (GOOD | {"images": images(6, 1, 5, 4, 1)}, "expected uint8"),
    "empty": (GOOD | {"images": images(0, 5, 4), "labels": GOOD["labels"][:0]}, r"labels is int64 \(0\), expected"),
    "no pixels": (GOOD | {"images": images(6, 0, 4)}, r"images is uint8 \(6, 0, 4\), expected at least one image"),
    "two channels": (GOOD | {"images": images(6, 5, 4, 2)}, "of the sizes 5 and 2 neither can be the channels"),
    "ambiguous": (GOOD | {"images": images(6, 3, 4, 1)}, "of the sizes 3 and 1 both could be the channels"),
    "count": (GOOD | {"labels": np.array([0, 1])}, r"images is uint8 \(6, 5, 4\), but there are 2 labels"),
    "float labels": (GOOD | {"labels": np.zeros(6, np.float32)}, "labels is float32 .*, expected integers"),
    "string labels": (GOOD | {"labels": np.array(list("abcdef"))}, r"labels is <U1 \(6\), expected integers \(N,\)"),
    "flat labels": (GOOD | {"labels": np.zeros((6, 1), int)}, r"labels is int64 \(6, 1\), expected integers \(N,\)"),
    "negative": (GOOD | {"labels": np.array([0, 1, -1, 0, 0, 0])}, "labels holds -1 to 1, expected classes from 0"),
    "huge": (GOOD | {"labels": np.array([0, 1, 2**63, 0, 0, 0], "u8")}, "labels holds 0 to 9223372036854775808"),
    "gap": (GOOD | {"labels": np.array([0, 1, 3, 0, 0, 0])}, "there is a label 3, but no label 2; expected all from 0"),
    "gap at zero": (GOOD | {"labels": np.array([1, 1, 2, 1, 1, 1])}, "there is a label 2, but no label 0"),
    "label": (GOOD | {"classes": np.array(["a", "b"])}, "label 2, expected 0 to 1, as there are 2 classes"),
    "twins": (GOOD | {"classes": np.array(["a", "b", "a"])}, "classes must be 3 different names, none of them empty"),
    "nameless": (GOOD | {"classes": np.array(["a", "b", ""])}, "classes must be 3 different names, none of them empty"),
    "class numbers": (GOOD | {"classes": np.arange(3)}, r"classes is int64 \(3\), expected strings \(C,\)"),
    "no code points": (
        GOOD | {"classes": np.frombuffer(b"\xff" * 12, np.uint32).view("<U1")},
        "classes holds a name with the code point 4294967295, which is not Unicode",
    ),
    "table": (GOOD | {"classes": np.array([["a", "b", "c"]])}, r"classes is <U1 \(1, 3\), expected strings"),
    "other size": (
        PARTED | {"images_test": images(2, 4, 5)},
        r"images_test is uint8 \(2, 4, 5\), expected images of one",
    ),
}


@pytest.mark.parametrize(("arrays", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_arrays_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    name = save(tmp_path / "a.npz", **arrays)
    for split in ("train", "test"):
        with pytest.raises(DataError, match=message) as caught:
            load(name, split)
        assert str(tmp_path / "a.npz") in str(caught.value)


def test_class_names_have_no_control_characters(tmp_path: Path) -> None:
    name = save(tmp_path / "a.npz", **GOOD | {"classes": np.array(["a\nerror: b", "\x1b[2J", "\ud800"])})
    assert load(name).classes == ("a\\nerror: b", "\\x1b[2J", "\\ud800")


def test_splits_may_differ_in_the_order_of_axes(tmp_path: Path) -> None:
    arrays = PARTED | {"images_train": images(3, 3, 5, 4), "images_test": images(2, 5, 4, 3)}
    assert load(save(tmp_path / "a.npz", **arrays), "test").images.shape == (2, 3, 5, 4)


def test_missing_files_and_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.npz does not exist; expected an .npz file"):
        load_npz(f"npz:{tmp_path / 'none.npz'}", "train")
    with pytest.raises(InputError, match="expected a path, as in npz:PATH"):
        load("npz:")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ["named splits", "split by hash", "Fortran order"])
def test_memory_stays_within_twice_the_images(tmp_path: Path, compressed: bool, kind: str) -> None:
    array = np.broadcast_to(np.arange(4000, dtype=np.uint16).astype(np.uint8)[:, None, None], (4000, 60, 60))
    if kind == "split by hash":
        name = save(tmp_path / "a.npz", compressed, images=array, labels=np.arange(4000) % 10)
    else:
        parts = PARTED | {"images_train": array, "labels_train": np.arange(4000) % 3, "images_test": images(2, 60, 60)}
        if kind == "Fortran order":
            parts["images_train"] = np.asfortranarray(array)
        name = save(tmp_path / "a.npz", compressed, **parts)
    load_npz(name, "test")  # imports and caches
    assert traced_peak(lambda: load_npz(name, "train")) < 2.25 * array.size + (9 << 20)
