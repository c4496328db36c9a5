"""What each masking test measures on a model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ctrobust.attacks import APGD, Attack, Noise, Square
from ctrobust.attacks.attack_losses import least_classes
from ctrobust.attacks.model_checks import untouched
from ctrobust.attacks.stages import run_attack
from ctrobust.evaluation.binarization import binarize
from ctrobust.evaluation.evaluator import evaluation_mode
from ctrobust.evaluation.gradient_measurements import margin_changes, zero_gradients
from ctrobust.evaluation.masking_run import MaskingRun
from ctrobust.model_outputs import as_logits

Arrays = dict[str, NDArray[Any]]

MOST_REMAINING = 64
"""The number of remaining examples that dear attacks are tried on."""

NOISE_DRAWS, QUERIES, SURFACE_DRAWS, BINARIZED_IMAGES = 1000, 1000, 100, 48

LOSSES_TRIED = {"margin": "margin", "dlr": "dlr", "std": "std", "sce": "sce(gamma=5)"}
"""Name in the measurement -> loss of APGD, besides cross-entropy."""


class Measured(NamedTuple):
    """The arrays of a measurement, and what a reader must know about it."""

    arrays: Arrays
    remark: str = ""


def _zero_gradients(run: MaskingRun) -> Measured:
    x, y, _ = run.first(run.correct, len(run.correct))
    found: dict[str, list[torch.Tensor]] = {"ce": [], "margin": []}
    with evaluation_mode(run.model), untouched(run.model, x):
        for images, labels in zip(x.split(run.chunk), y.split(run.chunk), strict=True):
            zeros, _ = zero_gradients(run.model, images, labels)
            for name, one in zeros.items():
                found[name].append(one)
    run.forwards, run.backwards = run.repeats * len(x), 2 * run.repeats * len(x)
    arrays: Arrays = {name: run.spread(torch.cat(zeros)) for name, zeros in found.items()}
    return Measured({"correct": run.correct, **arrays})


def _one_step(run: MaskingRun) -> Measured:
    fgsm, pgd = run.robust(run.fgsm(), run.correct), run.robust(run.pgd(), run.correct)
    return Measured({"correct": run.correct, "fgsm": fgsm, "pgd": pgd})


def _unlimited_radius(run: MaskingRun) -> Measured:
    box = _box_radius(run)
    return Measured({"pgd": run.robust(run.pgd(box, 100, box / 50), run.correct)})


def _box_radius(run: MaskingRun) -> float:
    """The radius of a ball around any image that contains the whole box."""
    if run.norm == "linf":
        return 1.0
    return float(np.sqrt(run.first(run.correct, 1)[0].numel()))


def _radius(run: MaskingRun) -> Measured:
    half, double = run.eps / 2, min(2 * run.eps, _box_radius(run))
    return Measured(
        {
            "correct": run.correct,
            "pgd_half": run.robust(run.pgd(half), run.correct),
            "pgd_eps": run.earlier("one step beats many", "pgd", run.pgd()),
            "pgd_double": run.robust(run.pgd(double), run.correct),
            "fgsm_half": run.robust(run.fgsm(half), run.correct),
            "fgsm_eps": run.earlier("one step beats many", "fgsm", run.fgsm()),
            "fgsm_double": run.robust(run.fgsm(double), run.correct),
        }
    )


def _more_effort(run: MaskingRun) -> Measured:
    """Attack what PGD leaves: twice the steps begin with the same ones, and the first of five starts is the same."""
    pgd = run.earlier("one step beats many", "pgd", run.pgd())
    steps = run.robust(run.pgd(steps=2 * run.pgd().steps), pgd)
    starts = run.robust(replace(run.pgd(), restarts=4, seed=-1 - run.seed), pgd)
    return Measured({"pgd": pgd, "steps": steps, "starts": starts})


def _unfinished(run: MaskingRun) -> Measured:
    followed = run.trajectories
    run.forwards, run.backwards = followed.forwards, followed.backwards
    robust = run.spread(~(followed.earlier | followed.last))
    return Measured({"robust": robust, "gain": run.spread(followed.late_gain())})


def _silent_success(run: MaskingRun) -> Measured:
    counted = "unfinished ascent" in run.measured
    followed = run.trajectories
    if not counted:
        run.forwards, run.backwards = followed.forwards, followed.backwards
    return Measured({"earlier": run.spread(followed.earlier), "last": run.spread(followed.last)})


def _loss_decides(run: MaskingRun) -> Measured:
    """APGD on cross-entropy on what the other attacks on cross-entropy leave, then on each loss on what it leaves."""
    ce = run.robust(APGD(run.eps, norm=run.norm, seed=run.seed), run.remaining())
    arrays: Arrays = {"ce": ce}
    undefined = []
    for name, loss in LOSSES_TRIED.items():
        if least_classes(loss) > run.setting.classes:
            undefined.append(name.upper())
        else:
            arrays[name] = run.robust(APGD(run.eps, loss=loss, norm=run.norm, seed=run.seed), ce)
    remark = f"{', '.join(undefined)} need at least 3 classes and were left out." if undefined else ""
    return Measured(arrays, remark)


def _unstable(run: MaskingRun) -> Measured:
    x, y, keys = run.first(run.correct, MOST_REMAINING)
    model = run.evaluator.fused or run.model
    with evaluation_mode(run.model), untouched(run.model, x):
        changes = margin_changes(
            model, x, y, keys, radius=run.eps / 2, norm=run.norm, count=SURFACE_DRAWS, seed=run.seed
        )
    run.forwards = (1 + SURFACE_DRAWS) * len(x)
    return Measured({"change": changes.double().cpu().numpy()})


def _noise(run: MaskingRun) -> Measured:
    draws = NOISE_DRAWS // run.repeats
    return _on_remaining(run, Noise(run.eps, draws=draws, norm=run.norm, seed=run.seed))


def _black_box(run: MaskingRun) -> Measured:
    return _on_remaining(run, Square(run.eps, queries=QUERIES, norm=run.norm, seed=run.seed))


def _on_remaining(run: MaskingRun, attack: Attack) -> Measured:
    """Try an attack without gradients on the first examples that the gradient attacks leave."""
    remaining = run.remaining()
    tested = np.zeros_like(remaining)
    tested[np.flatnonzero(remaining)[:MOST_REMAINING]] = True
    broken = tested & ~run.robust(attack, tested)
    return Measured({"remaining": remaining, "tested": tested, "broken": broken})


def _transfer(run: MaskingRun) -> Measured:
    assert run.other is not None
    remaining = run.remaining()
    broken = np.zeros_like(remaining)
    if remaining.any():
        x, y, keys = run.first(remaining, len(remaining))
        with evaluation_mode(run.other), evaluation_mode(run.model):
            found = run_attack(replace(run.pgd(), success="last"), run.other, x, y, keys, verify_last=False).x_adv
            with torch.no_grad():
                broken[remaining] = (as_logits(run.model(found)).argmax(1) != y).cpu().numpy()
        run.forwards = len(x)
    return Measured({"remaining": remaining, "tested": remaining, "broken": broken})


def _binarization(run: MaskingRun) -> Measured:
    x, y, keys = run.first(run.correct, BINARIZED_IMAGES)
    with evaluation_mode(run.model), untouched(run.model, x):
        found = binarize(run.model, x, y, keys, run.pgd())
    if found is None:
        nothing = np.zeros(len(x), dtype=np.bool_)
        return Measured({"fitted": nothing, "reached": nothing}, "The network has no last linear layer.")
    run.forwards, run.backwards = found.forwards, found.backwards
    return Measured({"fitted": found.fitted.cpu().numpy(), "reached": found.reached.cpu().numpy()})


class Measure(NamedTuple):
    """How a test is measured: the function, about how many forward passes an example costs, and its attacks."""

    measure: Callable[[MaskingRun], Measured]
    cost: float
    attacks: int = 1


MEASURES: dict[str, Measure] = {
    "zero gradients": Measure(_zero_gradients, 6),
    "one step beats many": Measure(_one_step, 50, 2),
    "unlimited radius": Measure(_unlimited_radius, 30),
    "radius does not help": Measure(_radius, 100, 4),
    "more effort helps": Measure(_more_effort, 150, 2),
    "unfinished ascent": Measure(_unfinished, 60),
    "silent success": Measure(_silent_success, 1),
    "loss decides": Measure(_loss_decides, 500, 5),
    "unstable loss surface": Measure(_unstable, 25),
    "noise": Measure(_noise, 250),
    "black box beats white box": Measure(_black_box, 250),
    "transfer": Measure(_transfer, 30),
    "binarization": Measure(_binarization, 40),
}
"""Test -> how it is measured, in the order in which the tests are run; `masking` itself measures "randomized"."""
