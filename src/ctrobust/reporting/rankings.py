"""Which model is best, by how much, and whether the examples decide it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ctrobust.outcomes import Comparison, Evaluation, compare
from ctrobust.reporting.outcome_digests import NetworkOutcomes, common_count
from ctrobust.reporting.report_models import Model, TrainedNetwork
from ctrobust.reporting.report_sections import Section

SIGNIFICANCE = 0.05

Outcomes = Mapping[TrainedNetwork, NetworkOutcomes]


@dataclass(frozen=True, eq=False)
class Score:
    """The accuracy of a model: one value per seed.

    Attributes:
        model: whose accuracy.
        values: the accuracies of its networks.
        count: the number of examples of each.
        interval: the 95% interval, of a single network.
    """

    model: Model
    values: Sequence[float]
    count: int
    interval: tuple[float, float] | None

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def spread(self) -> float | None:
        """The sample standard deviation over seeds; None for one seed."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


@dataclass(frozen=True, eq=False)
class LeaderComparison:
    """The best model against another, on the same examples.

    Attributes:
        other: the other model.
        pairs: the leader's accuracy minus the other's, for each pair of their seeds.
        count: the number of examples.
        tests: the number of models that the leader is compared with; its choice is accounted for by Bonferroni's
            correction.
    """

    other: Model
    pairs: Sequence[Comparison]
    count: int
    tests: int

    @property
    def difference(self) -> float:
        return float(np.mean([one.difference for one in self.pairs]))

    @property
    def ahead(self) -> int:
        """In how many pairs of seeds the leader is ahead."""
        return sum(one.difference > 0 for one in self.pairs)

    @property
    def decisive(self) -> bool:
        """Whether every pair of seeds differs by more than the choice of examples explains."""
        return all(one.low > 0 and one.test.p_value < SIGNIFICANCE / self.tests for one in self.pairs)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Models from the best to the worst, and the best against each other one where both have the same examples."""

    scores: Sequence[Score]
    comparisons: Sequence[LeaderComparison]

    @property
    def leader(self) -> Score:
        return self.scores[0]

    def against(self, model: Model) -> LeaderComparison | None:
        return next((one for one in self.comparisons if one.other is model), None)


def clean_ranking(section: Section, outcomes: Outcomes) -> Ranking | None:
    """By accuracy without an attack, on all test images where their accuracy is recorded for each model."""
    scores = [one for model in section.models if (one := _recorded(section, model)) is not None]
    if len(scores) < len(section.models):
        stored = [_score(model, [outcomes[network].clean for network in model.networks]) for model in section.models]
        scores = [one for one in stored if one is not None] or scores
    return _ranking(scores, lambda network: outcomes[network].clean)


def robust_ranking(section: Section, outcomes: Outcomes) -> Ranking | None:
    """By accuracy under the worst of the attacks that all models met."""
    if section.headline is None:
        return None
    scores = [
        _score(model, [outcomes[network].headline for network in model.networks]) for model in section.headline.models
    ]
    return _ranking([one for one in scores if one is not None], lambda network: outcomes[network].headline)


def _recorded(section: Section, model: Model) -> Score | None:
    """From the records of the trainings."""
    if section.key.split != "test" or model.networks[0].weights != "last":
        return None
    results = [one.run.record.results for one in model.networks if one.run.record is not None]
    if len(results) < len(model.networks) or model.spec.data != section.key.data:
        return None
    interval = results[0].accuracy_interval if len(results) == 1 else None
    return Score(model, [one.accuracy for one in results], results[0].count, interval)


def _score(model: Model, found: Sequence[Evaluation | None]) -> Score | None:
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    interval = known[0].interval if len(known) == 1 else None
    return Score(
        model, [one.robust_accuracy for one in known], len(known[0]),
        None if interval is None else (interval.low, interval.high),
    )  # fmt: skip


def _ranking(scores: Sequence[Score], outcomes: Callable[[TrainedNetwork], Evaluation | None]) -> Ranking | None:
    if not scores:
        return None
    ordered = sorted(scores, key=lambda one: -one.mean)
    leader, comparisons = ordered[0].model, []
    for score in ordered[1:]:
        pairs = [(outcomes(a), outcomes(b)) for a, b in product(score.model.networks, leader.networks)]
        if count := common_count([one for pair in pairs for one in pair]):
            compared = [compare(a, b) for a, b in pairs if a is not None and b is not None]
            comparisons.append(LeaderComparison(score.model, compared, count, len(ordered) - 1))
    return Ranking(ordered, comparisons)
