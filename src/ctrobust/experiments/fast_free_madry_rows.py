"""The rows and trainings that tables 6 and 9 share: Fast-AT, Free-AT and Madry-AT by gamma and epochs."""

from ctrobust.experiments.adversarial_runs import RECIPES_OF_TITLES, adversarial_run
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.table import Row
from ctrobust.experiments.trades_rows import SCHEDULES
from ctrobust.specs import TrainSpec

ROW_HEADERS = ("Methods", "gamma", "Epochs")

LONGER_EPOCHS = {
    "Fast-AT": {"Multistep": {4: 70, 5: 80}, "Cyclic": {4: 70, 5: 90}},
    "Free-AT": {"Multistep": {1: 60, 2: 70, 3: 70, 4: 90}, "Cyclic": {1: 70, 2: 70, 3: 70, 4: 90}},
    "Madry-AT": {
        "Multistep": {1: 55, 2: 55, 3: 70, 4: 80, 5: 80},
        "Cyclic": {1: 70, 2: 70, 3: 70, 4: 90, 5: 90},
    },
}
"""Method -> schedule -> gamma -> epochs of the rows that print "-", derived from their build times."""

FAST_WITHOUT_CTR = {"Multistep": 40, "Cyclic": 50}
"""Schedule -> epochs of Fast-AT without CTR, which loses its robustness if it trains longer with Multistep."""

CHOSEN = {
    ("Fast-AT", "Multistep"): ((2, "50 epochs"), (4, "50 epochs")),
    ("Fast-AT", "Cyclic"): ((2, "50 epochs"), (4, "50 epochs")),
    ("Free-AT", "Multistep"): ((2, "longer"), (3, "longer")),
    ("Free-AT", "Cyclic"): ((1, "50 epochs"), (1, "longer"), (2, "longer")),
    ("Madry-AT", "Multistep"): ((2, "longer"),),
    ("Madry-AT", "Cyclic"): ((3, "50 epochs"),),
}
"""Method and schedule -> gamma and duration of the bold rows, which the text compares with the row without CTR."""


def recipe_label(method: str, gamma: int, duration: str = "") -> str:
    """The label of a row; gamma 0 is the method without CTR.

    Example:
        >>> recipe_label("Fast-AT", 4, "longer"), recipe_label("Fast-AT", 0)
        ('Fast-AT, gamma 4, longer', 'Fast-AT, gamma 0')
    """
    return f"{method}, gamma {gamma}" + (f", {duration}" if gamma else "")


def recipe_row(headers: tuple[str, ...]) -> Row:
    """The row of the texts (method, gamma, epochs)."""
    method, gamma, epochs = headers
    title = method.split()[0]
    return Row(recipe_label(title, int(gamma), "longer" if epochs == "-" else f"{epochs} epochs"), headers, title)


def recipe_run(preset: Preset, row: Row, schedule: str) -> TrainSpec:
    """The training of a row, with a schedule by the paper's name."""
    _, gamma, printed = row.headers
    title = row.group
    if printed == "-":
        epochs = LONGER_EPOCHS[title][schedule][int(gamma)]
    elif title == "Fast-AT" and gamma == "0":
        epochs = FAST_WITHOUT_CTR[schedule]
    else:
        epochs = int(printed)
    return adversarial_run(preset, RECIPES_OF_TITLES[title], SCHEDULES[schedule], int(gamma), epochs=epochs)
