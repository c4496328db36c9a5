"""The paper's network, against a reference implementation."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust.errors import InputError
from ctrobust.models import Classifier, build


def reference_network(channels: int, classes: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width // 2, 3), nn.ReLU(), nn.Conv2d(width // 2, width // 2, 3), nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width // 2, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3), nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * width, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, classes),
    )  # fmt: skip


def pair(channels: int = 1, classes: int = 10, width: int = 64) -> tuple[Classifier, nn.Sequential]:
    """The network and the reference network with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build("mnistnet", classes, channels, width, noise="none")
        reference = reference_network(channels, classes, width)
    weights = [*model.body.state_dict().values(), *model.head.state_dict().values()]
    reference.load_state_dict(dict(zip(reference.state_dict(), weights, strict=True)))
    return model, reference


def batch(channels: int = 1, count: int = 7) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(count, channels, 28, 28, generator=generator), torch.arange(count)


def test_the_papers_parameter_count() -> None:
    model, reference = pair()
    assert sum(p.numel() for p in model.parameters()) == 312_202
    assert sum(p.numel() for p in reference.parameters()) == 312_202


@pytest.mark.parametrize(("channels", "width"), [(1, 64), (3, 16), (1, 5)])
def test_outputs_equal_the_references_bit_for_bit(channels: int, width: int) -> None:
    model, reference = pair(channels, 10, width)
    x, _ = batch(channels)
    assert torch.equal(model(x), reference(x))


def test_gradients_equal_the_references() -> None:
    model, reference = pair(width=16)
    x, y = batch()
    gradients = []
    for network in (model, reference):
        leaf = x.clone().requires_grad_()
        cross_entropy(network(leaf), y).backward()
        gradients.append([leaf.grad, *[p.grad for p in network.parameters()]])
    for found, expected in zip(*gradients, strict=True):
        assert expected is not None
        assert expected.abs().max() > 0
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_features_are_the_last_convolution_flattened() -> None:
    model, reference = pair()
    x, _ = batch()
    features = model.features(x)
    assert features.shape == (7, 1024)
    assert torch.equal(features, reference[:11](x))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (28, 27), (8, 8)])
def test_other_image_sizes_are_refused(height: int, width: int) -> None:
    with pytest.raises(InputError, match=f"mnistnet takes images of 28x28; got {height}x{width}"):
        build("mnistnet", 10, 1, 4)(torch.rand(1, 1, height, width))


@pytest.mark.parametrize(
    ("size", "features"), [(28, 16), (32, 25), (16, 1), (19, 1), (64, 169), ((20, 33), 2 * 5), ((28, 28), 16)]
)
def test_the_head_fits_the_image_size(size: int | tuple[int, int], features: int) -> None:
    model = build("mnistnet", 10, 3, 4, image_size=size)
    height, width = (size, size) if isinstance(size, int) else size
    assert model.features(torch.rand(2, 3, height, width)).shape == (2, 4 * features)
    assert model(torch.rand(2, 3, height, width)).shape == (2, 10)
    with pytest.raises(InputError, match=f"mnistnet takes images of {height}x{width}; got {height + 1}x{width}"):
        model(torch.rand(2, 3, height + 1, width))


def test_the_papers_size_does_not_change_the_initial_weights() -> None:
    with torch.random.fork_rng(devices=[]):
        states = []
        for arguments in ({}, {"image_size": 28}):
            torch.manual_seed(0)
            states.append(build("mnistnet", 10, 1, 4, **arguments).state_dict())  # type: ignore[arg-type]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("size", [15, 4, (28, 8)])
def test_images_that_are_too_small_are_refused(size: int | tuple[int, int]) -> None:
    with pytest.raises(InputError, match="mnistnet takes images of at least 16x16; got"):
        build("mnistnet", 10, 1, 4, image_size=size)
