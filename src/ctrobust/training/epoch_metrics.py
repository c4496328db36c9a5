"""What is measured of a network after each epoch, and what follows: the collapse watch and the held-out images."""

import contextlib
from collections.abc import Iterator
from typing import Any

from ctrobust.errors import InputError, RunError
from ctrobust.evaluation import evaluate, evaluate_each
from ctrobust.recipes import collapse_attack, collapsed, one_step_attack, validation_attack
from ctrobust.specs import FastSpec
from ctrobust.store import RunDirectory
from ctrobust.training.training_state import TrainingState


@contextlib.contextmanager
def converged() -> Iterator[None]:
    """What a network without finite logits means here: training has diverged."""
    try:
        yield
    except InputError as error:
        raise RunError(f"training diverged in its last steps: {error}; a smaller lr may help") from None


def measure(state: TrainingState) -> dict[str, Any]:
    """Metrics of the epoch just trained, besides its loss: after adversarial training and on held-out images."""
    found: dict[str, Any] = {}
    with converged():
        if state.eps is not None:
            size = state.spec.recipe.step_size if isinstance(state.spec.recipe, FastSpec) else None
            attacks = (one_step_attack(state.eps, size), collapse_attack(state.eps))
            own_step, pgd = evaluate_each(state.model.eval(), state.first_images(), attacks)
            found["watched_clean_accuracy"] = pgd.accuracy
            found["watched_one_step_accuracy"] = own_step.robust_accuracy
            found["watched_accuracy"] = pgd.robust_accuracy
            found["collapsed"] = collapsed(
                state.progress.watched, clean=pgd.accuracy, own_step=own_step.robust_accuracy, pgd=pgd.robust_accuracy,
                chance=1 / state.train.num_classes,
            )  # fmt: skip
        if state.held is not None:
            attack = None if state.eps is None else validation_attack(state.eps)
            outcome = evaluate(state.result.eval(), state.held, attack)
            found["validation_accuracy"] = outcome.accuracy
            if attack is not None:
                found["validation_robust_accuracy"] = outcome.robust_accuracy
    return found


def update_best(state: TrainingState, run: RunDirectory, found: dict[str, Any]) -> None:
    """Keep the best network so far; note a collapse, and return to the good epoch before it, if any, where asked."""
    progress, epoch = state.progress, state.progress.epoch + 1
    chosen_by = "validation_robust_accuracy" if state.eps is not None else "validation_accuracy"
    if chosen_by in found and (progress.best is None or found[chosen_by] > progress.best[chosen_by]):
        progress.best = {"epoch": epoch, **{key: found[key] for key in found if key.startswith("validation")}}
        if state.processes.first:
            state.save_weights(run.best_file)
    if "watched_accuracy" not in found:
        return
    after, one_step = found["watched_accuracy"], found["watched_one_step_accuracy"]
    if not found["collapsed"]:
        progress.watched = after if progress.watched is None else max(progress.watched, after)
        state.keep_good()
        return
    progress.collapses.append({"epoch": epoch, "before": progress.watched, "after": after, "one_step": one_step})
    if state.spec.stop_on_collapse and len(progress.collapses) < epoch:
        state.return_to_good()
        progress.returned_to = epoch - 1
