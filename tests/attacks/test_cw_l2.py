"""The searches of CW in l2, by hand."""

import pytest
import torch
from torch import Tensor

from ctrobust.attacks.cw_l2 import FIRST_C, Searches

X = torch.full((2, 3), 0.5, dtype=torch.float64)
ALL = torch.ones(2, dtype=torch.bool)


def flat(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def search(searches: Searches, fooled: Tensor) -> Tensor:
    """A search of one step that ends as said; who is out."""
    ended = searches.ended(torch.ones(len(fooled), dtype=torch.int64), 1, fooled, flat(1, 1), flat(1, 1))
    assert ended.all()
    return searches.turn(ended)


def test_gradient() -> None:
    searches = Searches.begin(X, 9)
    searches.c = flat(2, 0.5)
    offset, margin = flat(1, 2, 3).expand(2, 3).clone(), flat(4, 6, 8).expand(2, 3)
    assert searches.gradient(margin, offset).tolist() == [[-6, -8, -10], [0, 1, 2]]


def test_c_grows_tenfold_until_it_fools_and_is_then_bisected() -> None:
    searches = Searches.begin(X, 9)
    # The first example is fooled with c of at least .3, the second never.
    weights = []
    for made in range(9):
        weights.append(searches.c.tolist())
        fooled = torch.tensor([searches.c[0].item() >= 0.3, False])
        assert search(searches, fooled).tolist() == [made == 8] * 2
    first, second = zip(*weights, strict=True)
    low, high, expected = 0.1, 1.0, [1e-3, 1e-2, 1e-1, 1.0]
    while len(expected) < 9:
        expected.append((low + high) / 2)
        low, high = (low, expected[-1]) if expected[-1] >= 0.3 else (expected[-1], high)
    assert first == pytest.approx(expected)
    assert abs(first[-1] - 0.3) < 0.05
    assert second == pytest.approx([1e-3 * 10**k for k in range(9)])


def test_a_first_success_bisects_towards_zero() -> None:
    searches = Searches.begin(X, 4)
    for k in range(3):
        assert searches.c.tolist() == pytest.approx([FIRST_C / 2**k] * 2)
        search(searches, ALL)
    assert searches.low.tolist() == [0, 0]


def test_success_at_any_step_counts() -> None:
    searches = Searches.begin(X, 9)
    assert not searches.ended(torch.tensor([1, 1]), 2, torch.tensor([True, False]), flat(1, 1), flat(1, 1)).any()
    ended = searches.ended(torch.tensor([2, 2]), 2, ~ALL, flat(0.9, 0.9), flat(0.5, 0.5))
    searches.turn(ended)
    assert searches.high.tolist() == [FIRST_C, torch.inf]
    assert not searches.fooled.any()


def test_a_search_without_progress_ends_early() -> None:
    searches = Searches.begin(X, 9)
    searches.c = flat(2, 2)
    # Looked at every tenth of the steps: |d|^2 + c missing.
    for count, far, over in (
        (9, flat(9, 9), [False, False]),
        (10, flat(1.0, 1.0), [False, False]),
        (15, flat(5.0, 5.0), [False, False]),
        (20, flat(0.9, 0.99999), [False, True]),
        (30, flat(0.91, 0.5), [True, False]),
        (100, flat(0.1, 0.1), [True, True]),
    ):
        ended = searches.ended(torch.tensor([count, count]), 100, ~ALL, far, flat(0.25, 0.25))
        assert ended.tolist() == over, count


def test_a_new_search_forgets_the_progress_of_the_last() -> None:
    searches = Searches.begin(X, 9)
    searches.ended(torch.tensor([10, 10]), 100, ~ALL, flat(0.1, 0.1), flat(0, 0))
    ended = searches.ended(torch.tensor([20, 20]), 100, ~ALL, flat(0.1, 0.05), flat(0, 0))
    assert ended.tolist() == [True, False]
    searches.turn(ended)
    assert searches.before.tolist() == pytest.approx([torch.inf, 0.0025])
    assert searches.left.tolist() == [8, 9]
    assert searches.c.tolist() == pytest.approx([1e-2, 1e-3])


def test_few_steps() -> None:
    searches = Searches.begin(X, 9)
    assert searches.ended(torch.tensor([1, 2]), 3, ~ALL, flat(1, 1), flat(1, 1)).tolist() == [False, False]
    assert searches.ended(torch.tensor([3, 3]), 3, ~ALL, flat(0.1, 1), flat(0, 1)).tolist() == [True, True]


def test_keep() -> None:
    searches = Searches.begin(X, 9)
    searches.c = flat(1, 2)
    searches.keep(torch.tensor([False, True]))
    assert searches.c.tolist() == [2]
    assert len(searches.low) == len(searches.high) == len(searches.left) == len(searches.fooled) == 1
