"""The rounds of CW in l-infinity, by hand."""

import pytest
import torch
from torch import Tensor

from ctrobust.attacks.cw_linf import FIRST_C, LAST_C, LEAST_TAU, Penalties

X = torch.full((3, 1, 2, 2), 0.5, dtype=torch.float64)
ALL = torch.ones(3, dtype=torch.bool)
NONE = ~ALL
FAR = torch.tensor([0.5, 0.5, 0.5], dtype=torch.float64)


def flat(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def round_(penalties: Penalties, fooled: Tensor, far: Tensor) -> Tensor:
    """A round of one step that ends as said; who is out."""
    ended = penalties.ended(torch.ones(len(far), dtype=torch.int64), 1, fooled, far, far)
    assert ended.all()
    return penalties.turn(ended)


def test_gradient() -> None:
    penalties = Penalties.begin(X)
    penalties.tau, penalties.c = flat(0.1, 0.2, 1.0), flat(0.5, 2.0, 1e-5)
    offset = flat(0.05, -0.15, 0.25, 0.0).view(1, 1, 2, 2).expand(3, 1, 2, 2).clone()
    margin = torch.arange(12.0, dtype=torch.float64).view(3, 1, 2, 2)
    found = penalties.gradient(margin, offset) + margin
    assert found.flatten(1).tolist() == [[0, -2, 2, 0], [0, 0, 0.5, 0], [0, 0, 0, 0]]
    assert penalties.pressed.tolist() == [True, True, False]
    penalties.gradient(margin, torch.zeros_like(offset))
    assert penalties.pressed.tolist() == [True, True, False]


def test_gradient_is_that_of_the_penalty() -> None:
    # c (margin wanted) + sum max(0, |d| - tau), over c.
    generator = torch.Generator().manual_seed(0)
    offset = (torch.rand(3, 5, generator=generator, dtype=torch.float64) - 0.5).requires_grad_()
    slope = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    penalties = Penalties.begin(offset.detach())
    penalties.tau, penalties.c = flat(0.1, 0.2, 0.05), flat(0.5, 2.0, 1e-5)
    excess = (offset.abs() - penalties.tau[:, None]).clamp(min=0).sum(1)
    total = (excess / penalties.c - (slope * offset).sum(1)).sum()
    expected = torch.autograd.grad(total, offset)[0]
    torch.testing.assert_close(penalties.gradient(slope, offset.detach().clone()), expected, rtol=0, atol=1e-12)


def test_a_round_lasts_its_steps() -> None:
    penalties = Penalties.begin(X)
    for count in range(1, 12):
        ended = penalties.ended(torch.tensor([count, 1, 10]), 10, NONE, FAR, FAR)
        assert ended.tolist() == [count >= 10, False, True]


def test_c_doubles_from_its_first_value_to_its_last() -> None:
    penalties = Penalties.begin(X)
    seen = []
    for _ in range(100):
        seen.append(penalties.c[0].item())
        penalties.pressed = ALL
        out = round_(penalties, NONE, FAR)
        assert out.all() == out.any()
        if out.all():
            break
    assert seen == pytest.approx([1e-5 * 2**k for k in range(21)])
    assert seen[0] == FIRST_C
    assert seen[-1] < LAST_C <= 2 * seen[-1]
    assert penalties.tau.tolist() == [1, 1, 1]


def test_tau_shrinks_below_what_fooled_and_c_stays() -> None:
    penalties = Penalties.begin(X)
    penalties.c = flat(1.0, 2.0, 3.0)
    penalties.tau = flat(1.0, 0.1, 0.2)
    penalties.pressed = ALL
    assert not round_(penalties, torch.tensor([True, True, False]), flat(0.5, 0.3, 0.1)).any()
    assert penalties.tau.tolist() == pytest.approx([0.45, 0.09, 0.2])
    assert penalties.c.tolist() == [1, 2, 6]
    assert penalties.reached.tolist() == [torch.inf] * 3
    assert not penalties.pressed.any()


def test_the_least_of_a_round_counts() -> None:
    penalties = Penalties.begin(X)
    for count, far in ((1, 0.5), (2, 0.2), (3, 0.4)):
        ended = penalties.ended(
            torch.full((3,), count), 3, torch.tensor([True, count != 2, False]), flat(*[far] * 3), FAR
        )
    assert penalties.reached.tolist() == [0.2, 0.4, torch.inf]
    penalties.turn(ended)
    assert penalties.tau.tolist() == pytest.approx([0.18, 0.36, 1.0])


def test_a_round_that_would_repeat_itself_is_the_last() -> None:
    penalties = Penalties.begin(X)
    penalties.pressed = torch.tensor([True, False, False])
    assert round_(penalties, torch.tensor([False, False, True]), FAR).tolist() == [False, True, False]


def test_tau_ends_at_a_grey_level() -> None:
    penalties = Penalties.begin(X)
    reached = flat(1.02 * LEAST_TAU / 0.9, 0.98 * LEAST_TAU / 0.9, 0.5)
    assert round_(penalties, ALL, reached).tolist() == [False, True, False]


def test_only_those_whose_round_ended_turn() -> None:
    penalties = Penalties.begin(X)
    penalties.pressed = ALL
    ended = penalties.ended(torch.tensor([10, 3, 10]), 10, torch.tensor([True, True, False]), FAR, FAR)
    assert not penalties.turn(ended).any()
    assert penalties.tau.tolist() == pytest.approx([0.45, 1, 1])
    assert penalties.c.tolist() == [FIRST_C, FIRST_C, 2 * FIRST_C]
    assert penalties.reached.tolist() == [torch.inf, 0.5, torch.inf]
    assert penalties.pressed.tolist() == [False, True, False]


def test_keep() -> None:
    penalties = Penalties.begin(X)
    penalties.c = flat(1, 2, 3)
    penalties.keep(torch.tensor([True, False, True]))
    assert penalties.c.tolist() == [1, 3]
    assert len(penalties.tau) == len(penalties.reached) == len(penalties.pressed) == 2
