"""Sections of a report: the models that were evaluated on the same data, and the attacks that all of them met."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ctrobust.reporting.attack_titles import AttackTitle, read_attack
from ctrobust.reporting.report_models import Model, TrainedNetwork
from ctrobust.store import StoredEvaluation


class DataKey(NamedTuple):
    """Which images: two evaluations with the same key and the same count have the same examples."""

    data: str
    split: str
    contents: str | None


@dataclass(frozen=True)
class Condition:
    """Attacks that can be combined: the same ball around the same number of first examples."""

    norm: str
    eps: str
    count: int

    @property
    def ball(self) -> str:
        return read_attack(f"x:eps={self.eps},norm={self.norm}").ball


@dataclass(frozen=True, eq=False)
class Headline:
    """What models are compared by: the worst case over the attacks that were run on all of them.

    Attributes:
        condition: the ball and the number of examples.
        attacks: canonical texts, at least one.
        models: those that met all of these attacks, with every seed.
    """

    condition: Condition
    attacks: Sequence[str]
    models: Sequence[Model]


@dataclass(frozen=True, eq=False)
class Section:
    """All that is known about one data set.

    Attributes:
        key: the images.
        models: those that were evaluated on these images or trained for them.
        headline: None where no attack was run.
    """

    key: DataKey
    models: Sequence[Model]
    headline: Headline | None


def data_key(one: StoredEvaluation) -> DataKey:
    spec = one.record.spec
    return DataKey(spec.data, spec.split, spec.contents)


def condition_of(one: StoredEvaluation) -> Condition:
    attack = read_attack(one.attack)
    return Condition(attack.norm, attack.eps, one.record.summary.count)


def evaluations_on(network: TrainedNetwork, key: DataKey) -> list[StoredEvaluation]:
    """The evaluations of a network on these images."""
    return [one for one in network.evaluations if data_key(one) == key]


def attacks_under(network: TrainedNetwork, key: DataKey, condition: Condition) -> dict[str, StoredEvaluation]:
    """Attack -> evaluation, of one condition; of two evaluations with the same attack the last one counts."""
    found = (one for one in evaluations_on(network, key) if one.attack != "none")
    return {one.attack: one for one in found if condition_of(one) == condition}


def attacks_of(section: Section) -> list[tuple[Condition, AttackTitle]]:
    """Every condition and attack of a section, in the order of their strength and name."""
    found = {
        (condition_of(one), read_attack(one.attack))
        for model in section.models
        for network in model.networks
        for one in evaluations_on(network, section.key)
        if one.attack != "none"
    }
    return sorted(found, key=lambda pair: (pair[0].norm, pair[1].radius, -pair[0].count, _order(pair[1])))


def _order(attack: AttackTitle) -> tuple[int, str, str]:
    """Single steps first, ensembles last."""
    last = ("fgsm", "mifgsm", "pgd", "cw", "apgd", "fab", "square", "autoattack", "s-autoattack")
    return (last.index(attack.kind) if attack.kind in last else -1, attack.kind, attack.text)


def make_sections(models: Sequence[Model]) -> list[Section]:
    """One section for each set of images; a model without evaluations belongs to the data of its training."""
    keys: dict[DataKey, list[Model]] = {}
    for model in models:
        for key in dict.fromkeys(data_key(one) for network in model.networks for one in network.evaluations):
            keys.setdefault(key, []).append(model)
    for model in models:
        trained = [key for key in keys if key[:2] == (model.spec.data, "test")] or [
            DataKey(model.spec.data, "test", None)
        ]
        if not any(model in keys.get(key, []) for key in trained):
            keys.setdefault(trained[0], []).append(model)
    return [Section(key, found, _headline(key, found)) for key, found in keys.items()]


def _headline(key: DataKey, models: Sequence[Model]) -> Headline | None:
    """The condition with the most models, then the most attacks on all of them, then the most examples."""
    met: dict[Condition, dict[Model, set[str]]] = {}
    for model in models:
        conditions = [
            {condition_of(one) for one in evaluations_on(network, key) if one.attack != "none"}
            for network in model.networks
        ]
        for condition in set.intersection(*conditions):
            attacks = [set(attacks_under(network, key, condition)) for network in model.networks]
            if common := set.intersection(*attacks):
                met.setdefault(condition, {})[model] = common
    candidates = [_candidate(condition, found) for condition, found in met.items()]
    return max(candidates, key=_rank, default=None)


def _candidate(condition: Condition, met: dict[Model, set[str]]) -> Headline:
    """The attacks that all models met; where there are none, the one that most of them met."""
    common = set.intersection(*met.values())
    if not common:
        every = sorted(set.union(*met.values()))
        common = {max(every, key=lambda attack: sum(attack in found for found in met.values()))}
    attacks = sorted(common, key=lambda text: _order(read_attack(text)))
    return Headline(condition, attacks, [model for model, found in met.items() if found.issuperset(attacks)])


def _rank(headline: Headline) -> tuple[float, ...]:
    radius = read_attack(f"x:eps={headline.condition.eps}").radius
    return len(headline.models), len(headline.attacks), headline.condition.count, radius
