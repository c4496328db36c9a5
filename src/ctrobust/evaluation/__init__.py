"""Evaluation: a model, data and an attack give the outcome of every example."""

from ctrobust.evaluation.evaluation_state import NoStateStore, ProgressCallback, StateStore
from ctrobust.evaluation.evaluator import Evaluator, evaluate, evaluate_each

__all__ = ["Evaluator", "NoStateStore", "ProgressCallback", "StateStore", "evaluate", "evaluate_each"]
