"""Table 6: Fast-AT, Free-AT and Madry-AT with and without CTR, by gamma, epochs and schedule."""

from ctrobust.experiments.adversarial_runs import adversarial_footnotes
from ctrobust.experiments.adversarial_tables import (
    MAIN_COLUMNS,
    adversarial_cells,
    main_footnotes,
    rises_then_falls,
    schedule_columns,
)
from ctrobust.experiments.cell import CellName
from ctrobust.experiments.fast_free_madry_rows import CHOSEN, ROW_HEADERS, recipe_label, recipe_row, recipe_run
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.statements import Above, Gains, Monotone, Statement
from ctrobust.experiments.table import Table
from ctrobust.experiments.trades_rows import SCHEDULES

PRINTED = """
Fast-AT w/o CTR; 0; 40/50     |  83.82  53.95  47.1   40.8 45.7  |  84.46  54.0   46.05  40.2 52.9
Fast-AT w/ CTR (ours); 1; 50  |  84.78  55.65  48.6   41.2 53.3  |  84.89  54.6   46.45  40.5 54.0
Fast-AT w/ CTR (ours); 2; 50  | *84.34 *55.55 *48.65 *42.4 57.6  | *84.34 *55.45 *48.25 *42.3 53.9
Fast-AT w/ CTR (ours); 3; 50  |  83.31  58.1   50.4   41.0 53.3  |  84.17  57.1   49.95  41.8 53.8
Fast-AT w/ CTR (ours); 4; 50  | *81.26 *57.5  *53.7  *42.5 53.1  | *81.95 *57.55 *53.45 *42.5 54.0
Fast-AT w/ CTR (ours); 5; 50  |  77.93  56.15  52.05  41.3 53.1  |  77.21  55.0   52.05  41.9 53.8
Fast-AT w/ CTR (ours); 4; -   |  83.37  58.9   53.05  41.1 74.3  |  83.68  58.2   52.45  41.4 75.6
Fast-AT w/ CTR (ours); 5; -   |  81.05  57.05  51.4   40.4 84.9  |  81.58  57.55  53.4   40.9 96.8
Free-AT w/o CTR; 0; 50        |  83.3   53.95  49.65  43.0 179.7 |  83.36  55.85  50.55  45.5 183.8
Free-AT w/ CTR (ours); 1; 50  |  83.14  55.25  50.2   43.4 182.2 | *83.39 *56.5  *51.95 *46.3 179.8
Free-AT w/ CTR (ours); 2; 50  |  82.33  55.8   51.4   44.1 179.9 |  83.31  57.1   52.7   45.2 178.8
Free-AT w/ CTR (ours); 3; 50  |  81.25  56.25  53.1   42.8 181.3 |  82.81  58.7   54.75  45.6 182.5
Free-AT w/ CTR (ours); 4; 50  |  77.72  54.2   51.5   41.3 178.9 |  81.04  57.7   54.85  44.3 182.7
Free-AT w/ CTR (ours); 1; -   |  83.29  55.95  50.7   44.4 218.6 | *84.15 *56.55 *51.85 *46.2 251.7
Free-AT w/ CTR (ours); 2; -   | *83.41 *56.95 *52.05 *45.1 251.8 | *83.84 *58.05 *53.05 *46.5 250.3
Free-AT w/ CTR (ours); 3; -   | *82.43 *58.25 *54.0  *45.2 253.8 |  83.69  58.8   54.8   45.7 255.5
Free-AT w/ CTR (ours); 4; -   |  79.89  56.0   52.0   42.7 322.0 |  82.31  59.65  56.3   45.0 328.8
Madry-AT w/o CTR; 0; 50       |  82.29  56.1   50.5   47.0 179.3 |  82.93  55.1   50.2   47.0 178.9
Madry-AT w/ CTR (ours); 1; 50 |  82.2   57.4   52.45  46.6 174.4 |  82.79  56.4   51.35  46.1 180.3
Madry-AT w/ CTR (ours); 2; 50 |  81.88  58.55  54.35  46.5 178.8 |  82.41  57.5   52.95  46.7 175.9
Madry-AT w/ CTR (ours); 3; 50 |  80.69  59.2   56.33  47.1 179.5 | *81.47 *59.85 *55.55 *47.2 174.2
Madry-AT w/ CTR (ours); 4; 50 |  77.87  58.3   55.75  46.8 176.1 |  78.58  57.85  55.15  45.2 179.1
Madry-AT w/ CTR (ours); 5; 50 |  73.74  55.1   52.45  43.1 174.0 |  72.5   54.35  51.9   42.1 180.0
Madry-AT w/ CTR (ours); 1; -  |  82.76  57.15  53.0   46.8 191.8 |  83.9   56.85  51.15  45.3 252.4
Madry-AT w/ CTR (ours); 2; -  | *82.69 *58.05 *53.85 *47.5 196.6 |  83.4   57.35  51.35  45.1 246.2
Madry-AT w/ CTR (ours); 3; -  |  82.72  60.3   56.7   45.9 251.3 |  83.39  58.55  54.15  45.5 243.8
Madry-AT w/ CTR (ours); 4; -  |  81.32  59.05  55.3   44.7 281.7 |  81.94  60.7   56.5   45.8 322.3
Madry-AT w/ CTR (ours); 5; -  |  78.01  57.8   55.25  43.7 278.4 |  78.7   58.75  55.5   45.4 324
"""

