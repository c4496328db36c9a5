"""The checks of the losses' arguments and their messages."""

import re

import pytest
import torch

from ctrobust.errors import InputError
from ctrobust.losses.inputs import checked_labels, checked_logits

LOGITS = torch.zeros(3, 4)


@pytest.mark.parametrize(
    ("given", "computed"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_half_precision_becomes_float32_and_float64_stays(given: torch.dtype, computed: torch.dtype) -> None:
    assert checked_logits(LOGITS.to(given)).dtype == computed


def test_logits_that_fit_are_not_copied() -> None:
    assert checked_logits(LOGITS) is LOGITS


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.zeros(4), "logits must be a floating tensor of shape (N, C); got torch.float32 of shape (4,)"),
        (
            torch.zeros(2, 3, 4),
            "logits must be a floating tensor of shape (N, C); got torch.float32 of shape (2, 3, 4)",
        ),
        (torch.zeros(3, 4, dtype=torch.int64), "of shape (N, C); got torch.int64 of shape (3, 4)"),
        (torch.zeros(3, 4, dtype=torch.complex64), "of shape (N, C); got torch.complex64 of shape (3, 4)"),
        (torch.zeros(3, 1), "this loss needs at least 2 classes; got 1, in logits of shape (3, 1)"),
    ],
)
def test_impossible_logits_are_refused(logits: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        checked_logits(logits)


def test_the_message_uses_the_callers_name_of_the_argument() -> None:
    with pytest.raises(InputError, match=re.escape("logits_k must be a floating tensor of shape (K, N, C)")):
        checked_logits(LOGITS, axes="KNC", name="logits_k")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_labels_of_every_integer_type_are_accepted(dtype: torch.dtype) -> None:
    y = checked_labels(torch.tensor([0, 3, 1], dtype=dtype), LOGITS)
    assert y.dtype == torch.int64
    assert y.tolist() == [0, 3, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.tensor([0.0, 1.0, 2.0]), "y must be an integer tensor of shape (3,), one label per row of the logits"),
        (torch.tensor([True, False, True]), "got torch.bool of shape (3,)"),
        (torch.tensor([0, 1]), "got torch.int64 of shape (2,)"),
        (torch.zeros(3, 1, dtype=torch.int64), "got torch.int64 of shape (3, 1)"),
        (torch.tensor([0, 4, 1]), "y must lie in 0..3 for 4 classes; got 4"),
        (torch.tensor([0, -100, 1]), "y must lie in 0..3 for 4 classes; got -100"),
    ],
)
def test_impossible_labels_are_refused(y: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        checked_labels(y, LOGITS)


def test_labels_on_another_device_are_refused() -> None:
    with pytest.raises(InputError, match="y must be on the device of the logits, meta; got cpu"):
        checked_labels(torch.tensor([0, 1, 2]), LOGITS.to("meta"))


def test_the_range_of_labels_is_checked_only_on_the_cpu() -> None:
    # Reading a value of a meta tensor raises, as reading one from an accelerator would synchronize.
    y = checked_labels(torch.tensor([0, 1, 2], device="meta"), LOGITS.to("meta"))
    assert y.device.type == "meta"


def test_a_batch_of_no_examples_is_accepted() -> None:
    assert checked_labels(torch.empty(0, dtype=torch.int64), torch.empty(0, 4)).shape == (0,)
