import os
from pathlib import Path

import pytest

from ctrobust.data.picture_list import list_pictures
from ctrobust.errors import DataError


def put(root: Path, *names: str) -> None:
    """Create empty files, which is enough because a listing opens none."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def names(root: Path) -> tuple[list[str], list[str]]:
    listing = list_pictures(root)
    return sorted(picture.name for picture in listing.train), sorted(picture.name for picture in listing.test)


def test_one_folder_per_class(tmp_path: Path) -> None:
    put(tmp_path, *(f"{kind}/{number}.png" for kind in ("dog", "cat", "ant") for number in range(100)))
    listing = list_pictures(tmp_path)
    assert listing.classes == ("ant", "cat", "dog")
    assert {picture.label for picture in listing.train} == {picture.label for picture in listing.test} == {0, 1, 2}
    for picture in (*listing.train, *listing.test):
        assert picture.name == f"{listing.classes[picture.label]}/{Path(picture.path).name}"
    assert len(listing.train) + len(listing.test) == 300
    assert 30 <= len(listing.test) <= 90
    assert [picture.digest for picture in listing.train] == sorted(picture.digest for picture in listing.train)
    assert len({picture.label for picture in listing.train[:20]}) == 3  # the first are a sample of all


def test_the_split_depends_on_the_names_below_the_folder_alone(tmp_path: Path) -> None:
    files = [f"{kind}/{number}.png" for kind in ("a", "b") for number in range(50)]
    put(tmp_path / "one", *files)
    put(tmp_path / "two", *files, *(f"{kind}/more{number}.png" for kind in ("a", "b", "c") for number in range(50)))
    before, after = names(tmp_path / "one"), names(tmp_path / "two")
    assert set(before[0]) <= set(after[0])
    assert set(before[1]) <= set(after[1])
    # printf a/0.png | sha256sum: 23, below 33, a fifth of 256; a/3.png: b6
    assert "a/0.png" in before[1]
    assert "a/3.png" in before[0]


@pytest.mark.parametrize("held", ["test", "validation", "val"])
def test_given_splits(tmp_path: Path, held: str) -> None:
    put(tmp_path, "train/a/1.png", "train/b/2.png", "train/b/3.png", f"{held}/b/4.png")
    assert names(tmp_path) == (["train/a/1.png", "train/b/2.png", "train/b/3.png"], [f"{held}/b/4.png"])
    listing = list_pictures(tmp_path)
    assert listing.classes == ("a", "b")
    assert [picture.label for picture in listing.test] == [1]


def test_test_is_preferred_to_validation(tmp_path: Path) -> None:
    put(tmp_path, "train/a/1.png", "val/a/2.png", "test/a/3.png")
    assert names(tmp_path)[1] == ["test/a/3.png"]


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    put(tmp_path, "train/1.png", "plane/2.png")
    assert list_pictures(tmp_path).classes == ("plane", "train")


def test_other_files_are_ignored(tmp_path: Path) -> None:
    put(tmp_path, "a/1.png", "a/2.JPG", "a/3.jpeg", "a/4.WebP", "a/deep/er/5.png")
    put(tmp_path, "readme.txt", ".hidden/6.png", "a/.7.png", "a/.deep/8.png")
    put(tmp_path, "a/notes.txt", "a/table.csv", "a/9.gif", "a/png")
    listing = list_pictures(tmp_path)
    found = {picture.name for picture in (*listing.train, *listing.test)}
    assert found == {"a/1.png", "a/2.JPG", "a/3.jpeg", "a/4.WebP", "a/deep/er/5.png"}
    assert (listing.classes, listing.ignored) == (("a",), 4)


def test_links_are_followed_and_cycles_end(tmp_path: Path) -> None:
    put(tmp_path, "data/a/1.png", "data/b/2.png", "elsewhere/3.png")
    (tmp_path / "data/a/linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data/a/circle").symlink_to(tmp_path / "data/a")
    (tmp_path / "data/a/up").symlink_to(tmp_path / "data")
    (tmp_path / "data/itself").symlink_to(tmp_path / "data")
    (tmp_path / "data/endless").symlink_to("endless")
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "data/a")
    (tmp_path / "data/b/broken.png").symlink_to(tmp_path / "nothing")
    listing = list_pictures(tmp_path / "data")
    assert listing.classes == ("a", "b")
    found = sorted(picture.name for picture in (*listing.train, *listing.test))
    assert found == ["a/1.png", "a/linked/3.png", "b/2.png", "b/broken.png"]


def test_composed_and_decomposed_names_are_the_same(tmp_path: Path) -> None:
    put(tmp_path / "one", "caf\u00e9/1.png")
    put(tmp_path / "two", "cafe\u0301/1.png")
    first, second = (list_pictures(tmp_path / name) for name in ("one", "two"))
    assert first.classes == second.classes == ("caf\u00e9",)
    assert first.train[0].digest == second.train[0].digest


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on posix only")
def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("the file system refuses such names")
    (tmp_path / os.fsdecode(b"\xff") / "1.png").touch()
    listing = list_pictures(tmp_path)
    assert listing.classes == ("\ufffd",)
    listing.classes[0].encode()
    assert os.path.exists(listing.train[0].path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "holds no folders; expected one folder of pictures for each class"),
        (["1.png"], "holds no folders"),
        (["a/1.png", "b/1.gif"], r"1 of 2 classes have no pictures \(.jpeg, .jpg, .png, .webp\): b"),
        ([f"{number:02}/x" for number in range(12)], "12 of 12 classes have no pictures .*08, 09 and 2 more"),
        (["train/a/1.png"], "holds a folder train with class folders; expected one of test, validation, val beside it"),
        (["train/a/1.png", "val/b/1.png", "val/c/1.png"], "val: 2 classes that are not in train: b, c"),
        (["train/a/x", "val/a/1.png"], "train: 1 of 1 classes have no pictures"),
    ],
)
def test_invalid_folders_are_refused(tmp_path: Path, files: list[str], message: str) -> None:
    put(tmp_path, *files)
    with pytest.raises(DataError, match=message) as caught:
        list_pictures(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_missing_folders_and_files_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "a")
    with pytest.raises(DataError, match="a is not a folder; expected a folder of class folders"):
        list_pictures(tmp_path / "a")
    with pytest.raises(DataError, match="b does not exist or may not be entered"):
        list_pictures(tmp_path / "b")


def test_a_class_that_may_not_be_entered_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a/1.png", "b/1.png")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)  # root may enter every folder
    with pytest.raises(DataError, match="b cannot be read: Permission denied"):
        list_pictures(tmp_path)
