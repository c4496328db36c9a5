"""Contests: each contender is a process of its own, and they take turns, so that a slow minute is slow for all."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


class Contender:
    """A process that says when it is ready, and then takes a turn for each line that it is sent."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start this interpreter with the arguments of a script that calls `contend`."""
        self.failure: str | None = None
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self._answer()

    def _answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found: dict[str, float] = json.loads(line)["figures"] if line else {}
        self.failure = json.loads(line)["failure"] if line else "the process ended"
        return found

    def turn(self) -> dict[str, float]:
        """The figures of one turn, "seconds" among them; nothing once it has failed."""
        assert self.process.stdin is not None
        if self.failure is not None:
            return {}
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Let it go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(600)


def contend(fuse: Callable[[], Callable[[], Callable[[], dict[str, float]]]]) -> None:
    """Be a contender: make ready, then for each line read take a timed turn, which gives what tells its figures.

    What is printed on the way goes elsewhere.
    """
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(figures: dict[str, float], failure: str | None = None) -> None:
        channel.write(json.dumps({"figures": figures, "failure": failure}) + "\n")
        channel.flush()

    try:
        turn = fuse()
        answer({})
        for _ in sys.stdin:
            time.sleep(0.3)  # idle threads of the contender before still hold a core
            begun = time.perf_counter()
            tell = turn()
            seconds = time.perf_counter() - begun
            answer({"seconds": seconds, **tell()})
    except Exception as error:  # of whatever library contends
        answer({}, f"{type(error).__name__}: {error}"[:200])


@dataclass
class Score:
    """The turns of one contender."""

    turns: list[dict[str, float]] = field(default_factory=list)
    failure: str | None = None

    def column(self, name: str) -> list[float]:
        """One figure of every turn."""
        return [turn[name] for turn in self.turns]


def hold(contenders: Mapping[str, Contender], rounds: int, once: Sequence[str] = ()) -> dict[str, Score]:
    """So many rounds, in each of which everyone has a turn, in an order that is turned round; `once`: in the first."""
    scores = {name: Score() for name in contenders}
    for number in range(rounds):
        for name in list(contenders) if number % 2 == 0 else reversed(list(contenders)):
            if number == 0 or name not in once:
                figures = contenders[name].turn()
                scores[name].failure = contenders[name].failure
                if figures:
                    scores[name].turns.append(figures)
    for contender in contenders.values():
        contender.end()
    return scores


def quartiles(values: Sequence[float], digits: int = 2) -> str:
    """The median, and the quartiles where there are several."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{median:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
