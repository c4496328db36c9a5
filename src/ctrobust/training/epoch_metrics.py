"""Evaluation after each epoch: collapse detection, the validation set, and the best epoch."""

import contextlib
from collections.abc import Iterator
from typing import Any

from ctrobust.errors import InputError
from ctrobust.evaluation import evaluate, evaluate_each
from ctrobust.recipes import collapse_attack, collapsed, one_step_attack, validation_attack
from ctrobust.store import RunDirectory
from ctrobust.training.divergence import DivergedError
from ctrobust.training.training_state import TrainingState


@contextlib.contextmanager
def logits_must_be_finite() -> Iterator[None]:
    """Report logits that are not finite as diverged training."""
    try:
        yield
    except InputError as error:
        raise DivergedError(str(error)) from None


def measure(state: TrainingState) -> dict[str, Any]:
    """Evaluate the network after an epoch: collapse detection for adversarial recipes, and the validation set."""
    metrics: dict[str, Any] = {}
    with logits_must_be_finite():
        if state.eps is not None:
            attacks = (one_step_attack(state.eps, state.recipe.one_step_size), collapse_attack(state.eps))
            recipe_step, pgd = evaluate_each(state.model.eval(), state.first_images(), attacks)
            metrics["watched_clean_accuracy"] = pgd.accuracy
            metrics["watched_one_step_accuracy"] = recipe_step.robust_accuracy
            metrics["watched_accuracy"] = pgd.robust_accuracy
            metrics["collapsed"] = collapsed(
                state.progress.watched, clean=pgd.accuracy, recipe_step=recipe_step.robust_accuracy,
                pgd=pgd.robust_accuracy, chance=1 / state.train.num_classes, images=len(pgd),
            )  # fmt: skip
        if state.validation_set is not None:
            attack = None if state.eps is None else validation_attack(state.eps)
            outcome = evaluate(state.result.eval(), state.validation_set, attack)
            metrics["validation_accuracy"] = outcome.accuracy
            if attack is not None:
                metrics["validation_robust_accuracy"] = outcome.robust_accuracy
    return metrics


def update_best(state: TrainingState, run: RunDirectory, metrics: dict[str, Any]) -> None:
    """Save the weights if they are the best so far, and record a collapse.

    With `stop_on_collapse` a collapse restores the weights of the last epoch that had not collapsed, if there is one.
    """
    progress, epoch = state.progress, state.progress.epoch + 1
    criterion = "validation_robust_accuracy" if state.eps is not None else "validation_accuracy"
    if criterion in metrics and (progress.best is None or metrics[criterion] > progress.best[criterion]):
        progress.best = {"epoch": epoch, **{key: metrics[key] for key in metrics if key.startswith("validation")}}
        if state.processes.first:
            state.save_weights(run.best_file)
    if "watched_accuracy" not in metrics:
        return
    after, one_step = metrics["watched_accuracy"], metrics["watched_one_step_accuracy"]
    if not metrics["collapsed"]:
        progress.watched = after if progress.watched is None else max(progress.watched, after)
        state.save_last_good()
        return
    found = {"epoch": epoch, "before": progress.watched, "after": after, "one_step": one_step}
    progress.collapses.append({**found, "clean": metrics.get("watched_clean_accuracy")})
    if state.spec.stop_on_collapse and len(progress.collapses) < epoch:
        state.restore_last_good()
        progress.returned_to = epoch - 1
