"""Networks by name."""

import re
from typing import Any

import pytest
import torch

from ctrobust.errors import InputError
from ctrobust.models import MODELS, build
from ctrobust.regularizers import Disout, DropBlock, DropConnect, Dropout


def test_noise_is_chosen_by_name() -> None:
    dropout, dropconnect = (
        build("mnistnet", 10, 1, 4, noise=noise, drop=0.3).noise for noise in ("dropout", "dropconnect")
    )
    assert isinstance(dropout, Dropout)
    assert dropout.drop == 0.3
    assert isinstance(dropconnect, DropConnect)
    assert dropconnect.drop == 0.3
    assert build("mnistnet", 10, 1, 4, noise="none").noise is None


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize(
    ("maps", "settings", "expected"),
    [
        ("dropblock", {}, "drop=0.1, block=3"),
        ("dropblock", {"maps_drop": 0.2, "maps_block": 7}, "drop=0.2, block=7"),
        ("disout", {}, "drop=0.09, block=6, alpha=5.0"),
        ("disout", {"maps_drop": 0.3, "maps_block": 2, "maps_alpha": 1.5}, "drop=0.3, block=2, alpha=1.5"),
    ],
)
def test_the_constants_of_map_regularizers_reach_every_slot(
    name: str, maps: str, settings: dict[str, Any], expected: str
) -> None:
    model = build(name, 10, 3, 2, maps=maps, **settings)
    found = [module.extra_repr() for module in model.modules() if isinstance(module, DropBlock | Disout)]
    assert set(found) == {expected}


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_gives_one_logit_per_class(name: str) -> None:
    model = build(name, num_classes=7, in_channels=3, width=8).eval()
    size = 28 if name == "mnistnet" else 32
    assert model(torch.rand(2, 3, size, size)).shape == (2, 7)
    assert model.num_classes == 7


def test_images_are_not_normalized_by_default() -> None:
    model = build("mnistnet", 10, 3, 4)
    x = torch.rand(1, 3, 28, 28)
    assert torch.equal(model.normalize(x), x)


def test_the_weights_follow_torchs_generator() -> None:
    with torch.random.fork_rng(devices=[]):
        states = []
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            states.append(build("mnistnet", 10, 1, 4).state_dict()["head.0.weight"])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "alexnet"}, "unknown model 'alexnet'; known: mnistnet, vgg16"),
        ({"name": "vgg19"}, "unknown model 'vgg19'; did you mean 'vgg16'? known: mnistnet, vgg16"),
        ({"noise": "blur"}, "unknown noise 'blur'; known: dropout, dropconnect, none"),
        ({"num_classes": 1}, "num_classes must be at least 2; got 1"),
        ({"in_channels": 0}, "in_channels must be at least 1; got 0"),
        ({"width": 1}, "width must be at least 2; got 1"),
        ({"drop": 1.0}, "drop must be a probability in [0, 1); got 1.0"),
        ({"maps_block": 3}, "maps_drop, maps_block and maps_alpha need maps 'dropblock' or 'disout'; got 'none'"),
        ({"maps": "dropblock", "maps_alpha": 1.0}, "maps_alpha needs maps 'disout'; got 'dropblock'"),
        ({"maps": "disout", "maps_block": 0}, "maps_block must be at least 1; got 0"),
        ({"maps": "disout", "maps_drop": 1.0}, "drop must be a probability in [0, 1); got 1.0"),
        ({"mean": (0.0, 0.0), "std": (1.0,)}, "mean and std need one value per channel"),
    ],
)
def test_impossible_networks_are_refused(arguments: dict[str, object], message: str) -> None:
    defaults = {"name": "mnistnet", "num_classes": 10, "in_channels": 1, "width": 4}
    with pytest.raises(InputError, match=re.escape(message)):
        build(**{**defaults, **arguments})  # type: ignore[arg-type]