PRINTED_GAINS = {
    ("Fast-AT", "Multistep FGSM"): (1.6, 3.55),
    ("Fast-AT", "Cyclic FGSM"): (1.45, 3.55),
    ("Fast-AT", "Multistep PGD"): (1.55, 6.6),
    ("Fast-AT", "Cyclic PGD"): (2.2, 7.4),
    ("Fast-AT", "Multistep AA"): (1.6, 1.7),
    ("Fast-AT", "Cyclic AA"): (2.1, 2.3),
    ("Free-AT", "Multistep FGSM"): (3.0, 4.3),
    ("Free-AT", "Cyclic FGSM"): (0.7, 2.2),
    ("Free-AT", "Multistep PGD"): (2.4, 4.35),
    ("Free-AT", "Cyclic PGD"): (1.3, 2.5),
    ("Free-AT", "Multistep AA"): (2.1, 2.2),
    ("Free-AT", "Cyclic AA"): (0.7, 1.0),
    ("Madry-AT", "Multistep FGSM"): (1.95, 1.95),
    ("Madry-AT", "Cyclic FGSM"): (4.75, 4.75),
    ("Madry-AT", "Multistep PGD"): (3.35, 3.35),
    ("Madry-AT", "Cyclic PGD"): (5.35, 5.35),
}
"""Method and column -> the printed range of gains of the bold rows over the row without CTR."""

GAIN_REMARKS = {("Free-AT", "Cyclic FGSM"): "the least gain of the bold rows is 0.65: gamma 1, 50 epochs"}
"""Method and column -> how the printed values disagree."""

GAMMAS = {"Fast-AT": (1, 2, 3, 4, 5), "Free-AT": (1, 2, 3, 4), "Madry-AT": (1, 2, 3, 4, 5)}
"""Method -> the values of gamma that it is trained with for 50 epochs."""


def table6(preset: Preset) -> Table:
    rows, cells = adversarial_cells(preset, PRINTED, MAIN_COLUMNS, recipe_row, recipe_run)
    return Table(
        name="table6",
        preset=preset.name,
        title="Accuracy (%) of Fast-AT, Free-AT and Madry-AT with and without CTR under attacks of 8/255, and build "
        "time (minutes)",
        row_headers=ROW_HEADERS,
        rows=rows,
        columns=schedule_columns(MAIN_COLUMNS),
        cells=cells,
        bold_rule="chosen rows",
        footnotes=(
            'Rows with epochs "-" train longer; their epochs are derived from the printed times. Fast-AT without CTR '
            "trains 40 epochs with Multistep and 50 with Cyclic.",
            *main_footnotes(preset),
            *adversarial_footnotes(preset),
        ),
        statements=_statements(),
    )


def _at(method: str, gamma: int, column: str, duration: str = "50 epochs") -> CellName:
    return CellName("table6", recipe_label(method, gamma, duration), column)


def _statements() -> tuple[Statement, ...]:
    found = []
    for (method, column), (least, largest) in PRINTED_GAINS.items():
        improved = tuple(_at(method, gamma, column, time) for gamma, time in CHOSEN[method, column.split()[0]])
        remark = GAIN_REMARKS.get((method, column), "")
        found.append(
            Statement(
                f"CTR improves {method} by {least:g} to {largest:g} points ({column}).",
                (Gains(improved, (_at(method, 0, column),), least, largest),),
                not remark,
                remark,
            )
        )
    for method, gammas in GAMMAS.items():
        for schedule in SCHEDULES:
            natural = tuple(_at(method, gamma, f"{schedule} Natural") for gamma in gammas)
            found.append(
                Statement(
                    f"The natural accuracy of {method} falls as gamma grows from 1, with the same epochs ({schedule}).",
                    (Monotone(natural, falling=True),),
                )
            )
            found += [
                rises_then_falls(method, column, tuple(_at(method, gamma, column) for gamma in gammas))
                for column in (f"{schedule} FGSM", f"{schedule} PGD", f"{schedule} AA")
            ]
    return (*found, _schedule_statement())


def _schedule_statement() -> Statement:
    rows = [(method, gamma) for method, gammas in GAMMAS.items() for gamma in (0, *gammas)]
    return Statement(
        "Cyclic is better than Multistep on natural and robust accuracy, with 50 epochs.",
        tuple(
            Above(_at(method, gamma, f"Cyclic {title}"), _at(method, gamma, f"Multistep {title}"))
            for method, gamma in rows
            for title in ("Natural", "FGSM", "PGD", "AA")
        ),
        agrees=False,
        remark="Multistep is better in many cells, such as Fast-AT with gamma 3 under FGSM and PGD.",
    )
