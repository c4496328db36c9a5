"""The verdict on gradient masking: what each test measured, what follows from it, and the level of all together.

Gradient masking makes attacks fail without making a network robust. A verdict never calls robustness real: it reports
which of the tests found signs that the attacks fail for another reason.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import InputError
from ctrobust.outcomes.intervals import wilson

Level = Literal["none found", "suspicious", "masked", "not tested"]
LEVELS: tuple[Level, ...] = ("not tested", "none found", "suspicious", "masked")
"""From the weakest statement to the strongest."""

Number = int | float | str | None


@dataclass(frozen=True)
class MaskingSetting:
    """What all tests of one verdict share.

    Attributes:
        eps, norm: the ball of the attacks.
        count: the number of examples, the first ones of the data.
        classes: the number of classes.
        seed: the seed of all random draws.
        repeats: the number of passes whose mean logits decide a prediction; more than 1 for a randomized network.
    """

    eps: float
    norm: str
    count: int
    classes: int
    seed: int = 0
    repeats: int = 1


@dataclass(frozen=True, eq=False)
class Measurement:
    """What one test measured.

    Attributes:
        arrays: named arrays, mostly one value per example; robust examples are true in arrays named after an attack.
        seconds: the wall-clock seconds of the test.
        forwards, backwards: the passes through the network, summed over the examples.
        remark: what a reader must know about how the test was run; empty if there is nothing.
    """

    arrays: Mapping[str, NDArray[Any]]
    seconds: float = 0.0
    forwards: int = 0
    backwards: int = 0
    remark: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: arrays as texts of one line, such as "0110" for bools and "[0.5, 2]" for numbers."""
        arrays = {name: _plain(array) for name, array in self.arrays.items()}
        return {**{key: getattr(self, key) for key in ("seconds", "forwards", "backwards", "remark")}, "arrays": arrays}

    def as_stored(self) -> "Measurement":
        """The measurement with its numbers rounded as in JSON, so that a stored one gives the same verdict."""
        return Measurement.from_dict(self.to_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Measurement":
        """The inverse of `to_dict`."""
        arrays = {name: _array(name, value) for name, value in values["arrays"].items()}
        return cls(arrays, values["seconds"], values["forwards"], values["backwards"], values["remark"])


def _plain(array: NDArray[Any]) -> str:
    if array.dtype == np.bool_:
        return "".join("1" if value else "0" for value in array)
    return f"[{', '.join(f'{value:.6g}' for value in array)}]"


def _array(name: str, value: Any) -> NDArray[Any]:
    if isinstance(value, str) and set(value) <= {"0", "1"}:
        return np.array([digit == "1" for digit in value], dtype=np.bool_)
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        numbers = json.loads(value)
        if isinstance(numbers, list) and all(isinstance(one, int | float) for one in numbers):
            return np.array(numbers, dtype=np.float64)
    raise InputError(f"the array {name} of a measurement is a text like 0110 or [0.5, 2], got {value!r}")


@dataclass(frozen=True)
class Evidence:
    """What one test found.

    Attributes:
        test: the name of the test.
        level: "not tested" if it was not run.
        sentence: the finding in plain words.
        numbers: what the level was decided by.
        seconds, forwards, backwards: what the test cost; 0 if it was not run.
    """

    test: str
    level: Level
    sentence: str
    numbers: dict[str, Number] = field(default_factory=dict)
    seconds: float = 0.0
    forwards: int = 0
    backwards: int = 0


@dataclass(frozen=True)
class Verdict:
    """The evidence of all tests, in the order in which they are run, and the level that follows.

    Attributes:
        level: "masked" or "suspicious" if a test found that; else "none found" if all core tests were run on a network
            that is better than guessing, and "not tested" if not.
        evidence: one entry per test, also for tests that were not run.
        setting: the examples and the ball.
    """

    level: Level
    evidence: tuple[Evidence, ...]
    setting: MaskingSetting

    @property
    def tests_run(self) -> int:
        """How many of the tests were run."""
        return sum(one.level != "not tested" for one in self.evidence)

    @property
    def tests_total(self) -> int:
        return len(self.evidence)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.evidence)

    @property
    def correct(self) -> int | None:
        """How many clean images the network classifies correctly; None if the test that counts them was not run."""
        found = (one.numbers.get("correct") for one in self.evidence if one.test == "zero gradients")
        return next((int(count) for count in found if isinstance(count, int | float)), None)

    @property
    def guesses(self) -> bool:
        """Whether the network may be no better than guessing, by the 95% interval of its accuracy."""
        if self.correct is None:
            return False
        return wilson(self.correct, self.setting.count).low <= 1 / self.setting.classes

    @property
    def summary(self) -> str:
        """The level as a sentence, with the number of tests and what raised it.

        Example:
            >>> setting = MaskingSetting(0.1, "linf", 256, 10)
            >>> Verdict("masked", (Evidence("noise", "masked", "Noise breaks 9 of 64."),), setting).summary
            'Masked, by 1 of the 1 tests run (of 1): noise.'
        """
        how_many = f"{self.tests_run} tests run (of {self.tests_total})"
        if self.level == "none found":
            return f"No masking found by the {how_many}."
        if self.level == "not tested" and self.guesses:
            right = f"{self.correct} of {self.setting.count} images"
            return f"Not tested: the network classifies {right} correctly, which guessing may do as well."
        if self.level == "not tested":
            return f"Not tested: the {how_many} are fewer than a verdict needs; they found no masking."
        raised = [one.test for one in self.evidence if LEVELS.index(one.level) >= LEVELS.index("suspicious")]
        return f"{self.level.capitalize()}, by {len(raised)} of the {how_many}: {', '.join(raised)}."

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        counts = {"summary": self.summary, "tests_run": self.tests_run, "tests_total": self.tests_total}
        evidence = [asdict(one) for one in self.evidence]
        return {"level": self.level, **counts, "setting": asdict(self.setting), "evidence": evidence}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Verdict":
        """The inverse of `to_dict`."""
        evidence = tuple(Evidence(**one) for one in values["evidence"])
        return cls(values["level"], evidence, MaskingSetting(**values["setting"]))
