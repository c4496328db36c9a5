"""What follows from the measurement of each masking test: its level, its numbers and a sentence.

After Athalye et al. 2018, Carlini et al. 2019, the indicators of attack failure of Pintor et al. 2022 (I2, I3, I4) and
the binarization test of Zimmermann et al. 2022.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctrobust.outcomes.intervals import wilson
from ctrobust.outcomes.masking import LEVELS, Level, MaskingSetting, Number
from ctrobust.outcomes.masking_thresholds import (
    BROKEN_BY_MANY,
    FEW_BROKEN,
    FEWEST_EXAMPLES,
    GAIN,
    LEFT_BY_ONE,
    MOST_LEFT_BY_MANY,
    PAIRED_P,
    THRESHOLDS,
)

Arrays = Mapping[str, NDArray[Any]]


class MaskingFinding(NamedTuple):
    """The level of one test, its sentence and the numbers that decided it."""

    level: Level
    sentence: str
    numbers: dict[str, Number]


def percent_of(share: float) -> str:
    return f"{100 * share:.1f}%"


def raised(test: str, value: float, examples: int = FEWEST_EXAMPLES) -> Level:
    """The level of a value by the table of thresholds; a share made of too few examples raises nothing."""
    threshold = THRESHOLDS[test]
    if examples < FEWEST_EXAMPLES:
        return "none found"
    if threshold.masked is not None and value > threshold.masked:
        return "masked"
    return "suspicious" if threshold.suspicious is not None and value > threshold.suspicious else "none found"


def paired_p(robust: NDArray[np.bool_], less_robust: NDArray[np.bool_]) -> float:
    """One-sided exact p-value of McNemar's test that the second accuracy is lower than the first only by chance."""
    b, c = int((robust & ~less_robust).sum()), int((less_robust & ~robust).sum())
    if b + c == 0:
        return 1.0
    from scipy.stats import binomtest  # imported here because SciPy takes a second to load

    return float(binomtest(b, b + c, alternative="greater").pvalue)


