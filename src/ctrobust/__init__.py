"""ctrobust: image classifiers that generalize and resist attack, by confidence threshold reduction.

Images are float tensors in [0, 1], models give logits, losses and attacks give one value per example.
The parts are imported when first used, so that the command line answers `--help` without loading torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ctrobust._version import __version__

if TYPE_CHECKING:
    from ctrobust import (
        attacks,
        data,
        evaluation,
        losses,
        models,
        outcomes,
        recipes,
        regularizers,
        specs,
        store,
        training,
    )
    from ctrobust.evaluation import evaluate
    from ctrobust.models import load

__all__ = [
    "__version__", "attacks", "data", "evaluate", "evaluation", "load", "losses", "models", "outcomes", "recipes",
    "regularizers",    "specs", "store", "training",
]  # fmt: skip

_FUNCTIONS = {"evaluate": "ctrobust.evaluation", "load": "ctrobust.models"}


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    if name in __all__:
        return importlib.import_module(f"ctrobust.{name}")
    raise AttributeError(f"module 'ctrobust' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
