"""Specs become work, and work is done once."""

from ctrobust.execution.demo_runs import DEMO_METHODS, DemoRun, attack_demo, train_demo
from ctrobust.execution.stored_evaluation import EvaluationRow, evaluate_stored, evaluation_data, expand

__all__ = [
    "DEMO_METHODS",
    "DemoRun",
    "EvaluationRow",
    "attack_demo",
    "evaluate_stored",
    "evaluation_data",
    "expand",
    "train_demo",
]  # fmt: skip
