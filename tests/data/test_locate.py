import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrobust.data import locate
from ctrobust.data.locate import download_root, find_files, open_regular_file, parse_locator, search_roots
from ctrobust.errors import DataError, InputError

NAMES = ("images", "labels")


def put(place: Path, *names: str) -> None:
    (place / "shirts").mkdir(parents=True, exist_ok=True)
    for name in names:
        (place / "shirts" / name).touch()


def test_order_is_root_environment_cache_system(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    places["root"].mkdir()
    monkeypatch.setenv("CTROBUST_DATA", str(places["environment"]))
    order = ["root", "environment", "cache", "system"]
    assert search_roots(places["root"]) == tuple(places[name] for name in order)
    for name in reversed(order):
        put(places[name], "images.gz", "labels.gz")
        assert find_files("shirts", NAMES, places["root"])[0] == places[name] / "shirts" / "images.gz"


@pytest.mark.parametrize("value", [None, ""])
def test_an_unset_or_empty_variable_is_ignored(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv("CTROBUST_DATA", value)
    assert search_roots() == (places["cache"], places["system"])


def test_a_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CTROBUST_DATA", "~/sets")
    (tmp_path / "own").mkdir()
    assert search_roots("~/own")[:2] == (tmp_path / "own", tmp_path / "sets")
    monkeypatch.setenv("CTROBUST_DATA", "~no-such-user/sets")
    assert search_roots()[0] == Path("~no-such-user/sets")


def test_compressed_is_preferred_and_both_forms_may_be_mixed(places: dict[str, Path]) -> None:
    put(places["system"], "images.gz", "images", "labels")
    folder = places["system"] / "shirts"
    assert find_files("shirts", NAMES) == (folder / "images.gz", folder / "labels")


def test_files_of_two_folders_are_never_combined(places: dict[str, Path]) -> None:
    put(places["cache"], "images.gz")
    put(places["system"], "images.gz", "labels.gz")
    assert {path.parent for path in find_files("shirts", NAMES)} == {places["system"] / "shirts"}


def test_a_missing_data_set_is_reported_with_what_to_put_where(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTROBUST_DATA", str(places["environment"]))
    put(places["cache"], "images.gz")
    with pytest.raises(DataError) as caught:
        find_files("shirts", NAMES)
    message = str(caught.value)
    assert "shirts was not found. Put images.gz and labels.gz, as published or without .gz uncompressed," in message
    assert "or download it: ctrobust data fetch shirts\n" in message
    for place, missing in (("environment", "images"), ("cache", "labels"), ("system", "images")):
        assert f"\n  {places[place] / 'shirts' / missing}[.gz]: No such file" in message


def test_without_compression_only_the_names_themselves_count(places: dict[str, Path]) -> None:
    put(places["system"], "images.gz", "labels.gz", "images")
    with pytest.raises(DataError) as caught:
        find_files("shirts", NAMES, zipped=False, dataset="clothes")
    message = str(caught.value)
    assert "clothes was not found. Put images and labels together into a folder shirts under" in message
    assert f"\n  {places['system'] / 'shirts' / 'labels'}: No such file" in message
    put(places["system"], "labels")
    assert find_files("shirts", NAMES, zipped=False)[0] == places["system"] / "shirts" / "images"


def test_downloads_go_to_the_first_folder(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert download_root() == places["cache"]
    monkeypatch.setenv("CTROBUST_DATA", str(places["environment"]))
    assert download_root() == places["environment"]
    assert download_root(str(places["root"])) == places["root"]


def test_searching_creates_nothing(places: dict[str, Path]) -> None:
    with pytest.raises(DataError):
        find_files("shirts", NAMES)
    assert not any(place.exists() for place in places.values())


def test_a_wrong_root_is_refused_even_if_another_folder_has_the_files(places: dict[str, Path]) -> None:
    put(places["system"], "images.gz", "labels.gz")
    with pytest.raises(DataError, match=f"data root {places['root']} does not exist or may not be entered"):
        find_files("shirts", NAMES, places["root"])
    places["root"].touch()
    with pytest.raises(DataError, match=f"data root {places['root']} is not a folder"):
        find_files("shirts", NAMES, places["root"])


@pytest.fixture
def as_nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Path]]:
    """Run as a user without permissions, with cache and system folders that everybody may enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)  # unlike tmp_path, which only its owner may enter
        open_to_all = Path(folder) / "open"
        monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(open_to_all / "cache" / name))
        monkeypatch.setattr(locate, "SYSTEM_ROOT", open_to_all / "system")
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            yield {"cache": open_to_all / "cache" / "ctrobust", "system": open_to_all / "system"}
        finally:
            if root:
                os.seteuid(0)


@pytest.mark.skipif(os.name != "posix", reason="the rights of POSIX")
def test_a_folder_that_may_not_be_entered_is_skipped(as_nobody: dict[str, Path]) -> None:
    put(as_nobody["cache"], "images.gz", "labels.gz")
    closed = as_nobody["cache"] / "shirts"
    assert find_files("shirts", NAMES)[0].parent == closed
    closed.chmod(0)
    try:
        with pytest.raises(DataError, match=rf"{closed}/images\[.gz\]: Permission denied"):
            find_files("shirts", NAMES)
        put(as_nobody["system"], "images.gz", "labels.gz")
        assert find_files("shirts", NAMES)[0].parent == as_nobody["system"] / "shirts"
    finally:
        closed.chmod(0o700)


@pytest.mark.parametrize(
    ("name", "path", "options"),
    [
        ("folder:a/b", "a/b", {}),
        ("folder:/a b/c", "/a b/c", {}),
        ("folder:/a?size=64", "/a", {"size": "64"}),
        ("folder:C:/a?size=64&other=x", "C:/a", {"size": "64", "other": "x"}),
        ("folder:/what?", "/what?", {}),
        ("folder:/what?/a", "/what?/a", {}),
        ("folder:/a?b?size=1", "/a?b", {"size": "1"}),
    ],
)
def test_a_name_is_split_into_path_and_options(name: str, path: str, options: dict[str, str]) -> None:
    assert parse_locator(name, ["size", "other"]) == (Path(path), options)


def test_the_home_folder_of_a_name_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert parse_locator("npz:~/a.npz")[0] == Path("/home/ada/a.npz")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("npz:", "'npz:': expected a path, as in npz:PATH"),
        ("npz:a\0b", "expected a path"),
        ("npz:?size=3", "expected a path"),
        ("npz:a?size=3", "unknown option 'size'. None is allowed"),
        ("folder:a?sise=3", "unknown option 'sise'. Allowed: size"),
        ("folder:a?size=", "option 'size' is given no value"),
        ("folder:a?size=3&size=4", "option 'size' is given twice"),
    ],
)
def test_invalid_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_locator(name, ["size"] if name.startswith("folder") else [])


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with open_regular_file(tmp_path / "a", "letters") as file:
        assert file.read() == b"abc"
    assert file.closed
    with (
        pytest.raises(DataError, match="b does not exist; expected letters"),
        open_regular_file(tmp_path / "b", "letters"),
    ):
        pass
    with pytest.raises(DataError, match="is a folder; expected letters"), open_regular_file(tmp_path, "letters"):
        pass


def test_an_error_while_reading_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with (
        pytest.raises(DataError, match="a cannot be read: Input/output error"),
        open_regular_file(tmp_path / "a", "letters"),
    ):
        raise OSError(5, "Input/output error")
