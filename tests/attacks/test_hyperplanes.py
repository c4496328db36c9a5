"""The projection onto a hyperplane within the box, against bisection."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from ctrobust.attacks.hyperplanes import hyperplane_distance, hyperplane_step
from ctrobust.specs.attack_fields import NORMS, Norm

ONE = torch.float64
PIXEL = st.sampled_from([0.0, 1.0, 0.5]) | st.floats(0, 1, allow_subnormal=False)
SLOPE = st.sampled_from([0.0, 1.0, -1.0]) | st.floats(-3, 3).filter(lambda slope: abs(slope) > 1e-6)
every_norm = pytest.mark.parametrize("norm", NORMS)


def bisect(satisfied: Callable[[float], bool], high: float) -> float:
    """The smallest number that satisfies the condition, by bisection."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if satisfied(middle) else (middle, high)
    return high


def radius(x: list[float], normal: list[float], value: float) -> float:
    """Radius of the smallest linf ball whose intersection with the box meets the hyperplane; inf if there is none."""

    def meets(r: float) -> bool:
        ends = [(w * (max(p - r, 0) - p), w * (min(p + r, 1) - p)) for p, w in zip(x, normal, strict=True)]
        return math.fsum(min(pair) for pair in ends) <= -value <= math.fsum(max(pair) for pair in ends)

    return bisect(meets, 1.0) if meets(1.0) else math.inf


def length(x: list[float], normal: list[float], value: float) -> float:
    """l2 length of d = clip(x - m normal) - x for the m that reaches the hyperplane; inf if there is none."""

    def moved(m: float) -> list[float]:
        return [min(max(p - m * w, 0), 1) - p for p, w in zip(x, normal, strict=True)]

    def crosses(m: float) -> bool:
        now = value + math.fsum(w * d for w, d in zip(normal, moved(math.copysign(m, value)), strict=True))
        return now * value <= 0

    slopes = [abs(w) for w in normal if w]
    most = 1 / min(slopes) if slopes else 0.0
    return math.hypot(*moved(math.copysign(bisect(crosses, most), value))) if crosses(most) else math.inf


def norm_of(d: Tensor, norm: Norm) -> Tensor:
    return d.abs().amax(-1) if norm == "linf" else d.square().sum(-1).sqrt()


def step(x: list[float], normal: list[float], value: float, norm: Norm) -> Tensor:
    images, normals, values = (torch.tensor([row], dtype=ONE) for row in (x, normal, value))
    return hyperplane_step(images, normals, values, norm)[0]


problems = st.integers(1, 6).flatmap(
    lambda size: st.tuples(st.lists(PIXEL, min_size=size, max_size=size), st.lists(SLOPE, min_size=size, max_size=size))
)


@every_norm
@settings(max_examples=60, deadline=None, derandomize=True)
@given(problem=problems, share=st.floats(0.001, 1.2), sign=st.sampled_from([1, -1]))
def test_length_agrees_with_bisection(
    norm: Norm, problem: tuple[list[float], list[float]], share: float, sign: int
) -> None:
    x, normal = problem
    corner = [float(sign * w < 0) for w in normal]
    most = math.fsum(abs(w * (c - p)) for p, w, c in zip(x, normal, corner, strict=True))
    assume(abs(share - 1) > 1e-6)
    assume(most > 1e-6)
    value = sign * share * most
    expected = (radius if norm == "linf" else length)(x, normal, value)
    d = step(x, normal, value, norm)
    at = torch.tensor(x, dtype=ONE) + d
    assert at.min() >= -1e-15
    assert at.max() <= 1 + 1e-15
    assert not d[torch.tensor(normal) == 0].any()
    left = value + torch.tensor(normal, dtype=ONE) @ d
    if share > 1:
        assert expected == math.inf
        assert at.tolist() == pytest.approx([p if w == 0 else c for p, w, c in zip(x, normal, corner, strict=True)])
    else:
        assert abs(left) <= 1e-13 * max(1, abs(value))
        assert norm_of(d, norm).item() == pytest.approx(expected, rel=1e-9)


@every_norm
def test_no_other_point_of_the_hyperplane_in_the_box_is_closer(norm: Norm) -> None:
    generator = torch.Generator().manual_seed(0)
    x, normal = torch.rand(200, 20, generator=generator, dtype=ONE), torch.randn(200, 20, generator=generator).to(ONE)
    x[:100] = x[:100].round()
    value = torch.randn(200, generator=generator, dtype=ONE)
    d = hyperplane_step(x, normal, value, norm)
    met = (value + (normal * d).sum(1)).abs() < 1e-12
    assert met.double().mean() > 0.9
    for digits in [0, 1] * 10:  # points of the hyperplane that lie near other points of the box
        other = torch.rand(200, 20, generator=generator, dtype=ONE).round(decimals=digits)
        found = other + hyperplane_step(other, normal, value + (normal * (other - x)).sum(1), norm)
        assert ((value + (normal * (found - x)).sum(1)).abs()[met] < 1e-12).all()
        assert (norm_of(found - x, norm) >= norm_of(d, norm) - 1e-12)[met].all()
    # The l2 step is longer in linf and the linf step is longer in l2: the two norms really differ.
    for another in NORMS:
        gain = norm_of(hyperplane_step(x, normal, value, another), norm) - norm_of(d, norm)
        assert (gain[met] >= -1e-12).all()
        assert another == norm or (gain[met] > 1e-3).double().mean() > 0.5


