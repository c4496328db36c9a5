"""Training: specs become run directories."""

from ctrobust.training.allocator import keep_freed_memory
from ctrobust.training.environment import environment
from ctrobust.training.loop import Interrupted, Run, Saving, Watcher, train
from ctrobust.training.weights import load, weights_file

__all__ = [
    "Interrupted", "Run", "Saving", "Watcher", "environment", "keep_freed_memory", "load", "train", "weights_file",
]  # fmt: skip
