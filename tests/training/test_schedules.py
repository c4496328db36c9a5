"""Learning rate and momentum over a run."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.specs import ScheduleSpec
from ctrobust.training.schedules import cycled_momentum, cyclic, learning_rate, multistep, warmup

ADVERSARIAL = ScheduleSpec(name="multistep", milestones=(2 / 3, 5 / 6))
NATURAL = ScheduleSpec(name="multistep")


@settings(deadline=None)
@given(st.integers(1, 2000).flatmap(lambda steps: st.tuples(st.integers(0, steps - 1), st.just(steps))))
def test_cyclic_is_one_triangle_over_the_run(at: tuple[int, int]) -> None:
    t, T = at
    assert cyclic(t, T) == pytest.approx(2 * min(t, T - t) / T, abs=1e-12)


def test_cyclic_rates_computed_by_hand() -> None:
    assert [cyclic(t, 8) for t in range(8)] == [0.0, 0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25]
    assert [learning_rate(ScheduleSpec(), 0.2, t, 4, 0, 1) for t in range(4)] == [0.0, 0.1, 0.2, 0.1]


@pytest.mark.parametrize(
    ("spec", "epochs", "milestones"),
    [
        (ADVERSARIAL, 50, (33, 41)),
        (ADVERSARIAL, 40, (26, 33)),
        (ADVERSARIAL, 200, (133, 166)),
        (ADVERSARIAL, 6, (4, 5)),
        (NATURAL, 50, (25, 37)),
        (NATURAL, 20, (10, 15)),
        (NATURAL, 200, (100, 150)),
        (NATURAL, 2, (1, 1)),
        (NATURAL, 1, (1, 1)),  # not before the end of the first epoch
        (ADVERSARIAL, 1, (1, 1)),
    ],
)
def test_multistep_lowers_the_rate_at_the_milestones_rounded_down(
    spec: ScheduleSpec, epochs: int, milestones: tuple[int, int]
) -> None:
    found = [multistep(spec, epoch, epochs) for epoch in range(epochs)]
    first, second = milestones
    assert found == pytest.approx([1.0] * first + [0.1] * (second - first) + [0.01] * (epochs - second))


@pytest.mark.parametrize(("share", "epochs", "milestone"), [(0.29, 100, 29), (0.57, 100, 57), (1 / 3, 90, 30)])
def test_a_share_that_gives_a_whole_epoch_is_not_rounded_below_it(share: float, epochs: int, milestone: int) -> None:
    spec = ScheduleSpec(name="multistep", milestones=(share,))
    assert multistep(spec, milestone - 1, epochs) == 1.0
    assert multistep(spec, milestone, epochs) == pytest.approx(0.1)


def test_any_factor_and_number_of_milestones() -> None:
    spec = ScheduleSpec(name="multistep", milestones=(0.25, 0.5, 0.75), factor=0.5)
    assert [multistep(spec, epoch, 4) for epoch in range(4)] == [1.0, 0.5, 0.25, 0.125]
    assert multistep(ScheduleSpec(name="multistep", milestones=()), 3, 4) == 1.0


def test_warm_up_follows_the_formula_of_the_paper() -> None:
    expected = [0.001, 0.2008, 0.52048, 0.808192, 0.9616384, 1.0, 1.0]
    assert [warmup(epoch, 50) for epoch in range(7)] == pytest.approx(expected, abs=1e-12)
    assert [warmup(epoch, 59) for epoch in range(7)] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("epochs", [1, 5, 9, 10, 19])
def test_a_short_run_warms_up_for_one_epoch(epochs: int) -> None:
    assert [warmup(epoch, epochs) for epoch in range(3)] == [0.001, 1.0, 1.0]


@settings(deadline=None)
@given(st.integers(10, 300))
def test_warm_up_rises_to_one(epochs: int) -> None:
    factors = [warmup(epoch, epochs) for epoch in range(epochs // 10 + 2)]
    assert factors == sorted(factors)
    assert factors[-2:] == [1.0, 1.0]
    assert all(factor < 1 for factor in factors[:-2])


def test_the_rate_is_the_peak_times_the_schedule_times_the_warm_up() -> None:
    warm = ScheduleSpec(name="multistep", milestones=(2 / 3, 5 / 6), warmup=True)
    rates = [learning_rate(warm, 0.2, 0, 1, epoch, 50) for epoch in (0, 1, 5, 33, 41)]
    assert rates == pytest.approx([0.0002, 0.04016, 0.2, 0.02, 0.002], abs=1e-12)
    assert learning_rate(ADVERSARIAL, 0.2, 0, 1, 0, 50) == 0.2
    assert learning_rate(ScheduleSpec(warmup=True), 0.2, 5, 20, 0, 50) == pytest.approx(0.2 * 0.5 * 0.001)


@pytest.mark.parametrize("steps", [2, 6, 40])
def test_cycled_momentum_is_that_of_torchs_cyclic_schedule(steps: int) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.2, momentum=0.9)
    reference = torch.optim.lr_scheduler.CyclicLR(
        optimizer, base_lr=0.0, max_lr=0.2, step_size_up=steps // 2, step_size_down=steps // 2,
        base_momentum=0.8, max_momentum=0.9, cycle_momentum=True,
    )  # fmt: skip
    spec = ScheduleSpec(cycle_momentum=True)
    for step in range(steps):
        group = optimizer.param_groups[0]
        assert cycled_momentum(spec, 0.9, step, steps) == pytest.approx(group["momentum"], abs=1e-12)
        assert learning_rate(spec, 0.2, step, steps, 0, 1) == pytest.approx(group["lr"], abs=1e-12)
        optimizer.step()
        reference.step()


def test_the_momentum_is_constant_unless_it_is_cycled() -> None:
    assert [cycled_momentum(ScheduleSpec(), 0.7, step, 4) for step in range(4)] == [0.7] * 4
    assert cycled_momentum(ScheduleSpec(cycle_momentum=True), 0.7, 2, 4) == pytest.approx(0.6)
