"""The losses that attack and descent use."""

import pytest
import torch
from pydantic import ValidationError

from ctrobust import losses
from ctrobust.errors import InputError
from ctrobust.recipes.recipe_losses import LARGEST_GAMMA, GammaIn, gammas, label_losses
from ctrobust.specs import FastSpec

LOGITS, Y = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3, 4, 0])


@pytest.mark.parametrize(("gamma_in", "attack", "descent"), [("both", 2, 2), ("attack", 2, 0), ("descent", 0, 2)])
def test_gamma_is_used_where_gamma_in_says(gamma_in: GammaIn, attack: float, descent: float) -> None:
    attack_loss, descent_loss = label_losses("sce", 2.0, gamma_in)
    assert torch.equal(attack_loss(LOGITS, Y), losses.sce(LOGITS, Y, gamma=attack))
    assert torch.equal(descent_loss(LOGITS, Y), losses.sce(LOGITS, Y, gamma=descent))
    assert (attack_loss is descent_loss) == (gamma_in == "both")


def test_gamma_zero_is_cross_entropy_and_std_is_std_alone() -> None:
    for objective in label_losses("sce", 0.0, "both"):
        assert torch.equal(objective(LOGITS, Y), losses.cross_entropy(LOGITS, Y))
    for objective in label_losses("std", 0.0, "both"):
        assert torch.equal(objective(LOGITS, Y), losses.std(LOGITS, Y))


def test_recipes_and_their_specs_accept_the_same_gammas() -> None:
    assert FastSpec(name="fast", gamma=LARGEST_GAMMA).gamma == gammas(LARGEST_GAMMA, "both")[0]
    beyond = LARGEST_GAMMA + 0.5
    with pytest.raises(InputError, match="gamma is at most"):
        gammas(beyond, "both")
    with pytest.raises(ValidationError, match="less than or equal to"):
        FastSpec(name="fast", gamma=beyond)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="gamma_in must be one of 'both', 'attack', 'descent'; got 'none'"):
        label_losses("sce", 1.0, "none")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="loss must be one of 'sce', 'std'; got 'kl'"):
        label_losses("kl", 1.0, "both")  # type: ignore[arg-type]
