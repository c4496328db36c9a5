"""A network split where its head starts."""

import pytest
import torch
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.models import Classifier, Normalize, build
from ctrobust.regularizers import DropConnect, Dropout, set_step

N, K = 5, 3


def network(noise: str = "dropout", drop: float = 0.5) -> Classifier:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build("mnistnet", 10, 1, 8, noise=noise, drop=drop, mean=(0.3,), std=(0.2,))


def images() -> Tensor:
    return torch.rand(N, 1, 28, 28, generator=torch.Generator().manual_seed(1))


def with_step(noise: str, step: int = 0) -> Classifier:
    model = network(noise).train()
    set_step(model, seed=0, step=step, keys=torch.arange(10, 10 + N), progress=0.0)
    return model


def test_normalization_is_the_first_layer() -> None:
    model, x = network().eval(), images()
    assert isinstance(next(model.children()), Normalize)
    plain = network().eval()
    plain.normalize = Normalize((0.0,), (1.0,))
    assert torch.equal(model(x), plain((x - 0.3) / 0.2))
    assert not torch.equal(model(x), plain(x))


def test_normalization_is_per_channel_and_saved_with_the_weights() -> None:
    x = torch.rand(2, 3, 4, 4)
    out = Normalize((0.1, 0.2, 0.3), (1.0, 2.0, 4.0))(x)
    for channel, (mean, std) in enumerate(((0.1, 1.0), (0.2, 2.0), (0.3, 4.0))):
        torch.testing.assert_close(out[:, channel], (x[:, channel] - mean) / std)
    state = network().state_dict()
    assert state["normalize.mean"].item() == pytest.approx(0.3)
    assert state["normalize.std"].item() == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("mean", "std"), [((0.0, 0.0), (1.0,)), ((0.0,), (0.0,)), ((0.0,), (-1.0,)), ((0.0,), (float("nan"),))]
)
def test_impossible_normalizations_are_refused(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"need one value per channel, std > 0; got mean"):
        Normalize(mean, std)


@pytest.mark.parametrize("shape", [(2, 3, 28, 28), (1, 28, 28), (2, 784)])
def test_images_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"takes images \(N, 1, H, W\); got \("):
        network()(torch.rand(shape))


@pytest.mark.parametrize("noise", ["dropout", "dropconnect", "none"])
def test_in_eval_mode_all_samples_are_the_forward_pass(noise: str) -> None:
    model, x = network(noise).eval(), images()
    logits = model(x)
    assert logits.shape == (N, 10)
    assert torch.equal(logits, model.head(model.features(x)))
    samples = model.sample_logits(x, K)
    assert samples.shape == (K, N, 10)
    assert torch.equal(samples, logits.expand(K, N, 10))


@pytest.mark.parametrize("noise", ["dropout", "dropconnect"])
def test_in_training_mode_the_same_step_key_gives_the_same_samples(noise: str) -> None:
    x = images()
    samples = with_step(noise).sample_logits(x, K)
    assert samples.shape == (K, N, 10)
    assert torch.equal(samples, with_step(noise).sample_logits(x, K))
    assert not torch.equal(samples, with_step(noise, step=1).sample_logits(x, K))
    assert len({tuple(sample.flatten().tolist()) for sample in samples}) == K
    torch.testing.assert_close(samples[0], with_step(noise)(x))


def test_dropout_samples_are_the_head_with_each_mask() -> None:
    model, x = with_step("dropout"), images()
    assert isinstance(model.noise, Dropout)
    features = model.features(x)
    masks = model.noise.masks(features, K)
    by_hand = torch.stack([model.head(features * mask * 2) for mask in masks])
    torch.testing.assert_close(model.sample_logits(x, K), by_hand)


def test_dropconnect_samples_are_the_head_with_each_mask() -> None:
    model, x = with_step("dropconnect"), images()
    assert isinstance(model.noise, DropConnect)
    features, first = model.features(x), model.head[0]
    assert isinstance(first, nn.Linear)
    masks = model.noise.masks(features, first.weight, K)
    hidden = [nn.functional.linear(features, first.weight * mask * 2, first.bias) for mask in masks]
    by_hand = torch.stack([model.head[1:](out) for out in hidden])
    torch.testing.assert_close(model.sample_logits(x, K), by_hand)


def test_the_body_runs_once_for_k_samples() -> None:
    model = with_step("dropout")
    batches: list[int] = []
    model.body.register_forward_hook(lambda _module, arguments, _out: batches.append(len(arguments[0])))
    model.sample_logits(images(), K)
    assert batches == [N]


def test_without_noise_only_one_sample_can_be_drawn_in_training_mode() -> None:
    model, x = network("none").train(), images()
    assert torch.equal(model.sample_logits(x, 1)[0], model(x))
    with pytest.raises(InputError, match="3 samples of a head without noise are all the same"):
        model.sample_logits(x, K)


def test_an_impossible_k_and_noise_are_refused() -> None:
    with pytest.raises(InputError, match="k, the number of samples, must be at least 1; got 0"):
        network().sample_logits(images(), 0)
    with pytest.raises(InputError, match=r"noise needs a method sample\(x, first, k\) and an attribute step_key"):
        Classifier(nn.Flatten(), nn.Sequential(nn.Linear(784, 10)), num_classes=10, noise=nn.Dropout())


def test_the_head_does_not_change_the_features_in_place() -> None:
    model = network("none").train()
    features = model.features(images())
    before = features.clone()
    model.head(features)
    assert torch.equal(features, before)
