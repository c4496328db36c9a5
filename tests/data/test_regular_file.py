from pathlib import Path

import pytest

from ctrobust.data.regular_file import open_regular_file
from ctrobust.errors import DataError


def test_contents_and_what_is_no_file(tmp_path: Path) -> None:
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
