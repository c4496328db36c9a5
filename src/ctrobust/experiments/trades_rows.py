"""The rows and trainings that tables 5 and 8 share: TRADES by beta and gamma."""

from ctrobust.experiments.adversarial_runs import adversarial_run
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.table import Row
from ctrobust.specs import TrainSpec

SCHEDULES = {"Multistep": "multistep", "Cyclic": "cyclic"}
"""The paper's name, in the order of the columns -> the schedule's name in specs."""

ROW_HEADERS = ("Methods", "beta", "gamma")

ROBUST_FROM_BETA_1 = tuple((beta, 3) for beta in (2, 3, 4, 5))
"""(beta, gamma) of the bold rows that the text compares with beta = 1 without CTR."""

CHOSEN_FROM_BETA_6 = {"Multistep": ((6, 1), (7, 1)), "Cyclic": ((6, 3), (7, 1))}
"""Schedule -> (beta, gamma) of the bold rows that the text compares with beta = 6 without CTR."""


def trades_label(beta: int, gamma: int) -> str:
    """The label of a row; gamma 0 is TRADES without CTR.

    Example:
        >>> trades_label(6, 0)
        'TRADES, beta 6, gamma 0'
    """
    return f"TRADES, beta {beta}, gamma {gamma}"


def trades_row(headers: tuple[str, ...]) -> Row:
    """The row of the texts (method, beta, gamma)."""
    _, beta, gamma = headers
    return Row(trades_label(int(beta), int(gamma)), headers)


def trades_run(preset: Preset, row: Row, schedule: str) -> TrainSpec:
    """The training of a row, with a schedule by the paper's name."""
    _, beta, gamma = row.headers
    return adversarial_run(preset, "trades", SCHEDULES[schedule], int(gamma), beta=int(beta))
