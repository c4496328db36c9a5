"""The binary search of CW in l2 against hand-computed values."""

import pytest
import torch
from torch import Tensor

from ctrobust.attacks.cw_l2 import FIRST_C, BinarySearch

X = torch.full((2, 3), 0.5, dtype=torch.float64)
ALL = torch.ones(2, dtype=torch.bool)


def flat(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def search(binary_search: BinarySearch, fooled: Tensor) -> Tensor:
    """Run a search of one step with this outcome; return the mask of examples with no search left."""
    finished = binary_search.finished(torch.ones(len(fooled), dtype=torch.int64), 1, fooled, flat(1, 1), flat(1, 1))
    assert finished.all()
    return binary_search.update(finished)


def test_gradient_of_the_objective() -> None:
    binary_search = BinarySearch.begin(X, 9)
    binary_search.c = flat(2, 0.5)
    offset, margin = flat(1, 2, 3).expand(2, 3).clone(), flat(4, 6, 8).expand(2, 3)
    assert binary_search.gradient(margin, offset).tolist() == [[-6, -8, -10], [0, 1, 2]]


def test_c_grows_tenfold_until_the_first_success_and_is_then_bisected() -> None:
    binary_search = BinarySearch.begin(X, 9)
    # The first example is misclassified for c >= .3, the second for no c.
    weights = []
    for made in range(9):
        weights.append(binary_search.c.tolist())
        fooled = torch.tensor([binary_search.c[0].item() >= 0.3, False])
        assert search(binary_search, fooled).tolist() == [made == 8] * 2
    first, second = zip(*weights, strict=True)
    low, high, expected = 0.1, 1.0, [1e-3, 1e-2, 1e-1, 1.0]
    while len(expected) < 9:
        expected.append((low + high) / 2)
        low, high = (low, expected[-1]) if expected[-1] >= 0.3 else (expected[-1], high)
    assert first == pytest.approx(expected)
    assert abs(first[-1] - 0.3) < 0.05
    assert second == pytest.approx([1e-3 * 10**k for k in range(9)])


def test_success_of_the_first_search_bisects_towards_zero() -> None:
    binary_search = BinarySearch.begin(X, 4)
    for k in range(3):
        assert binary_search.c.tolist() == pytest.approx([FIRST_C / 2**k] * 2)
        search(binary_search, ALL)
    assert binary_search.low.tolist() == [0, 0]


def test_a_search_succeeds_if_any_of_its_steps_does() -> None:
    binary_search = BinarySearch.begin(X, 9)
    assert not binary_search.finished(
        torch.tensor([1, 1]), 2, torch.tensor([True, False]), flat(1, 1), flat(1, 1)
    ).any()
    finished = binary_search.finished(torch.tensor([2, 2]), 2, ~ALL, flat(0.9, 0.9), flat(0.5, 0.5))
    binary_search.update(finished)
    assert binary_search.high.tolist() == [FIRST_C, torch.inf]
    assert not binary_search.fooled.any()


def test_a_search_without_progress_stops_early() -> None:
    binary_search = BinarySearch.begin(X, 9)
    binary_search.c = flat(2, 2)
    # The objective |d|^2 + c shortfall is checked every tenth of the steps.
    for count, distance, expected in (
        (9, flat(9, 9), [False, False]),
        (10, flat(1.0, 1.0), [False, False]),
        (15, flat(5.0, 5.0), [False, False]),
        (20, flat(0.9, 0.99999), [False, True]),
        (30, flat(0.91, 0.5), [True, False]),
        (100, flat(0.1, 0.1), [True, True]),
    ):
        finished = binary_search.finished(torch.tensor([count, count]), 100, ~ALL, distance, flat(0.25, 0.25))
        assert finished.tolist() == expected, count


def test_a_new_search_resets_the_progress_check() -> None:
    binary_search = BinarySearch.begin(X, 9)
    binary_search.finished(torch.tensor([10, 10]), 100, ~ALL, flat(0.1, 0.1), flat(0, 0))
    finished = binary_search.finished(torch.tensor([20, 20]), 100, ~ALL, flat(0.1, 0.05), flat(0, 0))
    assert finished.tolist() == [True, False]
    binary_search.update(finished)
    assert binary_search.last_objective.tolist() == pytest.approx([torch.inf, 0.0025])
    assert binary_search.remaining.tolist() == [8, 9]
    assert binary_search.c.tolist() == pytest.approx([1e-2, 1e-3])


def test_fewer_than_ten_steps() -> None:
    binary_search = BinarySearch.begin(X, 9)
    assert binary_search.finished(torch.tensor([1, 2]), 3, ~ALL, flat(1, 1), flat(1, 1)).tolist() == [False, False]
    assert binary_search.finished(torch.tensor([3, 3]), 3, ~ALL, flat(0.1, 1), flat(0, 1)).tolist() == [True, True]


def test_select_drops_the_other_examples() -> None:
    binary_search = BinarySearch.begin(X, 9)
    binary_search.c = flat(1, 2)
    binary_search.select(torch.tensor([False, True]))
    assert binary_search.c.tolist() == [2]
    assert (
        len(binary_search.low)
        == len(binary_search.high)
        == len(binary_search.remaining)
        == len(binary_search.fooled)
        == 1
    )
