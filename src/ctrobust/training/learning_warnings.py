"""Warnings about a run that has learned little or nothing."""

import math
from collections.abc import Sequence

import numpy as np

from ctrobust.outcomes import Evaluation
from ctrobust.specs import NaturalSpec, TrainSpec

NEAR = 0.02
"""A loss within this share of ln C is near ln C."""

FEW_STEPS = 100
"""The number of optimizer steps is mentioned if it is below this."""

ADVICE = "Try a larger learning rate, more epochs or a smaller batch size."


def learning_warnings(spec: TrainSpec, steps: int, losses: Sequence[float], test: Evaluation) -> list[str]:
    """Describe, in whole sentences, a training loss that stayed near that of guessing, and a test accuracy at chance.

    Args:
        spec: the spec of the run.
        steps: number of optimizer steps.
        losses: mean training loss of each epoch; the second half of the epochs counts.
        test: outcomes on the test set, without an attack.
    """
    warnings = []
    classes = test.clean_probabilities.shape[1]
    chance_loss = math.log(classes)
    later = losses[len(losses) // 2 :]
    if _is_log_c_at_chance(spec) and later and all(abs(loss - chance_loss) < NEAR * chance_loss for loss in later):
        warnings.append(
            f"The training loss stayed near ln {classes} = {chance_loss:.3f}, the loss of guessing: it was "
            f"{losses[-1]:.3f} in the last epoch. {ADVICE}"
        )
    most_common = np.bincount(test.labels).max() / len(test)
    if test.accuracy_interval.low <= most_common:
        warnings.append(
            f"The test accuracy, {test.accuracy:.1%}, is at chance: {most_common:.1%} of the test images are of the "
            f"most common class. {ADVICE}"
        )
    if warnings and steps < FEW_STEPS:
        warnings.append(_few_steps(spec, steps))
    return warnings


def _is_log_c_at_chance(spec: TrainSpec) -> bool:
    """Whether the training loss of equal logits is ln C; it is not with other base losses, MDL's term or STD alone."""
    if isinstance(spec.recipe, NaturalSpec):
        return spec.recipe.loss == "ce" and (spec.recipe.samples == 1 or spec.recipe.rho == 0)
    return spec.recipe.loss != "std"


def _few_steps(spec: TrainSpec, steps: int) -> str:
    counted = f"The run had only {steps} optimizer step{'' if steps == 1 else 's'}"
    if spec.schedule.name == "cyclic":
        return f"{counted}, and the first one had no effect, because the first rate of the cyclic schedule is 0."
    return f"{counted}."
