"""Random modules of a network, in two kinds of slot: feature maps and the head.

Each draws from what `tell` told it, so that its masks depend on the seed, the step and the example alone. A module that
was told nothing takes a fresh stream from torch's generator, as any torch module does.
"""

from ctrobust.regularizers.disout import Disout
from ctrobust.regularizers.dropblock import DropBlock
from ctrobust.regularizers.dropconnect import DropConnect
from ctrobust.regularizers.dropout import Dropout
from ctrobust.regularizers.step_key import Draw, HeadNoise, Regularizer, clear_step, set_step

HEAD_NOISE: dict[str, type[Dropout] | type[DropConnect]] = {"dropout": Dropout, "dropconnect": DropConnect}

__all__ = [
    "HEAD_NOISE",
    "Disout",
    "Draw",
    "DropBlock",
    "DropConnect",
    "Dropout",
    "HeadNoise",
    "Regularizer",
    "clear_step",
    "set_step",
]
