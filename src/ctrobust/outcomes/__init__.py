"""What became of each example under attack, and what follows from it. NumPy and SciPy, no torch."""

from ctrobust.outcomes.attacked_images import AttackedImages
from ctrobust.outcomes.comparison import Comparison, compare
from ctrobust.outcomes.curve import RobustnessCurve, worst_curve
from ctrobust.outcomes.evaluation import Evaluation
from ctrobust.outcomes.intervals import Interval, wilson
from ctrobust.outcomes.masking import Evidence, MaskingSetting, Measurement, Verdict
from ctrobust.outcomes.masking_tests import MASKING_TESTS, assess_masking
from ctrobust.outcomes.masking_thresholds import THRESHOLDS
from ctrobust.outcomes.paired_tests import McNemar, holm, mcnemar, pooled_mcnemar
from ctrobust.outcomes.pooled_comparison import PooledComparison, compare_pooled
from ctrobust.outcomes.threshold import ThresholdStatistics, attacked_rank, threshold_statistics
from ctrobust.outcomes.worst_case import WorstCase, worst_case

__all__ = [
    "MASKING_TESTS", "THRESHOLDS", "AttackedImages", "Comparison", "Evaluation", "Evidence", "Interval",
    "MaskingSetting", "McNemar", "Measurement", "PooledComparison", "RobustnessCurve", "ThresholdStatistics",
    "Verdict", "WorstCase", "assess_masking", "attacked_rank", "compare", "compare_pooled", "holm", "mcnemar",
    "pooled_mcnemar", "threshold_statistics", "wilson", "worst_case", "worst_curve",
]  # fmt: skip
