"""Recipes: how a batch becomes the losses that training descends."""

from collections.abc import Callable

from ctrobust.recipes.collapse import collapse_attack, collapsed, one_step_attack, validation_attack
from ctrobust.recipes.fast import Fast
from ctrobust.recipes.free import Free
from ctrobust.recipes.interface import AttackableModel, Network, Recipe
from ctrobust.recipes.madry import Madry
from ctrobust.recipes.n_fgsm import NFGSM
from ctrobust.recipes.natural import Natural
from ctrobust.recipes.online_smoothing import OnlineSmoothing
from ctrobust.recipes.processes import Processes, SingleProcess
from ctrobust.recipes.trades import Trades

RECIPES: dict[str, Callable[..., Recipe]] = {
    "natural": Natural,
    "fast": Fast,
    "free": Free,
    "madry": Madry,
    "trades": Trades,
    "n-fgsm": NFGSM,
}

__all__ = [
    "NFGSM",
    "RECIPES",
    "AttackableModel",
    "Fast",
    "Free",
    "Madry",
    "Natural",
    "Network",
    "OnlineSmoothing",
    "Processes",
    "Recipe",
    "SingleProcess",
    "Trades",
    "collapse_attack",
    "collapsed",
    "one_step_attack",
    "validation_attack",
]  # fmt: skip
