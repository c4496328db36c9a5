"""Specs become work, and work is done once.

Names are imported when first used, so that planning loads no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrobust.execution.autoattack_ball import AutoAttackBall, autoattack_result, standard_autoattack
    from ctrobust.execution.demo_runs import DEMO_METHODS, DemoRun, attack_demo, check_demo, illustrate_demo, train_demo
    from ctrobust.execution.evaluation_target import EvaluationTarget, opened_target
    from ctrobust.execution.execution_report import ExecutionProgress, ExecutionReport, WorkerActivity
    from ctrobust.execution.executor_settings import ExecutorSettings
    from ctrobust.execution.executors import EXECUTORS, find_executor
    from ctrobust.execution.headline import BallHeadline, headlines, reached_ranks
    from ctrobust.execution.job_runner import run_job
    from ctrobust.execution.local_executor import run_locally
    from ctrobust.execution.picture_attacks import SavedImages, attack_images, choose_examples, save_images
    from ctrobust.execution.planning import Plan, make_plan
    from ctrobust.execution.ray_executor import run_on_ray
    from ctrobust.execution.sharded_evaluation import Sharding
    from ctrobust.execution.stored_curve import CurveRow, curve_attacks, curves_stored
    from ctrobust.execution.stored_evaluation import (
        EvaluationRow,
        evaluate_stored,
        evaluation_data,
        expand,
        read_weights,
    )
    from ctrobust.execution.stored_verdict import VerdictRow, verdict_stored, verdicts_beside
    from ctrobust.execution.target_options import TargetOptions

__all__ = [
    "DEMO_METHODS",
    "EXECUTORS",
    "AutoAttackBall",
    "BallHeadline",
    "CurveRow",
    "DemoRun",
    "EvaluationRow",
    "EvaluationTarget",
    "ExecutionProgress",
    "ExecutionReport",
    "ExecutorSettings",
    "Plan",
    "SavedImages",
    "Sharding",
    "TargetOptions",
    "VerdictRow",
    "WorkerActivity",
    "attack_demo",
    "attack_images",
    "autoattack_result",
    "check_demo",
    "choose_examples",
    "curve_attacks",
    "curves_stored",
    "evaluate_stored",
    "evaluation_data",
    "expand",
    "find_executor",
    "headlines",
    "illustrate_demo",
    "make_plan",
    "opened_target",
    "reached_ranks",
    "read_weights",
    "run_job",
    "run_locally",
    "run_on_ray",
    "save_images",
    "standard_autoattack",
    "train_demo",
    "verdict_stored",
    "verdicts_beside",
]  # fmt: skip

_MODULES = {
    "autoattack_ball": ("AutoAttackBall", "autoattack_result", "standard_autoattack"),
    "demo_runs": ("DEMO_METHODS", "DemoRun", "attack_demo", "check_demo", "illustrate_demo", "train_demo"),
    "evaluation_target": ("EvaluationTarget", "opened_target"),
    "execution_report": ("ExecutionProgress", "ExecutionReport", "WorkerActivity"),
    "executor_settings": ("ExecutorSettings",),
    "executors": ("EXECUTORS", "find_executor"),
    "headline": ("BallHeadline", "headlines", "reached_ranks"),
    "job_runner": ("run_job",),
    "local_executor": ("run_locally",),
    "picture_attacks": ("SavedImages", "attack_images", "choose_examples", "save_images"),
    "planning": ("Plan", "make_plan"),
    "ray_executor": ("run_on_ray",),
    "sharded_evaluation": ("Sharding",),
    "stored_curve": ("CurveRow", "curve_attacks", "curves_stored"),
    "stored_evaluation": (
        "EvaluationRow",
        "evaluate_stored",
        "evaluation_data",
        "expand",
        "read_weights",
    ),
    "stored_verdict": ("VerdictRow", "verdict_stored", "verdicts_beside"),
    "target_options": ("TargetOptions",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"ctrobust.execution.{module}"), name)
    raise AttributeError(f"module 'ctrobust.execution' has no attribute {name!r}")
