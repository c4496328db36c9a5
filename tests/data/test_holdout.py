import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ctrobust.data.holdout import held_out


def digests(count: int, of: str = "") -> list[bytes]:
    return [hashlib.sha256(f"{of}{number}".encode()).digest() for number in range(count)]


def test_one_in_five_of_each_class_is_held_out() -> None:
    labels = np.arange(20_000) % 4
    marked = held_out(digests(20_000), labels)
    counts = np.bincount(labels[marked], minlength=4)  # binomial: 1000 expected, deviation 28
    assert np.abs(counts - 1000).max() < 4 * 28.3


def test_added_examples_do_not_change_the_split_of_others() -> None:
    before = held_out(digests(1000), np.arange(1000) % 10)
    after = held_out(digests(1500), np.arange(1500) % 10)
    assert np.array_equal(before, after[:1000])


@given(st.lists(st.tuples(st.binary(min_size=32, max_size=32), st.integers(0, 5)), min_size=1, max_size=30))
def test_every_class_is_in_the_training_split(examples: list[tuple[bytes, int]]) -> None:
    labels = np.array([label for _, label in examples])
    marked = held_out([digest for digest, _ in examples], labels)
    assert set(labels[~marked]) == set(labels)


def test_the_largest_hash_of_a_class_is_trained_on_if_all_would_be_held_out() -> None:
    low, high = bytes(32), b"\x10" + bytes(31)
    assert held_out([low, high, low, high], np.zeros(4, np.int64)).tolist() == [True, False, True, False]