def randomness(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    distance = float(arrays["distance"].max())
    level = raised("randomized", distance)
    sentence = "Repeated passes of the same images give the same logits."
    if level != "none found":
        sentence = (
            f"The same images give other logits each time, by up to {percent_of(distance)}: the network draws at "
            f"random, so the attacks average over {setting.repeats} passes, and fewer tests can be run."
        )
    return MaskingFinding(level, sentence, {"distance": distance})


def vanished_gradients(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    del setting
    correct = int(arrays["correct"].sum())
    zeros = {name: int((arrays[name] & arrays["correct"]).sum()) for name in ("ce", "margin")}
    worst = max(zeros, key=lambda name: zeros[name])
    share = zeros[worst] / correct
    level = raised("zero gradients", share)
    sentence = f"Each of the {correct} correctly classified images has a gradient that attacks can follow."
    if level != "none found":
        loss = {"ce": "cross-entropy", "margin": "margin"}[worst]
        sentence = (
            f"The gradient of the {loss} is exactly zero at {zeros[worst]} of {correct} correctly classified images: "
            "a gradient attack gets no direction there."
        )
    return MaskingFinding(level, sentence, {"correct": correct, **zeros, "share": share})


def one_step(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    del setting
    clean, one, many = (float(arrays[name].mean()) for name in ("correct", "fgsm", "pgd"))
    p = paired_p(arrays["pgd"], arrays["fgsm"])
    numbers: dict[str, Number] = {"accuracy": clean, "fgsm": one, "pgd": many, "p": p}
    found = f"one step (FGSM) leaves {percent_of(one)} robust and 20 steps (PGD) {percent_of(many)}"
    if p < PAIRED_P and (level := raised("one step beats many", many - one)) != "none found":
        return MaskingFinding(level, f"The stronger attack fails more often: {found}.", numbers)
    broken_by_many = wilson(int(arrays["pgd"].sum()), len(arrays["pgd"])).high <= MOST_LEFT_BY_MANY
    if many <= BROKEN_BY_MANY * one and broken_by_many and one > LEFT_BY_ONE * clean:
        return MaskingFinding("suspicious", f"Robustness against one step hides that there is none: {found}.", numbers)
    return MaskingFinding("none found", f"Many steps find at least as much as one: {found}.", numbers)


def unlimited_radius(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    accuracy, chance = float(arrays["pgd"].mean()), 1 / setting.classes
    level: Level = "masked" if accuracy > chance else raised("unlimited radius", accuracy)
    numbers: dict[str, Number] = {"accuracy": accuracy, "chance": chance}
    if level == "none found":
        return MaskingFinding(level, "An attack that may change every pixel at will breaks every image.", numbers)
    sentence = (
        f"An attack that may change every pixel at will leaves {percent_of(accuracy)} of the images: it does not find "
        "what surely exists."
    )
    return MaskingFinding(level, sentence, numbers)


def growing_radius(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    del setting
    names = ("half", "eps", "double")
    shares = {
        f"{attack}_{name}": float(arrays[f"{attack}_{name}"].mean()) for attack in ("pgd", "fgsm") for name in names
    }
    numbers: dict[str, Number] = dict(shares)
    listed = {attack: ", ".join(percent_of(shares[f"{attack}_{name}"]) for name in names) for attack in ("pgd", "fgsm")}
    for attack, level in (("pgd", "masked"), ("fgsm", "suspicious")):
        for smaller, larger in (("half", "eps"), ("eps", "double"), ("half", "double")):
            low, high = arrays[f"{attack}_{smaller}"], arrays[f"{attack}_{larger}"]
            if paired_p(high, low) < PAIRED_P:
                sentence = (
                    f"A larger radius leaves more images robust under {attack.upper()}: {listed[attack]} at half, "
                    "once and twice the radius, although the larger ball contains the smaller one."
                )
                return MaskingFinding(level, sentence, numbers)  # type: ignore[arg-type]
    falls = f"PGD leaves {listed['pgd']} of the images at half, once and twice the radius"
    broken, left = float(arrays["correct"].mean()) - shares["pgd_double"], shares["pgd_half"]
    if broken <= FEW_BROKEN:
        return MaskingFinding("none found", f"The radius is too small to see the accuracy fall: {falls}.", numbers)
    if left > FEW_BROKEN and _hardly_falls(arrays["pgd_half"], arrays["pgd_double"]):
        return MaskingFinding("suspicious", f"A larger radius does not help the attack: {falls}.", numbers)
    seen = shares["pgd_double"] < left
    found = "A larger radius breaks more" if seen else "Too few images are left to see the accuracy fall"
    return MaskingFinding("none found", f"{found}: {falls}.", numbers)


def _hardly_falls(smaller: NDArray[np.bool_], larger: NDArray[np.bool_]) -> bool:
    """Whether no fall is seen where there are enough examples to see one.

    Of few examples that are left at the smaller radius even a fall to nothing is not significant. It counts as missing
    only if the larger radius also breaks significantly fewer than half of them.
    """
    from scipy.stats import binomtest  # imported here because SciPy takes a second to load

    left, broken = int(smaller.sum()), int((smaller & ~larger).sum())
    return (
        paired_p(smaller, larger) >= PAIRED_P and float(binomtest(broken, left, alternative="less").pvalue) < PAIRED_P
    )


def more_effort(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    del setting
    before = float(arrays["pgd"].mean())
    numbers: dict[str, Number] = {"pgd": before}
    level: Level = "none found"
    for name in ("steps", "starts"):
        after = float(arrays[name].mean())
        p = paired_p(arrays["pgd"], arrays[name])
        numbers |= {name: after, f"p_{name}": p}
        found = raised("more effort helps", before - after) if p < PAIRED_P else "none found"
        level = max(level, found, key=LEVELS.index)
    found_more = (
        f"PGD leaves {percent_of(before)} robust, {percent_of(float(arrays['steps'].mean()))} with twice the steps and "
        f"{percent_of(float(arrays['starts'].mean()))} with 5 starts"
    )
    if level == "none found":
        return MaskingFinding(level, f"More effort finds hardly more: {found_more}.", numbers)
    return MaskingFinding(level, f"The attack had not found what it can: {found_more}.", numbers)


def unfinished_attack(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    del setting
    robust = arrays["robust"]
    if not robust.any():
        return MaskingFinding(
            "none found", "PGD leaves no example on which its ascent could be unfinished.", {"robust": 0}
        )
    unfinished = arrays["gain"][robust] > GAIN
    share = float(unfinished.mean())
    level = raised("unfinished ascent", share, int(unfinished.sum()))
    stopped = f"for {percent_of(share)} of the robust examples the loss still grew in the last steps"
    numbers: dict[str, Number] = {"robust": int(robust.sum()), "share": share}
    if level == "none found":
        return MaskingFinding(level, f"The attack ended where it gains no more: {stopped}.", numbers)
    return MaskingFinding(level, f"The attack stopped too early: {stopped}; use more steps.", numbers)


def silent_success(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    silent = int((arrays["earlier"] & ~arrays["last"]).sum())
    share = silent / setting.count
    level = raised("silent success", share, silent)
    passed = f"PGD passed an adversarial image and ended at one that is not for {silent} of {setting.count} examples"
    numbers: dict[str, Number] = {"silent": silent, "share": share}
    if level == "none found":
        return MaskingFinding(level, f"The last image of an attack is as good as the ones before: {passed}.", numbers)
    return MaskingFinding(level, f"The loss misleads the attack: {passed}.", numbers)


def other_losses(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    del setting
    others = {name: array for name, array in arrays.items() if name != "ce"}
    worst = np.logical_and.reduce([arrays["ce"], *others.values()])
    accuracy, lowest = float(arrays["ce"].mean()), float(worst.mean())
    missed = accuracy - lowest
    best = min(others, key=lambda name: float(others[name].mean()))
    p = paired_p(arrays["ce"], worst)
    numbers: dict[str, Number] = {name: float(array.mean()) for name, array in arrays.items()}
    numbers |= {"worst": lowest, "p": p, "best": best}
    level = raised("loss decides", missed) if p < PAIRED_P else "none found"
    found = f"APGD on cross-entropy leaves {percent_of(accuracy)}, all losses together {percent_of(lowest)}"
    if level == "none found":
        return MaskingFinding(level, f"The loss matters as little as usual: {found}.", numbers)
    return MaskingFinding(
        level, f"Attacks on cross-entropy miss much: {found}; the loss that finds most is {best}.", numbers
    )


def unstable_loss(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    del setting
    change = float(arrays["change"].mean())
    level = raised("unstable loss surface", change)
    by = f"small noise changes the margin between the classes by {percent_of(change)} on average"
    numbers: dict[str, Number] = {"examples": len(arrays["change"]), "change": change}
    if level == "none found":
        return MaskingFinding(level, f"The loss is smooth enough to follow: {by}.", numbers)
    return MaskingFinding(level, f"The loss is too rugged to follow: {by}.", numbers)


def only_broken_by(test: str, attack: str) -> Callable[[Arrays, MaskingSetting], MaskingFinding]:
    """The assessment of an attack without gradients on examples that the white-box attacks leave."""

    def assess(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
        remaining, tested, broken = (int(arrays[name].sum()) for name in ("remaining", "tested", "broken"))
        numbers: dict[str, Number] = {"remaining": remaining, "tested": tested, "broken": broken}
        if not tested:
            sentence = "The white-box attacks leave no example that another attack could break."
            return MaskingFinding("none found", sentence, numbers)
        share = broken / tested * remaining / setting.count
        level = raised(test, share, broken) if test == "black box beats white box" else raised(test, share)
        numbers["share"] = share
        found = f"{attack} breaks {broken} of {tested} examples that the gradient attacks leave"
        return MaskingFinding(
            level, f"{found}." if level == "none found" else f"{found}: the gradients mislead.", numbers
        )

    return assess


def binary_problems(arrays: Arrays, setting: MaskingSetting) -> MaskingFinding:
    del setting
    fitted, reached = int(arrays["fitted"].sum()), int(arrays["reached"].sum())
    total = len(arrays["fitted"])
    numbers: dict[str, Number] = {"images": total, "fitted": fitted, "reached": reached}
    if fitted < total / 2:
        sentence = (
            f"Too few problems could be made: in {total - fitted} of {total} the features do not separate a point of "
            "the ball from the others."
        )
        return MaskingFinding("not tested", sentence, numbers)
    missed = 1 - reached / fitted
    numbers["missed"] = missed
    level = raised("binarization", missed, fitted - reached)
    found = f"PGD finds a point known to be in the ball for {reached} of {fitted} images"
    if level == "none found":
        return MaskingFinding(level, f"The attack finds what is there: {found}.", numbers)
    return MaskingFinding(level, f"The attack does not find what is there: {found}.", numbers)
