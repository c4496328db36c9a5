"""One value of a table or figure: what is measured, the jobs that it is computed from, and what the paper prints."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ctrobust.specs import Job

Metric = Literal[
    "accuracy", "robust_accuracy", "attack_success_rate", "wrong_below", "minutes", "average_rank", "tsne"
]  # fmt: skip

METRICS: dict[Metric, str] = {
    "accuracy": "accuracy on all test images in percent, from the record of a training; the mean over several jobs",
    "robust_accuracy": "accuracy on the attacked images in percent",
    "attack_success_rate": "100 minus the robust accuracy: images misclassified before the attack count as successes",
    "wrong_below": "number of wrong categories whose probability is less than the cell's threshold",
    "minutes": "duration of a training in minutes; the mean over several jobs",
    "average_rank": "mean over a table's columns of the row's rank, 1 for the best; ties share their mean rank",
    "tsne": "a two-dimensional embedding of logits, not a number",
}
"""Metric -> what its value is."""


class MeanSpread(NamedTuple):
    """A mean over several seeds with its spread, printed as 93.38+0.13 in the paper."""

    value: float
    spread: float


class CellName(NamedTuple):
    """Where a value is: "table1" or "figure3", with the labels of its row or series and of its column or point."""

    experiment: str
    row: str
    column: str


@dataclass(frozen=True)
class Cell:
    """One value.

    Attributes:
        row: label of the row, or of the series of a figure.
        column: label of the column, or of the panel and the point of a figure.
        metric: what is measured; see METRICS.
        jobs: the jobs that the value is computed from; several seeds are several jobs.
        printed: the paper's text, such as "88.80" or "93.38+0.13"; None where the paper prints nothing.
        bold: whether the paper prints the value in bold.
        threshold: the probability below which `wrong_below` counts.

    Example:
        >>> Cell("DO", "FashionMNIST Accs", "accuracy", (), "93.38+0.13").paper
        MeanSpread(value=93.38, spread=0.13)
    """

    row: str
    column: str
    metric: Metric
    jobs: tuple[Job, ...]
    printed: str | None = None
    bold: bool = False
    threshold: float | None = None

    def matches(self, texts: Iterable[str]) -> bool:
        """Whether the labels of its row and column contain each of the texts, in upper or lower case.

        Example:
            >>> cell = Cell("MDL", "MNISTNet Cyclic FM", "accuracy", ())
            >>> cell.matches(["mnistnet", "mdl"]), cell.matches(["VGG16"]), cell.matches([])
            (True, False, True)
        """
        labels = f"{self.row}, {self.column}".casefold()
        return all(text.casefold() in labels for text in texts)

    @property
    def paper(self) -> float | MeanSpread | None:
        """The printed value as a number, with its spread where there is one."""
        if self.printed is None:
            return None
        value, plus, spread = self.printed.partition("+")
        return MeanSpread(float(value), float(spread)) if plus else float(value)