def test_hand_computed_steps() -> None:
    # Pixels 2 and 3 are stopped by the box, so the others must move further.
    x, normal = [0.5, 0.9, 0.0, 0.2, 0.7], [2.0, 1.0, -1.0, -1.0, 0.0]
    linf, l2 = (step(x, normal, -1.0, norm) for norm in NORMS)
    # 2 r + .1 + 0 + min(r, .2) = 1: r = .35.
    assert linf.tolist() == pytest.approx([0.35, 0.1, 0, -0.2, 0])
    # 4 r + .1 + 0 + min(r, .2) = 1: r = .18.
    assert l2.tolist() == pytest.approx([0.36, 0.1, 0, -0.18, 0])
    for d, norm in zip((linf, l2), NORMS, strict=True):
        assert step([1 - p for p in x], normal, 1.0, norm).tolist() == pytest.approx((-d).tolist())


@every_norm
def test_step_is_zero_on_the_hyperplane_for_a_zero_normal_and_in_the_best_corner(norm: Norm) -> None:
    assert step([0.5, 0.0], [1.0, -2.0], 0.0, norm).tolist() == [0, 0]
    assert step([0.5, 0.0], [0.0, 0.0], 3.0, norm).tolist() == [0, 0]
    assert step([0.0, 1.0], [1.0, -2.0], 3.0, norm).tolist() == [0, 0]


@every_norm
def test_a_problem_with_slow_convergence_is_solved_exactly(norm: Norm) -> None:
    # Slopes are steeper the closer the side of the box is: Newton's method passes few breakpoints per round.
    room = torch.tensor([[3.0**-i for i in range(30)]], dtype=ONE)
    normal = 1 / room if norm == "linf" else 1 / room.sqrt()
    value = -(normal * room).sum(1) * 0.999
    d = hyperplane_step(1 - room, normal, value, norm)
    assert (normal * d).sum().item() == pytest.approx(-value.item(), rel=1e-14)
    expected = (radius if norm == "linf" else length)((1 - room)[0].tolist(), normal[0].tolist(), value.item())
    assert norm_of(d, norm).item() == pytest.approx(expected, rel=1e-9)


@every_norm
@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1.0, 1e30])
def test_scale_does_not_matter_in_float32(norm: Norm, scale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    x, normal = torch.rand(4, 3000, generator=generator), torch.randn(4, 3000, generator=generator)
    normal[:, :100] *= 1e-6
    value = torch.randn(4, generator=generator) * 300
    exact = hyperplane_step(x.double(), normal.double(), value.double(), norm)
    d = hyperplane_step(x, normal * scale, value * scale, norm)
    torch.testing.assert_close(d.double(), exact, rtol=1e-5, atol=1e-6)
    met = value.double() + (normal.double() * d).sum(1)
    assert (met.abs() <= 1e-5 * value.abs()).all()
    lengths = hyperplane_distance(normal * scale, value * scale, norm)
    torch.testing.assert_close(
        lengths.double(), hyperplane_distance(normal.double(), value.double(), norm), rtol=1e-5, atol=0
    )


@every_norm
def test_rows_are_independent(norm: Norm) -> None:
    generator = torch.Generator().manual_seed(2)
    x, normal = torch.rand(50, 30, generator=generator, dtype=ONE), torch.randn(50, 30, generator=generator, dtype=ONE)
    value = torch.linspace(-12, 12, 50, dtype=ONE)
    before = [tensor.clone() for tensor in (x, normal, value)]
    whole = hyperplane_step(x, normal, value, norm)
    for one, other in zip(before, (x, normal, value), strict=True):
        assert torch.equal(one, other)
    for i in range(50):
        alone = hyperplane_step(x[i : i + 1], normal[i : i + 1], value[i : i + 1], norm)
        torch.testing.assert_close(alone[0], whole[i], rtol=0, atol=1e-14)


@every_norm
@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_terminates_if_the_gradient_is_not_finite(norm: Norm, bad: float) -> None:
    assert step([0.5, 0.5], [bad, 1.0], 1.0, norm).shape == (2,)


def test_distance_without_the_box() -> None:
    normal, value = (
        torch.tensor([[3.0, -4.0], [0.0, 2.0], [0.0, 0.0]], dtype=ONE),
        torch.tensor([5.0, -1.0, 1.0], dtype=ONE),
    )
    assert hyperplane_distance(normal, value, "l2").tolist() == pytest.approx([1, 0.5, math.inf])
    assert hyperplane_distance(normal, value, "linf").tolist() == pytest.approx([5 / 7, 0.5, math.inf])
    middle = torch.full((2, 2), 0.5, dtype=ONE)
    near = value[:2] / 10
    for norm in NORMS:
        lengths = norm_of(hyperplane_step(middle, normal[:2], near, norm), norm)
        torch.testing.assert_close(lengths, hyperplane_distance(normal[:2], near, norm), rtol=1e-12, atol=0)
