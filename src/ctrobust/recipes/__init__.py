"""How a batch becomes losses to descend."""

from ctrobust.recipes.contract import Network, Recipe
from ctrobust.recipes.natural import Natural

RECIPES: dict[str, type[Natural]] = {"natural": Natural}

__all__ = ["RECIPES", "Natural", "Network", "Recipe"]
