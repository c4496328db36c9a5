"""The append-only file in which the progress of an evaluation is kept."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ctrobust.errors import RunError
from ctrobust.store import Journal


def entry(number: int) -> dict[str, NDArray[np.int64]]:
    return {"index": np.arange(3) + number, "value": np.full(2, number)}


def written(path: Path, count: int) -> Journal:
    journal = Journal(path)
    for number in range(count):
        journal.append(entry(number))
    return journal


def numbers(path: Path) -> list[int]:
    return [int(arrays["value"][0]) for arrays in Journal(path).read()]


def test_entries_are_read_in_order(tmp_path: Path) -> None:
    written(tmp_path / "a.partial", 3)
    assert numbers(tmp_path / "a.partial") == [0, 1, 2]
    np.testing.assert_array_equal(Journal(tmp_path / "a.partial").read()[2]["index"], [2, 3, 4])


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert Journal(tmp_path / "absent").read() == []


@pytest.mark.parametrize("cut", [1, 30, 39, 41, 200])
def test_a_cut_last_entry_is_dropped_and_replaced(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.partial"
    written(path, 2)
    whole = path.read_bytes()
    written(tmp_path / "b", 3)
    path.write_bytes((tmp_path / "b").read_bytes()[: len(whole) + cut])
    journal = Journal(path)
    assert len(journal.read()) == 2
    journal.append(entry(7))
    assert numbers(path) == [0, 1, 7]


def test_a_flipped_bit_ends_the_reading_before_the_damaged_entry(tmp_path: Path) -> None:
    path = tmp_path / "a.partial"
    written(path, 1)
    first = len(path.read_bytes())
    written(path, 3)
    content = bytearray(path.read_bytes())
    content[first + 60] ^= 1
    path.write_bytes(content)
    assert numbers(path) == [0]


def test_an_append_costs_the_same_however_long_the_file_is(tmp_path: Path) -> None:
    journal, sizes = Journal(tmp_path / "a.partial"), []
    for _ in range(20):
        journal.append(entry(1))
        sizes.append(journal.path.stat().st_size)
    assert {b - a for a, b in itertools.pairwise(sizes)} == {sizes[0]}


def test_a_folder_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.partial").mkdir()
    with pytest.raises(RunError, match=r"cannot read .*a\.partial: Is a directory"):
        Journal(tmp_path / "a.partial").read()
    with pytest.raises(RunError, match=r"cannot write .*a\.partial"):
        Journal(tmp_path / "a.partial").append(entry(0))
