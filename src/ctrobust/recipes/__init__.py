"""How a batch becomes losses to descend."""

from ctrobust.recipes.contract import Attacked, Network, Recipe
from ctrobust.recipes.fast import Fast
from ctrobust.recipes.free import Free
from ctrobust.recipes.madry import Madry
from ctrobust.recipes.natural import Natural
from ctrobust.recipes.online_smoothing import OnlineSmoothing
from ctrobust.recipes.ranks import Alone, Ranks
from ctrobust.recipes.trades import Trades
from ctrobust.recipes.watching import collapsed, one_step_attack, validation_attack, watch_attack

RECIPES: dict[str, type[Natural] | type[Fast] | type[Free] | type[Madry] | type[Trades]] = {
    "natural": Natural,
    "fast": Fast,
    "free": Free,
    "madry": Madry,
    "trades": Trades,
}

__all__ = [
    "RECIPES", "Alone", "Attacked", "Fast", "Free", "Madry", "Natural", "Network", "OnlineSmoothing", "Ranks", "Recipe",
    "Trades", "collapsed", "one_step_attack", "validation_attack", "watch_attack",
]  # fmt: skip
