"""The attacks of the masking tests, from nearly free to dear, and the verdict that follows from them."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from ctrobust import draws
from ctrobust.argument_checks import check_choice, check_eps
from ctrobust.attacks import NORMS, Norm
from ctrobust.attacks.model_checks import check_model, modes, untouched
from ctrobust.errors import InputError
from ctrobust.evaluation.evaluation_batches import EvaluationBatches, Examples, ProgressCallback
from ctrobust.evaluation.evaluator import evaluation_mode
from ctrobust.evaluation.masking_measures import MEASURES
from ctrobust.evaluation.masking_run import MaskingRun
from ctrobust.evaluation.randomized_models import is_random, repeated_distance
from ctrobust.outcomes.masking import Measurement, Verdict
from ctrobust.outcomes.masking_tests import FREE_TESTS, MASKING_TESTS, RANDOMIZED_TESTS, assess_masking

SAME_BATCH_REPEATS = 5

OnMeasured = Callable[[Verdict, Mapping[str, Measurement]], None]
"""Called after each test with the verdict so far and the measurements behind it."""


def masking(
    model: nn.Module,
    data: Examples,
    eps: float = 8 / 255,
    norm: Norm = "linf",
    limit: int | None = 256,
    transfer: nn.Module | None = None,
    tests: Sequence[str] | str | None = None,
    *,
    seed: int = 0,
    chunk: int = 256,
    progress: ProgressCallback | None = None,
    measured: Mapping[str, Measurement] | None = None,
    on_measured: OnMeasured | None = None,
) -> Verdict:
    """Test whether attacks on a model fail for another reason than its robustness.

    A randomized model is tested on at most 64 examples with FGSM, PGD and noise only. Its gradients are averaged over
    20 passes, and the mean of 20 further passes verifies each success.

    Args:
        model: takes images in [0, 1] and returns logits, as for `evaluate`. It may be impossible to differentiate.
        data: as for `evaluate`.
        eps: radius of the ball in which the model is said to be robust.
        norm: "linf" or "l2".
        limit: the number of examples, from the first.
        transfer: another model for the same images, whose attacked images are tried on this one.
        tests: None for all tests, "free" for the nearly free ones, or names of tests.
        seed: the seed of all random draws.
        chunk: the number of examples per batch.
        progress: called with the work done, the work in all and the running test.
        measured: measurements of an earlier call with the same arguments, which are not made again.
        on_measured: called after each test.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 4, bias=False)).eval()
        >>> _ = net[1].weight.data.copy_(10 * torch.eye(4))  # the brightest of four pixels is the class
        >>> images = (0.35 + 0.3 * torch.eye(4)).view(4, 1, 2, 2)
        >>> verdict = masking(net, (images, torch.arange(4)), eps=0.2, tests="free")
        >>> verdict.level, verdict.tests_run
        ('not tested', 5)

    Raises:
        InputError: no image is classified correctly; an unknown test; what `evaluate` raises.
    """
    check_model(model)
    check_choice(norm, "norm", NORMS)
    check_eps(eps, norm)
    if not eps > 0:
        raise InputError(f"eps is greater than 0, got {eps}")
    wanted = _wanted_tests(tests, transfer)
    if any(mode for _, mode in modes(model)):
        warnings.warn("the model is in training mode; it is tested in eval mode and put back", stacklevel=2)
    with torch.random.fork_rng(), evaluation_mode(model):
        torch.manual_seed(draws.stream(seed, "masking"))
        found = dict(measured or {})
        if "randomized" not in found:
            found["randomized"] = _measure_randomness(model, data, limit, chunk)
        randomized = is_random(found["randomized"].arrays["distance"])
        run = MaskingRun(
            model, data, eps=eps, norm=norm, limit=limit, seed=seed, chunk=chunk, randomized=randomized, other=transfer,
            measured=found,
        )  # fmt: skip
        todo = [
            test for test in MEASURES
            if test in wanted and test not in found and (not randomized or test in RANDOMIZED_TESTS)
        ]  # fmt: skip
        _measure_all(run, todo, progress, on_measured)
    return assess_masking(run.measured, run.setting)


def _wanted_tests(tests: Sequence[str] | str | None, transfer: nn.Module | None) -> list[str]:
    if tests is None:
        wanted: Sequence[str] = tuple(MASKING_TESTS)
    elif tests == "free":
        wanted = FREE_TESTS
    else:
        wanted = (tests,) if isinstance(tests, str) else tests
    unknown = [test for test in wanted if test not in MASKING_TESTS]
    if unknown:
        raise InputError(f"unknown test {unknown[0]!r}; known: free, {', '.join(MASKING_TESTS)}")
    if tests is not None and "transfer" in wanted and transfer is None:
        raise InputError("the test 'transfer' needs another model: transfer=model")
    return [test for test in wanted if test != "transfer" or transfer is not None]


def _measure_randomness(model: nn.Module, data: Examples, limit: int | None, chunk: int) -> Measurement:
    """Pass the same batch through the model several times."""
    started = time.monotonic()
    batches = EvaluationBatches(model, data, limit, chunk)
    distances = []
    for index in torch.split(torch.arange(len(batches.labels)), chunk):
        x = batches.load(index)[0]
        with untouched(model, x):
            distances.append(repeated_distance(batches.inputs.in_float32(model), x, SAME_BATCH_REPEATS).double().cpu())
    arrays = {"distance": torch.cat(distances).amax(0, keepdim=True).numpy()}
    seconds = round(time.monotonic() - started, 3)
    return Measurement(arrays, seconds, SAME_BATCH_REPEATS * len(batches.labels)).as_stored()


def _measure_all(
    run: MaskingRun, todo: Sequence[str], progress: ProgressCallback | None, on_measured: OnMeasured | None
) -> None:
    """Make the measurements of the tests in turn."""
    total, spent = sum(MEASURES[test].cost for test in todo), 0.0
    if on_measured is not None:
        on_measured(assess_masking(run.measured, run.setting), run.measured)
    for test in todo:
        measure = MEASURES[test]
        if progress is not None:
            progress(spent, total, test)
            run.report = _reporter(progress, spent, measure.cost, total, test)
        run.begin(measure.attacks)
        started = time.monotonic()
        arrays, remark = measure.measure(run)
        seconds = round(time.monotonic() - started, 3)
        measurement = Measurement(arrays, seconds, run.forwards, run.backwards, remark)
        run.measured[test] = measurement.as_stored()
        spent += measure.cost
        if on_measured is not None:
            on_measured(assess_masking(run.measured, run.setting), run.measured)
    if progress is not None and todo:
        progress(total, total, "")


def _reporter(
    progress: ProgressCallback, spent: float, cost: float, total: float, test: str
) -> Callable[[float], None]:
    return lambda share: progress(spent + share * cost, total, test)
