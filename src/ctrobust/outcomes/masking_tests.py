"""The fourteen masking tests in the order in which they are run, and the verdict that follows from all of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ctrobust.outcomes.masking import LEVELS, Evidence, MaskingSetting, Measurement, Verdict
from ctrobust.outcomes.masking_findings import (
    Arrays,
    MaskingFinding,
    binary_problems,
    growing_radius,
    more_effort,
    one_step,
    only_broken_by,
    other_losses,
    randomness,
    silent_success,
    unfinished_attack,
    unlimited_radius,
    unstable_loss,
    vanished_gradients,
)

FREE_TESTS = (
    "randomized", "zero gradients", "one step beats many", "unlimited radius", "radius does not help",
)  # fmt: skip
"""The nearly free tests: a few gradient attacks of at most 20 steps, and one that ends early."""

CORE_TESTS = (*FREE_TESTS, "more effort helps", "loss decides", "noise", "black box beats white box")
"""Without these nothing can be said."""

RANDOMIZED_TESTS = ("randomized", "zero gradients", "one step beats many", "noise")
"""The tests that are run on a network that draws at random; the others assume that it does not."""

MASKING_TESTS: dict[str, Callable[[Arrays, MaskingSetting], MaskingFinding]] = {
    "randomized": randomness,
    "zero gradients": vanished_gradients,
    "one step beats many": one_step,
    "unlimited radius": unlimited_radius,
    "radius does not help": growing_radius,
    "more effort helps": more_effort,
    "unfinished ascent": unfinished_attack,
    "silent success": silent_success,
    "loss decides": other_losses,
    "unstable loss surface": unstable_loss,
    "noise": only_broken_by("noise", "Random noise"),
    "black box beats white box": only_broken_by("black box beats white box", "Random search (Square)"),
    "transfer": only_broken_by("transfer", "An attack on another network"),
    "binarization": binary_problems,
}
"""Test -> its assessment, in the order in which the tests are run."""


def assess_masking(measurements: Mapping[str, Measurement], setting: MaskingSetting) -> Verdict:
    """Return the verdict that follows from the measurements; a test without one was not run."""
    randomized = "randomized" in measurements and (
        randomness(measurements["randomized"].arrays, setting).level != "none found"
    )
    evidence = []
    for test, assess in MASKING_TESTS.items():
        if test not in measurements:
            evidence.append(Evidence(test, "not tested", _why_not_run(test, randomized)))
            continue
        one = measurements[test]
        level, sentence, numbers = assess(one.arrays, setting)
        sentence = f"{sentence} {one.remark}".rstrip()
        evidence.append(Evidence(test, level, sentence, numbers, one.seconds, one.forwards, one.backwards))
    strongest = max((one.level for one in evidence), key=LEVELS.index)
    run = {one.test for one in evidence if one.level != "not tested"}
    verdict = Verdict(strongest, tuple(evidence), setting)
    if strongest == "none found" and (verdict.guesses or not run.issuperset(CORE_TESTS)):
        return replace(verdict, level="not tested")
    return verdict


def is_complete(measurements: Mapping[str, Measurement], setting: MaskingSetting) -> bool:
    """Whether all tests were run that need no other network."""
    wanted = RANDOMIZED_TESTS if setting.repeats > 1 else [test for test in MASKING_TESTS if test != "transfer"]
    return set(wanted) <= set(measurements)


def _why_not_run(test: str, randomized: bool) -> str:
    if randomized and test not in RANDOMIZED_TESTS:
        return "It was not run, because the network draws at random."
    if test == "transfer":
        return "It was not run: it needs another network for the same images."
    return "It was not run."
