from pathlib import Path

import pytest

from ctrobust.data.locator import parse_locator
from ctrobust.errors import InputError


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
def test_parts(name: str, path: str, options: dict[str, str]) -> None:
    locator = parse_locator(name, ["size", "other"])
    assert (locator.name, locator.path, locator.options) == (name, Path(path), options)


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert parse_locator("npz:~/a.npz").path == Path("/home/ada/a.npz")


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
def test_what_does_not_fit_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_locator(name, ["size"] if name.startswith("folder") else [])
