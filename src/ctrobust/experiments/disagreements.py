"""Where the paper does not agree with itself, and its misprints with their readings."""

from collections.abc import Iterable
from typing import NamedTuple

from ctrobust.experiments.figure import Figure
from ctrobust.experiments.table import Table


class Disagreement(NamedTuple):
    """Two places of the paper that cannot both be right."""

    experiment: str
    text: str


DISAGREEMENTS = (
    Disagreement("table2", "LS and LS+MDL both have 99.55 (MNISTNet Multistep M), and only LS+MDL is printed in bold."),
    Disagreement("table5", "55.56 (beta 1, gamma 2, Multistep FGSM) is impossible for 2,000 images: steps of 0.05."),
    Disagreement("table6", "56.33 (Madry-AT, gamma 3, Multistep PGD) is impossible for 2,000 images: steps of 0.05."),
    Disagreement(
        "table5",
        "TRADES takes 3.14 minutes an epoch with 10 steps of its attack, Madry-AT 3.59 with 7 (Multistep, gamma 0).",
    ),
    Disagreement(
        "table6", "Fast-AT without CTR trains 40 epochs with Multistep and 50 with Cyclic; table 9 prints 40 for both."
    ),
    Disagreement(
        "table7",
        "Attack success rate and robust accuracy of the same attack and model sum to 100 for FGSM, but not for PGD "
        "(Madry-AT: 48.65 and 50.5), PGD-SCE (Madry-AT: 51.45 and 49.7) or APGD (TRADES: 56.3 and 43.6).",
    ),
    Disagreement(
        "table5",
        "Bold indicates higher performance, but 9 of 48 bold values are not above those without CTR (beta 1, or beta 6 "
        "for beta of 6 and more).",
    ),
    Disagreement(
        "table6", "Bold indicates higher performance, but 5 of 44 bold values are not above those without CTR."
    ),
    Disagreement(
        "table8",
        "Bold indicates higher performance, but 12 of 60 bold values are not above those without CTR: the rows chosen "
        "in table 5.",
    ),
    Disagreement(
        "table9",
        "Bold indicates higher performance, but 12 of 55 bold values are not above those without CTR: the rows chosen "
        "in table 6.",
    ),
    Disagreement("table8", "The caption explains build times, which the table does not have."),
    Disagreement("table9", "The caption explains build times, which the table does not have."),
)
"""Those that are not statements of the text about values; `disagreements` adds these."""

MISPRINTS = {
    "epsilon = 4.255 on FashionMNIST": "4/255",
    "93.38+0.13 in table 3": "mean and spread",
    "PyTorch 3.7": "Python 3.7",
    "beta is 5 for the SCE loss and 1 for the SKL loss": "gamma is 5 and 1",
    "epochs - in tables 6 and 9": "longer trainings, whose epochs follow from their times",
}
"""What is printed -> how it is read."""


def disagreements(experiments: Iterable[Table | Figure]) -> tuple[Disagreement, ...]:
    """All disagreements about these experiments: the listed ones, and statements that the printed values contradict."""
    found: list[Disagreement] = []
    for one in experiments:
        found += [listed for listed in DISAGREEMENTS if listed.experiment == one.name]
        found += [
            Disagreement(one.name, f"{statement.text} But: {statement.remark}")
            for statement in one.statements
            if statement.agrees is False
        ]
    return tuple(found)
