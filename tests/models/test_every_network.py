"""What every network must do, one row of NETWORKS per network: parameter counts, slots, memory format, gradients."""

import pytest
import torch
from torch import nn

from ctrobust import models
from ctrobust.errors import InputError
from ctrobust.regularizers import Disout, DropBlock
from ctrobust.specs import NETWORK_NAMES

# Name, parameters with 10 and with 100 classes, sides of the maps at DropBlock's slots and at Disout's.
NETWORKS: list[tuple[str, int, int, list[int], list[int]]] = [
    ("vgg16", 14_728_266, 14_774_436, [8] * 3 + [4] * 3, [2] * 3),
    ("resnet18", 11_173_962, 11_220_132, [8] * 4 + [4] * 4, [4] * 4),
    # a 1x1 convolution before each stride
    ("resnet50", 23_520_842, 23_705_252, [16] + [8] * 17 + [8] + [4] * 8, [8] + [4] * 8),
    ("preactresnet18", 11_172_170, 11_218_340, [8] * 4 + [4] * 4, [4] * 4),
]
NAMES = [name for name, *_ in NETWORKS]


def small(name: str, **fields: str) -> models.Classifier:
    model = models.build(name, num_classes=10, in_channels=3, width=8, **fields)  # type: ignore[arg-type]
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def images(count: int = 4) -> torch.Tensor:
    return torch.rand(count, 3, 32, 32).contiguous(memory_format=torch.channels_last)


def test_every_network_has_a_row() -> None:
    assert {*NAMES, "mnistnet"} == set(models.MODELS) == set(NETWORK_NAMES)


@pytest.mark.parametrize(
    ("name", "classes", "count"), [(row[0], classes, row[i]) for row in NETWORKS for i, classes in ((1, 10), (2, 100))]
)
def test_parameter_counts(name: str, classes: int, count: int) -> None:
    with torch.device("meta"):
        model = models.build(name, num_classes=classes, in_channels=3)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("maps", list(models.MAPS))
def test_gradients_reach_every_parameter(name: str, maps: str) -> None:
    model = small(name, maps=maps).train()
    loss = nn.functional.cross_entropy(model(images()), torch.arange(4))
    torch.autograd.backward(loss)
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert parameter.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", NAMES)
def test_channels_last_is_kept_by_every_convolution(name: str) -> None:
    model, seen = small(name).eval(), []
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(
                lambda _module, _arguments, out: seen.append(out.is_contiguous(memory_format=torch.channels_last))
            )
    model(images())
    assert len(seen) > 10
    assert all(seen)


def map_sides(name: str, maps: str) -> list[int]:
    """Side lengths of the feature maps at the filled slots, in order."""
    channels, size = (1, 28) if name == "mnistnet" else (3, 32)
    model, seen = models.build(name, 10, channels, 8, maps=maps), list[int]()
    for module in model.modules():
        if isinstance(module, DropBlock | Disout):
            module.register_forward_hook(lambda _module, arguments, _out: seen.append(arguments[0].shape[-1]))
    model(torch.rand(2, channels, size, size))
    return seen


@pytest.mark.parametrize(
    ("name", "blocks", "distortions"),
    [("mnistnet", [8], [10, 8]), *((name, blocks, distortions) for name, _, _, blocks, distortions in NETWORKS)],
)
def test_slots_are_filled_where_the_paper_puts_them(name: str, blocks: list[int], distortions: list[int]) -> None:
    assert map_sides(name, "dropblock") == blocks
    assert map_sides(name, "disout") == distortions
    assert map_sides(name, "none") == []


@pytest.mark.parametrize("name", [*NAMES, "mnistnet"])
def test_slots_do_not_change_names_of_weights(name: str) -> None:
    channels = 1 if name == "mnistnet" else 3
    keys = [list(models.build(name, 10, channels, 8, maps=maps).state_dict()) for maps in models.MAPS]
    assert keys[0] == keys[1] == keys[2]


@pytest.mark.parametrize("name", [*NAMES, "mnistnet"])
def test_slots_have_no_effect_in_eval_mode(name: str) -> None:
    channels, size = (1, 28) if name == "mnistnet" else (3, 32)
    without = models.build(name, 10, channels, 8).eval()
    x = torch.rand(2, channels, size, size)
    for maps in ("dropblock", "disout"):
        other = models.build(name, 10, channels, 8, maps=maps).eval()
        other.load_state_dict(without.state_dict())
        assert torch.equal(other(x), without(x))


def test_each_disout_gets_the_following_convolution() -> None:
    body = small("vgg16", maps="disout").body
    units = [module for module in body.modules() if isinstance(module, Disout)]
    convs = [module for module in body.modules() if isinstance(module, nn.Conv2d)][-3:]
    assert [unit._following[0] for unit in units] == [convs[1], convs[2], None]


def test_resnet18_equals_its_blocks_computed_by_hand() -> None:
    """A block is conv-BN-ReLU-conv-BN plus shortcut, then ReLU."""
    model = small("resnet18").eval()
    x = model.normalize(images(2))
    body = model.body
    out = torch.relu(body.stem.norm(body.stem.conv(x)))  # type: ignore[union-attr, operator]
    for layer in body.layers:  # type: ignore[union-attr]
        for block in layer:
            first, second = block.units
            hidden = torch.relu(first.norm(first.conv(out)))
            out = torch.relu(second.norm(second.conv(hidden)) + block.shortcut(out))
    torch.testing.assert_close(model.features(images(2) * 0 + x), out.mean((2, 3)))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vgg16"])
@pytest.mark.parametrize("size", [8, 33])
def test_networks_with_global_pooling_take_any_size(name: str, size: int) -> None:
    model = models.build(name, 10, 3, 8, image_size=size).eval()
    assert model(torch.rand(2, 3, size, size)).shape == (2, 10)


def test_vgg16_refuses_smaller_images_and_averages_what_larger_ones_leave() -> None:
    model = small("vgg16").eval()
    with pytest.raises(InputError, match="vgg16 takes images of at least 32x32; got 28x28"):
        model(torch.rand(1, 3, 28, 28))
    with pytest.raises(InputError, match="vgg16 takes images of at least 32x32; got 28x40"):
        models.build("vgg16", 10, 3, 8, image_size=(28, 40))
    x = images(2)
    assert torch.equal(model.features(x), model.body.stages(model.normalize(x)).flatten(1))  # type: ignore[operator]
    larger = torch.rand(2, 3, 64, 96)
    maps = model.body.stages(model.normalize(larger))  # type: ignore[operator]
    assert maps.shape[2:] == (2, 3)
    assert torch.equal(model.features(larger), maps.mean((2, 3)))


def test_unknown_maps_are_refused() -> None:
    with pytest.raises(
        InputError, match="unknown maps 'dropblok'; did you mean 'dropblock'\\? known: none, dropblock, disout"
    ):
        models.build("mnistnet", 10, 1, maps="dropblok")
