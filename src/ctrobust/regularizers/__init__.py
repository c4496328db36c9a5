"""Regularizers: random modules of a network, in two kinds of slot, feature maps and the head.

`set_step` gives each module the key of its random draws, so that its masks depend only on the seed, the step and the
example. Without a step key a module takes a new random stream from torch's generator at each call, as torch's own
modules do.
"""

from ctrobust.regularizers.disout import Disout
from ctrobust.regularizers.dropblock import DropBlock
from ctrobust.regularizers.dropconnect import DropConnect
from ctrobust.regularizers.dropout import Dropout
from ctrobust.regularizers.step_key import HeadNoise, Regularizer, StepKey, clear_step, set_step

HEAD_NOISE: dict[str, type[Dropout] | type[DropConnect]] = {"dropout": Dropout, "dropconnect": DropConnect}

__all__ = [
    "HEAD_NOISE",
    "Disout",
    "DropBlock",
    "DropConnect",
    "Dropout",
    "HeadNoise",
    "Regularizer",
    "StepKey",
    "clear_step",
    "set_step",
]
