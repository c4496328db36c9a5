"""The log-odds form of the probability margin against p_w - p_y itself."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ctrobust.errors import InputError
from ctrobust.losses import probability_margin_log_odds

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64)


def exact(logits: Tensor, y: Tensor, target: Tensor | None = None) -> Tensor:
    """p_w - p_y."""
    p = logits.softmax(-1)
    chosen = logits.scatter(1, y[:, None], -torch.inf).argmax(1) if target is None else target
    return (p.gather(1, chosen[:, None]) - p.gather(1, y[:, None]))[:, 0]


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(loss.sum(), logits)[0]


@pytest.mark.parametrize(("label", "margin"), [(0, -0.2), (1, 0.2), (2, 0.35), (3, 0.45)])
def test_values_by_hand(label: int, margin: float) -> None:
    found = probability_margin_log_odds(P.log(), torch.tensor([label])).item()
    assert found == pytest.approx(math.log((1 + margin) / (1 - margin)))
    toward = probability_margin_log_odds(P.log(), torch.tensor([0]), torch.tensor([label or 1])).item()
    lead = P[0, label or 1].item() - 0.5
    assert toward == pytest.approx(math.log((1 + lead) / (1 - lead)))


def test_gradcheck() -> None:
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    y, target = torch.arange(6) % 4, (torch.arange(6) + 2) % 4
    assert torch.autograd.gradcheck(lambda z: probability_margin_log_odds(z, y), (z,))
    assert torch.autograd.gradcheck(lambda z: probability_margin_log_odds(z, y, target), (z,))


@settings(max_examples=200, deadline=None)
@given(
    row=st.lists(st.floats(-10, 10), min_size=2, max_size=8, unique=True),
    label=st.integers(0, 7),
    target=st.none() | st.integers(1, 7),
)
def test_gradients_in_float32_have_the_direction_of_the_exact_gradient(
    row: list[float], label: int, target: int | None
) -> None:
    C = len(row)
    z, y = torch.tensor([row], dtype=torch.float32), torch.tensor([label % C])
    chosen = None if target is None else (y + 1 + target % (C - 1)) % C
    single, double = z.clone().requires_grad_(), z.double().requires_grad_()
    ours = gradient(probability_margin_log_odds(single, y, chosen), single).double()
    theirs = gradient(exact(double, y, chosen), double)
    rounding = 1e-6 / min(ours.norm().item(), 1.0)  # small only toward a target, where a third class dominates
    torch.testing.assert_close(ours / ours.norm(), theirs / theirs.norm(), rtol=0, atol=2 * rounding)
    assert target is not None or ours.norm() >= 2 / C
    clear = theirs.abs() > 4 * rounding * theirs.norm()
    assert torch.equal(ours.sign()[clear], theirs.sign()[clear])


@pytest.mark.parametrize("scale", [1e2, 1e3, 1e4])
def test_gradients_do_not_vanish_where_the_exact_ones_underflow(scale: float) -> None:
    C = 5
    z = scale * torch.randn(200, C, generator=torch.Generator().manual_seed(0))
    for y in (z.argmax(1), z.argmin(1)):  # confidently right and confidently wrong
        single = z.clone().requires_grad_()
        ours = gradient(probability_margin_log_odds(single, y), single)
        best = z.scatter(1, y[:, None], -torch.inf).argmax(1)
        assert (ours.gather(1, best[:, None]) >= 2 / C - 1e-6).all()
        assert (ours.gather(1, y[:, None]) <= 0).all()
        assert ours.isfinite().all()
    dead = z.clone().requires_grad_()
    vanished = gradient(exact(dead, z.argmax(1)), dead).abs().amax(1) == 0
    assert vanished.float().mean() > 0.2


def test_the_target_is_a_label() -> None:
    with pytest.raises(InputError, match=r"target must lie in 0\.\.3 for 4 classes; got 4"):
        probability_margin_log_odds(P, torch.tensor([0]), torch.tensor([4]))
