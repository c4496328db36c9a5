"""Evaluation: a model, data and an attack give the outcome of every example."""

from ctrobust.evaluation.evaluator import evaluate, evaluate_each

__all__ = ["evaluate", "evaluate_each"]
