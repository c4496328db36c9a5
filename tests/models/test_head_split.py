"""Splitting any torch module into features and head."""

from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.models import split
from ctrobust.regularizers import Dropout, set_step

X = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))


class Custom(nn.Module):
    """A network with a custom forward pass that ends with `fc`, unless `after` or `scale` follow."""

    def __init__(self, after: nn.Module | None = None, scale: float = 1.0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 5, stride=3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 8 * 8, 10)
        self.after = after
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        features = torch.flatten(torch.relu(self.norm(self.conv(x))), 1)
        out: Tensor = self.fc(features)
        if self.after is not None:
            out = self.after(out)
        return out * self.scale


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))


def nested() -> nn.Sequential:
    classifier = nn.Sequential(
        nn.Flatten(), nn.Linear(196, 32), nn.ReLU(), nn.Linear(32, 20), nn.ReLU(), nn.Linear(20, 10)
    )
    return nn.Sequential(OrderedDict(pool=nn.MaxPool2d(2), classifier=classifier))


@pytest.mark.parametrize(
    ("module", "head", "features"),
    [
        (plain(), "3", 32),
        (plain(), "1", 784),
        (nested(), "classifier.3", 32),
        (nested(), "classifier.5", 20),
        (Custom(), "fc", 256),
    ],
)
def test_the_split_network_computes_the_same_function(module: nn.Module, head: str, features: int) -> None:
    module.eval()
    names, expected = [name for name, _ in module.named_modules()], module(X)
    model = split(module, head, example=X)
    torch.testing.assert_close(model(X), expected)
    assert model.features(X).shape == (4, features)
    torch.testing.assert_close(model.head(model.features(X)), expected)
    assert model.num_classes == 10
    # the original module is unchanged
    assert [name for name, _ in module.named_modules()] == names
    assert torch.equal(module(X), expected)


def test_a_head_that_is_a_sequential_is_flattened_into_its_layers() -> None:
    module = nested().eval()
    model = split(module, "classifier", example=X)
    assert len(model.head) == 6
    assert model.features(X).shape == (4, 1, 14, 14)
    torch.testing.assert_close(model(X), module(X))


def test_parameters_and_buffers_are_shared() -> None:
    module = Custom()
    model = split(module, "fc", example=X)
    assert {id(p) for p in model.parameters()} == {id(p) for p in module.parameters()}
    assert {id(b) for b in module.buffers()} < {id(b) for b in model.buffers()}
    before = model.eval()(X)
    with torch.no_grad():
        module.fc.weight.add_(1.0)
    assert not torch.equal(model(X), before)


def test_splitting_changes_no_statistics_of_the_module() -> None:
    module = Custom().train()
    split(module, "fc", example=X)
    assert module.norm.num_batches_tracked is not None
    assert module.norm.num_batches_tracked.item() == 0
    assert module.training
    assert module.norm.training


@pytest.mark.parametrize("training", [True, False])
def test_the_split_network_has_the_modules_mode(training: bool) -> None:
    model = split(Custom().train(training), "fc", example=X, noise=Dropout())
    assert {child.training for child in model.modules()} == {training}


def test_submodules_keep_their_modes() -> None:
    module = Custom().train()
    module.norm.eval()
    split(module, "fc", example=X)
    assert module.training
    assert not module.norm.training


def test_noise_is_applied_before_the_head() -> None:
    model = split(nested(), "classifier.3", example=X, noise=Dropout(0.25)).train()
    set_step(model, seed=0, step=0, keys=torch.arange(4), progress=0.0)
    assert isinstance(model.noise, Dropout)
    features = model.features(X)
    masks = model.noise.masks(features, 3)
    by_hand = torch.stack([model.head(features * mask / 0.75) for mask in masks])
    torch.testing.assert_close(model.sample_logits(X, 3), by_hand)


@pytest.mark.parametrize("mean", [(0.5,), (0.1, 0.2, 0.3)])
def test_normalization_is_applied_before_the_module(mean: tuple[float, ...]) -> None:
    module, x = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(2 * 36, 4)), torch.rand(2, 3, 8, 8)
    model = split(module, "2", example=x, mean=mean, std=(0.5,) * len(mean))
    constant = torch.tensor(mean).view(-1, 1, 1)
    torch.testing.assert_close(model(x), module((x - constant) / 0.5))


@pytest.mark.parametrize("name", ["4", "head", "", "classifier"])
def test_unknown_layers_are_refused_and_the_known_ones_named(name: str) -> None:
    with pytest.raises(InputError, match=rf"no layer is named '{name}'; the layers are 0, 1, 2, 3"):
        split(plain(), name, example=X)


@pytest.mark.parametrize(
    ("module", "head"),
    [
        (Custom(after=nn.Softmax(1)), "fc"),
        (Custom(scale=2.0), "fc"),
        (nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), nn.Softmax(1)), "0.1"),
    ],
)
def test_a_network_that_computes_more_after_the_head_is_refused(module: nn.Module, head: str) -> None:
    with pytest.raises(InputError, match=rf"the network computes more after layer '{head}'"):
        split(module, head, example=X)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_precision_of_the_module_is_kept(dtype: torch.dtype) -> None:
    module = plain().to(dtype).eval()
    x = X.to(dtype)
    model = split(module, "3", example=x, mean=[0.25], std=[0.5], noise=Dropout(0.5))
    assert model(x).dtype == dtype
    torch.testing.assert_close(model(x), module((x - 0.25) / 0.5))


@pytest.mark.parametrize("example", [X[0], (255 * X).to(torch.uint8)])
def test_an_example_that_is_no_batch_of_float_images_is_refused(example: Tensor) -> None:
    with pytest.raises(InputError, match=r"example must be images \(N, C, H, W\) in \[0, 1\]; got torch"):
        split(plain(), "3", example=example)
