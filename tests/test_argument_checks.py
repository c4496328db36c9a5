"""Invalid numbers, counts and words raise an error, in an attack when it is constructed and not when it is run."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from ctrobust.argument_checks import check_choice, check_count, check_eps, check_number, check_share
from ctrobust.attacks import FGSM, MIFGSM, PGD
from ctrobust.errors import InputError


@pytest.mark.parametrize("eps", [8, 1.0001, -1e-9, math.nan, math.inf, -math.inf])
def test_an_invalid_radius_raises(eps: float) -> None:
    message = rf"eps is for images in \[0, 1\] and so between 0 and 1, got {eps}; for 8 grey levels write 8/255"
    with pytest.raises(InputError, match=message):
        check_eps(eps, "linf")
    for make in (FGSM, PGD, MIFGSM):
        with pytest.raises(InputError, match=message):
            make(eps)
    for kind in (PGD, MIFGSM):
        with pytest.raises(InputError, match=r"step_size is for images in \[0, 1\]"):
            kind(0.1, step_size=eps)


@pytest.mark.parametrize("eps", [-1e-9, math.nan, math.inf, -math.inf])
def test_an_invalid_radius_in_l2_raises(eps: float) -> None:
    message = f"eps must be a finite number of at least 0; got {eps}"
    with pytest.raises(InputError, match=message):
        check_eps(eps, "l2")
    for make in (FGSM, PGD, MIFGSM):
        with pytest.raises(InputError, match=message):
            make(eps, norm="l2")
    for kind in (PGD, MIFGSM):
        with pytest.raises(InputError, match=f"step_size must be a finite number of at least 0; got {eps}"):
            kind(0.1, step_size=eps, norm="l2")


@pytest.mark.parametrize("eps", [0, 0.0, 1e-300, 8 / 255, 1, 1.0])
def test_valid_radii(eps: float) -> None:
    check_eps(eps, "linf")
    assert FGSM(eps).eps == PGD(0.1, step_size=eps).step_size == MIFGSM(0.1, step_size=eps).step_size == eps


@pytest.mark.parametrize("eps", [0, 1.0001, 8, 1e300])
def test_a_ball_in_l2_may_be_wider_than_a_pixel(eps: float) -> None:
    check_eps(eps, "l2")
    assert FGSM(eps, norm="l2").eps == PGD(1, step_size=eps, norm="l2").step_size == eps


@pytest.mark.parametrize("share", [-1e-9, 1.0001, math.nan, math.inf])
def test_an_invalid_share_raises(share: float) -> None:
    with pytest.raises(InputError, match=f"beta must be a finite number between 0 and 1; got {share}"):
        check_share(share, "beta")
    with pytest.raises(InputError, match=f"momentum must be a finite number between 0 and 1; got {share}"):
        MIFGSM(0.1, momentum=share)


def test_valid_shares() -> None:
    for share in (0, 0.0, 0.5, 1, 1.0):
        check_share(share, "beta")


@pytest.mark.parametrize("count", [0, -1])
def test_an_invalid_count_raises(count: int) -> None:
    with pytest.raises(InputError, match=f"restarts is .*at least 1, got {count}"):
        check_count(count, "restarts")
    for name in ("steps", "restarts", "eot"):
        with pytest.raises(InputError, match=f"{name} is .*at least 1, got {count}"):
            PGD(0.1, **{name: count})  # type: ignore[arg-type]
    for name in ("steps", "eot"):
        with pytest.raises(InputError, match=f"{name} is .*at least 1, got {count}"):
            MIFGSM(0.1, **{name: count})  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["", "first", "ANY"])
def test_choice(word: str) -> None:
    with pytest.raises(InputError, match=f"norm must be one of 'linf', 'l2'; got '{word}'"):
        check_choice(word, "norm", ("linf", "l2"))
    for make in (FGSM, PGD, MIFGSM):
        with pytest.raises(InputError, match=f"success must be one of 'any', 'last'; got '{word}'"):
            make(0.1, success=word)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=f"norm must be one of 'linf', 'l2'; got '{word}'"):
            make(0.1, norm=word)  # type: ignore[arg-type]


@pytest.mark.parametrize("eps", ["8/255", None, [0.1], torch.tensor([0.1])])
def test_a_radius_is_a_number(eps: Any) -> None:
    for norm in ("linf", "l2"):
        with pytest.raises(InputError, match="eps must be a number; got "):
            PGD(eps, norm=norm)
    assert PGD(float(np.float32(0.1))) == PGD(np.float32(0.1))  # type: ignore[arg-type] # a number all the same


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_numbers_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(InputError, match=re.escape(f"gamma must be a finite number of at least 0; got {value}")):
        check_number(value, "gamma")


@pytest.mark.parametrize("value", ["2", None, torch.tensor([2.0])])
def test_values_that_are_no_numbers_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match=re.escape(f"gamma must be a number; got {value!r}")):
        check_number(value, "gamma")


def test_numbers_above_the_upper_bound_are_refused() -> None:
    check_number(100, "eta", high=100)
    with pytest.raises(InputError, match=re.escape("eta must be a finite number between 0 and 100; got 100.5")):
        check_number(100.5, "eta", high=100)


def test_words_that_are_not_allowed_are_refused() -> None:
    check_choice("adv", "std_at", ("adv", "clean"))
    with pytest.raises(InputError, match="std_at must be one of 'adv', 'clean'; got 'both'"):
        check_choice("both", "std_at", ("adv", "clean"))
