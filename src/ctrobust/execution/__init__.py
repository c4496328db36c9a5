"""Specs become work, and work is done once."""

from ctrobust.execution.demo import METHODS as DEMO_METHODS
from ctrobust.execution.demo import DemoRun, attack_demo, train_demo
from ctrobust.execution.evaluating import Attacked, evaluate_stored, evaluation_data, expand

__all__ = [
    "DEMO_METHODS", "Attacked", "DemoRun", "attack_demo", "evaluate_stored", "evaluation_data", "expand", "train_demo",
]  # fmt: skip
