"""The difference of logits ratio."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.errors import InputError
from ctrobust.losses import dlr, dlr_targeted, margin

LOGITS = torch.tensor([[2.0, 1.0, 0.5, -1.0]])
Y = torch.tensor([0])


@pytest.mark.parametrize(("y", "expected"), [(0, -2 / 3), (1, 2 / 3), (2, 1.0), (3, 2.0)])
def test_hand_computed(y: int, expected: float) -> None:
    assert dlr(LOGITS, torch.tensor([y])).item() == pytest.approx(expected)


@pytest.mark.parametrize(("target", "expected"), [(1, -4 / 9), (2, -2 / 3), (3, -4 / 3)])
def test_targeted_hand_computed(target: int, expected: float) -> None:
    assert dlr_targeted(LOGITS, Y, torch.tensor([target])).item() == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-500, 500), min_size=4, max_size=9, unique=True), st.floats(0.1, 10), st.integers(0, 8))
def test_is_invariant_to_scale_and_has_the_sign_of_the_margin(row: list[int], scale: float, label: int) -> None:
    logits, y = torch.tensor([row], dtype=torch.float64), torch.tensor([label % len(row)])
    target = (y + 1) % len(row)
    assert dlr(scale * logits, y).item() == pytest.approx(dlr(logits, y).item())
    assert dlr_targeted(scale * logits, y, target).item() == pytest.approx(dlr_targeted(logits, y, target).item())
    assert dlr(logits, y).sign().item() == margin(logits, y).sign().item()
    assert dlr(logits, y).item() >= -1


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(InputError, match=r"needs at least 3 classes; got 2, in logits of shape \(1, 2\)"):
        dlr(torch.zeros(1, 2), Y)
    with pytest.raises(InputError, match="needs at least 4 classes; got 3"):
        dlr_targeted(torch.zeros(1, 3), Y, torch.tensor([1]))
    with pytest.raises(InputError, match=r"target must lie in 0\.\.3 for 4 classes; got 4"):
        dlr_targeted(LOGITS, Y, torch.tensor([4]))
    with pytest.raises(InputError, match="target must differ from y; both are 2 at index 1"):
        dlr_targeted(LOGITS.expand(2, 4), torch.tensor([0, 2]), torch.tensor([1, 2]))
