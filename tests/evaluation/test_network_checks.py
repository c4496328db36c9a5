"""Checks of a network on a few images."""

import pytest
import torch

from ctrobust import data
from ctrobust.errors import InputError
from ctrobust.evaluation import check_network, check_scale, draws_at_random
from tests import user_networks
from tests.user_networks import Linear, class_means

DIGITS = data.load("digits", "test")


def with_means(network: Linear) -> Linear:
    network.load_state_dict(class_means().state_dict())
    return network.eval()


@pytest.mark.parametrize("factory", [user_networks.linear, user_networks.dicts, user_networks.tuples])
def test_a_network_that_fits(factory: type[Linear]) -> None:
    network = factory().train()
    check_network(network, DIGITS, "nets:wide")
    assert network.training


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("five_classes", "nets:wide gives 5 logits, and digits has 10 classes; give the network 10 outputs"),
        ("three_channels", r"nets:wide cannot take images of digits, which are 1x28x28 \(channels, height, width\)"),
        ("large_images", "RuntimeError: mat1 and mat2 shapes cannot be multiplied .*Choose data that fit by --data"),
        ("nan", "nets:wide gives NaN or infinity on images of digits: check its weights"),
        ("softmax", "Remove its softmax"),
    ],
)
def test_a_network_that_does_not_fit(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_network(getattr(user_networks, name)(), DIGITS, "nets:wide")


def test_a_scale_that_fits() -> None:
    check_scale(with_means(Linear()), DIGITS, "nets:wide")  # a warning would be an error


def test_0_to_255() -> None:
    with pytest.raises(InputError, match=r"expects another scale than \[0, 1\]. Add --mean 0 --std 1/255"):
        check_scale(with_means(user_networks.scaled()), DIGITS, "nets:wide")


def test_a_network_that_is_better_than_guessing_is_warned_of() -> None:
    network = with_means(Linear())
    network.layer.bias.data *= 5  # as if the images had five times their contrast
    with pytest.warns(UserWarning, match=r"of the first 128 images of digits correctly, and .* if they are normalized"):
        check_scale(network, DIGITS, "nets:wide")


def test_random_weights() -> None:
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="no more than guessing; does it need --weights"):
        check_scale(Linear().eval(), DIGITS, "nets:wide")


def test_networks_that_draw_at_random() -> None:
    noisy, steady = with_means(user_networks.noisy()), with_means(Linear())
    state = torch.random.get_rng_state()
    assert draws_at_random(noisy, DIGITS)
    assert not draws_at_random(steady, DIGITS)
    assert torch.equal(torch.random.get_rng_state(), state)
