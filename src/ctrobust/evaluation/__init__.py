"""Evaluation: a model, data and an attack give the outcome of every example."""

from ctrobust.evaluation.curves import robustness_curve
from ctrobust.evaluation.evaluation_batches import ModelInputs, ProgressCallback
from ctrobust.evaluation.evaluation_state import NoStateStore, StateStore
from ctrobust.evaluation.evaluator import Evaluator, evaluate, evaluate_each
from ctrobust.evaluation.masking_attacks import masking
from ctrobust.evaluation.network_checks import check_network, check_scale, check_trainable, draws_at_random
from ctrobust.evaluation.randomized_models import RepeatedMean
from ctrobust.evaluation.stage_batches import BatchObserver, BatchRunner, StageBatch, StageRunner, StateArrays

__all__ = [
    "BatchObserver", "BatchRunner", "Evaluator", "ModelInputs", "NoStateStore", "ProgressCallback", "RepeatedMean",
    "StageBatch", "StageRunner", "StateArrays", "StateStore", "check_network", "check_scale", "check_trainable",
    "draws_at_random", "evaluate", "evaluate_each", "masking", "robustness_curve",
]  # fmt: skip
