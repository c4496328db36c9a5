"""What became of each example under attack, and what follows from it. NumPy and SciPy, no torch."""

from ctrobust.outcomes.comparison import Comparison, compare
from ctrobust.outcomes.evaluation import Evaluation
from ctrobust.outcomes.intervals import Interval, wilson
from ctrobust.outcomes.paired_tests import McNemar, mcnemar
from ctrobust.outcomes.threshold import ThresholdStatistics, attacked_rank, threshold_statistics

__all__ = [
    "Comparison", "Evaluation", "Interval", "McNemar", "ThresholdStatistics", "attacked_rank", "compare", "mcnemar",
    "threshold_statistics", "wilson",
]  # fmt: skip
