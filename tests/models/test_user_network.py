"""Networks of a user in training."""

from pathlib import Path

import pytest
import torch

from ctrobust.errors import InputError, RunError
from ctrobust.models import Classifier, WeightsFile, build_from_spec, load, save_weights
from ctrobust.regularizers import DropConnect
from ctrobust.specs import ModelSpec
from tests import user_networks

SMALL, DICTS = "tests.user_networks:small", "tests.user_networks:dicts"
IMAGES = torch.linspace(0, 1, 2 * 784).view(2, 1, 28, 28)


def build(name: str, noise: str = "none", factory: str | None = None, **fields: str) -> Classifier:
    spec = ModelSpec.model_validate({"name": name, "noise": noise, **fields})
    return build_from_spec(spec, 1, 10, (0.3,), (0.2,), (28, 28), factory or name)


def test_without_noise_the_network_is_as_the_factory_builds_it() -> None:
    torch.manual_seed(0)
    expected = user_networks.small().eval()
    torch.manual_seed(0)
    model = build(SMALL).eval()
    assert torch.equal(model(IMAGES), expected(IMAGES))  # images are not normalized


def test_logits_are_taken_from_the_output() -> None:
    assert build(DICTS)(IMAGES).shape == (2, 10)


def test_noise_is_put_before_the_last_linear_layer_or_the_named_one() -> None:
    model = build(SMALL, "dropconnect").train()
    assert isinstance(model.noise, DropConnect)
    assert model.features(IMAGES).shape == (2, 144)
    assert [type(layer).__name__ for layer in model.head] == ["Linear"]
    named = build(SMALL, "dropout", head="4")
    assert [type(layer).__name__ for layer in named.head] == ["Dropout", "Linear"]


@pytest.mark.parametrize("noise", ["none", "dropout"])
def test_weights_are_loaded_with_the_factory_only(tmp_path: Path, noise: str) -> None:
    file = tmp_path / "model.safetensors"
    model = build(SMALL, noise).eval()
    spec = ModelSpec.model_validate({"name": SMALL, "noise": noise})
    save_weights(file, model, spec, in_channels=1, classes="0123456789", data="digits", image_size=(28, 28))
    before = torch.random.get_rng_state()
    assert torch.equal(load(file, SMALL)(IMAGES), model(IMAGES))
    assert torch.equal(torch.random.get_rng_state(), before)
    with pytest.raises(InputError, match=r"Add to the command:\n  --model tests.user_networks:small"):
        load(file)
    with pytest.raises(InputError, match=r"was built by tests.user_networks:small, and --model names nets:wide"):
        load(file, "nets:wide")


def test_weights_of_changed_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, spec = tmp_path / "model.safetensors", ModelSpec(name=SMALL, noise="none")
    save_weights(file, build(SMALL), spec, in_channels=1, classes="0123456789", data="digits", image_size=(28, 28))
    monkeypatch.setattr(user_networks, "small", user_networks.linear)
    with pytest.raises(RunError, match=r"does not fit the network of tests.user_networks:small: Missing key\(s\)"):
        WeightsFile.read(file, SMALL).build()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("two_heads", "dropout cannot be put before layer 'second' of tests.user_networks:two_heads: "),
        ("dicts", "returns dict; dropout needs a network that returns a tensor. Name the layer by --head"),
        ("without_linear", "has no linear layer to put dropout before"),
        ("three_channels", "cannot take images of 1x28x28: RuntimeError"),
    ],
)
def test_noise_that_cannot_be_put(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(f"tests.user_networks:{name}", "dropout")
