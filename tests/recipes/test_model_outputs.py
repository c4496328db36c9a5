"""Recipes train models whose outputs contain the logits, to the same bits as models that return logits."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.recipes import NFGSM, Fast, Free, Madry, Natural, Trades


class Wrapped(nn.Module):
    """A linear network whose output is wrapped."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.layer, self.wrap = nn.Linear(6, 4), wrap
        self.layer.weight.data = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
        self.layer.bias.data.zero_()

    def forward(self, x: Tensor) -> Any:
        return self.wrap(self.layer(x))


def losses_of(recipe: Any, wrap: Any) -> list[float]:
    model = Wrapped(wrap)
    x, y = torch.rand(8, 6, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 4
    found = []
    for loss in recipe(model, x, y):
        loss.backward()
        found.append(loss.item())
    return found


MAKES: list[Any] = [
    Natural, Fast, Madry, Free, NFGSM, Trades,
    lambda: Trades(second_clean_pass=True),
]  # fmt: skip


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("wrap", [lambda z: (z, None), lambda z: {"logits": z, "features": z + 1}])
def test_every_recipe_finds_the_logits(make: Any, wrap: Any) -> None:
    expected = losses_of(make(), lambda z: z)
    assert expected
    assert losses_of(make(), wrap) == expected


@pytest.mark.parametrize("make", MAKES)
def test_every_recipe_raises_what_it_found(make: Any) -> None:
    with pytest.raises(InputError, match=r"got dict with \{'a': Tensor, 'b': Tensor\}"):
        losses_of(make(), lambda z: {"a": z, "b": z})
