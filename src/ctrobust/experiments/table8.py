"""Table 8 (appendix A): TRADES with and without CTR under more attacks."""

from ctrobust.experiments.adversarial_runs import adversarial_footnotes
from ctrobust.experiments.adversarial_tables import (
    MORE_COLUMNS,
    adversarial_cells,
    more_footnotes,
    schedule_columns,
)
from ctrobust.experiments.cell import CellName
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.statements import Above, Statement
from ctrobust.experiments.table import Table
from ctrobust.experiments.trades_rows import ROBUST_FROM_BETA_1, ROW_HEADERS, trades_label, trades_row, trades_run

PRINTED = """
TRADES w.o. CTR; 1; 0 |  48.1   43.6   45.8   45.1   50.0 |  48.75  44.15  46.55  46.1   50.6
TRADES w. CTR; 1; 1   |  49.15  44.45  46.55  45.8   52.0 |  49.45  45.1   47.35  46.5   50.6
TRADES w. CTR; 1; 2   |  49.3   45.0   46.65  45.5   50.7 |  47.85  43.6   45.8   44.8   48.9
TRADES w. CTR; 1; 3   |  49.55  44.35  46.45  44.8   49.7 |  48.4   43.7   45.6   44.65  49.8
TRADES w. CTR; 1; 4   |  44.0   38.9   40.6   39.25  45.5 |  48.45  44.15  45.0   43.15  49.0
TRADES w. CTR; 1; 5   |  40.25  34.85  35.35  32.9   40.9 |  38.4   31.5   34.9   32.7   38.7
TRADES w. CTR; 2; 3   | *51.2  *46.4  *48.2  *46.45 *51.1 | *51.15 *47.2  *48.5  *47.05 *51.0
TRADES w. CTR; 3; 3   | *52.85 *48.6  *49.5  *47.75 *51.5 | *53.1  *48.6  *49.9  *48.1  *52.4
TRADES w. CTR; 4; 3   | *54.15 *49.65 *50.7  *48.55 *52.6 | *53.55 *50.5  *51.1  *49.9  *52.9
TRADES w. CTR; 5; 3   | *53.1  *49.7  *50.15 *48.95 *51.7 | *54.3  *51.15 *51.65 *50.5  *52.7
TRADES w.o. CTR; 6; 0 |  55.05  51.75  52.2   50.65  54.5 |  53.55  50.6   51.45  50.35  52.8
TRADES w. CTR; 6; 1   | *55.25 *51.9  *52.4  *50.65 *54.0 |  53.1   50.2   50.85  49.8   53.5
TRADES w. CTR; 6; 2   |  54.85  51.05  51.4   49.8   53.4 |  54.3   50.8   51.25  49.4   53.9
TRADES w. CTR; 6; 3   |  53.85  50.45  50.5   48.85  52.4 | *53.55 *50.2  *50.95 *49.15 *52.0
TRADES w. CTR; 6; 4   |  53.8   49.8   50.0   47.95  51.8 |  53.65  50.45  50.4   48.95  52.8
TRADES w. CTR; 6; 5   |  52.85  49.25  48.95  47.25  51.2 |  53.6   49.3   49.1   47.9   50.8
TRADES w. CTR; 7; 1   | *53.95 *51.3  *51.55 *49.8  *53.8 | *53.95 *51.9  *52.0  *50.9  *53.1
TRADES w. CTR; 8; 1   |  55.4   51.9   52.3   50.8   53.7 |  53.65  51.35  51.45  50.3   53.0
"""


def table8(preset: Preset) -> Table:
    rows, cells = adversarial_cells(preset, PRINTED, MORE_COLUMNS, trades_row, trades_run)
    return Table(
        name="table8",
        preset=preset.name,
        title="Accuracy (%) of TRADES with and without CTR under more attacks of 8/255",
        row_headers=ROW_HEADERS,
        rows=rows,
        columns=schedule_columns(MORE_COLUMNS),
        cells=cells,
        bold_rule="chosen rows",
        footnotes=(*more_footnotes(preset), *adversarial_footnotes(preset)),
        statements=tuple(
            Statement(
                f"CTR with beta of 2 to 5 improves on TRADES with beta 1 ({column.label}).",
                tuple(
                    Above(
                        CellName("table8", trades_label(*row), column.label),
                        CellName("table8", trades_label(1, 0), column.label),
                    )
                    for row in ROBUST_FROM_BETA_1
                ),
            )
            for column in schedule_columns(MORE_COLUMNS)
        ),
    )
