"""Impossible values are refused when an attack is made, not when it is run."""

import math

import pytest

from ctrobust.attacks import FGSM, PGD
from ctrobust.attacks.checks import check_choice, check_count, check_loss, check_radius
from ctrobust.errors import InputError


@pytest.mark.parametrize("eps", [8, 1.0001, -1e-9, math.nan, math.inf, -math.inf])
def test_radius(eps: float) -> None:
    message = rf"eps is for images in \[0, 1\] and so between 0 and 1, got {eps}; for 8 grey levels write 8/255"
    for make in (check_radius, FGSM, PGD):
        with pytest.raises(InputError, match=message):
            make(eps)
    with pytest.raises(InputError, match=r"step_size is for images in \[0, 1\]"):
        PGD(0.1, step_size=eps)


@pytest.mark.parametrize("eps", [0, 0.0, 1e-300, 8 / 255, 1, 1.0])
def test_possible_radius(eps: float) -> None:
    check_radius(eps)
    assert FGSM(eps).eps == PGD(0.1, step_size=eps).step_size == eps


@pytest.mark.parametrize("steps", [0, -1])
def test_count(steps: int) -> None:
    with pytest.raises(InputError, match=f"restarts is .*at least 1, got {steps}"):
        check_count(steps, "restarts")
    with pytest.raises(InputError, match=f"steps is .*at least 1, got {steps}"):
        PGD(0.1, steps=steps)


@pytest.mark.parametrize("word", ["", "first", "ANY"])
def test_choice(word: str) -> None:
    with pytest.raises(InputError, match=f"norm is one of linf, l2, got '{word}'"):
        check_choice(word, "norm", ("linf", "l2"))
    for make in (FGSM, PGD):
        with pytest.raises(InputError, match=f"success is one of any, last, got '{word}'"):
            make(0.1, success=word)  # type: ignore[arg-type]


def test_loss() -> None:
    assert check_loss("sce( gamma=5.0 )") == "sce(gamma=5)"
    assert check_loss(max) is max
    for make in (FGSM, PGD):
        with pytest.raises(InputError, match="unknown loss 'hinge'; known: ce, "):
            make(0.1, loss="hinge")
