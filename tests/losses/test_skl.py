"""STD loss based Kullback-Leibler divergence."""

from typing import Literal, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.errors import InputError
from ctrobust.losses import kl, skl

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
Q = torch.tensor([[0.4, 0.1, 0.2, 0.3]]).log()
Y = torch.tensor([0])
ROW = st.lists(st.floats(-1e4, 1e4, width=32), min_size=5, max_size=5)


def test_hand_computed() -> None:
    assert skl(P, Q, Y).item() == pytest.approx(0.509249, abs=1e-6)
    assert skl(P, Q, Y, std_at="clean").item() == pytest.approx(0.483609, abs=1e-6)


@pytest.mark.parametrize("std_at", ["adv", "clean"])
@settings(max_examples=50, deadline=None)
@given(adv=ROW, clean=ROW)
def test_gamma_zero_is_kl_bit_for_bit(adv: list[float], clean: list[float], std_at: Literal["adv", "clean"]) -> None:
    z, w = (torch.tensor([row], requires_grad=True) for row in (adv, clean))
    one, other = skl(z, w, Y, gamma=0.0, std_at=std_at), kl(z, w)
    assert torch.equal(one, other)
    for a, b in zip(torch.autograd.grad(one.sum(), (z, w)), torch.autograd.grad(other.sum(), (z, w)), strict=True):
        assert torch.equal(a, b)


def gradient_signs(std_at: Literal["adv", "clean"]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(100, 10, generator=generator, requires_grad=True)
    w = torch.randn(100, 10, generator=generator)
    y = torch.randint(0, 10, (100,), generator=generator)
    one, other = (torch.autograd.grad(loss.sum(), z)[0] for loss in (skl(z, w, y, 5.0, std_at), kl(z, w)))
    return one.sign(), other.sign()


def test_with_std_at_clean_the_attacks_gradient_has_the_sign_of_kl() -> None:
    assert torch.equal(*gradient_signs("clean"))


def test_with_std_at_adv_the_signs_differ() -> None:
    one, other = gradient_signs("adv")
    assert (one != other).float().mean() > 0.05


@pytest.mark.parametrize("std_at", ["adv", "clean"])
def test_nothing_is_detached(std_at: Literal["adv", "clean"]) -> None:
    z, w = (torch.randn(3, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda a, b: skl(a, b, torch.tensor([0, 4, 2]), 2.0, std_at), (z, w))


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="std_at must be one of 'adv', 'clean'; got 'both'"):
        skl(P, Q, Y, std_at=cast("Literal['adv']", "both"))
    with pytest.raises(InputError, match="gamma must be a finite number of at least 0; got nan"):
        skl(P, Q, Y, gamma=float("nan"))
    with pytest.raises(InputError, match="needs at least 3 classes; got 2"):
        skl(torch.zeros(1, 2), torch.zeros(1, 2), Y)
