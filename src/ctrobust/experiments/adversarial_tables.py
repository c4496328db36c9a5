"""What tables 5, 6, 8 and 9 share: two schedules of five columns each."""

from collections.abc import Callable

from ctrobust.experiments.attack_jobs import attack_footnotes, attack_job
from ctrobust.experiments.cell import Cell, CellName, Metric
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.statements import RisesThenFalls, Statement
from ctrobust.experiments.table import Column, Row, read_block
from ctrobust.experiments.trades_rows import SCHEDULES
from ctrobust.specs import TrainingJob, TrainSpec

EPS = "8/255"

MAIN_COLUMNS = ("Natural", "FGSM", "PGD", "AA", "Time")
MORE_COLUMNS = ("MI", "APGD", "PGD-SCE", "CW", "Square")


def schedule_columns(titles: tuple[str, ...]) -> tuple[Column, ...]:
    """The columns under Multistep, then those under Cyclic.

    Example:
        >>> [column.label for column in schedule_columns(("Natural", "Time"))]
        ['Multistep Natural', 'Multistep Time', 'Cyclic Natural', 'Cyclic Time']
    """
    return tuple(
        Column(f"{schedule} {title}", (schedule, title), None if title == "Time" else "higher")
        for schedule in SCHEDULES
        for title in titles
    )


def adversarial_cells(
    preset: Preset,
    printed: str,
    titles: tuple[str, ...],
    make_row: Callable[[tuple[str, ...]], Row],
    make_run: Callable[[Preset, Row, str], TrainSpec],
) -> tuple[tuple[Row, ...], tuple[Cell, ...]]:
    """The rows and cells of a transcribed table; `make_run` gives the training of a row and a schedule."""
    rows, cells = [], []
    for headers, values in read_block(printed):
        row = make_row(headers)
        rows.append(row)
        for column, value in zip(schedule_columns(titles), values, strict=True):
            schedule, title = column.headers
            run = make_run(preset, row, schedule)
            if title in ("Natural", "Time"):
                metric: Metric = "accuracy" if title == "Natural" else "minutes"
                cells.append(
                    Cell(row.label, column.label, metric, (TrainingJob(training=run),), value.text, value.bold)
                )
            else:
                job = attack_job(preset, run, title, EPS)
                cells.append(Cell(row.label, column.label, "robust_accuracy", (job,), value.text, value.bold))
    return tuple(rows), tuple(cells)


def main_footnotes(preset: Preset) -> tuple[str, ...]:
    """The readings of tables 5 and 6."""
    return (
        "PGD has 20 steps of eps/4 from a random start. Natural accuracy is over all test images.",
        "The paper's times are minutes of four 2080ti GPUs.",
        *attack_footnotes(preset),
    )


def more_footnotes(preset: Preset) -> tuple[str, ...]:
    """The readings of tables 8 and 9."""
    return (
        "MI is MI-FGSM with 10 steps of eps/4; APGD has 100 steps on CE; PGD-SCE is PGD on SCE with gamma 5; Square "
        "has 5,000 queries.",
        "CW is CW-inf in the form of ART up to 1.8.1, a line search inside the ball: the paper names only its 10 "
        "iterations and rate of 0.01.",
        "The captions mention build times, which these tables do not have.",
        *attack_footnotes(preset),
    )


def rises_then_falls(method: str, column: str, sequence: tuple[CellName, ...]) -> Statement:
    """The text's statement on robust accuracy as gamma grows; PRINTED_PEAKS_AT_END lists where it is not so."""
    peak = PRINTED_PEAKS_AT_END.get((method, column))
    remark = f"the largest printed value is at gamma {peak}" if peak else ""
    return Statement(
        f"The robust accuracy of {method} rises with gamma from 1, then falls ({column}).",
        (RisesThenFalls(sequence),),
        not remark,
        remark,
    )


PRINTED_PEAKS_AT_END = {
    ("TRADES, beta 1", "Multistep FGSM"): 1,
    ("TRADES, beta 1", "Cyclic PGD"): 1,
    ("TRADES, beta 1", "Cyclic AA"): 1,
    ("TRADES, beta 6", "Multistep PGD"): 1,
    ("TRADES, beta 6", "Multistep AA"): 1,
    ("TRADES, beta 6", "Cyclic FGSM"): 5,
    ("Free-AT", "Cyclic PGD"): 4,
    ("Free-AT", "Cyclic AA"): 1,
}
"""Method and column -> the first or last gamma, where the largest printed accuracy is."""
