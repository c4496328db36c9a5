"""Specs become work, and work is done once.

Names are imported when first used, so that planning loads no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrobust.execution.demo_runs import DEMO_METHODS, DemoRun, attack_demo, train_demo
    from ctrobust.execution.job_runner import run_job
    from ctrobust.execution.local_executor import ExecutionReport, run_locally
    from ctrobust.execution.planning import Plan, make_plan
    from ctrobust.execution.stored_evaluation import (
        EvaluationRow,
        evaluate_stored,
        evaluation_data,
        expand,
        read_weights,
    )

__all__ = [
    "DEMO_METHODS", "DemoRun", "EvaluationRow", "ExecutionReport", "Plan", "attack_demo", "evaluate_stored",
    "evaluation_data", "expand", "make_plan", "read_weights", "run_job", "run_locally", "train_demo",
]  # fmt: skip

_MODULES = {
    "demo_runs": ("DEMO_METHODS", "DemoRun", "attack_demo", "train_demo"),
    "job_runner": ("run_job",),
    "local_executor": ("ExecutionReport", "run_locally"),
    "planning": ("Plan", "make_plan"),
    "stored_evaluation": ("EvaluationRow", "evaluate_stored", "evaluation_data", "expand", "read_weights"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"ctrobust.execution.{module}"), name)
    raise AttributeError(f"module 'ctrobust.execution' has no attribute {name!r}")
