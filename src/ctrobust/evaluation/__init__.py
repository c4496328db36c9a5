"""Evaluation: model x data x attack -> per-example outcomes, and what they say."""

from ctrobust.evaluation.measure import evaluate, evaluate_each
from ctrobust.evaluation.outcomes import Evaluation
from ctrobust.evaluation.statistics import Interval, McNemar, mcnemar, wilson
from ctrobust.evaluation.threshold import ThresholdStatistics, attacked_rank, threshold_statistics

__all__ = [
    "Evaluation", "Interval", "McNemar", "ThresholdStatistics", "attacked_rank", "evaluate", "evaluate_each", "mcnemar",
    "threshold_statistics", "wilson",
]  # fmt: skip
