"""How a batch becomes losses to descend."""

from ctrobust.recipes.contract import Network, Recipe
from ctrobust.recipes.natural import Natural
from ctrobust.recipes.online_smoothing import OnlineSmoothing
from ctrobust.recipes.ranks import Alone, Ranks

RECIPES: dict[str, type[Natural]] = {"natural": Natural}

__all__ = ["RECIPES", "Alone", "Natural", "Network", "OnlineSmoothing", "Ranks", "Recipe"]
