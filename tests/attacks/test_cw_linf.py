"""The schedule of c and tau of CW in l-infinity against hand-computed values."""

import pytest
import torch
from torch import Tensor

from ctrobust.attacks.cw_linf import FIRST_C, LAST_C, MIN_TAU, TauSchedule

X = torch.full((3, 1, 2, 2), 0.5, dtype=torch.float64)
ALL = torch.ones(3, dtype=torch.bool)
NONE = ~ALL
DISTANCE = torch.tensor([0.5, 0.5, 0.5], dtype=torch.float64)


def flat(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def run_round(schedule: TauSchedule, fooled: Tensor, distance: Tensor) -> Tensor:
    """Run a round of one step with this outcome; return the mask of examples with no round left."""
    finished = schedule.finished(torch.ones(len(distance), dtype=torch.int64), 1, fooled, distance, distance)
    assert finished.all()
    return schedule.update(finished)


def test_hand_computed_gradient() -> None:
    schedule = TauSchedule.begin(X)
    schedule.tau, schedule.c = flat(0.1, 0.2, 1.0), flat(0.5, 2.0, 1e-5)
    offset = flat(0.05, -0.15, 0.25, 0.0).view(1, 1, 2, 2).expand(3, 1, 2, 2).clone()
    margin = torch.arange(12.0, dtype=torch.float64).view(3, 1, 2, 2)
    found = schedule.gradient(margin, offset) + margin
    assert found.flatten(1).tolist() == [[0, -2, 2, 0], [0, 0, 0.5, 0], [0, 0, 0, 0]]
    assert schedule.penalized.tolist() == [True, True, False]
    schedule.gradient(margin, torch.zeros_like(offset))
    assert schedule.penalized.tolist() == [True, True, False]


def test_gradient_agrees_with_autograd() -> None:
    # The objective c (-margin) + sum max(0, |d| - tau), divided by c.
    generator = torch.Generator().manual_seed(0)
    offset = (torch.rand(3, 5, generator=generator, dtype=torch.float64) - 0.5).requires_grad_()
    slope = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    schedule = TauSchedule.begin(offset.detach())
    schedule.tau, schedule.c = flat(0.1, 0.2, 0.05), flat(0.5, 2.0, 1e-5)
    excess = (offset.abs() - schedule.tau[:, None]).clamp(min=0).sum(1)
    total = (excess / schedule.c - (slope * offset).sum(1)).sum()
    expected = torch.autograd.grad(total, offset)[0]
    torch.testing.assert_close(schedule.gradient(slope, offset.detach().clone()), expected, rtol=0, atol=1e-12)


def test_a_round_has_the_given_number_of_steps() -> None:
    schedule = TauSchedule.begin(X)
    for count in range(1, 12):
        finished = schedule.finished(torch.tensor([count, 1, 10]), 10, NONE, DISTANCE, DISTANCE)
        assert finished.tolist() == [count >= 10, False, True]


def test_c_doubles_from_its_first_value_to_its_last() -> None:
    schedule = TauSchedule.begin(X)
    seen = []
    for _ in range(100):
        seen.append(schedule.c[0].item())
        schedule.penalized = ALL
        exhausted = run_round(schedule, NONE, DISTANCE)
        assert exhausted.all() == exhausted.any()
        if exhausted.all():
            break
    assert seen == pytest.approx([1e-5 * 2**k for k in range(21)])
    assert seen[0] == FIRST_C
    assert seen[-1] < LAST_C <= 2 * seen[-1]
    assert schedule.tau.tolist() == [1, 1, 1]


def test_success_shrinks_tau_below_the_distance_and_keeps_c() -> None:
    schedule = TauSchedule.begin(X)
    schedule.c = flat(1.0, 2.0, 3.0)
    schedule.tau = flat(1.0, 0.1, 0.2)
    schedule.penalized = ALL
    assert not run_round(schedule, torch.tensor([True, True, False]), flat(0.5, 0.3, 0.1)).any()
    assert schedule.tau.tolist() == pytest.approx([0.45, 0.09, 0.2])
    assert schedule.c.tolist() == [1, 2, 6]
    assert schedule.best_distance.tolist() == [torch.inf] * 3
    assert not schedule.penalized.any()


def test_tau_follows_the_smallest_distance_of_the_round() -> None:
    schedule = TauSchedule.begin(X)
    for count, distance in ((1, 0.5), (2, 0.2), (3, 0.4)):
        finished = schedule.finished(
            torch.full((3,), count), 3, torch.tensor([True, count != 2, False]), flat(*[distance] * 3), DISTANCE
        )
    assert schedule.best_distance.tolist() == [0.2, 0.4, torch.inf]
    schedule.update(finished)
    assert schedule.tau.tolist() == pytest.approx([0.18, 0.36, 1.0])


def test_the_last_round_is_one_that_would_repeat_itself() -> None:
    schedule = TauSchedule.begin(X)
    schedule.penalized = torch.tensor([True, False, False])
    assert run_round(schedule, torch.tensor([False, False, True]), DISTANCE).tolist() == [False, True, False]


def test_the_last_round_is_one_whose_tau_is_below_one_256th() -> None:
    schedule = TauSchedule.begin(X)
    distance = flat(1.02 * MIN_TAU / 0.9, 0.98 * MIN_TAU / 0.9, 0.5)
    assert run_round(schedule, ALL, distance).tolist() == [False, True, False]


def test_only_finished_examples_are_updated() -> None:
    schedule = TauSchedule.begin(X)
    schedule.penalized = ALL
    finished = schedule.finished(torch.tensor([10, 3, 10]), 10, torch.tensor([True, True, False]), DISTANCE, DISTANCE)
    assert not schedule.update(finished).any()
    assert schedule.tau.tolist() == pytest.approx([0.45, 1, 1])
    assert schedule.c.tolist() == [FIRST_C, FIRST_C, 2 * FIRST_C]
    assert schedule.best_distance.tolist() == [torch.inf, 0.5, torch.inf]
    assert schedule.penalized.tolist() == [False, True, False]


def test_select_drops_the_other_examples() -> None:
    schedule = TauSchedule.begin(X)
    schedule.c = flat(1, 2, 3)
    schedule.select(torch.tensor([True, False, True]))
    assert schedule.c.tolist() == [1, 3]
    assert len(schedule.tau) == len(schedule.best_distance) == len(schedule.penalized) == 2
