"""A small evaluation to print."""

from pathlib import Path

import torch
from torch import nn

from ctrobust.attacks import FGSM, PGD
from ctrobust.data import Dataset
from ctrobust.evaluation import evaluate_each
from ctrobust.execution import EvaluationRow

CLASSES = tuple("abcd")


def dots(verified: bool = True) -> Dataset:
    images = torch.randint(256, (40, 1, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return Dataset("dots", "test", images, images.flatten(1).argmax(1), CLASSES, (0.0,), (1.0,), verified)


def rows(*, stored: bool = False) -> list[EvaluationRow]:
    """A linear model, which gives its pixels as logits, under two attacks."""
    attacks: list[FGSM | PGD] = [FGSM(eps=0.1), PGD(eps=0.2, loss="sce(gamma=5)")]
    outs = evaluate_each(nn.Sequential(nn.Flatten()).eval(), dots(), attacks)
    seconds = None if stored else 1.25
    file = Path("outcomes/x.npz") if stored else None
    return [EvaluationRow(str(attack), out, file, seconds) for attack, out in zip(attacks, outs, strict=True)]


def clean_row(model: nn.Module | None = None) -> EvaluationRow:
    """The same images without an attack."""
    (clean,) = evaluate_each(model or nn.Sequential(nn.Flatten()).eval(), dots(), [None])
    return EvaluationRow("none", clean, None, 0.1)
