"""The verdict on gradient masking as a report shows it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctrobust.reporting.attack_titles import NORM_TITLES, read_attack
from ctrobust.reporting.number_texts import count_text
from ctrobust.reporting.repeat_commands import evaluate_words
from ctrobust.reporting.report_models import Model, TrainedNetwork
from ctrobust.reporting.report_sections import DataKey, Section
from ctrobust.store.verdict_files import VerdictRecord

LEVEL_COLOURS: dict[str, str] = {"none found": "good", "suspicious": "warn", "masked": "bad", "not tested": "unknown"}
"""Level of a verdict, from the weakest statement to the strongest -> the colour of its badge."""

LEVEL_TITLES: dict[str, str] = {
    "none found": "no masking found",
    "suspicious": "suspicious",
    "masked": "masked",
    "not tested": "not tested",
}


@dataclass(frozen=True)
class EvidenceView:
    """What one test found: its name, level and sentence."""

    test: str
    level: str
    sentence: str

    @property
    def colour(self) -> str:
        return LEVEL_COLOURS.get(self.level, "unknown")


@dataclass(frozen=True)
class VerdictView:
    """The level, the sentence that sums it up, the evidence, and the command that runs the tests."""

    level: str
    sentence: str
    evidence: Sequence[EvidenceView]
    command: str

    @property
    def colour(self) -> str:
        return LEVEL_COLOURS.get(self.level, "unknown")

    @property
    def title(self) -> str:
        """The level in a few words; where tests were run but are too few for a level, how many."""
        run = sum(one.level != "not tested" for one in self.evidence)
        if self.level == "not tested" and run:
            return f"{run} of {len(self.evidence)} tests run"
        return LEVEL_TITLES.get(self.level, self.level)


def verdict_view(section: Section, model: Model) -> VerdictView:
    """The worst verdict on the networks of a model; "not tested" with the command for it where none is stored."""
    found = [_network_verdict(section, network) for network in model.networks]
    order = ["none found", "not tested", "suspicious", "masked"]  # a seed that was not tested could be masked
    network, worst = max(
        zip(model.networks, found, strict=True),
        key=lambda pair: order.index(pair[1].level) if pair[1].level in order else 1,
    )
    if len(found) == 1:
        return worst
    which = "like the other seeds" if len({one.level for one in found}) == 1 else f"the worst of {len(found)} seeds"
    return replace(worst, sentence=f"Seed {network.seed}, {which}: {worst.sentence}")


def _network_verdict(section: Section, network: TrainedNetwork) -> VerdictView:
    eps = "8/255" if section.headline is None else section.headline.condition.eps
    command = shlex.join([*evaluate_words(network, section.key.data), "--verdict", "--eps", eps])
    stored = [one for one in network.run.verdicts if _belongs(one, section.key, network)]
    if not stored:
        return VerdictView("not tested", "It was not tested whether attacks fail for another reason.", (), command)
    radius = read_attack(f"x:eps={eps}").radius
    nearest = min(stored, key=lambda one: (not one.complete, abs(one.spec.eps - radius)))
    evidence = [EvidenceView(one.test, one.level, one.sentence) for one in nearest.verdict.evidence]
    return VerdictView(nearest.verdict.level, _sentence(nearest, evidence), evidence, command)


def _belongs(one: VerdictRecord, key: DataKey, network: TrainedNetwork) -> bool:
    if (one.spec.data, one.spec.split) != (key.data, key.split):
        return False
    return (one.spec.weights == network.run.last_weights) == (network.weights == "last")


def _sentence(one: VerdictRecord, evidence: Sequence[EvidenceView]) -> str:
    run = [test for test in evidence if test.level != "not tested"]
    tests = f"{len(run)} of {count_text(len(evidence), 'test')}"
    norm, eps = NORM_TITLES.get(one.spec.norm, one.spec.norm), _radius_text(one.spec.eps)
    where = f"within {norm} {eps}" + (f" on {count_text(one.spec.limit, 'image')}" if one.spec.limit else "")
    raised = [test.test for test in evidence if test.level in ("suspicious", "masked")]
    match one.verdict.level:
        case "none found":
            return f"No sign that attacks fail for another reason than robustness: {tests} were run {where}."
        case "suspicious":
            signs = "Some signs that attacks fail without the network being robust"
            return f"{signs} ({', '.join(raised)}): {tests}, {where}."
        case "masked":
            reason = "Attacks fail because gradients are masked, not because the network is robust"
            return f"{reason} ({', '.join(raised)}): {tests}, {where}."
        case _:
            return f"No sign of masking so far, but too few tests were run for a verdict: {tests}, {where}."


def _radius_text(eps: float) -> str:
    """A radius, as a fraction of 255 where it is one.

    Example:
        >>> _radius_text(8 / 255), _radius_text(0.1)
        ('8/255', '0.1')
    """
    levels = eps * 255
    return f"{round(levels)}/255" if abs(levels - round(levels)) < 1e-9 else f"{eps:g}"
