"""Models and data at the edge of what an evaluation accepts."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import FGSM
from ctrobust.errors import InputError
from ctrobust.evaluation import evaluate
from ctrobust.outcomes import Evaluation


def batch() -> tuple[Tensor, Tensor]:
    return torch.rand(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 4


class Given(nn.Module):
    """A network that is a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("order", torch.tensor([3, 1, 0, 2]))  # an integer first

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def test_predictions_are_those_of_the_logits_where_probabilities_round_to_a_tie() -> None:
    x, _ = batch()
    assert evaluate(Given(lambda x: 1e-9 * x).eval(), (x, x.argmax(1))).accuracy == 1.0


def test_a_model_whose_only_tensor_is_an_integer_buffer() -> None:
    x, _ = batch()
    assert evaluate(Given(lambda x: x).eval(), (x, x.argmax(1))).accuracy == 1.0


@pytest.mark.parametrize("attack", [None, FGSM(eps=0.1)])
def test_images_that_require_a_gradient(attack: FGSM | None) -> None:
    x, y = batch()
    assert len(evaluate(nn.Linear(4, 4).eval(), (x.requires_grad_(), y), attack)) == 9


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: ("logits", x), r"the first element of a tuple, .*; got tuple of \(str, Tensor\)"),
        (lambda x: x.argmax(1, keepdim=True), "a floating tensor of logits, got torch.int64"),
        (lambda x: x[:, :1], r"C >= 2, got \(9, 1\)"),
    ],
)
def test_outputs_that_are_no_logits(function: Any, message: str) -> None:
    x, _ = batch()
    with pytest.raises(InputError, match=message):
        evaluate(Given(function).eval(), (x, torch.zeros(9, dtype=torch.int64)))


@pytest.mark.parametrize("data", ["digits", (np.zeros((3, 4)), np.zeros(3)), torch.rand(3, 4)])
def test_data_of_another_form_are_rejected(data: Any) -> None:
    with pytest.raises(InputError, match=r"cannot read examples from a|images are torch.float\d+ \(3, 4\); expected"):
        evaluate(nn.Linear(4, 4).eval(), data)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: {**a, "distance": np.array(1.0)},
        lambda a: {**a, "probabilities": a["probabilities"][:, :2]},
        lambda a: {name: array[:0] for name, array in a.items()},
    ],
)
def test_outcomes_of_other_shapes_are_refused(change: Any) -> None:
    arrays = evaluate(nn.Linear(4, 4).eval(), batch()).arrays()
    with pytest.raises(InputError, match="N >= 1; got"):
        Evaluation.from_arrays(change(arrays))
