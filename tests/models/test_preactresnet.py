"""The pre-activation ResNet-18, against its blocks computed by hand."""

from typing import Any

import torch
from torch.nn.functional import relu

from ctrobust import models
from ctrobust.regularizers import Disout


def test_the_output_equals_the_blocks_computed_by_hand() -> None:
    """A block is BN-ReLU-conv-BN-ReLU-conv plus shortcut; a projection takes the first activation."""
    model = models.build("preactresnet18", 10, 3, 8).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean)  # type: ignore[arg-type]
            torch.nn.init.uniform_(module.weight)
    x = torch.rand(2, 3, 32, 32)
    body: Any = model.body
    out, projections = body.stem(x), 0
    for layer in body.layers:
        for block in layer:
            activated = relu(block.first.norm(out))
            hidden = block.unit2.conv(relu(block.second.norm(block.unit1.conv(activated))))
            out = hidden + (out if block.projection is None else block.projection(activated))
            projections += block.projection is not None
    assert projections == 3
    assert out.shape == (2, 64, 4, 4)
    torch.testing.assert_close(model.features(x), relu(body.last.norm(out)).mean((2, 3)))


def test_the_parameters_are_those_of_resnet18_with_fewer_norms() -> None:
    # Without the stem's BatchNorm and those of three projections, with a last one; the first BatchNorm of layers 2 to 4
    # has the channels of the layer before.
    width = 16
    plain, preactivated = (
        sum(parameter.numel() for parameter in models.build(name, 10, 3, width).parameters())
        for name in ("resnet18", "preactresnet18")
    )
    assert preactivated - plain == 2 * width * (-1 - (2 + 4 + 8) + 8 - (1 + 2 + 4))


def test_each_disout_gets_the_following_convolution() -> None:
    body: Any = models.build("preactresnet18", 10, 3, 8, maps="disout").body
    convs = [conv for block in body.layers[-1] for conv in (block.unit1.conv, block.unit2.conv)]
    found = [module._following[0] for module in body.modules() if isinstance(module, Disout)]
    assert found == [*convs[1:], None]
