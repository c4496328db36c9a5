"""Table 2: DropConnect, label smoothing and online label smoothing, each with and without MDL."""

from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.natural_columns import SETTING_COLUMNS, SETTINGS
from ctrobust.experiments.natural_runs import natural_footnotes, natural_run
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.statements import Above, Gains, Statement
from ctrobust.experiments.table import Row, Table, read_block
from ctrobust.specs import TrainingJob

PRINTED = """
DC             |  99.50  92.18  99.50  92.60 |  93.08  71.39 *93.52  71.55 |  92.89  67.27  94.50  76.01
DC+MDL (ours)  | *99.55 *92.80 *99.56 *93.21 | *93.55 *71.86  93.33 *72.11 | *94.47 *72.98 *94.55 *77.11
LS             |  99.47  93.43  99.55  93.53 |  93.17  72.38 *93.49  72.39 |  92.51 *69.19  93.99 *76.15
LS+MDL (ours)  | *99.48 *93.55 *99.55 *94.05 | *93.37 *72.41  93.42 *72.46 | *93.36  68.34 *94.58  76.05
OLS            | *99.55  93.37  99.57  93.75 |  93.26  72.51 *93.69  72.35 |  92.55 *70.23  94.47  76.00
OLS+MDL (ours) |  99.52 *93.53 *99.58 *93.88 | *93.34 *72.91  93.44 *72.72 | *93.42  69.29 *94.63 *76.42
"""

DROPCONNECT_GAINS = {
    "MNISTNet Cyclic M": 0.05,
    "MNISTNet Cyclic FM": 0.62,
    "VGG16 Cyclic C10": 0.47,
    "ResNet50 Cyclic C10": 1.58,
    "VGG16 Cyclic C100": 0.47,
    "ResNet50 Cyclic C100": 5.71,
    "MNISTNet Multistep M": 0.06,
    "MNISTNet Multistep FM": 0.61,
    "ResNet50 Multistep C10": 0.05,
    "VGG16 Multistep C100": 0.56,
    "ResNet50 Multistep C100": 1.1,
    "VGG16 Multistep C10": -0.19,
}
"""Column -> the printed gain of DropConnect by MDL."""


def table2(preset: Preset) -> Table:
    rows, cells = [], []
    for headers, values in read_block(PRINTED):
        label = headers[0].removesuffix(" (ours)")
        rows.append(Row(label, headers, group=label.removesuffix("+MDL")))
        cells += [
            Cell(
                label,
                column.label,
                "accuracy",
                (TrainingJob(training=natural_run(preset, label, setting)),),
                value.text,
                value.bold,
            )
            for column, setting, value in zip(SETTING_COLUMNS, SETTINGS, values, strict=True)
        ]
    return Table(
        name="table2",
        preset=preset.name,
        title="Accuracy (%) of DropConnect, label smoothing and online label smoothing with and without MDL",
        row_headers=("Methods",),
        rows=tuple(rows),
        columns=SETTING_COLUMNS,
        cells=tuple(cells),
        bold_rule="best of the group",
        footnotes=natural_footnotes(preset, {setting.network for setting in SETTINGS}),
        statements=_statements(),
    )


def _gain(method: str, column: str, gain: float) -> Gains:
    baseline = CellName("table2", method, column)
    return Gains((CellName("table2", f"{method}+MDL", column),), (baseline,), gain, gain)


def _statements() -> tuple[Statement, ...]:
    found = [
        Statement(
            f"MDL changes the accuracy of DropConnect by {gain:g} points ({column}).",
            (_gain("DC", column, gain),),
        )
        for column, gain in DROPCONNECT_GAINS.items()
    ]
    found.append(
        Statement(
            "MDL improves online label smoothing by 0.4 points (VGG16 Cyclic C100).",
            (_gain("OLS", "VGG16 Cyclic C100", 0.4),),
        )
    )
    disagreeing = {
        ("LS", "MNISTNet Multistep M"): "both are 99.55",
        ("OLS", "MNISTNet Cyclic M"): "99.55 falls to 99.52",
    }
    for method in ("LS", "OLS"):
        for column in (one.label for one in SETTING_COLUMNS if one.headers[0] == "MNISTNet"):
            upper, lower = CellName("table2", f"{method}+MDL", column), CellName("table2", method, column)
            remark = disagreeing.get((method, column), "")
            found.append(Statement(f"MDL improves {method} ({column}).", (Above(upper, lower),), not remark, remark))
    return tuple(found)
