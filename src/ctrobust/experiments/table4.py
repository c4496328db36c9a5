"""Table 4: how many wrong categories have a probability below the theoretical confidence threshold 1/(C-1)."""

from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.natural_runs import DATA_NETWORKS, TEN_METHODS, Setting, natural_footnotes, natural_run
from ctrobust.experiments.presets import Preset, theoretical_threshold
from ctrobust.experiments.statements import Statement, above_all
from ctrobust.experiments.table import Column, Row, Table, read_block
from ctrobust.specs import EvaluationJob

PRINTED = """
Dropout    |  89858  88545  88987  977710
FL         |  89608  86465  88465  966173
Dropblock  |  89867  88566  88972  974991
MSD        |  89860  88680  88993  976665
Disout     |  89855  88750  88952  975592
LR         |  89834  89009  88773  965481
DC         |  89858  88764  89002  975522
LS         |  89793  88293  88951  968836
OLS        |  89809  88346  88977  969770
MDL (ours) | *89942 *89028 *89140 *984153
"""

DATA_COLUMNS = {"mnist": "MNIST", "fashion-mnist": "FMNIST", "cifar10": "CIFAR10", "cifar100": "CIFAR100"}
COLUMNS = tuple(Column(title, (title,)) for title in DATA_COLUMNS.values())


def clean_job(preset: Preset, method: str, data: str) -> EvaluationJob:
    """The classification of all test images by a method's network, trained with Cyclic."""
    return EvaluationJob(training=natural_run(preset, method, Setting(DATA_NETWORKS[data], "cyclic", data)))


def table4(preset: Preset) -> Table:
    rows, cells = [], []
    for label, (headers, values) in zip(TEN_METHODS, read_block(PRINTED), strict=True):
        rows.append(Row(label, headers))
        cells += [
            Cell(
                row=label,
                column=column.label,
                metric="wrong_below",
                jobs=(clean_job(preset, label, data),),
                printed=value.text,
                bold=value.bold,
                threshold=theoretical_threshold(preset, data),
            )
            for data, column, value in zip(DATA_COLUMNS, COLUMNS, values, strict=True)
        ]
    return Table(
        name="table4",
        preset=preset.name,
        title="Number of wrong categories of the test set whose probability is below the theoretical CT, 1/(C-1)",
        row_headers=("Methods",),
        rows=tuple(rows),
        columns=COLUMNS,
        cells=tuple(cells),
        bold_rule="best of the column",
        footnotes=(
            "The paper names neither networks nor schedules; here MNISTNet on MNIST and Fashion-MNIST, VGG16 on CIFAR, "
            "Cyclic, seed 0: the trainings of tables 1 and 2.",
            "At most 90,000 wrong categories for 10 classes and 990,000 for 100, on 10,000 test images.",
            *natural_footnotes(preset, set(DATA_NETWORKS.values())),
        ),
        statements=tuple(
            Statement(
                f"MDL puts the probability of more wrong categories below the theoretical CT ({column.label}).",
                above_all(
                    CellName("table4", "MDL", column.label),
                    [CellName("table4", row, column.label) for row in TEN_METHODS],
                ),
            )
            for column in COLUMNS
        ),
    )
