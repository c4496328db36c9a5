"""Losses: logits and labels in, one value per example out.

Every loss takes (N, C) logits and (N,) integer labels and returns (N,): the caller reduces. Logarithms are natural.
Half precision and bfloat16 are computed and returned in float32; float64 stays float64. Values and gradients are finite
for all finite logits, including those of untrained and of saturated networks.
"""

from collections.abc import Callable

from torch import Tensor

from ctrobust.losses.cross_entropy import cross_entropy
from ctrobust.losses.dlr import dlr, dlr_targeted
from ctrobust.losses.focal import focal
from ctrobust.losses.kl import kl
from ctrobust.losses.label_relaxation import label_relaxation
from ctrobust.losses.label_smoothing import label_smoothing
from ctrobust.losses.margin import margin
from ctrobust.losses.mdl import mask_score, mask_threshold, mdl, wrong_similarity
from ctrobust.losses.online_label_smoothing import online_label_smoothing
from ctrobust.losses.probability_margin import probability_margin_log_odds
from ctrobust.losses.sce import sce
from ctrobust.losses.skl import skl
from ctrobust.losses.std import log_std, std

__all__ = [
    "LOSSES",
    "ce",
    "cross_entropy",
    "dlr",
    "dlr_targeted",
    "focal",
    "kl",
    "label_relaxation",
    "label_smoothing",
    "log_std",
    "margin",
    "mask_score",
    "mask_threshold",
    "mdl",
    "online_label_smoothing",
    "pmargin",
    "probability_margin_log_odds",
    "sce",
    "skl",
    "std",
    "wrong_similarity",
]

ce, pmargin = cross_entropy, probability_margin_log_odds
"""The short names, by which options take these losses."""

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "ce": cross_entropy,
    "label-smoothing": label_smoothing,
    "focal": focal,
    "label-relaxation": label_relaxation,
}
"""The losses that natural training can descend and that can be the base of `mdl`, by the name that a spec takes.

Online label smoothing is another: it needs the soft labels of the last epoch, which the recipe keeps.
"""
