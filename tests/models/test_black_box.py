"""A model reached only through a function is attacked by Square and noise, as the same torch module is."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import ctrobust as ct
from ctrobust.errors import InputError
from ctrobust.models import BlackBox


@pytest.fixture
def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()


@pytest.fixture
def examples(network: nn.Module) -> tuple[Tensor, Tensor]:
    x = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return x, network(x).argmax(1)


def as_function(network: nn.Module, *, softmax: bool = False) -> BlackBox:
    def call(images: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            logits: Tensor = network(torch.from_numpy(images))
        return (logits.softmax(1) if softmax else logits).numpy()

    return BlackBox(call, probabilities=softmax)


@pytest.mark.parametrize("text", ["square:eps=0.1,queries=40", "noise:eps=0.1,draws=20"])
def test_attacks_without_gradient_find_what_they_find_on_the_module(
    network: nn.Module, examples: tuple[Tensor, Tensor], text: str
) -> None:
    box, module = (ct.evaluate(model, examples, text) for model in (as_function(network), network))
    assert 0 < module.robust_accuracy < 1
    assert np.array_equal(box.robust, module.robust)


def test_probabilities_become_logits(network: nn.Module, examples: tuple[Tensor, Tensor]) -> None:
    text = "square:eps=0.1,queries=40"
    box = ct.evaluate(as_function(network, softmax=True), examples, text)
    assert np.array_equal(box.clean_prediction, ct.evaluate(network, examples, text).clean_prediction)
    with pytest.raises(InputError, match="probabilities"):
        ct.evaluate(BlackBox(as_function(network, softmax=True).function), examples, text)
    with pytest.raises(InputError, match="not, or do not sum to 1"):
        ct.evaluate(BlackBox(as_function(network).function, probabilities=True), examples, text)


def test_an_attack_that_needs_a_gradient_is_refused(network: nn.Module, examples: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(InputError, match="square or noise"):
        ct.evaluate(as_function(network), examples, "pgd:eps=0.1,steps=2")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros((20, 1)), r"\(20, C\), C >= 2, got \(20, 1\)"),
        (np.zeros(20), r"got \(20,\)"),
        ([["a", "b"]] * 20, "array of numbers"),
    ],
)
def test_functions_that_give_something_else_are_refused(
    returned: object, message: str, examples: tuple[Tensor, Tensor]
) -> None:
    with pytest.raises(InputError, match=message):
        BlackBox(lambda _: returned)(examples[0])


def test_the_function_cannot_change_the_images(examples: tuple[Tensor, Tensor]) -> None:
    def spoil(images: NDArray[np.float32]) -> NDArray[np.float32]:
        images[:] = 0
        return np.zeros((len(images), 3), np.float32)

    before = examples[0].clone()
    BlackBox(spoil)(examples[0])
    assert torch.equal(examples[0], before)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InputError, match="a function of images, got int"):
        BlackBox(3)  # type: ignore[arg-type]
