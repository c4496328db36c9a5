"""What became of each example under attack, and what follows from it. No torch."""

from ctrobust.outcomes.evaluation import Evaluation
from ctrobust.outcomes.intervals import Interval, wilson
from ctrobust.outcomes.paired_tests import McNemar, mcnemar
from ctrobust.outcomes.threshold import ThresholdStatistics, attacked_rank, threshold_statistics

__all__ = [
    "Evaluation", "Interval", "McNemar", "ThresholdStatistics", "attacked_rank", "mcnemar", "threshold_statistics",
    "wilson",
]  # fmt: skip
