"""Training: specs become run directories."""

from ctrobust.training.allocator import keep_freed_memory
from ctrobust.training.devices import Devices, is_main_process
from ctrobust.training.environment import environment
from ctrobust.training.loop import Interrupted, Saving, Watcher, train
from ctrobust.training.run import Run
from ctrobust.training.tensorboard import with_tensorboard
from ctrobust.training.weights import load, weights_file

__all__ = [
    "Devices", "Interrupted", "Run", "Saving", "Watcher", "environment", "is_main_process", "keep_freed_memory", "load",
    "train", "weights_file", "with_tensorboard",
]  # fmt: skip
