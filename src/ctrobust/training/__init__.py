"""Training: a spec in, a run directory out."""

from ctrobust.training.allocator import keep_freed_memory
from ctrobust.training.devices import Devices, is_main_process
from ctrobust.training.divergence import DivergedError, with_changed_rate
from ctrobust.training.environment import environment
from ctrobust.training.loop import train
from ctrobust.training.tensorboard import with_tensorboard
from ctrobust.training.training_callback import CheckpointPolicy, TrainingCallback, TrainingInterrupted
from ctrobust.training.training_state import TrainingState

__all__ = [
    "CheckpointPolicy",
    "Devices",
    "DivergedError",
    "TrainingCallback",
    "TrainingInterrupted",
    "TrainingState",
    "environment",
    "is_main_process",
    "keep_freed_memory",
    "train",
    "with_changed_rate",
    "with_tensorboard",
]  # fmt: skip
